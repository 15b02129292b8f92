"""What a principal's memory names, and its heaviest terms: one statement each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Date, Text, bindparam, column, func, select
from sqlalchemy.dialects.postgresql import DOUBLE_PRECISION

from memory_sql.db.direct import Reader
from memory_sql.db.observation_rows import select_read, to_observation
from memory_sql.domain.entities import NamedIn, Topic
from memory_sql.domain.observations import Observation

_WHOSE = tuple(bindparam(name, type_=Text) for name in ("agent_id", "user_id"))
_limit = bindparam("limit", type_=BigInteger)
_ENTITY = select_read(
    func.memory.entity(*_WHOSE, bindparam("name", type_=Text), _limit),
    column("observations", BigInteger),
    column("first", Date),
    column("last", Date),
)
_TOPICS = select(
    func.memory.topics(*_WHOSE, bindparam("rows", type_=BigInteger), _limit).table_valued(
        column("term", Text), column("observations", BigInteger), column("weight", DOUBLE_PRECISION)
    )
)


async def entity(
    reader: Reader, principal: Mapping[str, Any], name: str, limit: int
) -> tuple[list[Observation], list[NamedIn]]:
    """The observations that name it, newest first, and how many there are in each scope."""
    found = await reader.execute(_ENTITY, {**_whose(principal), "name": name, "limit": limit})
    observations, scopes = list[Observation](), dict[str, NamedIn]()
    for row in found:
        one = to_observation(row)
        observations.append(one)
        scopes.setdefault(
            one.scope.id, NamedIn(scope=one.scope, observations=row.observations, first=row.first, last=row.last)
        )
    return observations, list(scopes.values())


async def topics(reader: Reader, principal: Mapping[str, Any], rows: int, limit: int) -> list[Topic]:
    found = await reader.execute(_TOPICS, {**_whose(principal), "rows": rows, "limit": limit})
    return [Topic(term=row.term, observations=row.observations, weight=row.weight) for row in found]


def _whose(principal: Mapping[str, Any]) -> dict[str, Any]:
    return {name: principal[name] for name in ("agent_id", "user_id")}
