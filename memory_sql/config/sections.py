"""All settings in sections: name, type, range, description and default.

`per_agent`: an agent may have its own value. `used_by`: what depends on the setting, `ADD` or `DIGEST`. A description
states the unit and what no value means; range and default are added wherever it is shown (`describe`).
"""

import warnings
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, SecretStr

from memory_sql.config.fields import ADD, DIGEST, per_agent, setting
from memory_sql.config.kinds import (
    CONTEXT_KINDS,
    CONTEXT_LEAST_TOKENS,
    DEFAULT_SCHEMA,
    MOST_CHARACTERS,
    MOST_CONTEXT_TOKENS,
    MOST_COUNTED,
    MOST_DAYS,
    MOST_ITEMS,
    MOST_KEPT,
    MOST_MESSAGE_CHARACTERS,
    MOST_MINUTES,
    MOST_READ_CHARACTERS,
    MOST_TOKENS,
    MOST_TOKENS_A_DAY,
    MOST_WORDS,
    OPENAI_DIMENSIONS,
    AcceptsForever,
    Assembly,
    Classification,
    Collective,
    ContextFormat,
    ContextOrder,
    ConversationScope,
    Deduplicate,
    Engine,
    ExtraCategories,
    Filled,
    Ids,
    Language,
    LogFormat,
    Names,
    Phrases,
    Plain,
    SchemaName,
    Secrets,
    Sensitivities,
    Shards,
    Sharing,
    SpokenRequests,
    TimeZone,
)


class Section(BaseModel):
    model_config = ConfigDict(defer_build=True, allow_inf_nan=False)  # only `Settings` is ever validated


with warnings.catch_warnings():
    warnings.filterwarnings("ignore", 'Field name "schema"')  # of a method of pydantic that it gave up for another

    class DatabaseSettings(Section):
        """Database"""

        url: Annotated[SecretStr | None, setting("Postgres URL; unset: the embedded Postgres"), Plain, Filled] = None
        schema: Annotated[
            str,
            setting("schema of the database in which everything is; each installation in a database has its own"),
            SchemaName,
        ] = DEFAULT_SCHEMA  # type: ignore[assignment]
        data_dir: Annotated[
            Path | None, setting("directory of the embedded Postgres; unset: in the user's data directory"), Plain
        ] = None
        read_url: Annotated[
            SecretStr | None,
            setting(
                "Postgres URL of a replica from which context, digest and search read, or with shards of some of theirs, by"
                " name: a=URL b=URL; unset: they read from url"
            ),
            Plain,
            Filled,
        ] = None
        read_max_lag_seconds: Annotated[
            float,
            setting(
                "seconds by which a replica may lag behind what other processes have committed; reads that would miss more"
                " go by url",
                ge=0.1,
                le=3600,
            ),
        ] = 5.0
        shards: Annotated[
            SecretStr | None,
            setting(
                "several databases instead of url, by name, over which the agents are spread: a=URL b=URL, or a JSON object;"
                " the first becomes the home, which keeps the map (docs/shards.md); unset: one database"
            ),
            Shards,
            Plain,
        ] = None
        pool_size: Annotated[
            int, setting("connections that one Memory keeps open, with shards: to each", ge=1, le=1000)
        ] = 5
        lock_timeout_seconds: Annotated[
            float,
            setting(
                "seconds that a call waits for a lock, also in the host's transaction (session=)", ge=0.001, le=3600
            ),
        ] = 5.0
        pool_timeout_seconds: Annotated[
            float,
            setting(
                "seconds that a call waits for one of these connections, or for its turn to write", ge=0.001, le=3600
            ),
        ] = 10.0
        idle_timeout_seconds: Annotated[
            float,
            setting(
                "seconds that a transaction may be idle before Postgres ends it and releases its locks", ge=1, le=3600
            ),
        ] = 60.0


