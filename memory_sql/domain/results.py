"""The results of work and maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import ConfigDict, Field

from memory_sql.domain.adding import AddResult as AddResult
from memory_sql.domain.adding import FormationOutcome as FormationOutcome
from memory_sql.domain.adding import RefusedMessage as RefusedMessage
from memory_sql.domain.ids import ScopeId, Value
from memory_sql.domain.observations import Observation, Stage
from memory_sql.domain.reading import RetrievalStats
from memory_sql.domain.receipts import Kept as Kept
from memory_sql.domain.receipts import KeptReason as KeptReason
from memory_sql.domain.receipts import Naming as Naming
from memory_sql.domain.receipts import PersonReceipt as PersonReceipt
from memory_sql.domain.receipts import Physical as Physical
from memory_sql.domain.receipts import Receipt as Receipt
from memory_sql.domain.rechecks import Rechecked
from memory_sql.domain.reviews import Review as Review
from memory_sql.domain.scopes import ScopeRef
from memory_sql.domain.usage import Usage as Usage
from memory_sql.domain.waiting import Backlog as Backlog
from memory_sql.domain.waiting import DailyCost as DailyCost
from memory_sql.domain.waiting import DeadRun as DeadRun
from memory_sql.domain.waiting import FailedRun as FailedRun
from memory_sql.domain.waiting import Late as Late
from memory_sql.domain.waiting import Waiting as Waiting


class ObserveResult(Observation):
    """The stored observation. `empty_group`: it belongs to a group without members, so nobody sees it yet."""

    empty_group: bool = False

    def __eq__(self, other: object) -> bool:
        """Equal to the same observation from any other call."""
        return isinstance(other, Observation) and all(
            getattr(self, name) == getattr(other, name) for name in Observation.model_fields
        )


class FormResult(Value):
    """What was formed. `duplicates` counts observations that were known and gained evidence.

    `refused` counts refused parts of the answer, by reason. `superseded`: how many observations of earlier runs were
    superseded, if the conversation was formed again or a person said that they were wrong. `hidden`: the ids of those that
    are quarantined since a person asked memory to forget them (`spoken_requests`).
    """

    conversation_id: str
    run_ids: tuple[int, ...] = ()
    messages: int = 0
    observations: tuple[Observation, ...] = ()
    duplicates: int = 0
    superseded: int = 0
    hidden: tuple[str, ...] = ()
    refused: dict[str, int] = Field(default_factory=dict)
    model: str | None = None


class ConsolidateResult(Value):
    """A new version of a text; `version` None: nothing was pending, and nothing changed.

    `superseded` counts contradicted observations. For an undo, `reinstated` counts those that are active again, and
    `left_superseded` those that aren't, because the same has been said again.
    """

    scope: ScopeRef
    version: int | None = None
    absorbed: int = 0
    content: str | None = None
    run_id: int | None = None
    model: str | None = None
    superseded: int = 0
    reinstated: int = 0
    left_superseded: int = 0


PropagationOutcome = Literal["propagated", "refused", "waiting", "held", "released"]


class Judged(Value):
    """The decision on one observation (`source`, by id) for one wider scope.

    `outcome`: `propagated` (as `observation`; in a dry run not stored, with its `text`), `refused`, `waiting` (too few people
    say so yet) or `held` (a person has to decide); `reason` is one word. `sources`: all observations that it was made from.
    """

    source: str
    target: str
    target_scope_id: ScopeId | None = None
    outcome: PropagationOutcome
    reason: str
    text: str | None = None
    observation: str | None = None
    sources: tuple[str, ...] = ()


class PropagateResult(Value):
    """The decisions of a propagation, for one scope or, if `scope` is None, several scopes of an agent.

    `run_ids`: one for each batch, empty if there was nothing to judge. `failed`: the scopes that failed, with the reason.
    """

    scope: ScopeRef | None
    judged: tuple[Judged, ...] = ()
    run_ids: tuple[int, ...] = ()
    model: str | None = None
    dry_run: bool = False
    failed: dict[str, str] = Field(default_factory=dict)

    @property
    def propagated(self) -> tuple[Judged, ...]:
        return tuple(item for item in self.judged if item.outcome == "propagated")


class RunDueResult(Value):
    """What was done. `failed` maps a conversation, a scope or `vectors` to the reason; it stays due and is retried later.

    `embedded` counts observations that got a vector.
    """

    formed: tuple[FormResult, ...] = ()
    consolidated: tuple[ConsolidateResult, ...] = ()
    propagated: tuple[PropagateResult, ...] = ()
    rechecked: tuple[Rechecked, ...] = ()
    embedded: int = 0
    failed: dict[str, str] = Field(default_factory=dict)

    @property
    def pieces(self) -> int:
        """How many were done or failed, without vectors."""
        done = (self.formed, self.consolidated, self.propagated, self.rechecked, self.failed)
        return sum(map(len, done))

    def __add__(self, other: RunDueResult) -> RunDueResult:
        return RunDueResult(
            formed=self.formed + other.formed,
            consolidated=self.consolidated + other.consolidated,
            propagated=self.propagated + other.propagated,
            rechecked=self.rechecked + other.rechecked,
            embedded=self.embedded + other.embedded,
            failed=self.failed | other.failed,
        )


class EmbedResult(Value):
    """`embedded` counts observations that got a vector. `complete` False: the limit was reached, and there may be more.

    `without_direction`: those for which the model gave zeros or NaN (only emoji, for instance). They are found by words,
    and this model isn't asked for them again.
    """

    embedded: int = 0
    without_direction: int = 0
    complete: bool = True


class Moved(Value):
    """What a sweep of maintenance would change: `stages` a stage, `tiers` a tier, `archival` and `expiry` a status."""

    sweep: str
    agent_id: str
    observation_id: str
    was: str
    becomes: str


class MaintainResult(Value):
    """How many `messages` lost their texts, how many observations were `evicted`, how many old `counts` were deleted.

    `requested`: how many observations were erased because people had asked for it (`spoken_erase_days`). `expired`: how often
    one was resolved or evicted because its time was over (`speculative_days`, `commitment_days`, its `until`). `stages`: how
    many have another stage, `archived`: how many were archived, `tiers`: how many became cold, or hot again; `examples`: up
    to 20 of each, only if it was a `dry_run`. `links`: how many became less sure (`link_decay`).
    `episodes`: how many were ended because nothing more was said.
    `classified`: how many got a new kind and importance, because the rules have changed or hadn't seen them.
    `guidelines`: how many agents have new guidelines (setting `guidelines`), `unlearned`: for how many that failed.
    `complete` False: the limit was reached, and there may be more.
    """

    messages: int
    evicted: int = 0
    counts: int = 0
    requested: int = 0
    classified: int = 0
    expired: int = 0
    stages: int = 0
    archived: int = 0
    tiers: int = 0
    links: int = 0
    episodes: int = 0
    guidelines: int = 0
    unlearned: int = 0
    examples: tuple[Moved, ...] = ()
    dry_run: bool = False
    complete: bool


class LifecycleWeek(Value):
    """How many of an agent's observations would be in each stage `at` a time, if nothing is said or used until then.

    `stages` has all five, of what is active or archived then; what has the state archived counts as `archived` there.
    `protected`: how many of these no rule archives. From now until then, `aged`: how many archival takes, whether or not it
    is on; `resolved`: whose day is over; `evicted`: how many are gone.
    """

    at: datetime
    stages: Mapping[Stage, int]
    protected: int = 0
    aged: int = 0
    resolved: int = 0
    evicted: int = 0


class Violation(Value):
    """A violated invariant. `invariant` is the name of its query's file in `db/sql/invariants`.

    `key` identifies the row; `detail` has numbers, never remembered text. `agent_id` None: it concerns the whole database.
    """

    invariant: str
    agent_id: str | None
    key: str
    detail: str


class Estimate(Value):
    """What a step would cost for some conversations. `cost`: by the operator's newest price; None: there is none."""

    step: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    observations: int
    cost: Decimal | None = None
    currency: str | None = None


