"""Full-text search over the observations that a principal may see: one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import bindparam, column, func, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import REAL, BigInteger, Text

from memory_sql.db.observations import OBSERVATION, to_observation
from memory_sql.domain import Hit

# What `memory.search` returns: the columns of an observation as they are read everywhere, and how well it matches.
COLUMNS = (*(column(item.name, item.type) for item in OBSERVATION.selected_columns), column("score", REAL))
_matches = func.memory.search(
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "session_id", "query")),
    bindparam("limit", type_=BigInteger),
).table_valued(*COLUMNS, name="matches")
_SEARCH = select(_matches)


async def search(session: AsyncSession, principal: Mapping[str, Any], terms: Sequence[str], limit: int) -> list[Hit]:
    """The best matches of any of the terms, best first; of equals the newest.

    Any of the terms: a question's words hardly ever all stand in its answer.
    """
    if not terms:
        return []
    query = " or ".join(f'"{term}"' for term in terms)
    found = await session.execute(_SEARCH, {**principal, "query": query, "limit": limit})
    return [Hit(observation=to_observation(row), score=row.score) for row in found]
