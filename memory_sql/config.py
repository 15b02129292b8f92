"""Every default and limit, once; the only reader of the environment.

A value comes from, first wins: an argument, `MEMORY_SQL_…` in the environment, a TOML file (`MEMORY_SQL_CONFIG`, else
`memory-sql.toml` in the working directory), the default here. Some can differ by agent (`AGENT_SETTINGS`) or by scope (the
columns of `scopes`), which goes first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from platformdirs import user_data_path
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    ValidationError,
    create_model,
    field_validator,
)
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from memory_sql.errors import ConfigurationError, InputError
from memory_sql.languages.dates import zone_of

CONFIG_FILE = "memory-sql.toml"
UNKNOWN_NAMES = 2
RETRIEVAL_DAYS = 30  # that `Memory.stats` sums up
VECTORS_OBSERVATIONS = 1000  # in a scope, above which vectors are advised if … (R124, R138)
VECTORS_MILLISECONDS = 100.0  # … searching took longer than this in the mean (R138)
VECTORS_WITHOUT_HIT = 0.2  # … or more than this share of what searched found nothing (R124: relevance under 80 %)
MOST_MINUTES = 5_256_000.0  # ten years
MOST_DAYS = 36_500.0
OPENAI_DIMENSIONS, LOCAL_DIMENSIONS = 1536, 512
FOREVER = "forever"  # TOML and the environment have no word for None
MOST_ITEMS, MOST_CHARACTERS, MOST_TOKENS = 1_000, 200_000, 400_000  # of a digest's budget
BUDGET_KINDS = ("fact", "note", "procedure", "episode")

Assembly = Literal["eden", "digest", "both"]
Secrets = Literal["mask", "keep", "refuse"]


def _file() -> Path:
    return Path(os.environ.get("MEMORY_SQL_CONFIG", CONFIG_FILE))


def _zone(name: str) -> str:
    try:
        return zone_of(name).key
    except InputError as error:
        raise ValueError(str(error)) from None  # which Pydantic reports with the setting's name


def _listed(value: object) -> object:
    """From the environment or the command line: names with commas between them, or JSON."""
    if not isinstance(value, str):
        return value
    return json.loads(value) if value.startswith("[") else [name.strip() for name in value.split(",") if name.strip()]


def _each_once(kinds: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(kinds)) < len(kinds):
        raise ValueError("a kind is named twice")
    return kinds


ContextKind = Literal["collective", "agent", "guideline", "group", "entity", "session", "individual"]
CONTEXT_KINDS: tuple[ContextKind, ...] = get_args(
    ContextKind
)  # what is shared by most, and so the same for most, first
ContextFormat = Literal["standard", "legacy"]
CONTEXT_LEAST_TOKENS = 4  # an empty one has them
ContextOrder = Annotated[tuple[ContextKind, ...], NoDecode, BeforeValidator(_listed), AfterValidator(_each_once)]


def _for_ever(value: object) -> object:
    return None if value == FOREVER else value


def _items(default: int, of: str) -> Any:
    return Field(default, ge=0, le=MOST_ITEMS, description=f"{of} of a digest at most; 0: none (R243, R244)")


def _characters(default: int, of: str) -> Any:
    return Field(default, ge=0, le=MOST_CHARACTERS, description=f"characters of a digest's {of} at most; 0: none")


def _tokens(of: str) -> Any:
    return Field(
        None, ge=0, le=MOST_TOKENS, description=f"tokens (estimated) of a digest's {of} at most; unset: as many as fit"
    )


def _kept(what: str) -> Any:
    return Field(None, ge=0, description=f"{what} that a scope keeps under retention = budget; unset: all")


Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_listed)]
Sensitivities = Annotated[tuple[Literal["public", "private", "sensitive"], ...], NoDecode, BeforeValidator(_listed)]


class Settings(BaseSettings):
    """`memory-sql settings` prints the resolved values and this text."""

    model_config = SettingsConfigDict(env_prefix="MEMORY_SQL_", frozen=True, extra="forbid")

    url: SecretStr | None = Field(None, description="Postgres URL; unset: the embedded Postgres")
    data_dir: Path | None = Field(
        None, description="directory of the embedded Postgres; unset: the user's data directory"
    )
    read_url: SecretStr | None = Field(
        None,
        description="Postgres URL of a replica that context, digest and search read from; unset: the same as for the rest",
    )
    pool_size: int = Field(5, ge=1, le=1000, description="connections kept open by one Memory")

    llm: Literal["openai", "offline"] | None = Field(
        None, description="language model; unset: openai where OPENAI_API_KEY is set, else offline rules"
    )
    llm_api: Literal["responses", "chat"] = Field(
        "responses", description="chat for compatible servers (Ollama, vLLM …)"
    )
    llm_timeout_seconds: float = Field(60.0, gt=0, description="time-out of one attempt of a model call")
    llm_max_retries: int = Field(2, ge=0, le=20, description="the client's own retries on 429, 5xx and time-outs")
    fast_model: str = Field("gpt-5-mini", description="model for extraction (R018)")
    slow_model: str = Field("gpt-5.1", description="model for consolidation (R018)")

    embedding: Literal["off", "openai", "local"] = Field(
        "off", description="what makes vectors, beside words: openai (or a compatible server), or local, offline (R123)"
    )
    embedding_model: str = Field("text-embedding-3-small", description="model that openai makes vectors with")
    embedding_dimensions: int | None = Field(
        None,
        ge=1,
        le=4000,
        description=f"numbers in a vector; unset: {OPENAI_DIMENSIONS} of openai, {LOCAL_DIMENSIONS} of local",
    )
    embedding_base_url: str | None = Field(None, description="server of the embedding model; unset: OPENAI_BASE_URL")
    embedding_query_seconds: float = Field(
        1.0, gt=0, le=60, description="how long a search waits for a remote model before it does with words alone"
    )
    embedding_retry_seconds: float = Field(
        30.0, ge=0, le=3600, description="how long searches do with words alone after a query's vector has failed"
    )
    embedding_batch: int = Field(64, ge=1, le=1000, description="observations that are embedded in one call")
    embedding_max_characters: int = Field(4_000, ge=1, description="how much of a text its vector is made of (B.5)")
    embed_sensitive: bool = Field(
        False, description="send sensitive observations to a remote embedding model as well (B.5)"
    )
    fusion: Literal["score", "rank"] = Field(
        "score", description="how words and vectors are brought together; rank: reciprocal rank fusion"
    )

    message_max_characters: int = Field(200_000, ge=1, description="longest message that add accepts")
    message_retention_days: float | None = Field(
        30.0,
        ge=0,
        le=MOST_DAYS,
        description=f"days that a message keeps its text, and longer until it has been formed; 0: no longer, or {FOREVER}",
    )
    maintenance_minutes: float = Field(
        60.0, gt=0, le=MOST_MINUTES, description="how often a worker looks for what retention takes"
    )
    maintenance_batch: int = Field(
        500,
        ge=1,
        le=10_000,
        description="messages that maintenance changes in one transaction at most, in a tenth as many sessions",
    )
    secrets: Secrets = Field(
        "mask",
        description="what becomes of secrets (passwords, keys, card numbers …) in what is stored: mask, keep, or refuse it",
    )
    observation_max_characters: int = Field(8_000, ge=1, description="longest text that observe accepts")
    metadata_max_characters: int = Field(16_000, ge=2, description="longest metadata of one observation, as JSON")

    formation_messages: int = Field(45, ge=1, description="messages since the last formation that set one off (R003)")
    formation_tokens: int = Field(1000, ge=1, description="weighted tokens that set one off (R004)")
    formation_min_messages: int = Field(4, ge=1, description="fewer are never formed unless asked or signalled (R283)")
    formation_cold_minutes: float = Field(
        10.0, ge=0, le=MOST_MINUTES, description="silence after which a session is formed (R281)"
    )
    formation_max_age_minutes: float = Field(
        120.0,
        ge=0,
        le=MOST_MINUTES,
        description="age of the oldest message at which a session that never falls silent is formed (R149)",
    )
    formation_window_messages: int = Field(50, ge=1, description="messages that one extraction call reads at most")
    formation_window_characters: int = Field(
        40_000, ge=1000, description="characters that one extraction call reads at most"
    )
    observation_max_items: int = Field(
        5, ge=0, le=50, description="observations that one call may return per scope (R090)"
    )
    observation_max_words: int = Field(50, ge=5, description="words of one observation (R088)")
    scope_text_max_characters: int = Field(
        4_000, ge=0, description="how much of a scope's text an extraction prompt shows"
    )

    consolidation_threshold: int = Field(10, ge=1, description="pending observations that make a scope due (R055)")
    consolidation_max_words: int = Field(500, ge=20, description="words of a scope's text (R056)")
    consolidation_batch: int = Field(
        100, ge=1, le=1000, description="observations that one consolidation absorbs at most"
    )
    consolidation_batch_characters: int = Field(
        60_000, ge=1000, description="characters of observations that one consolidation reads at most"
    )
    consolidation_min_ratio: float = Field(
        0.4, ge=0, le=1, description="a new text with fewer than this share of the old one's words is refused"
    )

    propagation: bool = Field(True, description="false: nothing goes from a scope to a wider one")
    propagation_interval_minutes: float = Field(
        0.0, ge=0, le=MOST_MINUTES, description="a scope is judged for wider ones once in this time at most (R141)"
    )
    propagation_batch: int = Field(
        30, ge=1, le=200, description="observations that one propagation call judges at most"
    )
    propagation_excluded_users: Names = Field(
        (), description="users of whom nothing goes to a wider scope, neither what is theirs nor what they said"
    )
    propagation_names_in: Names = Field(
        (), description="groups in whose scope propagated observations may name people; contact data never passes"
    )
    propagation_min_people: int = Field(
        3, ge=3, description="people who have to stand behind what goes to the collective scope"
    )
    propagation_min_groups: int = Field(
        2, ge=2, description="groups that have to show what goes to the collective scope (R098)"
    )
    propagation_new_user_days: float = Field(
        1.0, ge=0, le=MOST_DAYS, description="for so long after they were first seen a user counts as new"
    )
    propagation_burst: int = Field(
        3, ge=2, description="new users who make the same claim, at which it is held for a person to look at"
    )
    propagation_peers: int = Field(
        200, ge=1, le=10_000, description="scopes in which a propagation looks for the same claim at most"
    )

    lease_seconds: float = Field(
        120.0, gt=0, description="how long a silent worker keeps its work; a living one extends it every third of that"
    )

    max_errors: int = Field(3, ge=1, description="unusable answers in a row after which work waits for a person")
    retry_first_seconds: float = Field(5.0, gt=0, description="pause after a first failure; twice as long each time")
    retry_longest_seconds: float = Field(600.0, gt=0, description="the longest of these pauses")
    daily_tokens: int | None = Field(None, ge=0, description="tokens of an agent and day (UTC) beyond which work waits")
    pending_max: int = Field(20, ge=0, description="newest pending observations that the context shows per scope")
    backup_days: int = Field(30, ge=0, description="how long backups and WAL are kept; said in receipts of forgetting")
    forget_journal: Path | None = Field(
        None, description="file outside the database's backups that says what was forgotten, for `restore-check`"
    )
    top_k: int = Field(5, ge=1, le=100, description="observations that a search returns (R084)")
    recency: float = Field(
        0.0,
        ge=0,
        le=100,
        description="points of score for what was said today, half of them after 30 days; 0: a tie-break",
    )
    context_top_k: int = Field(5, ge=0, le=100, description="retrieved observations in a context (R084)")
    context_max_tokens: int | None = Field(
        None,
        ge=CONTEXT_LEAST_TOKENS,
        description="tokens that a context may have, as it is rendered; unset: no limit (C30)",
    )
    context_order: ContextOrder = Field(
        CONTEXT_KINDS,
        description="kinds of scopes in the order of the context; the last is followed by what is recent, one that is"
        " left out is not shown",
    )
    context_format: ContextFormat = Field(
        "standard", description="layout of the context; legacy: shards, directives and episodes (R290-R292)"
    )
    context_message_max_characters: int = Field(
        500, ge=20, description="how much of a retrieved message a context shows"
    )
    unknown_names: int = Field(
        UNKNOWN_NAMES, ge=1, description="unknown names for which alone a short message retrieves (R083, C7)"
    )
    count_queries: int = Field(100, ge=1, description="queries that are counted in memory before they are written")
    count_seconds: float = Field(60.0, gt=0, description="time after which the counts of queries are written")
    assembly: Assembly = Field(
        "eden", description="what a context is: eden (XML), digest, or both, XML first (C22); one call may differ"
    )
    digest_enabled: bool = Field(
        True, description="false: no digest anywhere; other parts of a prompt stay (R255, R267)"
    )
    digest_sensitivities: Sensitivities = Field(
        ("public", "private"), description="what a digest may hold (R246, R256)"
    )
    digest_fact_keys: Names = Field((), description="facts that a digest begins with, in this order (R240, R257)")
    digest_tags: Names = Field((), description="tags whose observations come next, newest first (R240, R257)")
    digest_keyword_limit: int = Field(
        60,
        ge=0,
        le=200,
        description="observations that a digest looks at by the words of a query; 0: none (R241, R258)",
    )
    digest_semantic: bool = Field(
        False, description="whether a digest looks at what was found by meaning, where there is any (R242, R259)"
    )
    digest_newest: int = Field(
        200,
        ge=1,
        le=10_000,
        description="newest observations per scope that a digest without words or pins chooses from",
    )
    digest_snippet_characters: int = Field(
        600, ge=1, le=MOST_CHARACTERS, description="characters of one text of a digest"
    )
    digest_items: int = _items(12, "lines")
    digest_characters: int = _characters(2400, "text, all of it")
    digest_tokens: int | None = _tokens("text, all of it")
    digest_fact_items: int = _items(6, "facts")
    digest_fact_characters: int = _characters(800, "facts")
    digest_fact_tokens: int | None = _tokens("facts")
    digest_note_items: int = _items(4, "notes")
    digest_note_characters: int = _characters(1200, "notes")
    digest_note_tokens: int | None = _tokens("notes")
    digest_procedure_items: int = _items(3, "procedures")
    digest_procedure_characters: int = _characters(1200, "procedures")
    digest_procedure_tokens: int | None = _tokens("procedures")
    digest_episode_items: int = _items(2, "episodes")
    digest_episode_characters: int = _characters(800, "episodes")
    digest_episode_tokens: int | None = _tokens("episodes")
    retention: Literal["none", "budget"] = Field(
        "none", description="budget: maintenance evicts what is more than the budgets of each scope (store_…)"
    )
    store_items: int | None = _kept("observations, all of them,")
    store_characters: int | None = _kept("characters of observations, all of them,")
    store_fact_items: int | None = _kept("facts")
    store_fact_characters: int | None = _kept("characters of facts")
    store_note_items: int | None = _kept("notes")
    store_note_characters: int | None = _kept("characters of notes")
    store_procedure_items: int | None = _kept("procedures")
    store_procedure_characters: int | None = _kept("characters of procedures")
    store_episode_items: int | None = _kept("episodes")
    store_episode_characters: int | None = _kept("characters of episodes")
    trim_batch: int = Field(
        1000, ge=1, le=10_000, description="observations that one transaction of `trim` evicts at most"
    )
    language: str = Field("english", description="text-search configuration of new scopes")
    time_zone: str = Field("UTC", description="zone (IANA name) of sessions that name none, for dates in what is said")
    lock_timeout_seconds: float = Field(
        5.0, gt=0, le=3600, description="how long a call in the host's transaction (session=) waits for a lock"
    )

    @field_validator("message_retention_days", mode="before")
    @classmethod
    def _none_is_for_ever(cls, days: object) -> object:
        return _for_ever(days)

    @field_validator("time_zone")
    @classmethod
    def _known_zone(cls, name: str) -> str:
        return _zone(name)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings, env_settings, TomlConfigSettingsSource(settings_cls, toml_file=_file()))

    @classmethod
    def load(cls, **given: Any) -> Settings:
        """The resolved settings; raises `ConfigurationError` naming the settings that are wrong, never their values."""
        try:
            return cls(**{name: value for name, value in given.items() if value is not None})
        except ValidationError as error:
            raise ConfigurationError(f"settings: {_wrong(error)}") from None

    @property
    def embedded_data_dir(self) -> Path:
        return self.data_dir or user_data_path("memory-sql", appauthor=False) / "postgres"

    @property
    def vector_dimensions(self) -> int | None:
        """None: nothing says how many."""
        named = {"openai": OPENAI_DIMENSIONS, "local": LOCAL_DIMENSIONS}
        return self.embedding_dimensions or named.get(self.embedding)

    @property
    def llm_name(self) -> Literal["openai", "offline"]:
        return self.llm or ("openai" if os.environ.get("OPENAI_API_KEY") else "offline")

    def sources(self) -> dict[str, str]:
        """Where each setting comes from: argument (or command line), environment, file or default."""
        environment = {name.lower().removeprefix("memory_sql_") for name in os.environ}
        file = TomlConfigSettingsSource(type(self), toml_file=_file())()
        without = Settings.load()

        def source(name: str) -> str:
            if getattr(self, name) != getattr(without, name):
                return "argument"
            if name in environment:
                return "environment"
            return "file" if name in file else "default"

        return {name: source(name) for name in type(self).model_fields}

    def of_agent(self, own: Mapping[str, Any]) -> Settings:
        """These settings with those that the agent has of its own; what this release doesn't know is left out."""
        known = {name: own[name] for name in AGENT_SETTINGS if name in own}
        return self.model_copy(update=known) if known else self