class ModelCheck(Value):
    """What became of one tiny thing that was asked of a model; `problem` None: it passes.

    `step`: extraction, consolidation or propagation. `asked_by`: API and form of answer that its server takes, and what is
    left out of requests for it; None: not known. Tokens are None where the server doesn't say.
    """

    step: str
    model: str
    problem: str | None = None
    asked_by: str | None = None
    seconds: float = 0.0
    input_tokens: int | None = None
    output_tokens: int | None = None


class JournalStatus(Value):
    """The forgettings in the journal that are missing in this database, whose id is `database`.

    `missing`: the ids of committed forgettings, and of moves of agents to other shards. If there are any, the database is
    an older backup, and can't be opened before `restore_check` has repeated them. `planned`: ids of forgettings that may
    not have been committed, because the process died in between or the transaction was rolled back. `others` counts those
    of other databases, which are skipped. `cut_off`: the numbers of lines that a full disk or a crash has cut off, of
    forgettings that weren't committed, or are `planned`. `copied_from`: of `missing`, how many were in each incarnation of
    the database of which this one, whose `incarnation` that is, is a copy or a restored backup.
    """

    database: str
    incarnation: str | None = None
    missing: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    others: int = 0
    cut_off: tuple[int, ...] = ()
    copied_from: dict[str, int] = Field(default_factory=dict)


class Trimmed(Value):
    """How much was evicted, by kind, and from which scopes.

    `over`: scopes that still exceed their budgets because of protected observations. `dry_run`: nothing was evicted; it says
    what would have been.
    """

    evicted: dict[str, int] = Field(default_factory=dict)
    scopes: tuple[ScopeId, ...] = ()
    over: tuple[ScopeId, ...] = ()
    dry_run: bool = False

    @property
    def observations(self) -> int:
        """How many were evicted."""
        return sum(self.evicted.values())


