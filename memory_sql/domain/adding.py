"""What `add` returns."""

from __future__ import annotations

from typing import Literal

from memory_sql.domain.ids import Value
from memory_sql.domain.observations import Observation


class RefusedMessage(Value):
    """A message that is too long, in a call whose others were stored. `position` is its place there, from 0.

    `size` and `limit` are characters. Send the call again with this one mended: it alone is stored, if the messages have
    ids or the call has its idempotency key again; else send only this one.
    """

    position: int
    id: str | None
    size: int
    limit: int


FormationOutcome = Literal[
    "due", "not_due", "retrying", "excluded", "given_up", "formed", "nothing", "busy", "no_model", "no_budget", "failed"
]
"""What becomes of a conversation to which messages were added.

`due`: a worker, `run_due` or `wait=True` forms it. `not_due`: it waits for more messages, a signal or a silence.
`retrying`: forming it has failed, and is tried again later. `excluded`: nothing is formed of it. `given_up`: too many
answers were unusable; a person decides (`work.dead`).

With `wait=True`, of what was due: `formed`; `nothing` (it was formed, and nothing new came of it); `busy` (somebody else
forms it), `no_model`, `no_budget` (`daily_tokens` are used up), `failed`: these come with an error, as its `added`.
"""


class AddResult(Value):
    """What was stored. `cleaned` counts messages whose text had to be changed, `masked` those with secrets.

    Both include duplicates. `refused` are those that weren't stored, being too long. `trigger` says why the conversation is
    due, if it is, and `formation` what becomes of that; or with `wait=True` became: `run_id` and `observations` are the
    result. `empty_groups`: those of the call's groups that have no members, since all have left; nobody sees what they know.
    """

    conversation_id: str
    accepted: int
    duplicates: int
    cleaned: int
    masked: int = 0
    refused: tuple[RefusedMessage, ...] = ()
    trigger: str | None = None
    formation: FormationOutcome = "not_due"
    empty_groups: tuple[str, ...] = ()
    run_id: int | None = None
    observations: tuple[Observation, ...] = ()