class ModelSettings(Section):
    """Language model"""

    llm: Annotated[
        Literal["openai", "azure", "offline"] | None,
        setting(
            "language model; unset: openai if OPENAI_API_KEY is set, else none, and calls that need one fail; openai: also"
            " any compatible server, by OPENAI_BASE_URL; azure: by AZURE_OPENAI_ENDPOINT; offline: rules that quote messages,"
            " for trying things out"
        ),
    ] = None
    llm_api: Annotated[
        Literal["auto", "responses", "chat"],
        setting("API by which a model is asked; auto: responses, or chat where the server has no responses"),
    ] = "auto"
    llm_output: Annotated[
        Literal["auto", "json_schema", "json_object", "text"],
        setting("form in which a model is asked for its answer; auto: the first of these that its server takes"),
    ] = "auto"
    llm_temperature: Annotated[
        float | None, setting("temperature at which a model is asked; unset: its own", ge=0, le=2)
    ] = None
    llm_seed: Annotated[
        int | None, setting("seed with which a model is asked by chat; unset: none", ge=0, le=2**31)
    ] = None
    llm_reasoning_effort: Annotated[
        str | None, setting("how much a model is to think, such as minimal, low or medium; unset: its own"), Plain
    ] = None
    llm_max_tokens: Annotated[
        int | None,
        setting("the most tokens of an answer, thinking included; unset: the model's own", ge=100, le=10_000_000),
    ] = None
    llm_timeout_seconds: Annotated[
        float, setting("timeout of one attempt of a model call, in seconds", ge=0.1, le=86_400)
    ] = 60.0
    llm_max_retries: Annotated[
        int, setting("how often the client retries a call after a 429, a 5xx or a timeout", ge=0, le=20)
    ] = 2
    fast_model: Annotated[str, setting("model for formation"), Plain] = "gpt-5-mini"
    slow_model: Annotated[str, setting("model for consolidation and propagation"), Plain] = "gpt-5.1"
    daily_tokens: Annotated[
        int | None,
        per_agent(
            "tokens that an agent may use in a day (UTC) before its work waits; unset: no limit",
            ge=0,
            le=MOST_TOKENS_A_DAY,
        ),
    ] = None
    daily_cost: Annotated[
        float | None,
        per_agent(
            "money that an agent may cost in a day (UTC), by the prices of model set-price, before its work waits; unset: no"
            " limit",
            ge=0,
            le=1_000_000_000,
        ),
    ] = None


class VectorSettings(Section):
    """Vectors"""

    embedding: Annotated[
        Literal["auto", "off", "openai", "local"],
        setting(
            "what makes vectors for search by meaning: auto: the local model if it is installed; off: nothing; openai: openai"
            " or a compatible server; local: the local model"
        ),
    ] = "auto"
    embedding_model: Annotated[str, setting("name of the openai embedding model"), Plain] = "text-embedding-3-small"
    embedding_dimensions: Annotated[
        int | None,
        setting(f"dimensions of the openai embedding model; unset: {OPENAI_DIMENSIONS}", ge=1, le=4000),
    ] = None
    embedding_base_url: Annotated[
        str | None, setting("URL of the server of the embedding model; unset: OPENAI_BASE_URL"), Plain
    ] = None
    embedding_query_seconds: Annotated[
        float,
        setting("seconds that a search waits for a remote model's vector before it uses words alone", ge=0.001, le=60),
    ] = 1.0
    embedding_local_seconds: Annotated[
        float, setting("the same for a local model, which may first have to be loaded", ge=0.001, le=60)
    ] = 10.0
    embedding_retry_seconds: Annotated[
        float, setting("seconds for which searches use words alone after a query's vector has failed", ge=0, le=3600)
    ] = 30.0
    embedding_batch: Annotated[int, setting("observations embedded in one call", ge=1, le=1000)] = 64
    embedding_max_characters: Annotated[
        int, setting("characters of a text from which its vector is made", ge=1, le=MOST_CHARACTERS)
    ] = 4_000
    embed_sensitive: Annotated[bool, setting("also send sensitive observations to a remote embedding model")] = False


