"""Conversations and their messages: one aggregate, written under the conversation's row lock."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import REAL, Select, and_, case, cast, func, literal, or_, select, true, update
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import Integer

from memory_sql.config import Settings
from memory_sql.db.arrays import are_among
from memory_sql.db.models import AgentRow, ConversationRow, MessageRow, columns_of
from memory_sql.db.models.base import NEVER_JUDGED
from memory_sql.db.queries.due import conversations_judged_by_more
from memory_sql.db.queries.ended import IS_TEXTLESS, ended_for_asking
from memory_sql.db.repositories.additions import formation_limits
from memory_sql.errors import NotFoundError

_CLOCK = func.clock_timestamp()


@dataclass(frozen=True, slots=True)
class ConversationState:
    """A conversation as a formation sees it; a moved cursor, epoch or fence makes the formation's result void."""

    agent_key: int
    conversation_id: str
    user_id: str
    participants: tuple[str, ...]
    group_ids: tuple[str, ...]
    last_number: int
    formed_number: int
    epoch: int
    fence: int
    due_reason: str | None
    excluded: bool
    shared: bool
    failures: int
    errors: int
    dead_run_id: int | None
    time_zone: str | None
    agent_id: str
    agent_settings: dict[str, Any]


@dataclass(frozen=True, slots=True)
class BufferedMessage:
    number: int
    message_id: str
    role: str
    user_id: str | None
    speaker: str | None
    content: str | None
    weight: float
    eligible: bool
    said_at: datetime


STATE = (
    *columns_of(ConversationRow, ConversationState.__slots__),
    AgentRow.agent_id,
    AgentRow.settings.label("agent_settings"),
)


def to_state(row: Iterable[Any]) -> ConversationState:
    values: Iterable[Any] = (tuple(value) if isinstance(value, list) else value for value in row)
    return ConversationState(*values)


