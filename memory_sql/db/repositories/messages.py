"""Reading retained messages, and removing their texts when their retention ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import ARRAY, and_, bindparam, cast, column, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import BigInteger, Boolean, DateTime, Double, Integer, Text

from memory_sql.db.models import ConversationRow, MessageRow
from memory_sql.domain.messages import RetainedMessage

Before = tuple[datetime, str, int]
"""When the last message of a page was said, its conversation and its number."""

Place = tuple[int, str, int]  # the key of a message; messages are processed in this order
BEGINNING: Place = (0, "", 0)


@dataclass(frozen=True, slots=True)
class Ended:
    """How many messages lost their texts, and after which it goes on; None: it is through."""

    messages: int
    after: Place | None


_END = select(
    func.memory.end_retention(
        bindparam("agent_id", type_=Text),
        bindparam("conversation_id", type_=Text),
        bindparam("days", type_=Double),
        bindparam("keep", type_=Boolean),
        bindparam("now", type_=DateTime(timezone=True)),
        bindparam("after_agent", type_=BigInteger),
        bindparam("after_session", type_=Text),
        bindparam("after_number", type_=BigInteger),
        bindparam("conversations", type_=BigInteger),
        bindparam("messages", type_=BigInteger),
    ).table_valued("ended", "last_agent", "last_conversation", "last_number")
)
_COLUMNS = (
    column("conversation_id", Text),
    column("message_id", Text),
    column("number", BigInteger),
    column("role", Text),
    column("speaker", Text),
    column("user_id", Text),
    column("content", Text),
    column("said_at", DateTime(timezone=True)),
    column("given_at", DateTime(timezone=True)),
)
_READ = select(
    func.memory.read_messages(
        *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
        bindparam("scope_id", type_=BigInteger),
        bindparam("seq", type_=Integer),
        bindparam("before", type_=DateTime(timezone=True)),
        bindparam("before_session", type_=Text),
        bindparam("before_number", type_=BigInteger),
        bindparam("limit", type_=BigInteger),
        bindparam("days", type_=Double),
        bindparam("now", type_=DateTime(timezone=True)),
    ).table_valued(*_COLUMNS, name="found")
)


async def end_texts(
    session: AsyncSession, agent_key: int, conversation_id: str, numbers: Collection[int], forgetting: str
) -> list[int]:
    """Removes the texts of formed messages and of what was answered to them, as the end of their retention does.

    Returns which had one.

    What an open hold covers is withdrawn, by the id of the `forgetting`. The caller has locked the conversation.
    """
    m, c = MessageRow, ConversationRow
    this = and_(c.agent_key == agent_key, c.conversation_id == conversation_id)
    of_it = and_(m.agent_key == agent_key, m.conversation_id == conversation_id)
    formed = select(c.formed_number).where(this).scalar_subquery()
    is_held = func.memory.is_held_message(m.agent_key, m.conversation_id, m.number, type_=Boolean)
    answers = func.memory.answers_to(
        agent_key, cast([conversation_id] * len(numbers), ARRAY(Text)), cast([*numbers], ARRAY(BigInteger))
    ).table_valued("conversation_id", "number")
    its = or_(m.number.in_(numbers), m.number.in_(select(answers.c.number)))
    ending = and_(of_it, its, m.number <= formed, m.content.is_not(None), m.withdrawn_by.is_(None))
    held = update(m).where(ending, is_held).values(withdrawn_by=forgetting)
    gone = (
        update(m)
        .where(ending, ~is_held)
        .values(
            content=None,
            content_hash=func.memory.message_hash(m.agent_key, m.number, m.content),
            speaker=None,
            search_extra="",
        )
    )
    ended = list[int]()
    for change in (gone, held):
        changed = change.returning(m.number).execution_options(synchronize_session=False)
        ended += await session.scalars(changed)
    oldest = select(func.min(m.created_at)).where(of_it, m.content.is_not(None)).scalar_subquery()
    await session.execute(update(c).where(this).values(text_since=oldest).execution_options(synchronize_session=False))
    return sorted(ended)


class MessageRepository:
    """`days`: how long messages keep their texts for agents without a setting of their own; None: for ever."""

    def __init__(self, session: AsyncSession, days: float | None, now: datetime) -> None:
        self._session = session
        self._when = {"days": days, "now": now}

    async def end_retention(
        self,
        agent_id: str | None,
        after: Place,
        *,
        conversations: int,
        messages: int,
        keep_verbatim: bool = False,
    ) -> Ended:
        """Removes texts whose retention has ended, after that place, looking at so many conversations and messages at most.

        `keep_verbatim`: not those behind what is to be known in its own words, for agents without a setting of their own.
        """
        where = {
            "agent_id": agent_id,
            "conversation_id": None,
            "after_agent": after[0],
            "after_session": after[1],
            "after_number": after[2],
            "keep": keep_verbatim,
        }
        row = (
            await self._session.execute(
                _END, {**self._when, **where, "conversations": conversations, "messages": messages}
            )
        ).one()
        last = None if row.last_agent is None else (row.last_agent, row.last_conversation, row.last_number)
        return Ended(row.ended, last)

    async def of_user(self, principal: Mapping[str, Any], limit: int, before: Before | None) -> list[RetainedMessage]:
        """The messages that the user may see, newest first; with a conversation, only its messages."""
        return await self._read(principal, limit, before=before)

    async def behind(self, principal: Mapping[str, Any], scope_id: int, seq: int, limit: int) -> list[RetainedMessage]:
        """The messages that support an observation and that the user may see, newest first."""
        return await self._read(principal, limit, scope_id=scope_id, seq=seq)

    async def _read(
        self,
        principal: Mapping[str, Any],
        limit: int,
        *,
        before: Before | None = None,
        scope_id: int | None = None,
        seq: int | None = None,
    ) -> list[RetainedMessage]:
        place = dict(zip(("before", "before_session", "before_number"), before or (None, None, None), strict=True))
        given = {**principal, **self._when, **place, "scope_id": scope_id, "seq": seq, "limit": limit}
        return [_to_message(row) for row in await self._session.execute(_READ, given)]


def _to_message(row: Any) -> RetainedMessage:
    named = dict(row._mapping)
    return RetainedMessage(id=named.pop("message_id"), **named)