class IntakeSettings(Section):
    """Input"""

    message_max_characters: Annotated[
        int, setting("maximum characters of a message", ge=1, le=MOST_MESSAGE_CHARACTERS)
    ] = 200_000
    observation_max_characters: Annotated[
        int, setting("maximum characters of an observation passed to observe", ge=1, le=MOST_CHARACTERS)
    ] = 8_000
    metadata_max_characters: Annotated[
        int, setting("maximum characters of an observation's metadata, as JSON", ge=2, le=MOST_MESSAGE_CHARACTERS)
    ] = 16_000
    secrets: Annotated[
        Secrets,
        per_agent("passwords, keys, card numbers … in a text: mask them, keep them, or refuse the text"),
    ] = "mask"
    deduplicate: Annotated[
        Deduplicate,
        per_agent(
            "what isn't stored again: what its scope holds, only what that learnt last (newest), or nothing (off)"
        ),
    ] = "scope"
    language: Annotated[Language, per_agent("text search configuration of new scopes")] = "english"
    time_zone: Annotated[TimeZone, per_agent("time zone (IANA name) for dates in conversations that have none")] = "UTC"


class FormationSettings(Section):
    """Formation"""

    formation_messages: Annotated[
        int,
        per_agent("messages since the last formation that make a conversation due", ge=1, le=MOST_COUNTED, used_by=ADD),
    ] = 45
    formation_tokens: Annotated[
        int,
        per_agent(
            "weighted tokens since the last formation that make a conversation due", ge=1, le=MOST_COUNTED, used_by=ADD
        ),
    ] = 1000
    formation_min_messages: Annotated[
        int,
        per_agent(
            "messages below which a conversation waits for a signal, a caller or a rest",
            ge=1,
            le=MOST_COUNTED,
            used_by=ADD,
        ),
    ] = 4
    formation_cold_minutes: Annotated[
        float,
        per_agent(
            "minutes of silence after which a conversation is due; it may be later by a quarter of them, at most 5 minutes",
            ge=0,
            le=MOST_MINUTES,
            used_by=ADD,
        ),
    ] = 10.0
    formation_rest_minutes: Annotated[
        float,
        per_agent(
            "minutes of silence after which a conversation with fewer messages is due; it may be later by a quarter of"
            " them, at most an hour, and is no later than a day after its first waiting message",
            ge=0,
            le=1440,
            used_by=ADD,
        ),
    ] = 360.0
    formation_phrases: Annotated[
        Phrases,
        per_agent(
            "phrases that make a conversation due at once when a user says them, in addition to the built-in signals",
            used_by=ADD,
        ),
    ] = ()
    formation_max_age_minutes: Annotated[
        float,
        per_agent(
            "minutes after its oldest waiting message when a conversation is due even without a silence",
            ge=0,
            le=MOST_MINUTES,
            used_by=ADD,
        ),
    ] = 120.0
    formation_window_messages: Annotated[
        int, per_agent("maximum messages that one extraction call reads", ge=1, le=10_000)
    ] = 50
    formation_window_characters: Annotated[
        int, per_agent("maximum characters that one extraction call reads", ge=1000, le=MOST_READ_CHARACTERS)
    ] = 40_000
    observation_max_items: Annotated[
        int,
        per_agent(
            "maximum observations that one extraction call returns for a scope other than a group's", ge=0, le=50
        ),
    ] = 30
    group_max_items: Annotated[
        int, per_agent("maximum observations that one extraction call returns for a group", ge=0, le=50)
    ] = 30
    observation_max_words: Annotated[int, per_agent("maximum words of one extracted observation", ge=5, le=10_000)] = 50
    collective: Annotated[
        Collective,
        per_agent(
            "what extraction assigns to everybody: proposed (stays with its author until judged) or direct (stored at once)"
        ),
    ] = "proposed"
    classification: Annotated[
        Classification,
        per_agent(
            "what says which kind of memory an observation is: model (extraction is asked for category, certainty and end,"
            " kind and importance are by rules), rules (these alone), or off"
        ),
    ] = "model"
    categories: Annotated[
        ExtraCategories,
        per_agent("categories that extraction may use beside the ten it always may: rule, procedure, reasoning"),
    ] = ()
    conversation_scope: Annotated[
        ConversationScope,
        per_agent(
            "what a conversation remembers of itself: nothing, its latest moments (buffer), or also a running summary"
        ),
    ] = "off"
    shared_conversations: Annotated[
        bool,
        per_agent("all members of a conversation's groups hear what is said in it, as in a channel that they all read"),
    ] = False
    scope_text_max_characters: Annotated[
        int, per_agent("characters of a scope's text that an extraction prompt shows", ge=0, le=MOST_CHARACTERS)
    ] = 4_000


