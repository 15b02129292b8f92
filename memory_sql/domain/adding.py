"""What `add` returns."""

from __future__ import annotations

from typing import Literal

from memory_sql.domain.ids import Value
from memory_sql.domain.observations import Observation


class RefusedMessage(Value):
    """A message that is too long, in a call whose other messages were stored. `position` is its index in the call, from 0.

    `size` and `limit` count characters. If the messages have ids, or the call had an idempotency key, repeat the call with
    this message shortened: only that is stored. Otherwise send only this message.
    """

    position: int
    id: str | None
    size: int
    limit: int


FormationOutcome = Literal[
    "due", "not_due", "retrying", "excluded", "given_up", "formed", "nothing", "busy", "no_model", "no_budget", "failed"
]
"""What happens to a conversation to which messages were added.

`due`: a worker, `run_due` or `wait=True` forms it. `not_due`: it waits for more messages, a signal or a silence.
`retrying`: forming it failed and is retried later. `excluded`: it is never formed. `given_up`: too many answers were
unusable; a person decides (`work.dead`).

With `wait=True`, if it was due: `formed`; `nothing` (it was formed, without a new observation); or, in the `added` of the
error that the call raises: `busy` (another process is forming it), `no_model`, `no_budget` (`daily_tokens` are used up) or
`failed`.
"""


class AddResult(Value):
    """What was stored. `cleaned` counts messages whose text had to be changed, `masked` those with secrets.

    Both include duplicates. `differing`: the ids of duplicates whose text or role isn't what is stored; that stays, unless
    `replace=True` is passed. `replaced`: those that it has replaced. `forgotten`: the ids of duplicates that were forgotten;
    nothing is stored under them again, so what is to be said anew needs a new id.

    `refused`: messages that weren't stored because they are too long. `trigger`: why the
    conversation is due, None if it isn't. `formation`: what happens to it, or with `wait=True` what happened; `run_id` and
    `observations` are then the result. `empty_groups`: those of the call's groups without members, because all have left;
    nobody sees their memory.
    """

    conversation_id: str
    accepted: int
    duplicates: int
    cleaned: int
    masked: int = 0
    differing: tuple[str, ...] = ()
    replaced: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    refused: tuple[RefusedMessage, ...] = ()
    trigger: str | None = None
    formation: FormationOutcome = "not_due"
    empty_groups: tuple[str, ...] = ()
    run_id: int | None = None
    observations: tuple[Observation, ...] = ()
