"""The statements of a formation, built once; each is one round trip, and can commit by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    DateTime,
    Integer,
    Interval,
    Text,
    and_,
    any_,
    bindparam,
    case,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by, array
from sqlalchemy.orm import aliased

from memory_sql.config import Settings
from memory_sql.db.bounds import ONE
from memory_sql.db.direct import ask
from memory_sql.db.engine import Session
from memory_sql.db.models import AgentRow, ConversationRow, MemberRow, MessageRow, RunRow, columns_of
from memory_sql.db.models.conversations import RESTS
from memory_sql.db.models.shards import is_here
from memory_sql.db.queries.related import RELATED, asked_as
from memory_sql.db.repositories.additions import formation_limits
from memory_sql.db.repositories.conversations import STATE, BufferedMessage, ConversationState, is_free, to_state
from memory_sql.db.repositories.episodes import episode_rules
from memory_sql.db.repositories.groups import TAKING_FROM, taking_from
from memory_sql.db.repositories.observations import Draft, ObservationKey, stored_as
from memory_sql.db.repositories.runs import RunKey
from memory_sql.db.waiting import flushed_later
from memory_sql.domain.query import Query
from memory_sql.domain.scopes import AbsorbedObservation

MOST_GROUPS = 10  # groups of a user to which what is said to the agent alone may be proposed


@dataclass(frozen=True, slots=True)
class Batch:
    """What a formation reads next. `unfinished`: runs of the conversation that didn't end."""

    messages: list[BufferedMessage]
    groups: Sequence[str]
    unfinished: int


