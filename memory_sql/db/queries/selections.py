"""The observations that a selection names. Reads only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, select, tuple_
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, aggregate_order_by
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import EvidenceRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.db.queries.owned import belongs, said_by
from memory_sql.db.repositories.aliases import user_ids
from memory_sql.domain.ids import observation_id, owner_key, parse_observation_id
from memory_sql.domain.query import Query, Weights
from memory_sql.domain.receipts import Kept
from memory_sql.domain.selection import Selection


@dataclass(frozen=True, slots=True)
class Selections:
    _session: AsyncSession
    _agent_key: int

    async def chosen(self, selection: Selection, words: Query | None = None) -> tuple[tuple[int, int], ...]:
        """The observations with all that the target names, in the order of their keys. `words` are those of its query.

        With a user those that are in their scope, or that they and nobody else have said.
        """
        o, found = ObservationRow, self._matching(selection, words)
        narrow = [] if selection.user_id is None else [_belongs(await self._ids_of(selection.user_id))]
        found = found.where(*narrow)
        if selection.replaced:
            found = self._with_replaced(found, narrow)
        rows = await self._session.execute(found.order_by(o.scope_id, o.seq))
        return tuple((row.scope_id, row.seq) for row in rows)

    async def said_with_others(self, selection: Selection, words: Query | None = None) -> tuple[Kept, ...]:
        """What the target names, and its user isn't the only one to have said, in the order of the keys: it stays."""
        if selection.user_id is None or not selection.selects_observations:
            return ()
        e, o, users = EvidenceRow, ObservationRow, await self._ids_of(selection.user_id)
        shared = self._matching(selection, words).where(~_belongs(users), said_by(e.user_id.in_(users)))
        others = select(func.array_agg(aggregate_order_by(e.user_id.distinct(), e.user_id))).where(
            e.agent_key == o.agent_key, e.scope_id == o.scope_id, e.seq == o.seq, e.user_id.not_in(users)
        )
        found = shared.add_columns(others.scalar_subquery().label("others")).order_by(o.scope_id, o.seq)
        return tuple(
            Kept(observation=observation_id(row.scope_id, row.seq), reason="another", users=row.others)
            for row in await self._session.execute(found)
        )

    def _matching(self, selection: Selection, words: Query | None) -> Select[Any, Any]:
        """Whoever said it."""
        o, s = ObservationRow, ScopeRow
        found = select(o.scope_id, o.seq).join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
        found = found.where(o.agent_key == self._agent_key)
        if selection.observation_id is not None:
            scope_id, seq = parse_observation_id(selection.observation_id)
            found = found.where(o.scope_id == scope_id, o.seq == seq)
        if selection.fact_key is not None:
            found = found.where(o.fact_key == selection.fact_key)
        if selection.tag is not None:
            found = found.where(o.tags.op("@>")(cast([selection.tag], ARRAY(Text))))
        if selection.source is not None:
            found = found.where(o.source_kind == selection.source)
        if selection.run_id is not None:
            found = found.where(o.run_id == selection.run_id)
        if words is not None:
            found = found.where(tuple_(o.scope_id, o.seq).in_(self._with(words)))
        if selection.group_id is not None:
            found = found.where(s.owner == owner_key("group", selection.group_id))
        if selection.conversation_id is not None:
            found = found.where(o.conversation_id == selection.conversation_id)
        return found

    def _with_replaced(self, found: Select[Any, Any], narrow: Sequence[ColumnElement[bool]]) -> Select[Any, Any]:
        """These, and in their line what gave way to them, as far as these conditions hold without a gap."""
        o, s, t = ObservationRow, ScopeRow, ObservationStateRow
        line = found.cte("line", recursive=True)
        before = (
            select(o.scope_id, o.seq)
            .join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
            .join(t, and_(t.agent_key == o.agent_key, t.scope_id == o.scope_id, t.seq == o.seq))
            .join(line, and_(t.scope_id == line.c.scope_id, t.superseded_by == line.c.seq))
            .where(o.agent_key == self._agent_key, *narrow)
        )
        whole = line.union(before)
        return select(o.scope_id, o.seq).join(whole, and_(o.scope_id == whole.c.scope_id, o.seq == whole.c.seq))

    def _with(self, words: Query) -> Select[Any]:
        asked = cast(cast(words.to_json(Weights()), Text), JSONB)
        holding = func.memory.observations_with(self._agent_key, asked).table_valued("scope_id", "seq")
        return select(holding.c.scope_id, holding.c.seq)

    async def _ids_of(self, user_id: str) -> list[str]:
        ids = user_ids(self._agent_key, user_id)
        return [*await self._session.scalars(select(ids.c.user_id).order_by(ids.c.user_id))]


def _belongs(users: Sequence[str]) -> ColumnElement[bool]:
    return belongs([owner_key("individual", user) for user in users], users)