@dataclass(frozen=True, slots=True)
class ConversationRepository:
    _session: AsyncSession

    async def keep(self, agent_key: int, conversation_id: str) -> None:
        """It stays until the transaction ends. Raises `NotFoundError`."""
        found = await self._session.scalar(
            select(ConversationRow.conversation_id)
            .where(ConversationRow.agent_key == agent_key, ConversationRow.conversation_id == conversation_id)
            .with_for_update(read=True)
        )
        if found is None:
            raise NotFoundError("conversation", conversation_id)

    async def exists(self, agent_id: str, conversation_id: str) -> bool:
        found = await self._session.scalar(
            select(ConversationRow.conversation_id)
            .join(AgentRow, AgentRow.agent_key == ConversationRow.agent_key)
            .where(*_is(agent_id, conversation_id))
        )
        return found is not None

    async def unformed(self, agent_id: str) -> list[str]:
        """The conversations that have messages which no formation has read, oldest first."""
        found = await self._session.scalars(
            select(ConversationRow.conversation_id)
            .join(AgentRow, AgentRow.agent_key == ConversationRow.agent_key)
            .where(
                AgentRow.agent_id == agent_id,
                ConversationRow.last_number > ConversationRow.formed_number,
                ConversationRow.excluded.is_(False),
            )
            .order_by(ConversationRow.created_at, ConversationRow.conversation_id)
        )
        return list(found)

    async def range(self, state: ConversationState, to_number: int, after: int | None = None) -> list[BufferedMessage]:
        """The messages after the cursor, or after that number, up to this one; what is withdrawn without its text."""
        first = state.formed_number if after is None else after
        columns = columns_of(MessageRow, BufferedMessage.__slots__)
        text = case((MessageRow.withdrawn_by.is_(None), MessageRow.content)).label("content")
        found = await self._session.execute(
            select(*(text if one is MessageRow.content else one for one in columns))
            .where(
                MessageRow.agent_key == state.agent_key,
                MessageRow.conversation_id == state.conversation_id,
                MessageRow.number > first,
                MessageRow.number <= to_number,
            )
            .order_by(MessageRow.number)
        )
        return [BufferedMessage(*row) for row in found]

    async def texts_gone(self, state: ConversationState) -> int:
        """How many formed messages have lost their texts since, otherwise than for what they asked."""
        m = MessageRow
        gone = await self._session.scalar(
            select(func.count()).where(
                m.agent_key == state.agent_key,
                m.conversation_id == state.conversation_id,
                m.number <= state.formed_number,
                m.eligible,
                IS_TEXTLESS,
                ~ended_for_asking(),
            )
        )
        return gone or 0

    async def lock(self, state: ConversationState) -> ConversationState | None:
        """The session, locked until the transaction ends; None when the lease, the cursor or the epoch has moved on."""
        found = await self._session.execute(
            select(*STATE)
            .join(AgentRow, AgentRow.agent_key == ConversationRow.agent_key)
            .where(
                _same(state),
                ConversationRow.formed_number == state.formed_number,
                ConversationRow.epoch == state.epoch,
            )
            .with_for_update(key_share=True, of=ConversationRow)
        )
        row = found.one_or_none()
        return None if row is None else to_state(row)

    async def advance(self, state: ConversationState, to_number: int, settings: Settings, now: datetime) -> None:
        """Moves the cursor, counts what is left after it, and gives the lease back. The caller has locked it."""
        given = formation_limits(settings.of_agent(state.agent_settings))
        place = state.agent_key, state.conversation_id, state.fence, to_number
        await self._session.execute(select(func.memory.advance_conversation(*place, cast(given, JSONB), now)))

    async def _left(self, state: ConversationState, after: int, settings: Settings, now: datetime) -> dict[str, Any]:
        """Counts the messages after that number, and says by the rule of `add` whether they are due.

        The settings are the process's; the agent's own take precedence.
        """
        left = _unread(state.agent_key, state.conversation_id, after).subquery()
        due = _due(left, cast(formation_limits(settings.of_agent(state.agent_settings)), JSONB), now)
        row = (await self._session.execute(select(left, due).join(due, true()))).one()
        return {
            "unformed_messages": row.messages,
            "unformed_tokens": row.tokens,
            "unformed_since": row.since,
            "due_at": None if state.excluded else row.due_at,
            "due_reason": None if state.excluded else row.due_reason,
            "waits_below": row.waits_below,
        }

    async def make_due(self, agent_key: int | None, settings: Settings, most: int, now: datetime) -> bool:
        """Makes conversations due that are long enough by these settings and weren't by earlier ones; checks at most `most`.

        For one agent or all; only conversations last checked with other settings. Those that somebody works on are skipped:
        they are counted when that work ends. Returns whether there may be more.
        """
        found = await self._session.execute(
            conversations_judged_by_more(agent_key, settings.formation_min_messages, most)
        )
        places = [(row.agent_key, row.conversation_id) for row in found]
        if places:
            await self._judge(places, settings, now)
        return len(places) == most

    async def _judge(self, places: Collection[tuple[int, str]], settings: Settings, now: datetime) -> None:
        """Counts the messages of these, and decides whether they are due. The caller has locked them."""
        s = ConversationRow
        short = (
            select(s.agent_key, s.conversation_id, s.formed_number, AgentRow.settings)
            .join(AgentRow, AgentRow.agent_key == s.agent_key)
            .where(are_among((s.agent_key, s.conversation_id), places))
            .cte("short")
        )
        unread = _unread(short.c.agent_key, short.c.conversation_id, short.c.formed_number).lateral("unread")
        due = _due(unread, cast(formation_limits(settings), JSONB).op("||")(short.c.settings), now)
        counted = (
            select(short.c.agent_key, short.c.conversation_id, unread, due)
            .select_from(short.join(unread, true()).join(due, true()))
            .subquery("counted")
        )
        await self._session.execute(
            update(s)
            .where(s.agent_key == counted.c.agent_key, s.conversation_id == counted.c.conversation_id)
            .values(
                unformed_messages=counted.c.messages,
                unformed_tokens=counted.c.tokens,
                unformed_since=counted.c.since,
                due_at=counted.c.due_at,
                due_reason=counted.c.due_reason,
                waits_below=counted.c.waits_below,
            )
        )

    async def release(self, state: ConversationState, **values: Any) -> bool:
        """Gives the lease back, with these changes; False: it has passed to somebody else, and nothing was changed.

        A conversation that is excluded doesn't become due.
        """
        values |= {name: _unless_excluded(name, values[name]) for name in ("due_at", "due_reason") if name in values}
        released = await self._session.scalar(
            update(ConversationRow)
            .where(_same(state))
            .values(lease_until=None, **values)
            .returning(ConversationRow.conversation_id)
        )
        return released is not None

    async def release_idle(self, state: ConversationState) -> None:
        """Releases the lease if there is nothing to form: it is no longer due, unless messages came meanwhile."""
        idle = or_(ConversationRow.excluded, ConversationRow.last_number == state.last_number)
        due = {name: case((~idle, ConversationRow.__table__.c[name])) for name in ("due_at", "due_reason")}
        due["waits_below"] = case((idle, NEVER_JUDGED), else_=ConversationRow.waits_below)  # whoever catches up counts
        await self._session.execute(update(ConversationRow).where(_same(state)).values(lease_until=None, **due))

    async def postpone(self, agent_id: str, conversation_id: str, until: datetime) -> None:
        """It stays due, but later."""
        await self._session.execute(
            update(ConversationRow)
            .where(
                ConversationRow.agent_key == AgentRow.agent_key,
                *_is(agent_id, conversation_id),
                ConversationRow.due_at < until,
            )
            .values(due_at=until)
        )

    async def revive(self, agent_key: int, conversation_id: str, run_id: int, now: datetime, *, errors: int) -> None:
        """The conversation given up with this run is due again, as after so many `errors`."""
        await self._session.execute(
            update(ConversationRow)
            .where(
                ConversationRow.agent_key == agent_key,
                ConversationRow.conversation_id == conversation_id,
                ConversationRow.dead_run_id == run_id,
            )
            .values(
                errors=errors,
                dead_run_id=None,
                due_at=_unless_excluded("due_at", now),
                due_reason=_unless_excluded("due_reason", "retry"),
            )
        )

    async def locked(self, agent_key: int, conversation_id: str) -> ConversationState:
        """The conversation, locked until the transaction ends; raises `NotFoundError` if it no longer exists."""
        found = await self._session.execute(
            select(*STATE)
            .join(AgentRow, AgentRow.agent_key == ConversationRow.agent_key)
            .where(ConversationRow.agent_key == agent_key, ConversationRow.conversation_id == conversation_id)
            .with_for_update(key_share=True, of=ConversationRow)
        )
        row = found.one_or_none()
        if row is None:
            raise NotFoundError("conversation", conversation_id)
        return to_state(row)

    async def exclude(self, agent_id: str, conversation_id: str) -> int | None:
        """The agent's key, if there is such a conversation: it isn't due any more, and what is under way is refused."""
        agent_key: int | None = await self._session.scalar(
            update(ConversationRow)
            .where(ConversationRow.agent_key == AgentRow.agent_key, *_is(agent_id, conversation_id))
            .values(excluded=True, due_at=None, due_reason=None, epoch=ConversationRow.epoch + 1)
            .returning(ConversationRow.agent_key)
        )
        return agent_key

    async def share(self, agent_id: str, conversation_id: str, *, shared: bool) -> bool:
        """False: there is no such conversation."""
        changed = await self._session.scalar(
            update(ConversationRow)
            .where(ConversationRow.agent_key == AgentRow.agent_key, *_is(agent_id, conversation_id))
            .values(shared=shared)
            .returning(ConversationRow.agent_key)
        )
        return changed is not None

    async def include(self, agent_id: str, conversation_id: str, settings: Settings, now: datetime) -> int | None:
        """The agent's key, if there is such a conversation: what was said before it was excluded is due as ever."""
        included = await self._session.execute(
            update(ConversationRow)
            .where(ConversationRow.agent_key == AgentRow.agent_key, *_is(agent_id, conversation_id))
            .values(excluded=False)
            .returning(*STATE)
        )
        row = included.one_or_none()
        if row is None:
            return None
        state = to_state(row)
        if state.dead_run_id is None and state.due_reason is None:
            left = await self._left(state, state.formed_number, settings, now)
            await self._session.execute(update(ConversationRow).where(_same(state)).values(left))
        return state.agent_key

    async def refuse_answers(self, agent_key: int) -> None:
        """What a model has been asked of any conversation of the agent is refused, and asked again."""
        c = ConversationRow
        leased = select(c.conversation_id).where(c.agent_key == agent_key, c.lease_until.is_not(None))
        locked = leased.order_by(c.conversation_id).with_for_update(key_share=True)
        await self._session.execute(
            update(c).where(c.agent_key == agent_key, c.conversation_id.in_(locked)).values(epoch=c.epoch + 1)
        )

    async def extend(self, state: ConversationState, lease: timedelta) -> bool:
        """The lease goes on; False: it has passed to somebody else."""
        extended = await self._session.scalar(
            update(ConversationRow)
            .where(_same(state))
            .values(lease_until=_CLOCK + lease)
            .returning(ConversationRow.conversation_id)
        )
        return extended is not None