@dataclass(frozen=True, slots=True)
class Claimed(ConversationState):
    """A conversation with what is to be read of it, as it was when it was claimed; None: that has to be asked for."""

    batch: Batch | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a draft, by its place: `memory.store_drafts` says which there are."""

    place: int | None
    key: ObservationKey | None
    outcome: str
    more: bool = False


@dataclass(frozen=True, slots=True)
class FormationRepository:
    _session: Session

    async def claim(self, agent_id: str, conversation_id: str, lease: timedelta) -> ConversationState | None:
        """A new lease with a new fence; None while another one holds, or where there is no such conversation."""
        rows = await ask(self._session, _CLAIM, {"agent_id": agent_id, "wanted": conversation_id, "lease": lease})
        return to_state(rows[0]) if rows else None

    async def claim_batch(
        self, agent_id: str, conversation_id: str, lease: timedelta, settings: Settings
    ) -> Claimed | None:
        """As `claim`, with the batch, in a statement that commits by itself; `start` is to come in another after it.

        The batch isn't told where the agent's own settings say otherwise how much it is, nor where the conversation was
        changed while this waited for it.
        """
        given = {"agent_id": agent_id, "wanted": conversation_id, "lease": lease, **_bounds(settings)}
        rows = await ask(self._session, _CLAIM_BATCH, given)
        if not rows:
            return None
        *state, groups, unfinished = rows[0][: len(STATE) + 2]
        columns = rows[0][len(STATE) + 2 :]
        values: Iterable[Any] = (tuple(value) if isinstance(value, list) else value for value in state)
        claimed = Claimed(*values)
        if columns[0] is None or not _BOUNDS.isdisjoint(claimed.agent_settings):
            return claimed
        messages = [BufferedMessage(*message) for message in zip(*columns, strict=True)]
        return replace(claimed, batch=Batch(messages, tuple(groups), unfinished))

    async def claim_due(self, agent_id: str | None, by: datetime, lease: timedelta) -> ConversationState | None:
        """A new lease on what has been due longest and nobody works on; None where there is nothing.

        Who asks at the same moment gets the next one: nobody waits, nobody tries the same.
        """
        given = {"by": by, "lease": lease}
        if agent_id is None:
            rows = await ask(self._session, _CLAIM_DUE, given)
        else:
            rows = await ask(self._session, _CLAIM_DUE_OF, given | {"agent_id": agent_id})
        return to_state(rows[0]) if rows else None

    async def claim_resting(
        self, held: ConversationState, quiet_since: datetime, lease: timedelta, most: int
    ) -> list[ConversationState]:
        """New leases on other short conversations of its only participant, with the same groups, that wait for a rest.

        Nothing has been said in them since then. What somebody else works on is left out.
        """
        given = {
            "of_agent": held.agent_key,
            "beside": held.conversation_id,
            "of_user": held.participants[0],
            "groups": list(held.group_ids),
            "is_shared": held.shared,
            "quiet_since": quiet_since,
            "lease": lease,
            "most": most,
        }
        return [to_state(row) for row in await ask(self._session, _CLAIM_RESTING, given)]

    async def batch(self, state: ConversationState, settings: Settings) -> Batch:
        """The next messages that no formation has read: whole ones, at least one, in the order of arrival.

        And the groups to which what the only participant says may be proposed. None where the lease was lost.
        """
        alone = len(state.participants) == 1 and not state.group_ids
        given = {
            "agent_key": state.agent_key,
            "conversation_id": state.conversation_id,
            "fence": state.fence,
            "after": state.formed_number,
            "user_id": state.participants[0] if alone else None,
            **_bounds(settings),
        }
        rows = await ask(self._session, _BATCH, given)
        if not rows:
            return Batch([], (), 0)
        own = len(BufferedMessage.__slots__)
        return Batch([BufferedMessage(*row[:own]) for row in rows], tuple(rows[0].groups or ()), rows[0].unfinished)

    async def start(
        self,
        state: ConversationState,
        numbers: tuple[int, int],
        seen: Mapping[str, Any],
        silent: Sequence[str],
        queries: Sequence[Query],
        most: int,
        now: datetime,
    ) -> tuple[RunKey, list[tuple[int, AbsorbedObservation]]] | None:
        """A run, and what the queries find for its prompt, by scope (`queries.related`).

        None where the lease was lost, or where one of the users `silent` belongs to no group any more.
        """
        given = {
            "agent_key": state.agent_key,
            "conversation_id": state.conversation_id,
            "fence": state.fence,
            "after": numbers[0],
            "to": numbers[1],
            "showing": seen,
            "silent": silent,
            **asked_as(state.agent_id, queries, most, now),
        }
        rows = await ask(self._session, _START, given)
        if not rows:
            return None
        found = [(row.scope_id, AbsorbedObservation(*row[2:])) for row in rows if row.scope_id is not None]
        return RunKey(state.agent_key, rows[0].run_id, state.fence), found

    async def store(
        self,
        agent_key: int,
        drafts: Sequence[Draft],
        shown: Mapping[int, int],
        run_id: int,
        settings: Settings,
        now: datetime,
    ) -> list[Outcome]:
        """Stores the drafts that may still go to their scopes; locks the scopes (`memory.store_drafts`)."""
        given = {"agent_key": agent_key, "run_id": run_id, **_given(drafts, shown, settings, now)}
        return _outcomes(await ask(self._session, _STORE, given))

    async def apply(
        self,
        state: ConversationState,
        run: RunKey,
        to_number: int,
        drafts: Sequence[Draft],
        shown: Mapping[int, int],
        beside: Mapping[str, int],
        refused: Mapping[str, int],
        settings: Settings,
        now: datetime,
    ) -> list[Outcome]:
        """All that ends a formation (`memory.apply_formation`). `beside`: the epochs of other conversations that it read."""
        read = {
            "agent": state.agent_key,
            "conversation": state.conversation_id,
            "fence": state.fence,
            "formed": state.formed_number,
            "epoch": state.epoch,
            "run": run.run_id,
            "run_fence": run.fence,
            "up_to": to_number,
            "beside": beside or None,
            "refused": refused,
        }
        kept = {
            **formation_limits(settings),
            "message_retention_days": settings.message_retention_days,
            "keep_verbatim": settings.keep_verbatim,
            **({"episodes": episode_rules(settings)} if settings.episodes else {}),
        }
        given = {"agent_id": state.agent_id, "run": read, "limits": kept, **_given(drafts, shown, settings, now)}
        return _outcomes(await ask(self._session, _APPLY, given))


def _bounds(settings: Settings) -> dict[str, Any]:
    """Of a batch."""
    return {
        "messages": settings.formation_window_messages,
        "characters": settings.formation_window_characters,
        "sharing": settings.sharing,
        "most": MOST_GROUPS,
    }


_BOUNDS = {"formation_window_messages", "formation_window_characters", "sharing"}


def _outcomes(rows: Iterable[Any]) -> list[Outcome]:
    return [
        Outcome(place, None if seq is None else (scope_id, seq), *outcome) for place, scope_id, seq, *outcome in rows
    ]


def _given(drafts: Sequence[Draft], shown: Mapping[int, int], settings: Settings, now: datetime) -> dict[str, Any]:
    wanted = {(draft.scope.owner, draft.scope.name): draft.scope for draft in drafts}
    return {
        "wanted": [scope.row(settings) for scope in wanted.values()],
        "shown": shown,
        "drafts": stored_as(drafts, settings.deduplicate),
        "threshold": settings.consolidation_threshold,
        "now": now,
    }


_c, _m, _r = ConversationRow, MessageRow, RunRow
_KEY, _ID = bindparam("agent_key", type_=BigInteger), bindparam("conversation_id", type_=Text)
_LEASED = {
    "fence": _c.fence + 1,
    "lease_until": func.clock_timestamp() + bindparam("lease", type_=Interval),
}
_AGENT = AgentRow.agent_id == bindparam("agent_id", type_=Text)
_claimed = (
    update(_c)
    .where(_c.agent_key == AgentRow.agent_key, _AGENT, _c.conversation_id == bindparam("wanted", type_=Text), is_free())
    .values(_LEASED)
    .returning(*STATE)
    .cte("claimed")
)
_CLAIM = select(_claimed)


def _claim_due(*conditions: Any) -> Any:
    due = (
        select(_c.agent_key, _c.conversation_id)
        .where(
            _c.due_at <= bindparam("by", type_=DateTime(timezone=True)), is_free(), is_here(_c.agent_key), *conditions
        )
        .order_by(_c.due_at)
        .limit(ONE)
        .with_for_update(skip_locked=True, key_share=True)
        .cte("due")
    )
    return _leasing(due)


def _leasing(chosen: Any) -> Any:
    """Leases on these conversations, as they are then."""
    claimed = (
        update(_c)
        .where(
            _c.agent_key == chosen.c.agent_key,
            _c.conversation_id == chosen.c.conversation_id,
            AgentRow.agent_key == _c.agent_key,
        )
        .values(_LEASED)
        .returning(*STATE)
    )
    return select(claimed.cte("claimed")).where(flushed_later())


_CLAIM_DUE = _claim_due()
_CLAIM_DUE_OF = _claim_due(_c.agent_key == select(AgentRow.agent_key).where(_AGENT).scalar_subquery())

_resting = (  # no parameter is called like a column: where an engine is the host's, the UPDATE would set that
    select(_c.agent_key, _c.conversation_id)
    .where(
        _c.agent_key == bindparam("of_agent", type_=BigInteger),
        _c.user_id == bindparam("of_user", type_=Text),
        literal_column(RESTS),  # as the index has it
        _c.conversation_id != bindparam("beside", type_=Text),
        _c.participants == array([_c.user_id]),
        _c.group_ids == bindparam("groups", type_=ARRAY(Text)),
        _c.shared == bindparam("is_shared", type_=Boolean),
        _c.last_activity_at <= bindparam("quiet_since", type_=DateTime(timezone=True)),
        is_free(),
    )
    .order_by(_c.due_at)
    .limit(bindparam("most", type_=BigInteger))
    .with_for_update(skip_locked=True, key_share=True)
    .cte("resting")
)
_CLAIM_RESTING = _leasing(_resting)

_after, _open = bindparam("after", type_=BigInteger), _r.finished_at.is_(None)


def _read_after(agent_key: Any, conversation_id: Any, after: Any) -> Any:
    return (
        select(
            *columns_of(_m, BufferedMessage.__slots__),
            func.sum(func.coalesce(func.length(_m.content), 0)).over(order_by=_m.number).label("characters"),
        )
        .where(_m.agent_key == agent_key, _m.conversation_id == conversation_id, _m.number > after)
        .order_by(_m.number)
        .limit(bindparam("messages", type_=BigInteger))
    )


def _has_room(unread: Any, after: Any) -> Any:
    return or_(unread.c.characters <= bindparam("characters", type_=BigInteger), unread.c.number == after + 1)


def _unfinished_of(agent_key: Any, conversation_id: Any) -> Any:
    runs = select(func.count()).where(_r.agent_key == agent_key, _r.conversation_id == conversation_id, _open)
    return runs.scalar_subquery().label("unfinished")


_unread = _read_after(_KEY, _ID, _after).subquery("unread")
_groups = TAKING_FROM.subquery("groups")
_BATCH = (
    select(
        *(_unread.c[name] for name in BufferedMessage.__slots__),
        select(func.array_agg(_groups.c.group_id, type_=ARRAY(Text))).scalar_subquery().label("groups"),
        _unfinished_of(_KEY, _ID),
    )
    .join_from(_unread, _c, and_(_c.agent_key == _KEY, _c.conversation_id == _ID))
    .where(
        _c.fence == bindparam("fence", type_=BigInteger),
        _has_room(_unread, _after),
    )
    .order_by(_unread.c.number)
)

_new, _old = _claimed.c, aliased(ConversationRow)
_alone = and_(func.cardinality(_new.participants) == 1, func.cardinality(_new.group_ids) == 0)
_first = _read_after(_new.agent_key, _new.conversation_id, _new.formed_number).correlate(_claimed).lateral("unread")
_arrays = (
    select(
        *(
            func.array_agg(aggregate_order_by(_first.c[name], _first.c.number), type_=ARRAY(_first.c[name].type)).label(
                f"{name}_of_messages"
            )
            for name in BufferedMessage.__slots__
        )
    )
    .where(_has_room(_first, _new.formed_number))
    .lateral("batch")
)
# A claim may wait for who changes the conversation, and then sees what that left, but messages as they were before: what has
# been forgotten among them. So they count only where the conversation is as this statement saw it when it began.
#
# Nothing is asked of a model before `start` has committed, which flushes this as well. A crash of the server between takes
# the claim back, and the next one has the same fence: of two workers who then go on, one stores, which moves the cursor.
_CLAIM_BATCH = (
    select(
        *_new,
        func.array(taking_from(_new.agent_key, case((_alone, _new.participants[1]))).scalar_subquery()).label("groups"),
        _unfinished_of(_new.agent_key, _new.conversation_id),
        *_arrays.c,
    )
    .select_from(_claimed)
    .outerjoin(
        _old,
        and_(
            _old.agent_key == _new.agent_key,
            _old.conversation_id == _new.conversation_id,
            _old.epoch == _new.epoch,
            _old.formed_number == _new.formed_number,
            _old.fence == _new.fence - 1,
        ),
    )
    .outerjoin(_arrays, _old.epoch.is_not(None))
    .where(flushed_later())
)

_begun = {
    "agent_key": _c.agent_key,
    "kind": literal("formation", Text),
    "conversation_id": _c.conversation_id,
    "from_number": _after,
    "to_number": bindparam("to", type_=BigInteger),
    "fence": _c.fence,
    "state": literal("running", Text),
    "started_at": bindparam("now", type_=DateTime(timezone=True)),
    "seen": bindparam("showing", type_=JSONB),
}
_leased = (
    select(*_begun.values())
    .where(_c.agent_key == _KEY, _c.conversation_id == _ID, _c.fence == bindparam("fence", type_=BigInteger))
    .with_for_update(read=True, key_share=True)  # as the run's foreign key will: the agent may be erased meanwhile
    .cte("leased")
)
# Who is forgotten or renamed either is seen here to be gone, or waits for this and then finds the run that names them.
_silent = bindparam("silent", type_=ARRAY(Text))
_is_leased = select(func.count()).select_from(_leased).scalar_subquery() > 0  # first the conversation is locked
_members = (
    select(MemberRow.user_id)
    .where(MemberRow.agent_key == _KEY, MemberRow.user_id == any_(_silent), MemberRow.left_at.is_(None), _is_leased)
    .with_for_update(read=True, key_share=True)
    .cte("members")
)
_still_there = select(func.count(_members.c.user_id.distinct())).scalar_subquery()
_starting = select(*_leased.c).where(_still_there == func.cardinality(_silent))
_started = insert(_r).from_select(list(_begun), _starting).returning(_r.run_id).cte("started")
_found = RELATED.subquery("shown")
_START = select(_started.c.run_id, *_found.c).select_from(_started.outerjoin(_found, true()))

_STORED = (
    *(bindparam(name, type_=JSONB) for name in ("wanted", "shown", "drafts")),
    bindparam("threshold", type_=Integer),
    bindparam("now", type_=DateTime(timezone=True)),
)
_STORE = select(
    func.memory.store_drafts(_KEY, *_STORED[:3], bindparam("run_id", type_=BigInteger), *_STORED[3:]).table_valued(
        "place", "scope_id", "seq", "outcome"
    )
)
_APPLY = select(
    func.memory.apply_formation(
        bindparam("agent_id", type_=Text),
        bindparam("run", type_=JSONB),
        *_STORED[:4],
        bindparam("limits", type_=JSONB),
        _STORED[4],
    ).table_valued("place", "scope_id", "seq", "outcome", "more")
)
