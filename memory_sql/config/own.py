"""The settings that an agent may have of its own, by name and type, for type checkers: what `Memory.configure` takes."""

from __future__ import annotations

from typing import Literal, TypedDict, TypeVar

from memory_sql.config.kinds import (
    Assembly,
    Classification,
    Collective,
    ContextFormat,
    ContextKind,
    ConversationScope,
    Deduplicate,
    Engine,
    ExtraCategory,
    Secrets,
    Sharing,
    SpokenRequests,
)
from memory_sql.privacy import Sensitivity

Kind = TypeVar("Kind", bound=str)
Several = list[Kind] | tuple[Kind, ...]


class AgentSettings(TypedDict, total=False):
    """None removes an agent's own value, so that the process's counts again (docs/configuration.md)."""

    daily_tokens: int | None
    daily_cost: float | None
    secrets: Secrets | None
    deduplicate: Deduplicate | None
    language: str | None
    time_zone: str | None
    formation_messages: int | None
    formation_tokens: int | None
    formation_min_messages: int | None
    formation_cold_minutes: float | None
    formation_rest_minutes: float | None
    formation_phrases: Several[str] | None
    formation_max_age_minutes: float | None
    formation_window_messages: int | None
    formation_window_characters: int | None
    observation_max_items: int | None
    group_max_items: int | None
    observation_max_words: int | None
    collective: Collective | None
    classification: Classification | None
    categories: Several[ExtraCategory] | None
    conversation_scope: ConversationScope | None
    shared_conversations: bool | None
    scope_text_max_characters: int | None
    consolidation_threshold: int | None
    consolidation_max_words: int | None
    consolidation_batch: int | None
    consolidation_batch_characters: int | None
    consolidation_min_ratio: float | None
    recheck: bool | None
    recheck_formations: int | None
    recheck_minutes: float | None
    recheck_newest: int | None
    recheck_nearest: int | None
    recheck_batch: int | None
    sharing: Sharing | None
    propagation_interval_minutes: float | None
    propagation_batch: int | None
    propagation_excluded_users: Several[str] | None
    propagation_names_in: Several[str] | None
    propagation_min_people: int | None
    propagation_min_groups: int | None
    propagation_new_user_days: float | None
    propagation_burst: int | None
    max_errors: int | None
    message_retention_days: float | Literal["forever"] | None
    keep_verbatim: bool | None
    speculative_days: float | Literal["forever"] | None
    commitment_days: float | Literal["forever"] | None
    spoken_requests: SpokenRequests | None
    retention: Literal["none", "budget"] | None
    store_items: int | None
    store_characters: int | None
    store_fact_items: int | None
    store_fact_characters: int | None
    store_note_items: int | None
    store_note_characters: int | None
    store_procedure_items: int | None
    store_procedure_characters: int | None
    store_episode_items: int | None
    store_episode_characters: int | None
    assembly: Assembly | None
    pending_max: int | None
    context_scopes_max: int | None
    context_search: bool | None
    context_top_k: int | None
    context_max_tokens: int | None
    context_order: Several[ContextKind] | None
    context_format: ContextFormat | None
    context_message_max_characters: int | None
    digest_enabled: bool | None
    digest_sensitivities: Several[Sensitivity] | None
    digest_fact_keys: Several[str] | None
    digest_tags: Several[str] | None
    digest_keyword_limit: int | None
    digest_semantic: bool | None
    digest_newest: int | None
    digest_snippet_characters: int | None
    digest_items: int | None
    digest_characters: int | None
    digest_tokens: int | None
    digest_fact_items: int | None
    digest_fact_characters: int | None
    digest_fact_tokens: int | None
    digest_note_items: int | None
    digest_note_characters: int | None
    digest_note_tokens: int | None
    digest_procedure_items: int | None
    digest_procedure_characters: int | None
    digest_procedure_tokens: int | None
    digest_episode_items: int | None
    digest_episode_characters: int | None
    digest_episode_tokens: int | None
    engine: Engine | None
