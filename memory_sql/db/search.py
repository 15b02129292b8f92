"""Full-text search over the observations that a principal may see: one statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Text, bindparam, cast, func, select
from sqlalchemy.dialects.postgresql import REGCONFIG, TSQUERY
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.observations import STATUS, VISIBLE_OBSERVATION, to_observation
from memory_sql.db.scopes import is_visible, visible_scopes
from memory_sql.db.tables import ObservationRow, ScopeRow
from memory_sql.domain import Hit

# Any of the terms: a question's words hardly ever all stand in its answer. Every text is searched in its own language and
# once without one, as its search vector was made; the query is parsed once for each language, not for each row.
_wanted = bindparam("query", type_=Text)
_visible = visible_scopes()
_languages = (
    select(ScopeRow.language)
    .join_from(_visible, ScopeRow, is_visible(ScopeRow, _visible))
    .distinct()
    .subquery("languages")
)
_query = (
    select(
        _languages.c.language,
        func.websearch_to_tsquery(cast(_languages.c.language, REGCONFIG), _wanted)
        .op("||", return_type=TSQUERY)(func.websearch_to_tsquery(cast("simple", REGCONFIG), _wanted))
        .label("query"),
    )
    .cte("wanted")
    .prefix_with("MATERIALIZED", dialect="postgresql")
)
_score = func.ts_rank(ObservationRow.search, _query.c.query)
_SEARCH = (
    VISIBLE_OBSERVATION.add_columns(_score.label("score"))
    .join(_query, _query.c.language == ObservationRow.language)
    .where(
        ObservationRow.search.op("@@")(_query.c.query),
        STATUS != "quarantined",
        STATUS != "superseded",
        ScopeRow.is_active,
    )
    .order_by(_score.desc(), ObservationRow.observed_at.desc(), ObservationRow.scope_id, ObservationRow.seq)
    .limit(bindparam("limit", type_=BigInteger))
)


async def search(session: AsyncSession, principal: Mapping[str, Any], terms: Sequence[str], limit: int) -> list[Hit]:
    """The best matches of any of the terms, best first; of equals the newest."""
    if not terms:
        return []
    query = " or ".join(f'"{term}"' for term in terms)
    found = await session.execute(_SEARCH, {**principal, "query": query, "limit": limit})
    return [Hit(observation=to_observation(row), score=row.score) for row in found]