class ConsolidationSettings(Section):
    """Consolidation"""

    consolidation_threshold: Annotated[
        int, per_agent("pending observations that make a scope due", ge=1, le=MOST_COUNTED)
    ] = 10
    consolidation_max_words: Annotated[int, per_agent("maximum words of a scope's text", ge=20, le=MOST_WORDS)] = 500
    consolidation_batch: Annotated[
        int, per_agent("maximum observations that one consolidation absorbs", ge=1, le=1000)
    ] = 100
    consolidation_batch_characters: Annotated[
        int,
        per_agent("maximum characters of observations that one consolidation reads", ge=1000, le=MOST_READ_CHARACTERS),
    ] = 60_000
    consolidation_min_ratio: Annotated[
        float,
        per_agent(
            "minimum size of a new text, as a share of the old text without what the answer accounts for",
            ge=0,
            le=1,
        ),
    ] = 0.4
    recheck: Annotated[
        bool,
        per_agent("compare what a text has absorbed with what lies near it (docs/consolidation.md#the-recheck)"),
    ] = False
    recheck_formations: Annotated[
        int, per_agent("formations that stored something after which a scope is rechecked", ge=1, le=MOST_COUNTED)
    ] = 3
    recheck_minutes: Annotated[float, per_agent("minutes between two rechecks of a scope", ge=0, le=MOST_MINUTES)] = (
        10.0
    )
    recheck_newest: Annotated[
        int, per_agent("observations that one recheck compares with those nearest to each", ge=1, le=1000)
    ] = 20
    recheck_nearest: Annotated[
        int, per_agent("observations nearest to each, by meaning and again by words", ge=1, le=100)
    ] = 5
    recheck_batch: Annotated[
        int, per_agent("maximum pairs of observations that one recheck asks the model about", ge=1, le=1000)
    ] = 60


class PropagationSettings(Section):
    """Propagation"""

    sharing: Annotated[
        Sharing,
        per_agent(
            "propagation to wider scopes: auto, review (a person decides) or off; a group may differ (groups.share)"
        ),
    ] = "auto"
    propagation_interval_minutes: Annotated[
        float, per_agent("minimum minutes between two propagations of the same scope", ge=0, le=MOST_MINUTES)
    ] = 0.0
    propagation_batch: Annotated[
        int, per_agent("maximum observations that one propagation call judges", ge=1, le=200)
    ] = 30
    propagation_excluded_users: Annotated[Ids, per_agent("users whose scopes and words are never propagated")] = ()
    propagation_names_in: Annotated[
        Ids,
        per_agent("groups in whose scope propagated observations may name people; contact data is never propagated"),
    ] = ()
    propagation_min_people: Annotated[
        int, per_agent("people who have to say the same before it goes to the collective scope", ge=3, le=MOST_COUNTED)
    ] = 3
    propagation_min_groups: Annotated[
        int,
        per_agent("groups that have to show the same before it goes to the collective scope", ge=2, le=MOST_COUNTED),
    ] = 2
    propagation_new_user_days: Annotated[
        float, per_agent("days after first being seen during which a user counts as new", ge=0, le=MOST_DAYS)
    ] = 1.0
    propagation_burst: Annotated[
        int, per_agent("number of new users with the same claim at which it is held for review", ge=2, le=MOST_COUNTED)
    ] = 3
    propagation_peers: Annotated[
        int, setting("maximum scopes in which a propagation looks for the same claim", ge=1, le=10_000)
    ] = 200


