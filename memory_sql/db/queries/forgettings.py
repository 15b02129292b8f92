"""The forgettings that a database has recorded, and its id: what a journal outside the database is compared with.

And the renamings, since a backup has what was forgotten later under the ids that it had then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from sqlalchemy import and_, any_, cast, exists, false, func, literal, literal_column, or_, select, union
from sqlalchemy.dialects.postgresql import aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, Text

from memory_sql.db.models import AgentRow, ConversationRow, EventRow, MemberRow, ObservationRow, UserAliasRow
from memory_sql.domain.ids import Value

_e = EventRow
_IS_RENAME = _e.kind == literal_column("'rename'")  # as in the condition of events_user_id_idx


class Renamed(Value):
    """One renaming: what has the id `now`, whatever came after it, had another one before, of which `was` is the HMAC."""

    id: str
    kind: Literal["user", "conversation"]
    now: str
    was: str


async def database_id(session: AsyncSession) -> str:
    """The id of this database; its copies and backups have the same id."""
    return str(await session.scalar(select(func.memory.installation_id())))


async def unknown(session: AsyncSession, forgettings: Sequence[tuple[str, str]]) -> frozenset[str]:
    """The ids of those of these forgettings, each `(agent_id, id)`, that the database hasn't recorded.

    So is one of an agent that isn't there: once it is there again, nothing tells what is new from what was forgotten.
    """
    agents, ids = ([pair[place] for pair in forgettings] for place in (0, 1))
    listed = func.unnest(cast(agents, ARRAY(Text)), cast(ids, ARRAY(Text)))
    entry = listed.table_valued("agent_id", "id", name="entry").render_derived()
    recorded = select(EventRow.event_id).where(
        EventRow.agent_key == AgentRow.agent_key,
        EventRow.kind == literal_column("'forget'"),  # as in the condition of events_forget_idx
        EventRow.detail.op("->>")(literal_column("'id'")) == entry.c.id,
    )
    found = await session.scalars(
        select(entry.c.id).outerjoin(AgentRow, AgentRow.agent_id == entry.c.agent_id).where(~exists(recorded))
    )
    return frozenset(found)


async def placed(
    session: AsyncSession, agent_id: str, users: Sequence[str], conversations: Sequence[str]
) -> tuple[str, tuple[Renamed, ...]]:
    """The id of this database, and how these users and conversations came by their ids, in the order of time."""
    what, now = _e.detail["what"].astext, _now_called()
    wanted = {"user": users, "conversation": conversations}
    named = [and_(what == kind, now == any_(cast(list(ids), ARRAY(Text)))) for kind, ids in wanted.items() if ids]
    told = func.jsonb_build_object("id", _e.detail["id"], "kind", what, "now", now, "was", _e.detail["was"])
    found = (
        select(func.jsonb_agg(aggregate_order_by(told, _e.event_id)))
        .join(AgentRow, AgentRow.agent_key == _e.agent_key)
        .where(AgentRow.agent_id == agent_id, _IS_RENAME, or_(false(), *named))
    )
    own, renamed = (await session.execute(select(func.memory.installation_id(), found.scalar_subquery()))).one()
    return str(own), tuple(Renamed(**one) for one in renamed or ())


def _now_called() -> Any:
    """The expression of events_user_id_idx."""
    user, conversation = (_e.detail.op("->>")(literal_column(f"'{kind}_id'")) for kind in ("user", "conversation"))
    return func.coalesce(user, conversation)


async def former_ids(session: AsyncSession, agent_key: int, renamed: Sequence[Renamed]) -> Mapping[Any, str | None]:
    """By (kind, id) what this database, which doesn't know of some of these renamings, calls it; None: it has no such thing.

    What it knows by that id is left out. Compares each id that the agent has.
    """
    ids = [one.id for one in renamed]
    known = select(_e.detail["id"].astext).where(
        _e.agent_key == agent_key, _IS_RENAME, _e.detail["id"].astext == any_(cast(ids, ARRAY(Text)))
    )
    recorded = set(await session.scalars(known)) if ids else set[str]()
    first = {(one.kind, one.now): one.was for one in reversed(renamed) if one.id not in recorded}
    if not first:
        return {}
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
    called = dict[Any, str]()
    for kind, ids_of_kind in (("user", users), ("conversation", talks)):
        was = func.encode(func.memory.user_hash(agent_key, ids_of_kind.c.id), literal("hex"))
        asked = [hashed for (what, _), hashed in first.items() if what == kind]
        found = await session.execute(select(was, ids_of_kind.c.id).where(was.in_(asked))) if asked else ()
        called |= {(kind, row[0]): row[1] for row in found}
    return {(kind, now): called.get((kind, was)) for (kind, now), was in first.items()}
