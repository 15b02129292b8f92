"""The forgettings that a database has recorded: what a journal outside the database is compared with.

And the renamings, since a backup has what was forgotten later under the ids that it had then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import and_, any_, cast, exists, false, func, literal, literal_column, or_, select, union, update
from sqlalchemy.dialects.postgresql import JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, Text

from memory_sql.db.models import (
    AgentRow,
    ConversationRow,
    EventRow,
    MemberRow,
    MovedAgentRow,
    ObservationRow,
    UserAliasRow,
)
from memory_sql.db.models.shards import is_here
from memory_sql.domain.ids import Value

_e = EventRow
_IS_RENAME = _e.kind == literal_column("'rename'")  # as in the condition of events_user_id_idx
_HAS_ENTRY = and_(
    _e.kind == literal_column("'forget'"), _e.detail.op("?")(literal_column("'entry'"))
)  # of events_entry_idx


class Renamed(Value):
    """One renaming: what has the id `now`, whatever came after it, had another one before, of which `was` is the HMAC."""

    id: str
    kind: Literal["user", "conversation"]
    now: str
    was: str


async def unknown(session: AsyncSession, forgettings: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The ids of those of these forgettings, each `(agent_id, id)`, that the database hasn't recorded.

    So is one of an agent that isn't there: once it is there again, nothing tells what is new from what was forgotten. Not
    one that has moved to another shard: what is recorded of it has moved along.
    """
    entry = _listed(forgettings)
    found = await session.scalars(
        select(entry.c.id).outerjoin(AgentRow, AgentRow.agent_id == entry.c.agent_id).where(*_unknown(entry, "forget"))
    )
    return frozenset(found)


