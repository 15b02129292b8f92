"""What people have asked to forget: it is quarantined at once, and erased when that is accepted, or in time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Select, and_, cast, exists, false, func, literal_column, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import aliased

from memory_sql.db.models import AgentRow, EventRow, EvidenceRow, MessageRow, ObservationStateRow, RunRow, ScopeRow
from memory_sql.db.models.shards import is_here
from memory_sql.db.repositories.observations import ObservationKey
from memory_sql.domain.ids import observation_id, parse_observation_id
from memory_sql.domain.results import Review

# In the event of a quarantine: the observation that the person has named; the event's reason are their words.
REQUEST = "request"
_IS_REQUEST: ColumnElement[bool] = literal_column(
    "events.kind = 'status' AND events.detail ? 'request' AND events.reason IS NOT NULL"
)
_IS_SPOKEN = EventRow.kind == literal_column("'spoken'")  # as in the condition of events_spoken_idx
_IS_QUARANTINED = ObservationStateRow.status == literal_column("'quarantined'")  # and of observation_states_status_idx


@dataclass(frozen=True, slots=True)
class RequestKey:
    scope_id: int
    seq: int

    def __str__(self) -> str:
        return f"q{self.scope_id}-{self.seq}"


SPOKEN = "spoken"  # the kind of an event: asked in a conversation, and not carried out
_DECIDED = "asked"  # in the event of a decision: that event's id


@dataclass(frozen=True, slots=True)
class SpokenKey:
    """Of what was asked in a conversation and not carried out: its event."""

    event_id: int

    def __str__(self) -> str:
        return f"q{self.event_id}"

    @property
    def told(self) -> dict[str, int]:
        """As the event of a decision has it."""
        return {_DECIDED: self.event_id}


@dataclass(frozen=True, slots=True)
class SpokenReview:
    """`numbers` are those of the messages that ask; `observations` are meant, and `news` says what is so instead.

    `ends`: the messages that lose their texts whatever is decided, since something else that they ask for was done.
    `withheld`: quarantined since they say it and ask to forget it, as requests of their own.
    """

    scope_id: int
    user_id: str
    conversation_id: str
    numbers: tuple[int, ...]
    asked: str
    observations: tuple[str, ...]
    news: tuple[str, ...]
    ends: tuple[int, ...]
    withheld: tuple[RequestKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Beside:
    """What else was asked in the same messages. `outcome`: of the review of it; None: it waits."""

    numbers: tuple[int, ...]
    asked: str
    outcome: str | None

    @property
    def is_accepted_to_forget(self) -> bool:
        return (self.asked, self.outcome) == ("forget", "accepted")


@dataclass(frozen=True, slots=True)
class Requests:
    """Of an agent."""

    _session: AsyncSession
    _agent_key: int

    async def waiting(self, limit: int) -> list[Review]:
        """What was asked and neither erased nor taken back since, oldest first."""
        e, named = EventRow, EventRow.detail[REQUEST].astext
        since = func.min(e.created_at)
        asked = _waiting(named.label("named"), since.label("since"), func.min(e.reason).label("says"))
        found = await self._session.execute(
            asked.where(e.agent_key == self._agent_key).group_by(named).order_by(since, named).limit(limit)
        )
        return [
            Review(
                id=str(RequestKey(scope_id, seq)),
                kind="request",
                scope_id=scope_id,
                why="asked_to_forget",
                since=row.since,
                says=row.says,
            )
            for row in found
            for scope_id, seq in (parse_observation_id(row.named),)
        ]

    async def words_of(self, user_id: str) -> list[str]:
        """In which words the user has asked to forget what waits."""
        e = EventRow
        return list(
            await self._session.scalars(
                _waiting(e.reason).where(e.agent_key == self._agent_key, e.actor == user_id).distinct()
            )
        )

    async def spoken(self, limit: int) -> list[Review]:
        """What was asked in a conversation and not carried out, oldest first; while a message that asked keeps its text.

        What has been formed anew has been asked anew.
        """
        e = EventRow
        found = await self._session.execute(
            _spoken(self._agent_key, e.event_id, e.scope_id, e.created_at, e.detail, _said.c.content)
            .order_by(e.event_id)
            .limit(limit)
        )
        return [
            Review(
                id=str(SpokenKey(row.event_id)),
                kind="request",
                scope_id=row.scope_id,
                why=row.detail["why"],
                since=row.created_at,
                says=row.content,
                observations=tuple(row.detail["observations"]),
            )
            for row in found
        ]

    async def spoken_in(self, conversation_id: str, numbers: Collection[int]) -> list[dict[str, Any]]:
        """The events of what waits of these messages of a conversation, oldest first."""
        e = EventRow
        kept = (e.actor, e.scope_id, e.detail, e.created_at)
        asked = _spoken(self._agent_key, *kept).where(e.conversation_id == conversation_id).order_by(e.event_id)
        found = [dict(row) for row in (await self._session.execute(asked)).mappings()]
        return [one for one in found if not {*numbers}.isdisjoint(one["detail"]["numbers"])]

    async def spoken_of(self, key: SpokenKey) -> SpokenReview | None:
        """None: it doesn't wait."""
        e = EventRow
        asked = _spoken(self._agent_key, e.scope_id, e.actor, e.conversation_id, e.detail)
        row = (await self._session.execute(asked.where(e.event_id == key.event_id))).one_or_none()
        if row is None:
            return None
        told = row.detail
        return SpokenReview(
            scope_id=row.scope_id,
            user_id=row.actor,
            conversation_id=row.conversation_id,
            numbers=tuple(told["numbers"]),
            asked=told["asked"],
            observations=tuple(told["observations"]),
            news=tuple(told["news"]),
            ends=tuple(told["ends"]),
            withheld=tuple(RequestKey(*parse_observation_id(one)) for one in told["withheld"]),
        )

    async def beside(self, key: SpokenKey, review: SpokenReview) -> list[Beside]:
        e, decided = EventRow, aliased(EventRow)
        found = await self._session.execute(
            select(e.detail, decided.detail["to"].astext.label("outcome"))
            .outerjoin(decided, _is_decision(decided))
            .where(
                ~_formed_anew,
                e.agent_key == self._agent_key,
                _IS_SPOKEN,
                e.conversation_id == review.conversation_id,
                e.event_id != key.event_id,
            )
        )
        all_asked = [Beside(tuple(row.detail["numbers"]), row.detail["asked"], row.outcome) for row in found]
        return [one for one in all_asked if not {*one.numbers}.isdisjoint(review.numbers)]

    async def named_by(self, key: RequestKey) -> list[ObservationKey]:
        """What is quarantined since it was asked for; empty: the request doesn't wait."""
        e, named = EventRow, EventRow.detail[REQUEST].astext
        found = await self._session.execute(
            _waiting(e.scope_id, e.seq)
            .where(
                e.agent_key == self._agent_key,
                e.scope_id == key.scope_id,  # what says the same is in the same scope, and so are parts
                named == observation_id(key.scope_id, key.seq),
            )
            .order_by(e.scope_id, e.seq)
        )
        return [(row.scope_id, row.seq) for row in found]

    async def said_by_others_since(self, key: ObservationKey) -> bool:
        """Whether somebody who hadn't said it when it was asked for has said it since, in a scope that is nobody's own."""
        e, s, new, old = EventRow, ScopeRow, aliased(EvidenceRow), aliased(EvidenceRow)
        person = func.memory.person
        had_said = exists().where(
            *(getattr(old, name) == getattr(new, name) for name in ("agent_key", "scope_id", "seq")),
            old.created_at <= e.created_at,
            person(old.agent_key, old.user_id) == person(new.agent_key, new.user_id),
        )
        found = await self._session.scalar(
            _waiting(e.event_id)
            .join(s, and_(s.agent_key == e.agent_key, s.scope_id == e.scope_id, s.kind != "individual"))
            .join(new, and_(new.agent_key == e.agent_key, new.scope_id == e.scope_id, new.seq == e.seq))
            .where(
                e.agent_key == self._agent_key,
                e.scope_id == key[0],
                e.seq == key[1],
                new.created_at > e.created_at,
                new.user_id.is_not(None),
                new.withdrawn_by.is_(None),
                ~had_said,
            )
            .limit(1)
        )
        return found is not None


