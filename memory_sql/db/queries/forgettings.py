"""The forgettings that a database has recorded, and its id: what a journal outside the database is compared with."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import cast, exists, func, literal_column, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, Text

from memory_sql.db.models import AgentRow, EventRow


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
