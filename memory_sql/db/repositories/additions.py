"""Messages are added to a conversation by one function in the database, which takes the conversation's row lock."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, BigInteger, Boolean, DateTime, Text

from memory_sql.config import FORMATION_LIMITS, Secrets, Settings
from memory_sql.domain.adding import FormationOutcome


class Added(NamedTuple):
    """`differs`: nothing was stored, for this is the first position (from 0) that its idempotency key knows otherwise."""

    accepted: int
    due_at: datetime | None
    due_reason: str | None
    differs: int | None = None
    formation: FormationOutcome = "not_due"
    empty_groups: Sequence[str] | None = None
    differing: Sequence[str] | None = None
    forgotten: Sequence[str] | None = None


OTHER_SECRETS = -1

_ADD = select(
    func.memory.add_messages(
        bindparam("agent_id", type_=Text),
        bindparam("conversation_id", type_=Text),
        bindparam("user_id", type_=Text),
        bindparam("group_ids", type_=ARRAY(Text)),
        bindparam("messages", type_=JSONB),
        bindparam("limits", type_=JSONB),
        bindparam("now", type_=DateTime(timezone=True)),
        bindparam("excluded", type_=Boolean),
        bindparam("time_zone", type_=Text),
        bindparam("next_id", type_=Text),
    ).table_valued(*Added._fields)
)


class Known(NamedTuple):
    """A message of a call that is stored already: `memory.compared_messages`. `place` is its index in the call, from 0."""

    place: int
    message_id: str
    number: int
    eligible: bool
    differs: bool
    is_forgotten: bool
    is_others: bool
    is_imported: bool


_WHERE = (bindparam("agent_key", type_=BigInteger), bindparam("conversation_id", type_=Text))
_GIVEN = bindparam("messages", type_=JSONB)
_COMPARED = select(func.memory.compared_messages(*_WHERE, _GIVEN).table_valued(*Known._fields))
_REPLACE = select(
    func.memory.replace_messages(
        *_WHERE, _GIVEN, bindparam("limits", type_=JSONB), bindparam("now", type_=DateTime(timezone=True))
    )
)


async def compared(
    session: AsyncSession, agent_key: int, conversation_id: str, messages: Sequence[Mapping[str, Any]]
) -> list[Known]:
    """Those of the messages that are stored already, in the order of the call."""
    given = {"agent_key": agent_key, "conversation_id": conversation_id, "messages": messages}
    return [Known(*row) for row in await session.execute(_COMPARED, given)]


async def replace_messages(
    session: AsyncSession,
    settings: Settings,
    agent_key: int,
    conversation_id: str,
    messages: Sequence[Mapping[str, Any]],
    now: datetime,
) -> None:
    """Gives messages new texts (`memory.replace_messages`). The caller has taken out what was made of the old ones.

    A message without content keeps its text, and is read again.
    """
    limits = formation_limits(settings)
    given = {
        "agent_key": agent_key,
        "conversation_id": conversation_id,
        "messages": messages,
        "limits": limits,
        "now": now,
    }
    await session.execute(_REPLACE, given)


async def add_messages(
    session: AsyncSession, settings: Settings, *, secrets: Secrets | None = None, **values: Any
) -> Added:
    """Stores the messages that are new; the parameters are those of `memory.add_messages`.

    `secrets`: only if that is what the agent does with them; else `differs` is `OTHER_SECRETS`.
    """
    limits = {**formation_limits(settings), "language": settings.language}
    if secrets is not None:
        limits["secrets"] = secrets
    (row,) = await session.execute(_ADD, {**values, "limits": limits})
    return Added(*row)


def formation_limits(settings: Settings) -> dict[str, Any]:
    return {name: getattr(settings, name) for name in FORMATION_LIMITS}
