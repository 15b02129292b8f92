"""What became of the actions of agents, as events (`kind` action), and what was learnt from them last."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, EventRow, ObservationRow, ScopeRow
from memory_sql.db.models.shards import is_here
from memory_sql.db.repositories.events import record
from memory_sql.domain.guidelines import EVENTS, OUTCOMES, Tally
from memory_sql.domain.ids import owner_key

_v = EventRow


class Learned(NamedTuple):
    """The observation that says what was learnt last."""

    scope_id: int
    seq: int
    text: str


@dataclass(frozen=True, slots=True)
class ActionRepository:
    _session: AsyncSession

    async def note(self, agent_key: int, actor: str, detail: Mapping[str, Any], now: datetime) -> None:
        """`detail`: action and outcome, and `good`, where it is known whether it was well judged."""
        await record(self._session, agent_key, "action", now, actor=actor, detail=dict(detail))

    async def agents(self, after: int, most: int) -> list[tuple[int, str]]:
        """Agents that have acted, by key."""
        acted = select(_v.event_id).where(_v.agent_key == AgentRow.agent_key, _v.kind == "action").limit(1)
        found = await self._session.execute(
            select(AgentRow.agent_key, AgentRow.agent_id)
            .where(AgentRow.agent_key > after, is_here(AgentRow.agent_key), acted.scalar_subquery().is_not(None))
            .order_by(AgentRow.agent_key)
            .limit(most)
        )
        return [(row.agent_key, row.agent_id) for row in found]

    async def tallies(self, agent_key: int) -> dict[str, Tally]:
        """Of the newest events, by action."""
        newest = (
            select(_v.detail)
            .where(_v.agent_key == agent_key, _v.kind == "action")
            .order_by(_v.event_id.desc())
            .limit(EVENTS)
            .subquery()
        )
        action, outcome = newest.c.detail["action"].astext, newest.c.detail["outcome"].astext
        good = newest.c.detail["good"].astext
        counts = [func.count().filter(outcome == name).label(name) for name in OUTCOMES]
        judged = [
            func.count().filter(good == value).label(name) for name, value in (("good", "true"), ("poor", "false"))
        ]
        found = await self._session.execute(select(action.label("action"), *counts, *judged).group_by(action))
        return {row.action: Tally(*row[1:]) for row in found}

    async def learned(self, agent_key: int, name: str, fact_key: str) -> Learned | None:
        """What that scope of the agent's guidelines says now."""
        o, s = ObservationRow, ScopeRow
        found = await self._session.execute(
            select(o.scope_id, o.seq, o.content)
            .join(s, and_(s.agent_key == o.agent_key, s.scope_id == o.scope_id))
            .where(s.agent_key == agent_key, s.owner == owner_key("guideline"), s.name == name)
            .where(o.fact_key == fact_key, o.standing == "active")
            .order_by(o.seq.desc())
            .limit(1)
        )
        row = found.one_or_none()
        return None if row is None else Learned(*row)