_BUDGETS = tuple(
    f"digest_{kind}{dimension}"
    for kind in ("", *(f"{kind}_" for kind in BUDGET_KINDS))
    for dimension in ("items", "characters", "tokens")
)
DIGEST_SETTINGS = (  # what a digest is made by
    "assembly",
    "digest_enabled",
    "digest_sensitivities",
    "digest_fact_keys",
    "digest_tags",
    "digest_keyword_limit",
    "digest_semantic",
    "digest_newest",
    "digest_snippet_characters",
    *_BUDGETS,
)
STORE_BUDGETS = tuple(
    f"store_{kind}{dimension}"
    for kind in ("", *(f"{kind}_" for kind in BUDGET_KINDS))
    for dimension in ("items", "characters")
)

# May differ by agent; the others are the process's: connections, models, leases, how much a search finds.
AGENT_SETTINGS = (
    "secrets",
    "message_retention_days",
    "formation_messages",
    "formation_tokens",
    "formation_min_messages",
    "formation_cold_minutes",
    "formation_max_age_minutes",
    "formation_window_messages",
    "formation_window_characters",
    "observation_max_items",
    "observation_max_words",
    "scope_text_max_characters",
    "consolidation_threshold",
    "consolidation_max_words",
    "consolidation_batch",
    "consolidation_batch_characters",
    "consolidation_min_ratio",
    "propagation",
    "propagation_interval_minutes",
    "propagation_batch",
    "propagation_excluded_users",
    "propagation_names_in",
    "propagation_min_people",
    "propagation_min_groups",
    "propagation_new_user_days",
    "propagation_burst",
    "pending_max",
    "context_top_k",
    "context_max_tokens",
    "context_order",
    "context_format",
    "context_message_max_characters",
    "max_errors",
    "daily_tokens",
    "language",
    "time_zone",
    *DIGEST_SETTINGS,
    "retention",
    *STORE_BUDGETS,
)
FORMATION_LIMITS = (  # what `add` decides by
    "formation_messages",
    "formation_tokens",
    "formation_min_messages",
    "formation_cold_minutes",
    "formation_max_age_minutes",
)

_fields: Any = {name: (Settings.model_fields[name].annotation, Settings.model_fields[name]) for name in AGENT_SETTINGS}
_AgentSettings = create_model(
    "AgentSettings",
    __config__=ConfigDict(extra="forbid"),
    __validators__={
        "zone": field_validator("time_zone")(_zone),
        "for_ever": field_validator("message_retention_days", mode="before")(_for_ever),
    },
    **_fields,
)


def checked_for_agent(given: Mapping[str, Any]) -> dict[str, Any]:
    """The values as they are stored with an agent, those that are given as None left out; null is for ever.

    Raises `InputError` naming the settings that are wrong, or that can't differ by agent.
    """
    unknown = sorted(set(given) - set(AGENT_SETTINGS))
    if unknown:
        raise InputError(f"settings that an agent can't have of its own: {', '.join(unknown)}")
    try:
        checked: BaseModel = _AgentSettings.model_validate(
            {n: value for n, value in given.items() if value is not None}
        )
    except ValidationError as error:
        raise InputError(f"settings: {_wrong(error)}") from None
    return checked.model_dump(exclude_unset=True)


def _wrong(error: ValidationError) -> str:
    """The names, never the values."""
    return "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors(include_input=False))
