"""Which kinds of background work have anything to do, and what may be due by other settings than those it was checked by."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import DateTime, Integer, Text, and_, bindparam, cast, func, literal_column, or_, select, true

from memory_sql.db.bounds import ONE, number
from memory_sql.db.direct import Reader
from memory_sql.db.models import AgentRow, ConversationRow, ScopeRow
from memory_sql.db.models.conversations import RESTS
from memory_sql.db.models.shards import is_here

KINDS = {
    "formation": ConversationRow.due_at,
    "consolidation": ScopeRow.due_at,
    "propagation": ScopeRow.propagate_at,
    "recheck": ScopeRow.recheck_at,
}


async def due_kinds(reader: Reader, agent_id: str | None, by: datetime) -> set[str]:
    """The kinds with work that is due by then and that nobody works on, for one agent or for all."""
    (found,) = await reader.execute(_DUE, {"agent_id": agent_id, "by": by})
    return {kind for kind, is_due in zip(KINDS, found, strict=True) if is_due}


def _is_due(due_at: Any) -> Any:
    """Whether the queue has a head, read from the partial index of what is due: the order leaves no other plan."""
    row = due_at.class_
    is_free = or_(row.lease_until.is_(None), row.lease_until < func.clock_timestamp())
    agent_id = bindparam("agent_id", type_=Text)
    is_its = row.agent_key == select(AgentRow.agent_key).where(AgentRow.agent_id == agent_id).scalar_subquery()
    by = bindparam("by", type_=DateTime(timezone=True))
    head = (
        select(due_at)
        .where(due_at <= by, is_here(row.agent_key), and_(is_free, or_(agent_id.is_(None), is_its)))
        .order_by(due_at)
        .limit(ONE)
    )
    return head.scalar_subquery().is_not(None)


_DUE = select(*(_is_due(due_at).label(kind) for kind, due_at in KINDS.items()))


def conversations_judged_by_more(agent_key: int | None, min_messages: int, most: int) -> Any:
    """The keys, to be locked, of conversations that had to wait by higher settings than these, of one agent or of all."""
    row = ConversationRow
    may_be_due = (or_(row.due_at.is_(None), literal_column(RESTS)), row.dead_run_id.is_(None), ~row.excluded)
    return _judged_by_more((row.agent_key, row.conversation_id), may_be_due, _FORMED, min_messages, agent_key, most)


def scopes_judged_by_more(agent_key: int | None, threshold: int, most: int) -> Sequence[Any]:
    """The same for scopes: for those that have no threshold of their own, and for those that have one."""
    row = ScopeRow
    key, waits = (row.agent_key, row.scope_id), row.due_at.is_(None)
    by_own = (
        select(*key)
        .where(waits, row.waits_below > row.consolidation_threshold, is_here(row.agent_key), *_of(row, agent_key))
        .order_by(row.agent_key, row.consolidation_threshold)
    )
    may_be_due = (waits, row.consolidation_threshold.is_(None))
    return (_judged_by_more(key, may_be_due, _CONSOLIDATED, threshold, agent_key, most), _to_be_locked(by_own, most))


_FORMED, _CONSOLIDATED = "formation_min_messages", "consolidation_threshold"


def _judged_by_more(
    key: tuple[Any, ...], conditions: Sequence[Any], setting: str, default: int, agent_key: int | None, most: int
) -> Any:
    """Agent by agent, with the index of what waits. The order rules out any other plan, which would read all rows.

    The setting is read separately: behind walls, an index condition can't contain a function that isn't leakproof.
    """
    row = key[0].class_
    least = cast(func.memory.number_setting(AgentRow.settings, setting, default), Integer)
    known = select(AgentRow.agent_key, least.label("least")).where(
        is_here(AgentRow.agent_key), *_of(AgentRow, agent_key)
    )
    limits = known.cte("limits").prefix_with("MATERIALIZED")
    above = select(*key).where(row.agent_key == limits.c.agent_key, *conditions, row.waits_below > limits.c.least)
    judged = _to_be_locked(above.order_by(row.waits_below), most).correlate(limits).lateral("judged")
    return select(*judged.c).select_from(limits).join(judged, true()).limit(number(most))


def _to_be_locked(found: Any, most: int) -> Any:
    return found.limit(number(most)).with_for_update(key_share=True, skip_locked=True)


def _of(row: Any, agent_key: int | None) -> Sequence[Any]:
    return () if agent_key is None else (row.agent_key == agent_key,)