class WorkSettings(Section):
    """Background work"""

    lease_seconds: Annotated[
        float,
        setting(
            "seconds after which a silent worker loses its lease; a live one renews it after a third of them",
            ge=0.1,
            le=86_400,
        ),
    ] = 120.0
    max_errors: Annotated[
        int, per_agent("unusable answers in a row after which work is given up for a day or more", ge=1, le=1000)
    ] = 3
    retry_first_seconds: Annotated[
        float, setting("seconds before the first retry; each further failure doubles them", ge=0.001, le=86_400)
    ] = 5.0
    retry_longest_seconds: Annotated[float, setting("maximum seconds before a retry", ge=0.001, le=86_400)] = 600.0
    maintenance_minutes: Annotated[
        float,
        setting(
            "minutes between two runs of a worker's maintenance (retention, budgets, expiry)", ge=0.001, le=MOST_MINUTES
        ),
    ] = 60.0
    maintenance_batch: Annotated[
        int,
        setting(
            "maximum messages that one maintenance transaction changes, in at most a tenth as many conversations",
            ge=1,
            le=10_000,
        ),
    ] = 200
    count_queries: Annotated[
        int, setting("queries counted in memory before the counts are written", ge=1, le=MOST_COUNTED)
    ] = 100
    count_seconds: Annotated[
        float, setting("seconds after which the counts of queries are written", ge=0.001, le=86_400)
    ] = 60.0
    telemetry: Annotated[
        bool, setting("send spans and metrics to OpenTelemetry; needs the extra telemetry (docs/operations.md)")
    ] = False
    log_format: Annotated[LogFormat, setting("format of a worker's log on stderr")] = "text"
    health_file: Annotated[
        Path | None, setting("file that a worker writes every few seconds while all is well; unset: none"), Plain
    ] = None
    count_days: Annotated[
        int, setting("days for which the daily retrieval counts of observations are kept", ge=1, le=36_500)
    ] = 90


