"""Whom an agent has forgotten, of ids that are asked about: only hashes of them are kept."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import and_, cast, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import ARRAY, Text

from memory_sql.db.models import ForgottenIdRow
from memory_sql.domain.people import ForgottenKind

_f = ForgottenIdRow


async def has_forgotten(session: AsyncSession, agent_key: int) -> bool:
    found = await session.scalar(select(_f.kind).where(_f.agent_key == agent_key).limit(1))
    return found is not None


async def forgotten_among(
    session: AsyncSession, agent_key: int, named: Collection[tuple[ForgottenKind, str]]
) -> Mapping[tuple[ForgottenKind, str], datetime]:
    """When those of these, each `(kind, id)`, were forgotten that were."""
    kinds, ids = ([one[place] for one in sorted(named)] for place in (0, 1))
    given = func.unnest(cast(kinds, ARRAY(Text)), cast(ids, ARRAY(Text))).table_valued("kind", "id", name="named")
    asked = given.render_derived()
    is_it = and_(_f.kind == asked.c.kind, _f.id_hash == func.memory.user_hash(agent_key, asked.c.id))
    found = await session.execute(
        select(asked.c.kind, asked.c.id, _f.forgotten_at).join(_f, is_it).where(_f.agent_key == agent_key)
    )
    return {(row.kind, row.id): row.forgotten_at for row in found}