async def next_request(
    session: AsyncSession, agent_id: str | None, before: datetime
) -> tuple[str, int, RequestKey] | None:
    """The request, of one agent or of all, that has waited longest, since before that moment: agent's id and key first."""
    e, a = EventRow, AgentRow
    asked = _waiting(e.agent_key, e.detail[REQUEST].astext.label("named")).where(
        e.created_at < before, is_here(e.agent_key)
    )
    if agent_id is not None:
        asked = asked.where(e.agent_key == select(a.agent_key).where(a.agent_id == agent_id).scalar_subquery())
    row = (await session.execute(asked.order_by(e.created_at, e.event_id).limit(1))).one_or_none()
    if row is None:
        return None
    agent = await session.scalar(select(a.agent_id).where(a.agent_key == row.agent_key))
    return None if agent is None else (agent, row.agent_key, RequestKey(*parse_observation_id(row.named)))


def _is_decision(decided: type[EventRow]) -> ColumnElement[bool]:
    e = EventRow
    return and_(
        decided.agent_key == e.agent_key,
        decided.scope_id == e.scope_id,
        decided.seq.is_(None),
        decided.kind == "review",
        decided.detail[_DECIDED].as_integer() == e.event_id,
    )


def looked_up(of: Any, *conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Whether there is such a row: for each by a key, where a join would read all that have ever been decided."""
    return select(literal_column("1")).select_from(of).where(*conditions).offset(0).exists()


_numbers = (
    func.jsonb_array_elements_text(EventRow.detail["numbers"]).table_valued("number", name="numbers").render_derived()
)
_said = (  # the first of the messages that asked which has its text
    select(MessageRow.content)
    .where(
        MessageRow.agent_key == EventRow.agent_key,
        MessageRow.conversation_id == EventRow.conversation_id,
        MessageRow.number.in_(select(cast(_numbers.c.number, BigInteger)).correlate(EventRow)),
        MessageRow.content.is_not(None),
        MessageRow.withdrawn_by.is_(None),
    )
    .order_by(MessageRow.number)
    .limit(1)
    .correlate(EventRow)
    .lateral("said")
)
_formed_anew = looked_up(
    RunRow, RunRow.agent_key == EventRow.agent_key, RunRow.run_id == EventRow.run_id, RunRow.state == "retired"
)


def _spoken(agent_key: int, *wanted: Any) -> Select[Any]:
    e, decided = EventRow, aliased(EventRow)
    is_decided = looked_up(decided, _is_decision(decided))
    return (
        select(*wanted)
        .select_from(e)
        .join(_said, true())
        .where(e.agent_key == agent_key, _IS_SPOKEN, ~is_decided, ~_formed_anew)
    )


def _waiting(*columns: Any) -> Select[Any]:
    """Of what is still quarantined for that alone: whatever was decided about it later counts instead."""
    e, t, later = EventRow, ObservationStateRow, aliased(EventRow)
    overtaken = looked_up(
        later,
        later.agent_key == e.agent_key,
        later.scope_id == e.scope_id,
        later.seq == e.seq,
        later.kind == "status",
        later.event_id > e.event_id,
        later.detail["why"].astext != "leave",
    )
    return (
        select(*columns)
        .select_from(e)
        .join(t, and_(t.agent_key == e.agent_key, t.scope_id == e.scope_id, t.seq == e.seq))
        .where(_IS_REQUEST, _IS_QUARANTINED, func.coalesce(t.follows, false()).is_(False), ~overtaken)
    )