class AgentSummary(Value):
    """An agent and its own settings."""

    id: str
    created_at: datetime
    settings: dict[str, Any]


class AgentMove(Value):
    """An agent that has moved from shard `source` to `target`; if both are the same, nothing had to be done.

    `rows` counts what was copied, by table. In the last `held_seconds` of the copying nobody could change the agent.
    """

    agent_id: str
    source: str
    target: str
    rows: dict[str, int] = Field(default_factory=dict)
    seconds: float = 0.0
    held_seconds: float = 0.0


class JudgeRate(Value):
    """A judge's record of the last 30 days: of `answers`, `wrong` got a decoy wrong and didn't count."""

    model: str
    answers: int
    wrong: int


class Stats(Value):
    """Counts for one agent. `input_tokens` and `output_tokens` are as the provider counted them, over all recorded runs.

    `propagated`: observations made from those of narrower scopes. `held`: claims that wait for a person. `costs`: of the
    tokens, by currency, as far as prices are known (`models.set_price`). `vectors`: `off: ` and the reason, or `on: ` with
    the model, its dimensions, how many observations have a vector, and how many texts have none because the model finds no
    direction in them. `vectors_advised`: the scopes (`s12`) in which vectors may find what words don't: they are large, and
    searches were slow or found nothing too often. `judged_languages`: those that have rules and decoys; claims in any other
    wait for a person.
    """

    agent_id: str
    conversations: int
    messages: int
    unformed_messages: int
    due_conversations: int
    scopes: dict[str, int]
    observations: int
    pending: int
    due_scopes: int
    consolidations: int
    propagated: int
    due_propagations: int
    held: int
    runs: dict[str, int]
    input_tokens: int
    output_tokens: int
    costs: dict[str, Decimal] = Field(default_factory=dict)
    judges: tuple[JudgeRate, ...] = ()
    retrieval: RetrievalStats = RetrievalStats()
    vectors_advised: tuple[str, ...] = ()
    vectors: str = "off"
    judged_languages: tuple[str, ...] = ()


class ImportReport(Value):
    """What an import did with the documents of another store. `run` None: a dry run, nothing was stored.

    `collections`: for each, how many documents there were (`source`) and how many were `migrated`, `merged` into another,
    `skipped` or `rejected`; `reasons`: why, with counts. `anomalies`: counts of irregularities, by code (docs/migrating.md).
    `cut_off`: files whose end can't be read; `unreadable`: the first 50 single documents that can't be read, by file and
    byte. `unaccounted`: collections whose numbers don't add up; there should never be any.
    """

    run: int | None
    collections: dict[str, dict[str, int]]
    reasons: dict[str, int]
    anomalies: dict[str, int]
    cut_off: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unaccounted: tuple[str, ...] = ()


Step = Literal["reading", "looking", "storing", "forming", "consolidating", "propagating", "embedding", "exporting"]


class Progress(Value):
    """How far long work is. `what` is the file, the agent or the like that is worked on; empty if there is none.

    `count` of `unit` ("messages") are done, `of` so many; None: that isn't known before the end. `done` of `total` measures
    the whole step for a bar; `total` 0: unknown. An import reads files, where these are bytes, or collections, where they are
    documents; then it looks at or stores agents, where they are rows.
    """

    step: Step
    what: str = ""
    count: int
    unit: str
    of: int | None = None
    done: int
    total: int


class ImportRun(Value):
    """A recorded import. `state`: running (also if it was interrupted), finished or rolled_back."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: int = Field(validation_alias="import_id")
    source: str
    state: Literal["running", "finished", "rolled_back"]
    options: dict[str, Any]
    accounts: dict[str, Any]
    started_at: datetime
    finished_at: datetime | None
    rolled_back_at: datetime | None


class RolledBack(Value):
    """What a rollback removed; with `dry_run`, what it would remove.

    `withheld`: scopes whose text contained it, and is due to be rewritten without it. `held`: how much of it legal holds
    kept, by kind; `withdrawn`: the ids of these observations, out of use until the holds end, which removes them.
    """

    run: int
    dry_run: bool = False
    observations: int
    messages: int = 0
    scopes: int
    withheld: tuple[str, ...] = ()
    held: dict[str, int] = Field(default_factory=dict)
    withdrawn: tuple[str, ...] = ()


class ImportCheck(Value):
    """The differences between an import, its source and the current data: references of documents, at most `limit` of each.

    `compared`: how many rows of the source were compared; None: no source was given. `changed_here`: the text here isn't the
    one that was imported; `changed_there`: the text in the source isn't the one that was read; `missing`: it is in the
    source but not here.
    """

    run: int
    compared: int | None = None
    changed_here: tuple[str, ...] = ()
    changed_there: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