def _unread(agent_key: Any, conversation_id: Any, after: Any) -> Select[Any]:
    """Counts of the messages after that number. One row."""
    m = MessageRow
    return select(
        func.count().label("messages"),
        cast(func.coalesce(func.sum(m.weight), 0), REAL).label("tokens"),
        func.coalesce(func.bool_or(m.signal.is_not(None)), False).label("signalled"),
        func.min(m.created_at).label("since"),
    ).where(
        m.agent_key == agent_key,
        m.conversation_id == conversation_id,
        m.number > after,
        m.eligible,
        m.content.is_not(None),
    )


def _due(unread: Any, limits: Any, now: datetime) -> Any:
    """Whether that makes a conversation due, by the rule of `add`."""
    messages, given = cast(unread.c.messages, Integer), (unread.c.tokens, unread.c.signalled, unread.c.since)
    columns = ("due_at", "due_reason", "waits_below")
    return func.memory.formation_due(messages, *given, limits, now).table_valued(*columns).lateral("due")


def _is(agent_id: str, conversation_id: str) -> Sequence[Any]:
    return AgentRow.agent_id == agent_id, ConversationRow.conversation_id == conversation_id


def _unless_excluded(name: str, value: object) -> Any:
    return case((ConversationRow.excluded.is_(False), literal(value, ConversationRow.__table__.c[name].type)))


def is_free() -> Any:
    return or_(ConversationRow.lease_until.is_(None), ConversationRow.lease_until < _CLOCK)


def _same(state: ConversationState) -> Any:
    return and_(
        ConversationRow.agent_key == state.agent_key,
        ConversationRow.conversation_id == state.conversation_id,
        ConversationRow.fence == state.fence,
    )
