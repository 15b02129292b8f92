"""What is told of work that waits, is late, fails or was given up."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Literal

from memory_sql.domain.ids import ScopeId, Value


class Backlog(Value):
    """How much work waits. What is due can be done now, and no worker has it; `oldest_due_at`: since when the oldest is due.

    `due_propagations`: scopes whose text has absorbed observations that have to be judged for wider scopes.
    `due_rechecks`: scopes in which what the text has absorbed is to be compared (setting `recheck`).
    `waiting_conversations`: those with messages that are formed after a silence. `retrying` work failed and is retried
    later; `dead` work was given up for a day or more; the `held` claims wait for a person (`work.reviews`). `late`:
    how many conversations, and scopes that are due, have waited for more than a day (`work.late` says why). `unheard`:
    formations of the last week that stored nothing though a message asked to be remembered ("I prefer …"). `has_model`:
    whether the calling process has a language model; without one it does none of this work. `refusal`: the model's provider
    refuses the key (`auth`) or the account (`quota`) of a worker, last at `refused_at`; None: it doesn't, or nobody has
    called it for half an hour. `unanswered`: the shards that didn't answer, whose work isn't counted.
    """

    due_conversations: int
    due_scopes: int
    due_propagations: int
    waiting_conversations: int
    oldest_due_at: datetime | None
    in_progress: int
    retrying: int
    dead: int
    held: int
    late: int = 0
    due_rechecks: int = 0
    unheard: int = 0
    has_model: bool = True
    refusal: str | None = None
    refused_at: datetime | None = None
    unanswered: tuple[str, ...] = ()


class DeadRun(Value):
    """Work that was given up after too many unusable answers.

    It is tried again after as long as it had waited, a day at least and a month at most; `work.retry` does so at once,
    `work.discard` never. Until then a conversation isn't formed any further. In a scope, one observation was set aside, and
    the scope continues without it.
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
    """A run that failed, whether or not a later run succeeded. `state` dead: it was given up for a day or more."""

    state: str
    model: str | None
    started_at: datetime


class Waiting(Value):
    """How much of an agent's work is in one state. `oldest_at`: since when the oldest has waited, None if unknown.

    `due`: it can be done now; `not_due`: a conversation that is formed after a silence, or a scope that was rechecked
    lately; `in_progress`: a process is working on it; `retrying`: it failed and is retried automatically; `given_up`: it is
    retried after a day or more (`work.dead`).
    """

    agent_id: str
    work: Literal["formation", "consolidation", "propagation", "recheck"]
    state: Literal["due", "not_due", "in_progress", "retrying", "given_up"]
    waiting: int
    oldest_at: datetime | None


class Late(Value):
    """Work that has waited for long, and why; the conversation or the scope that it is about is named, the other None.

    `since`: when the oldest message or observation that waits was stored. `reason`: `unclaimed` (due, but no worker has
    taken it), `in_progress`, `failing` (retried after a pause), `given_up` (retried after a day or more), `left_out` (its
    text couldn't tell everything) or `not_due` (after a silence, when a day's limit ends, or a while after the last recheck).
    `error_code`: what failed last.
    """

    agent_id: str
    work: Literal["formation", "consolidation", "propagation", "recheck"]
    conversation_id: str | None
    scope_id: ScopeId | None
    since: datetime | None
    reason: Literal["unclaimed", "in_progress", "failing", "given_up", "left_out", "not_due"]
    error_code: str | None
    due_at: datetime | None


class DailyCost(Value):
    """What models have done on a day (UTC): `runs` that began on it, how many of them failed, and the tokens of all.

    Tokens are as the provider counts them. `costs`: what they cost, by currency, as far as prices are known
    (`models.set_price`).
    """

    day: date
    runs: int
    failures: int
    input_tokens: int
    output_tokens: int
    costs: dict[str, Decimal]
