"""Messages are added to a conversation by one function in the database, which takes the conversation's row lock."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, Boolean, DateTime, Text

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
    ).table_valued("accepted", "due_at", "due_reason", "differs", "formation", "empty_groups")
)


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