class RetentionSettings(Section):
    """Retention and forgetting"""

    message_retention_days: Annotated[
        float | None,
        per_agent(
            "days that a message keeps its text once it has been formed; 0: only until it is formed; or forever",
            ge=0,
            le=MOST_DAYS,
        ),
        AcceptsForever,
    ] = 30.0
    keep_verbatim: Annotated[
        bool,
        per_agent(
            "keep the texts of the messages behind sure decisions, corrections, principles and commitments longer"
        ),
    ] = False
    speculative_days: Annotated[
        float | None,
        per_agent(
            "days after which what is hardly sure (confidence below 0.4) expires unless it is confirmed; 0 or unset: never",
            ge=0,
            le=MOST_DAYS,
        ),
        AcceptsForever,
    ] = 30.0
    commitment_days: Annotated[
        float | None,
        per_agent(
            "days after which what is over, a plan or commitment, can no longer be found; 0 or unset: never",
            ge=0,
            le=MOST_DAYS,
        ),
        AcceptsForever,
    ] = None
    backup_days: Annotated[
        int, setting("days that backups and WAL are kept, as stated in receipts of forgetting", ge=0, le=36_500)
    ] = 30
    forget_journal: Annotated[
        Path | None,
        setting("file that lists what was forgotten, for restore-check; keep it outside the backups; unset: none"),
        Plain,
    ] = None
    spoken_requests: Annotated[
        SpokenRequests,
        per_agent("what people ask memory to forget or correct: hide (at once), review (a person decides) or off"),
    ] = "hide"
    spoken_erase_days: Annotated[
        int, setting("days until what people have asked to forget is erased for good; 0: never", ge=0, le=36_500)
    ] = 30
    retention: Annotated[
        Literal["none", "budget"],
        per_agent("budget: maintenance evicts what exceeds the budgets of each scope (store_…)"),
    ] = "none"
    store_items: Annotated[int | None, per_agent("observations that a scope keeps; unset: all", ge=0, le=MOST_KEPT)] = (
        None
    )
    store_characters: Annotated[
        int | None, per_agent("characters of observations that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    store_fact_items: Annotated[int | None, per_agent("facts that a scope keeps; unset: all", ge=0, le=MOST_KEPT)] = (
        None
    )
    store_fact_characters: Annotated[
        int | None, per_agent("characters of facts that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    store_note_items: Annotated[int | None, per_agent("notes that a scope keeps; unset: all", ge=0, le=MOST_KEPT)] = (
        None
    )
    store_note_characters: Annotated[
        int | None, per_agent("characters of notes that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    store_procedure_items: Annotated[
        int | None, per_agent("procedures that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    store_procedure_characters: Annotated[
        int | None, per_agent("characters of procedures that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    store_episode_items: Annotated[
        int | None, per_agent("episodes that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    store_episode_characters: Annotated[
        int | None, per_agent("characters of episodes that a scope keeps; unset: all", ge=0, le=MOST_KEPT)
    ] = None
    trim_batch: Annotated[int, setting("maximum observations that one transaction of trim evicts", ge=1, le=10_000)] = (
        100
    )


class LifecycleSettings(Section):
    """Lifecycle"""

    lifecycle: Annotated[
        bool,
        setting("maintenance stores the stage of each observation, and searches go by it (docs/lifecycle.md)"),
    ] = False
    stage_promote: Annotated[
        float, setting("heat from which an observation becomes validated, or active if confirmed", ge=0, le=1)
    ] = 0.55
    stage_stale: Annotated[
        float, setting("decay from which an observation becomes stale; counts at most as stage_archive", ge=0, le=1)
    ] = 0.65
    stage_archive: Annotated[
        float, setting("decay from which an observation that isn't protected gets the stage archived", ge=0, le=1)
    ] = 0.74
    stale_hidden: Annotated[
        bool, setting("searches leave out what is stale or archived and not protected; needs lifecycle")
    ] = False
    guidelines: Annotated[
        bool,
        setting("maintenance learns guidelines from what became of the actions of agents (docs/tools.md#guidelines)"),
    ] = False
    protected_categories: Annotated[Names, setting("categories of observations that no rule archives")] = (
        "commitment",
        "preference",
        "decision",
        "principle",
        "procedure",
    )
    archival: Annotated[
        bool, setting("maintenance archives observations that are old, unimportant and hardly used")
    ] = False
    archival_days: Annotated[int, setting("days after which an observation may be archived", ge=0, le=36_500)] = 90
    archival_importance: Annotated[
        float, setting("importance below which it may; where none is known it stays", ge=0, le=1)
    ] = 0.3
    archival_uses: Annotated[int, setting("uses (within count_days) up to which it may", ge=0, le=MOST_COUNTED)] = 2
    tiering: Annotated[
        bool,
        setting(
            "maintenance makes cold what is old and worth little, and searches rank that only if the rest isn't enough"
        ),
    ] = False
    tier_demote: Annotated[float, setting("value up to which an observation becomes cold", ge=0, le=1)] = 0.35
    tier_promote: Annotated[float, setting("value from which an observation is hot", ge=0, le=1)] = 0.70
    tier_days: Annotated[int, setting("days after which an observation may become cold", ge=0, le=36_500)] = 14
    link_decay: Annotated[
        bool, setting("maintenance makes links less sure that haven't been seen again for 90 days (docs/lifecycle.md)")
    ] = False


class EpisodeSettings(Section):
    """Episodes of conversations"""

    episodes: Annotated[
        bool,
        setting("formation divides conversations into episodes, and contexts show the latest (docs/episodes.md)"),
    ] = False
    episode_topic_shift: Annotated[
        float, setting("likeness of topics (Jaccard index) below which an episode ends and another begins", ge=0, le=1)
    ] = 0.35
    episode_gap_minutes: Annotated[
        float, setting("minutes of silence after which an episode ends", ge=0.1, le=MOST_MINUTES)
    ] = 30.0
    episode_max_observations: Annotated[
        int, setting("observations of an episode; the formation that exceeds them ends it", ge=1, le=10_000)
    ] = 50
    episode_trace_likeness: Annotated[
        float, setting("likeness of topics from which an episode goes on with an earlier one", ge=0, le=1)
    ] = 0.4
    episode_trace_days: Annotated[
        int, setting("days within which an episode goes on with an earlier one", ge=1, le=366)
    ] = 7
    context_episodes: Annotated[int, setting("episodes in a context; 0: none", ge=0, le=100)] = 5
    context_episode_days: Annotated[
        float,
        setting("days of which a context shows episodes, beside those of days that the message names", ge=0, le=366),
    ] = 3.0


class SearchSettings(Section):
    """Search"""

    top_k: Annotated[int, setting("observations that a search returns", ge=1, le=100)] = 5
    search_cues: Annotated[
        bool,
        setting(
            "extraction adds search cues (words by which somebody might ask for an observation), and search uses them"
        ),
    ] = True
    graph: Annotated[
        bool, setting("formation links observations, and searches follow the links (docs/retrieval.md)")
    ] = False


class ContextSettings(Section):
    """Context"""

    assembly: Annotated[
        Assembly,
        per_agent("what a context is: eden (XML), digest, or both, XML first; a call may override it", used_by=DIGEST),
    ] = "eden"
    pending_max: Annotated[int, per_agent("newest pending observations shown for each scope", ge=0, le=10_000)] = 20
    context_scopes_max: Annotated[
        int,
        per_agent(
            "maximum scopes of a context: the user's own, the conversation's, the agent's, then those that changed last",
            ge=1,
            le=10_000,
        ),
    ] = 200
    context_search: Annotated[
        bool, per_agent("search for every message, and show what answers it; false: only if it asks for what was said")
    ] = True
    context_top_k: Annotated[int, per_agent("retrieved observations in a context", ge=0, le=100)] = 7
    context_max_tokens: Annotated[
        int | None,
        per_agent(
            "maximum tokens of a rendered context; unset: no limit", ge=CONTEXT_LEAST_TOKENS, le=MOST_CONTEXT_TOKENS
        ),
    ] = None
    context_order: Annotated[
        ContextOrder,
        per_agent(
            "kinds of scopes in the order of the context, before recent observations; a kind left out isn't shown"
        ),
    ] = CONTEXT_KINDS
    context_format: Annotated[
        ContextFormat, per_agent("layout of the context; legacy: shards, directives and episodes")
    ] = "standard"
    context_message_max_characters: Annotated[
        int, per_agent("characters of a retrieved message that a context shows", ge=20, le=MOST_CHARACTERS)
    ] = 500


class DigestSettings(Section):
    """Digest"""

    digest_enabled: Annotated[
        bool, per_agent("make digests; doesn't affect the other parts of a prompt", used_by=DIGEST)
    ] = True
    digest_sensitivities: Annotated[
        Sensitivities, per_agent("sensitivities that a digest may show", used_by=DIGEST)
    ] = ("public", "private")
    digest_fact_keys: Annotated[
        Names, per_agent("fact keys with which a digest begins, in this order", used_by=DIGEST)
    ] = ()
    digest_tags: Annotated[
        Names, per_agent("tags whose observations come after these facts, newest first", used_by=DIGEST)
    ] = ()
    digest_keyword_limit: Annotated[
        int,
        per_agent("observations that a digest finds by the words of a query; 0: none", ge=0, le=200, used_by=DIGEST),
    ] = 60
    digest_semantic: Annotated[bool, per_agent("also search by meaning, where there are vectors", used_by=DIGEST)] = (
        False
    )
    digest_newest: Annotated[
        int,
        per_agent(
            "newest observations per scope from which a digest without query and pins chooses",
            ge=1,
            le=10_000,
            used_by=DIGEST,
        ),
    ] = 200
    digest_snippet_characters: Annotated[
        int,
        per_agent("maximum characters of one observation's text in a digest", ge=1, le=MOST_CHARACTERS, used_by=DIGEST),
    ] = 600
    digest_items: Annotated[
        int, per_agent("maximum lines of a digest; 0: none", ge=0, le=MOST_ITEMS, used_by=DIGEST)
    ] = 12
    digest_characters: Annotated[
        int, per_agent("maximum characters of a digest's text; 0: none", ge=0, le=MOST_CHARACTERS, used_by=DIGEST)
    ] = 2400
    digest_tokens: Annotated[
        int | None,
        per_agent(
            "maximum tokens (estimated) of a digest's text; unset: no limit", ge=0, le=MOST_TOKENS, used_by=DIGEST
        ),
    ] = None
    digest_fact_items: Annotated[
        int, per_agent("maximum facts of a digest; 0: none", ge=0, le=MOST_ITEMS, used_by=DIGEST)
    ] = 6
    digest_fact_characters: Annotated[
        int, per_agent("maximum characters of a digest's facts; 0: none", ge=0, le=MOST_CHARACTERS, used_by=DIGEST)
    ] = 800
    digest_fact_tokens: Annotated[
        int | None,
        per_agent(
            "maximum tokens (estimated) of a digest's facts; unset: no limit", ge=0, le=MOST_TOKENS, used_by=DIGEST
        ),
    ] = None
    digest_note_items: Annotated[
        int, per_agent("maximum notes of a digest; 0: none", ge=0, le=MOST_ITEMS, used_by=DIGEST)
    ] = 4
    digest_note_characters: Annotated[
        int, per_agent("maximum characters of a digest's notes; 0: none", ge=0, le=MOST_CHARACTERS, used_by=DIGEST)
    ] = 1200
    digest_note_tokens: Annotated[
        int | None,
        per_agent(
            "maximum tokens (estimated) of a digest's notes; unset: no limit", ge=0, le=MOST_TOKENS, used_by=DIGEST
        ),
    ] = None
    digest_procedure_items: Annotated[
        int, per_agent("maximum procedures of a digest; 0: none", ge=0, le=MOST_ITEMS, used_by=DIGEST)
    ] = 3
    digest_procedure_characters: Annotated[
        int, per_agent("maximum characters of a digest's procedures; 0: none", ge=0, le=MOST_CHARACTERS, used_by=DIGEST)
    ] = 1200
    digest_procedure_tokens: Annotated[
        int | None,
        per_agent(
            "maximum tokens (estimated) of a digest's procedures; unset: no limit", ge=0, le=MOST_TOKENS, used_by=DIGEST
        ),
    ] = None
    digest_episode_items: Annotated[
        int, per_agent("maximum episodes of a digest; 0: none", ge=0, le=MOST_ITEMS, used_by=DIGEST)
    ] = 2
    digest_episode_characters: Annotated[
        int, per_agent("maximum characters of a digest's episodes; 0: none", ge=0, le=MOST_CHARACTERS, used_by=DIGEST)
    ] = 800
    digest_episode_tokens: Annotated[
        int | None,
        per_agent(
            "maximum tokens (estimated) of a digest's episodes; unset: no limit", ge=0, le=MOST_TOKENS, used_by=DIGEST
        ),
    ] = None


class SwitchSettings(Section):
    """Switch from another memory"""

    engine: Annotated[
        Engine,
        per_agent(
            "the memory from which a RoutingBackend answers: this one (sql), the host's own (legacy), or the host's own with"
            " this one running beside it for comparison (shadow)"
        ),
    ] = "sql"
