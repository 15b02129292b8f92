"""The invariants: what holds at any moment, even under load, as queries that must return no row.

Each is a file in `sql/invariants/`, whose header says what must hold; one, about the hashes of texts, is checked in Python.
All of them see the same snapshot: one transaction, repeatable read, read only.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import BigInteger, DateTime, Integer, Interval, Select, bindparam, cast, column, func, select, text
from sqlalchemy.dialects.postgresql import OID, REGCLASS, pg_catalog
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.types import TypeEngine

from memory_sql.db.hashes import content_hashes
from memory_sql.db.models import AgentRow, ObservationRow
from memory_sql.db.naming import of_schema
from memory_sql.domain.ids import observation_id
from memory_sql.domain.results import Violation
from memory_sql.languages.text import HASH_VERSION, content_digest

HASHES = "hashes_match_texts"
MOST = 1000  # violations reported per invariant; a table that is wrong throughout must not fill the memory
SAMPLE = 5000  # about how many observations' hashes are checked, unless all are
BATCH = 2000  # observations whose hashes are computed at once

_SNAPSHOT = text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


@dataclass(frozen=True, slots=True)
class Measures:
    """Parameters of some invariants: the caller's clock, and its settings for rows that no process has checked yet."""

    now: datetime
    threshold: int
    min_messages: int
    idle_max: timedelta = timedelta(seconds=10)


_TYPES: dict[str, TypeEngine[Any]] = {
    "now": DateTime(timezone=True),
    "threshold": Integer(),
    "min_messages": Integer(),
    "idle_max": Interval(),
}


@cache
def invariants() -> dict[str, Select[Any]]:
    """The queries by name, in order. Columns: agent_id (null: the whole database), key and detail of each violation."""
    found = (file for file in (files(__package__) / "sql" / "invariants").iterdir() if file.name.endswith(".sql"))
    return {file.name.removesuffix(".sql"): _query(file.read_text("utf-8")) for file in sorted(found, key=str)}


def _query(sql: str) -> Select[Any]:
    names = set(_PARAMETER.findall(sql))
    asked = text(sql).bindparams(*(bindparam(name, type_=_TYPES[name]) for name in sorted(names)))
    return select(asked.columns(column("agent_id"), column("key"), column("detail")).subquery("found"))


async def violations(session: AsyncSession, measures: Measures, *, hashes: bool = False) -> AsyncIterator[Violation]:
    """The violations, at most `MOST` of each invariant. The session must not have run a query before.

    `hashes`: check the hash of every observation, not only of a sample.
    """
    await session.execute(_SNAPSHOT)
    given = asdict(measures)
    for name, query in invariants().items():
        for row in await session.execute(query.limit(MOST), given):
            yield Violation(invariant=name, agent_id=row.agent_id, key=row.key, detail=row.detail)
    async for violation in _wrong_hashes(session, _HASHED if hashes else _sample(measures.now)):
        yield violation


_HASHED: Any = (
    select(
        AgentRow.agent_id,
        ObservationRow.scope_id,
        ObservationRow.seq,
        ObservationRow.content,
        ObservationRow.content_hash,
    )
    .join(AgentRow, AgentRow.agent_key == ObservationRow.agent_key)
    .where(ObservationRow.hash_version == HASH_VERSION)
)


_table = pg_catalog.pg_class
_is_ours = _table.c.oid == cast(cast(of_schema("observations"), REGCLASS), OID)


def _sample(now: datetime) -> Any:
    """Every n-th, different ones each day: reading and hashing texts here takes longer than everything else together."""
    each = select(func.greatest(1, cast(_table.c.reltuples / SAMPLE, BigInteger))).where(_is_ours).scalar_subquery()
    return _HASHED.where((ObservationRow.scope_id + ObservationRow.seq + now.toordinal()) % each == 0)


async def _wrong(session: AsyncSession, rows: Sequence[Any]) -> list[Any]:
    keys = [(row.scope_id, content_digest(row.content)) for row in rows]
    hashes = await content_hashes(session, keys)
    return [row for row, key in zip(rows, keys, strict=True) if row.content_hash != hashes.get(key)]


async def _wrong_hashes(session: AsyncSession, hashed: Select[Any]) -> AsyncIterator[Violation]:
    """Observations whose hash isn't that of their text: they would be stored twice, or be taken for another one."""
    found = await session.stream(hashed.execution_options(yield_per=BATCH))
    left = MOST
    async for rows in found.partitions():
        wrong = (await _wrong(session, rows))[:left]
        for row in wrong:
            key, characters = observation_id(row.scope_id, row.seq), len(row.content)
            detail = f"another hash than that of its {characters} characters"
            yield Violation(invariant=HASHES, agent_id=row.agent_id, key=key, detail=detail)
        left -= len(wrong)
        if not left:
            break
    await found.close()
