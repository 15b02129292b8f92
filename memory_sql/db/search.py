"""Full-text search over the observations that a principal may see: one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, cast, column, func, select
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import REAL, BigInteger, Text

from memory_sql.db.observations import OBSERVATION, PAST_OBSERVATION, PAST_STATUS, to_observation
from memory_sql.db.tables import ObservationRow, ScopeRow
from memory_sql.domain import Hit

# What `memory.search` returns: the columns of an observation as they are read everywhere, and how well it matches.
COLUMNS = (*(column(item.name, item.type) for item in OBSERVATION.selected_columns), column("score", REAL))
_matches = func.memory.search(
    *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "session_id", "query")),
    bindparam("limit", type_=BigInteger),
).table_valued(*COLUMNS, name="matches")
_SEARCH = select(_matches)

_wanted = bindparam("query", type_=Text)
_query = func.websearch_to_tsquery(cast(ObservationRow.language, REGCONFIG), _wanted).op("||", return_type=TSQUERY)(
    func.websearch_to_tsquery(cast("simple", REGCONFIG), _wanted)
)
_score = func.ts_rank(ObservationRow.search, _query)
_SEARCH_AT = (
    PAST_OBSERVATION.add_columns(_score.label("score"))
    .where(
        ObservationRow.search.op("@@")(_query),
        PAST_STATUS.not_in(("quarantined", "superseded", "evicted")),
        ScopeRow.is_active,
    )
    .order_by(_score.desc(), ObservationRow.observed_at.desc(), ObservationRow.scope_id, ObservationRow.seq)
    .limit(bindparam("limit", type_=BigInteger))
)


async def search(
    session: AsyncSession,
    principal: Mapping[str, Any],
    terms: Sequence[str],
    limit: int,
    as_of: datetime | None = None,
) -> list[Hit]:
    """The best matches of any of the terms, best first; of equals the newest. Of what was known at a past moment, if given.

    Any of the terms: a question's words hardly ever all stand in its answer.
    """
    if not terms:
        return []
    query = " or ".join(f'"{term}"' for term in terms)
    given = {**principal, "query": query, "limit": limit}
    if as_of is None:
        found = await session.execute(_SEARCH, given)
    else:
        found = await session.execute(_SEARCH_AT, {**given, "as_of": as_of})
    return [Hit(observation=to_observation(row), score=row.score) for row in found]
