"""The current functions, views and walls of schema `memory`: the files of `sql/`, in order of dependency.

Tables are in `models/`. The migrations have copies: the first one of everything, each later one of what it changes.
"""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from pathlib import Path

BEFORE_TABLES = (  # used by indexes and generated columns
    "searching/search_tokens",
    "searching/search_space",
    "visibility/user_tokens",
    "adding/search_vector",
)
FUNCTIONS = (
    "states/states",
    "states/keep_standing",
    "states/count_said_again",
    "states/keep_said_again",
    "keys/installation",
    "keys/shards",
    "keys/moved_agents",
    "visibility/principal",
    "visibility/user_ids",
    "visibility/left_groups",
    "visibility/has_left",
    "visibility/is_empty_group",
    "visibility/conversation_owner",
    "visibility/visible_scopes",
    "visibility/visible_conversations",
    "adding/number_setting",
    "adding/settings_over",
    "adding/days_setting",
    "forgetting/retention_start",
    "visibility/is_kept",
    "visibility/messages_since",
    "visibility/my_scopes",
    "adding/pending_observations",
    "adding/evict_buffers",
    "adding/refresh_due",
    "adding/absorb",
    "adding/formation_due",
    "adding/says_any",
    "adding/replace_messages",
    "adding/add_messages",
    "adding/still_says",
    "adding/save_observations",
    "adding/save_links",
    "adding/store_drafts",
    "adding/keep_part",
    "adding/refuse_change",
    "sharing/guard_privacy",
    "forgetting/parts",
    "forgetting/held",
    "sharing/person",
    "visibility/group_scopes",
    "visibility/former_members",
    "sharing/propagation_targets",
    "sharing/trust",
    "sharing/people_behind",
    "sharing/shareable",
    "sharing/peers",
    "sharing/alike",
    "forgetting/derived",
    "states/unsettled",
    "states/held_contradictions",
    "forgetting/answers_to",
    "forgetting/forget_closure",
    "forgetting/tainted_versions",
    "forgetting/kept_beside",
    "forgetting/speakers_of",
    "forgetting/detach",
    "forgetting/take_back_evidence",
    "forgetting/count_unformed",
    "adding/says",
    "episodes/topics_said",
    "forgetting/erase",
    "forgetting/forget_one",
    "forgetting/erase_agent",
    "importing/imported_texts",
    "importing/imported_beside",
    "importing/undo_import",
    "forgetting/text_statistics",
    "searching/observation_version",
    "searching/observation_as_read",
    "searching/listed",
    "searching/entity",
    "searching/topics",
    "context/scope_rank",
    "context/static_layer",
    "searching/known_at",
    "searching/query_lexemes",
    "searching/lexeme_queries",
    "searching/holds_text",
    "searching/observations_with",
    "searching/rarest_words",
    "searching/word_points",
    "searching/words_sampled",
    "searching/newest_sought",
    "searching/searched_scopes",
    "searching/similar",
    "searching/nearest",
    "searching/neighbours",
    "searching/heirs",
    "searching/activated",
    "searching/search_observations",
    "searching/search_messages",
    "searching/search",
    "context/static_layer_at",
    "searching/read_messages",
    "forgetting/is_verbatim",
    "forgetting/end_retention",
    "forgetting/end_counts",
    "lifecycle/end_of_day",
    "episodes/jaccard",
    "episodes/seal_reason",
    "episodes/best_topics",
    "episodes/episode_members",
    "episodes/keep_episodes",
    "episodes/sees_conversation",
    "episodes/episodes_seen",
    "episodes/episode_observations",
    "adding/apply_formation",
    "adding/correct_one",
    "adding/agent_settings",
    "context/digest_candidates",
    "lifecycle/lifecycle",
    "lifecycle/next_stage",
    "lifecycle/next_tier",
    "lifecycle/lived",
    "lifecycle/swept",
    "lifecycle/expiring",
    "lifecycle/expire",
    "lifecycle/sweep_stages",
    "lifecycle/sweep_archival",
    "lifecycle/sweep_tiers",
    "lifecycle/decay_links",
    "lifecycle/forecast",
)
VIEWS = (
    "v_observations",
    "v_lifecycle",
    "v_messages",
    "v_scope_timeline",
    "v_contradictions",
    "v_backlog",
    "v_pending",
    "v_waiting",
    "v_users",
    "v_events",
    "v_formation_funnel",
    "v_latency",
    "v_model_cost",
    "v_retrieval",
    "v_retrieved",
    "v_feedback",
    "v_episodes",
    "v_propagation_flow",
    "v_imports",
)
AFTER_TABLES = (*FUNCTIONS, *(f"views/{view}" for view in VIEWS), "walls/policies")

FIRST_SCHEMA = Path("versions", "2026-11-22-1600_first_schema")
FINGERPRINTED = "SHA256SUMS"
_PACKAGE = Path(__file__).parents[1]


def script(name: str) -> str:
    """The statements of `sql/<name>.sql`, without what comes before the first one, and without empty lines."""
    return statements_of((files(__package__) / "sql" / f"{name}.sql").read_text("utf-8"))


def statements_of(text: str) -> str:
    return "".join(line for line in text.splitlines(keepends=True) if line.strip() and not line.startswith("--"))


def scripts() -> Path:
    """The folder of the migrations: inside the package when installed from a wheel, beside it in a checkout."""
    shipped = _PACKAGE / "migrations"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "migrations"


@cache
def fingerprint() -> str:
    """Fingerprint of the first schema: versions before 0.1.0 edited it and kept its revision."""
    sums = (scripts() / FIRST_SCHEMA / FINGERPRINTED).read_bytes()
    return hashlib.sha256(sums).hexdigest()[:16]
