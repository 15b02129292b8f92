"""What work and maintenance return."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import ConfigDict, Field

from memory_sql.domain.adding import AddResult as AddResult
from memory_sql.domain.adding import FormationOutcome as FormationOutcome
from memory_sql.domain.adding import RefusedMessage as RefusedMessage
from memory_sql.domain.ids import ScopeId, Value
from memory_sql.domain.observations import Observation
from memory_sql.domain.reading import RetrievalStats
from memory_sql.domain.scopes import ScopeRef
from memory_sql.domain.usage import Usage as Usage


class ObserveResult(Observation):
    """The observation that stands there now. `empty_group`: it is of a group without members, so nobody sees it yet."""

    empty_group: bool = False

    def __eq__(self, other: object) -> bool:
        """As the observation, which is the same wherever it is read."""
        return isinstance(other, Observation) and all(
            getattr(self, name) == getattr(other, name) for name in Observation.model_fields
        )


class FormResult(Value):
    """`duplicates` were known already and gained evidence; `refused` counts refused parts of the answer by reason.

    `superseded`: how many observations of runs before gave way, where a conversation was formed again.
    """

    conversation_id: str
    run_ids: tuple[int, ...] = ()
    messages: int = 0
    observations: tuple[Observation, ...] = ()
    duplicates: int = 0
    superseded: int = 0
    refused: dict[str, int] = Field(default_factory=dict)
    model: str | None = None


class ConsolidateResult(Value):
    """`version` None: nothing was pending, nothing changed. `superseded` counts contradicted observations.

    For an undo, `reinstated` counts those that are active again, `left_superseded` those that aren't, since the same
    has been said again.
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
    """What was decided on one observation (`source`, by id) for one wider scope.

    `outcome`: `propagated` (as `observation`; in a dry run not yet stored, with its `text`), `refused`, `waiting` (too few
    say so yet) or `held` (for a person to look at); `reason` says why in a word. `sources` are all that it was made of.
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
    """What a propagation decided, of one scope or, where `scope` is None, of several of an agent.

    `run_ids`: one for each batch, none where there was nothing to judge. `failed` says of which scope it failed, and why.
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


class Review(Value):
    """What waits for a person (`work.reviews`), and is decided by `work.decide`.

    `says` is what would count then: a claim for the scope `target_scope_id`, a newer observation, or a new text.
    `instead_of` is what stands there meanwhile: the older observation, or the text so far; None: nothing. `why`: in a word.
    """

    id: str
    kind: Literal["claim", "contradiction", "text"]
    scope_id: ScopeId
    why: str
    since: datetime
    says: str
    instead_of: str | None = None
    target_scope_id: ScopeId | None = None


class RunDueResult(Value):
    """`failed` maps a conversation, a scope or `vectors` to the reason; it stays due and is tried again later.

    `embedded` counts observations that gained a vector.
    """

    formed: tuple[FormResult, ...] = ()
    consolidated: tuple[ConsolidateResult, ...] = ()
    propagated: tuple[PropagateResult, ...] = ()
    embedded: int = 0
    failed: dict[str, str] = Field(default_factory=dict)

    def __add__(self, other: RunDueResult) -> RunDueResult:
        return RunDueResult(
            formed=self.formed + other.formed,
            consolidated=self.consolidated + other.consolidated,
            propagated=self.propagated + other.propagated,
            embedded=self.embedded + other.embedded,
            failed=self.failed | other.failed,
        )


class EmbedResult(Value):
    """`embedded` observations have gained a vector. `complete` False: the limit was reached, and there may be more."""

    embedded: int = 0
    complete: bool = True


class MaintainResult(Value):
    """`messages` have lost their texts, `evicted` observations exceeded a budget, `counts` were too old.

    `complete` False: the limit was reached, and there may be more.
    """

    messages: int
    evicted: int = 0
    counts: int = 0
    complete: bool


class Backlog(Value):
    """What waits. `due` can be done now, and no worker has it; `oldest_due_at`: since when the oldest is due.

    `due_propagations` are scopes whose text has absorbed what should be judged for wider ones. `retrying` failed and
    will be tried again later; `dead` was given up and waits for a person, as do the claims that are `held`
    (`work.reviews`). `has_model`: whether the process that asked has a language model; without one it does nothing of this.
    `refusal`: the model's provider refuses the key (`auth`) or the account (`quota`) of whoever does the work, last at
    `refused_at`; None: it doesn't, or nobody has asked for half an hour.
    """

    due_conversations: int
    due_scopes: int
    due_propagations: int
    oldest_due_at: datetime | None
    in_progress: int
    retrying: int
    dead: int
    held: int
    has_model: bool = True
    refusal: str | None = None
    refused_at: datetime | None = None


class DeadRun(Value):
    """Work that was given up after too many unusable answers; `retry` or `discard` it.

    A conversation stops there. Of a scope, one observation was set aside, and the scope goes on without it.
    """

    run_id: int
    agent_id: str
    kind: str
    conversation_id: str | None
    scope_id: ScopeId | None
    error_code: str
    error: str | None
    finished_at: datetime


class FailedRun(DeadRun):
    """A run that failed, whatever became of its work since. `state` dead: it was given up and waits for a person."""

    state: str
    model: str | None
    started_at: datetime


class Waiting(Value):
    """What waits of an agent's work in one state. `oldest_at`: since when the oldest does, None where that isn't known.

    `due` could be done now; `in_progress`: somebody is at it; `retrying` failed and is tried again by itself; `given_up`
    waits for a person (`work.dead`).
    """

    agent_id: str
    work: Literal["formation", "consolidation", "propagation"]
    state: Literal["due", "in_progress", "retrying", "given_up"]
    waiting: int
    oldest_at: datetime | None