async def unknown_moves(session: AsyncSession, moves: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The ids of those of these moves to another shard, each `(agent_id, id)`, that the database doesn't know of.

    Not one of an agent that isn't there: nothing of it has come back.
    """
    entry = _listed(moves)
    found = await session.scalars(
        select(entry.c.id).join(AgentRow, AgentRow.agent_id == entry.c.agent_id).where(*_unknown(entry, "move"))
    )
    return frozenset(found)


def _listed(pairs: Sequence[tuple[str, str]]) -> Any:
    agents, ids = ([pair[place] for pair in pairs] for place in (0, 1))
    listed = func.unnest(cast(agents, ARRAY(Text)), cast(ids, ARRAY(Text)))
    return listed.table_valued("agent_id", "id", name="entry").render_derived()


def _unknown(entry: Any, kind: str) -> tuple[Any, Any]:
    """No event of that kind has recorded it, and the agent hasn't moved to another shard."""
    recorded = select(EventRow.event_id).where(
        EventRow.agent_key == AgentRow.agent_key,
        EventRow.kind == literal_column(f"'{kind}'"),  # as in the condition of events_forget_idx
        EventRow.detail.op("->>")(literal_column("'id'")) == entry.c.id,
    )
    return ~exists(recorded), ~exists().where(MovedAgentRow.agent_id == entry.c.agent_id)


async def placed(
    session: AsyncSession, agent_id: str, users: Sequence[str], conversations: Sequence[str]
) -> tuple[str, str, tuple[Renamed, ...]]:
    """The id of this database and that of its incarnation, and what became of these users' and conversations' ids.

    In the order of time, how they came by their ids, and how somebody before them gave up these, or those from which they
    came.
    """
    what, now, was = _e.detail["what"].astext, _now_called(), _e.detail.op("->>")(literal_column("'was'"))
    wanted = {"user": users, "conversation": conversations}
    named = [and_(what == kind, now == any_(cast(list(ids), ARRAY(Text)))) for kind, ids in wanted.items() if ids]
    told = func.jsonb_build_object("id", _e.detail["id"], "kind", what, "now", now, "was", _e.detail["was"])
    its_agent = and_(AgentRow.agent_key == _e.agent_key, AgentRow.agent_id == agent_id)
    came = select(was.label("was")).join(AgentRow, its_agent).where(_IS_RENAME, or_(false(), *named))
    given = func.unnest(cast([*users, *conversations], ARRAY(Text))).table_valued("id", name="given").render_derived()
    hashed = func.encode(func.memory.user_hash(AgentRow.agent_key, given.c.id), literal_column("'hex'"))
    held = select(hashed.label("was")).select_from(given).join(AgentRow, AgentRow.agent_id == agent_id)
    concerned = union(came, held).subquery("concerned")
    found = (
        select(func.jsonb_agg(aggregate_order_by(told, _e.event_id)))
        .join(AgentRow, AgentRow.agent_key == _e.agent_key)
        .where(AgentRow.agent_id == agent_id, _IS_RENAME, or_(was.in_(select(concerned.c.was)), *named))
    )
    of_it = (func.memory.installation_id(), func.memory.incarnation())
    own, incarnation, renamed = (await session.execute(select(*of_it, found.scalar_subquery()))).one()
    return str(own), str(incarnation), tuple(Renamed(**one) for one in renamed or ())


async def note(session: AsyncSession, agent_id: str, forgetting: str, entry: Mapping[str, Any]) -> None:
    """Keeps with the event what the journal is to say of it, until it does."""
    agent_key = select(AgentRow.agent_key).where(AgentRow.agent_id == agent_id).scalar_subquery()
    await session.execute(
        update(_e)
        .where(_e.agent_key == agent_key, _is_forgetting(forgetting))
        .values(detail=_e.detail.op("||")(func.jsonb_build_object("entry", cast(entry, JSONB))))
    )


async def noted(session: AsyncSession, limit: int) -> list[dict[str, Any]]:
    """What the journal may not say yet, of so many forgettings."""
    entry = _e.detail["entry"].label("entry")
    found = await session.scalars(
        select(entry).where(_HAS_ENTRY, is_here(_e.agent_key)).order_by(_e.agent_key, _e.event_id).limit(limit)
    )
    return list(found)


async def settle_noted(session: AsyncSession, forgettings: Sequence[str]) -> None:
    """The journal says these."""
    its_id = _e.detail.op("->>")(literal_column("'id'"))
    await session.execute(
        update(_e)
        .where(_HAS_ENTRY, its_id == any_(cast(list(forgettings), ARRAY(Text))))
        .values(detail=_e.detail.op("-")(cast("entry", Text)))
    )


def _is_forgetting(forgetting: str) -> Any:
    return and_(_e.kind == literal_column("'forget'"), _e.detail.op("->>")(literal_column("'id'")) == forgetting)


def _now_called() -> Any:
    """The expression of events_user_id_idx."""
    user, conversation = (_e.detail.op("->>")(literal_column(f"'{kind}_id'")) for kind in ("user", "conversation"))
    return func.coalesce(user, conversation)


async def former_ids(session: AsyncSession, agent_key: int, renamed: Sequence[Renamed]) -> Mapping[Any, str | None]:
    """By (kind, id) what this database, which doesn't know of some of these renamings, calls it; None: it has no such thing.

    What it knows by that id is left out. Where an id had belonged to somebody else before, who gave it up in a renaming that
    this database doesn't know of, whoever has it here is that one. Compares each id that the agent has.
    """
    ids = [one.id for one in renamed]
    known = select(_e.detail["id"].astext).where(
        _e.agent_key == agent_key, _IS_RENAME, _e.detail["id"].astext == any_(cast(ids, ARRAY(Text)))
    )
    recorded = set(await session.scalars(known)) if ids else set[str]()
    unknown = [one for one in renamed if one.id not in recorded]
    if not unknown:
        return {}
    here = await _by_hash(session, agent_key)
    called = dict[Any, str | None]()
    for n, one in reversed([*enumerate(unknown)]):  # the earliest by which it came by its id counts
        before = {other.was for other in unknown[:n] if other.kind == one.kind}
        called[one.kind, one.now] = None if one.was in before else here[one.kind].get(one.was)
    given_up = {(one.kind, one.was) for one in unknown}
    held = {(kind, id) for kind, hashes in here.items() for was, id in hashes.items() if (kind, was) in given_up}
    return {key: None for key in held if key not in called} | called


async def _by_hash(session: AsyncSession, agent_key: int) -> dict[str, dict[str, str]]:
    """The ids of the agent's users and conversations, by their hashes."""
    c, m, a, o = ConversationRow, MemberRow, UserAliasRow, ObservationRow
    users = union(
        *(
            select(column.label("id")).where(column.class_.agent_key == agent_key)
            for column in (m.user_id, a.user_id, a.into_user_id)
        ),
        *(
            select(func.unnest(column)).where(column.class_.agent_key == agent_key)
            for column in (c.participants, o.subjects)
        ),
    ).subquery("users")
    talks = select(c.conversation_id.label("id")).where(c.agent_key == agent_key).subquery("talks")
    found = dict[str, dict[str, str]]()
    for kind, ids_of_kind in (("user", users), ("conversation", talks)):
        was = func.encode(func.memory.user_hash(agent_key, ids_of_kind.c.id), literal("hex"))
        rows = await session.execute(select(was, ids_of_kind.c.id).where(ids_of_kind.c.id.is_not(None)))
        found[kind] = {row[0]: row[1] for row in rows}
    return found
