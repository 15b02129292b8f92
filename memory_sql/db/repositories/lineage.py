"""Which observations were derived from which, across scopes: written by propagation, read by whatever removes something."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ARRAY, BigInteger, Integer, and_, cast, func, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import are_among
from memory_sql.db.models import LineageRow, ObservationStateRow
from memory_sql.db.repositories.observations import ObservationKey


@dataclass(frozen=True, slots=True)
class LineageRepository:
    """The caller has locked the scopes of what it changes."""

    _session: AsyncSession
    _agent_key: int

    async def derive(
        self, made: ObservationKey, sources: Iterable[ObservationKey], run_id: int, now: datetime, *, whole: bool
    ) -> None:
        rows = [
            {
                "agent_key": self._agent_key,
                "scope_id": made[0],
                "seq": made[1],
                "source_scope_id": scope_id,
                "source_seq": seq,
                "run_id": run_id,
                "created_at": now,
                "whole": whole,
            }
            for scope_id, seq in sources
        ]
        await self._session.execute(upsert(LineageRow).values(rows).on_conflict_do_nothing())

    async def detach(self, sources: Collection[ObservationKey]) -> tuple[ObservationKey, ...]:
        """What these are still sources of stays for the sake of its others; which of it is in groups with former members."""
        ordered = sorted(sources)
        lessened = func.memory.detach(
            self._agent_key,
            cast([scope_id for scope_id, _ in ordered], ARRAY(BigInteger)),
            cast([seq for _, seq in ordered], ARRAY(Integer)),
        ).table_valued("scope_id", "seq")
        rows = await self._session.execute(select(lessened).order_by(lessened.c.scope_id, lessened.c.seq))
        return tuple((row.scope_id, row.seq) for row in rows)

    async def derived(self, keys: Collection[ObservationKey]) -> tuple[ObservationKey, ...]:
        """What was derived from these and can't stay without them, on all levels, in the order of the keys."""
        ordered = sorted(keys)
        found = func.memory.derived(
            self._agent_key,
            cast([scope_id for scope_id, _ in ordered], ARRAY(BigInteger)),
            cast([seq for _, seq in ordered], ARRAY(Integer)),
            cast([], ARRAY(BigInteger)),
        ).table_valued("scope_id", "seq")
        rows = await self._session.execute(select(found).order_by(found.c.scope_id, found.c.seq))
        return tuple((row.scope_id, row.seq) for row in rows)

    async def origins(self, keys: Collection[ObservationKey]) -> set[int]:
        """The scopes of the sources of these, on all levels."""
        link = LineageRow
        columns = (link.source_scope_id, link.source_seq)
        line = (
            select(*columns)
            .where(link.agent_key == self._agent_key, are_among((link.scope_id, link.seq), keys))
            .cte("line", recursive=True)
        )
        above = select(*columns).where(
            link.agent_key == self._agent_key,
            link.scope_id == line.c.source_scope_id,
            link.seq == line.c.source_seq,
        )
        line = line.union(above)
        return set(await self._session.scalars(select(line.c.source_scope_id).distinct()))

    async def merged(self, keys: Collection[ObservationKey]) -> tuple[ObservationKey, ...]:
        """Those of these that were merged of several, in the order of the keys."""
        link = LineageRow
        found = await self._session.execute(
            select(link.scope_id, link.seq)
            .where(link.agent_key == self._agent_key, are_among((link.scope_id, link.seq), keys), ~link.whole)
            .distinct()
            .order_by(link.scope_id, link.seq)
        )
        return tuple((row.scope_id, row.seq) for row in found)

    async def quarantined_sources(self, key: ObservationKey) -> tuple[ObservationKey, ...]:
        """Its sources that are quarantined."""
        link, t = LineageRow, ObservationStateRow
        source = and_(t.agent_key == link.agent_key, t.scope_id == link.source_scope_id, t.seq == link.source_seq)
        found = await self._session.execute(
            select(t.scope_id, t.seq)
            .join(link, source)
            .where(
                link.agent_key == self._agent_key,
                link.scope_id == key[0],
                link.seq == key[1],
                t.status == "quarantined",
            )
            .order_by(t.scope_id, t.seq)
        )
        return tuple((row.scope_id, row.seq) for row in found)