class Violation(Value):
    """Something that must hold at any moment, and doesn't. `invariant` names the file of its query in `db/sql/invariants`.

    `key` names the thing; `detail` has numbers, never remembered text. `agent_id` None: it is the database's as a whole.
    """

    invariant: str
    agent_id: str | None
    key: str
    detail: str


class Physical(Value):
    """When deleted rows are physically gone: PostgreSQL keeps old row versions until then.

    `statements` free the space at once (`memory-sql db vacuum` runs them); `backups_until` is when the newest backup
    that holds it will have expired, by the setting `backup_days`.
    """

    statements: tuple[str, ...]
    backups_until: datetime


KeptReason = Literal["another", "elsewhere", "host", "source", "about"]


class Kept(Value):
    """An observation from which a forgetting took words or a source, or that speaks of who was forgotten, and which stays.

    `reason`: `another` (`users` say so too), `elsewhere` (`users`, whose words went, say so elsewhere too), `host` (the host
    stated it), `source` (it was made of something else as well) or `about` (`users` have said it of them).
    """

    observation: str
    reason: KeptReason
    users: tuple[str, ...] = ()


class Receipt(Value):
    """What a forgetting deleted. `counts` are rows by table; of messages the key stays, without a word.

    `observations` are the deleted ids, `kept` those that lost something and stay. `rebuilt`: scopes whose text has been
    rewritten from what is left. `withheld`: scopes that have lost their text, or part of it, and show pending observations
    until it is rewritten. `held`: how much legal holds kept; `withdrawn` are the ids of that, out of use until the holds end.
    `dry_run`: nothing was done; it says what would have been.
    """

    id: str
    at: datetime
    target: dict[str, str | int | bool]
    dry_run: bool
    observations: tuple[str, ...]
    counts: dict[str, int]
    held: dict[str, int]
    withdrawn: tuple[str, ...] = ()
    kept: tuple[Kept, ...] = ()
    rebuilt: tuple[ScopeId, ...] = ()
    withheld: tuple[ScopeId, ...] = ()
    physical: Physical


class JournalStatus(Value):
    """What the journal of forgetting says that this database, known by the id `database`, doesn't know of.

    `missing` are the ids of forgettings that were committed: it is a backup from before, and isn't opened before
    `restore_check` has repeated them. `planned` may not have been committed: the process died in between, or the
    transaction was rolled back. `others` counts those of other databases, which are skipped. `cut_off` are the
    numbers of lines that a full disk or a crash has cut off: of forgettings that weren't committed, or were `planned`.
    """

    database: str
    missing: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    others: int = 0
    cut_off: tuple[int, ...] = ()


class Trimmed(Value):
    """What was evicted, by kind, and from which scopes. `over`: scopes that still exceed their budgets.

    These hold protected observations. `dry_run`: nothing was done; it says what would have been.
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
    """An agent, and the settings that it has of its own."""

    id: str
    created_at: datetime
    settings: dict[str, Any]


class JudgeRate(Value):
    """How a model did that judges claims, in the last 30 days: of `answers`, `wrong` got a decoy wrong.

    Those counted for nothing.
    """

    model: str
    answers: int
    wrong: int


class Stats(Value):
    """Counts for one agent. `tokens` are what the provider counted, over all recorded runs.

    `propagated` are observations made from those of narrower scopes; `held`, claims that wait for a person.
    `vectors_advised`: the agent's scopes, `s12`, in which vectors may find what words don't: they are large, and
    searching was slow or found nothing too often. `costs`: what the tokens cost, by currency, as far as prices are known
    (`admin.set_price`). `vectors`: `off: ` and why, or `on: ` with the model, its dimensions
    and how many of the observations have one.
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


class ImportReport(Value):
    """What became of another store's documents. `run` None: nothing was stored, this is what would be.

    `collections`: by name how many documents there were (`source`), and how many were `migrated`, `merged` into another,
    `skipped` or `rejected`; `reasons` say why, with their number. `anomalies`: what was odd, by code (docs/migrating.md).
    `cut_off`: files that end in what can't be read; `unreadable`: the first 50 single documents that can't be, by file
    and byte. `unaccounted`: collections whose numbers don't add up; never any.
    """

    run: int | None
    collections: dict[str, dict[str, int]]
    reasons: dict[str, int]
    anomalies: dict[str, int]
    cut_off: tuple[str, ...] = ()
    unreadable: tuple[str, ...] = ()
    unaccounted: tuple[str, ...] = ()


class ImportProgress(Value):
    """How far an import is in what it does: files (or collections) are read, then agents looked at or stored.

    `count`: so many documents have been read so far, or observations stored. `done` of `total` is of the whole step:
    bytes of files, documents of a server, rows of agents. `total` 0: nobody knows. Before the first agent `what` is empty.
    """

    step: Literal["reading", "looking", "storing"]
    what: str
    count: int
    done: int
    total: int


class ImportRun(Value):
    """An import: when, of what, and what came of it. `state` is running (or broken off), finished or rolled_back."""

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
    """What was taken out again; with `dry_run`, what would be.

    `withheld`: scopes whose text was built on it, and is due to be rewritten without it.
    """

    run: int
    dry_run: bool = False
    observations: int
    messages: int = 0
    scopes: int
    withheld: tuple[str, ...] = ()


class ImportCheck(Value):
    """What differs between an import, its source and what stands here: references of documents, at most so many of each.

    `compared`: how many rows of the source; None: it wasn't looked at. `changed_here`: another text stands here than was
    stored; `changed_there`: another in the source than was read; `missing`: it is in the source and not here.
    """

    run: int
    compared: int | None = None
    changed_here: tuple[str, ...] = ()
    changed_there: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
