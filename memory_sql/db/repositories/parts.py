"""Parts: what still held of an observation that was overtaken (`observations.part_of`). The caller has locked the scope."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, tzinfo
from typing import Any

from sqlalchemy import and_, cast, func, literal, null, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import among
from memory_sql.db.models import ObservationRow, ObservationStateRow
from memory_sql.db.repositories.events import record_all
from memory_sql.db.repositories.observations import Draft, stored_as
from memory_sql.db.repositories.scopes import NewScope, ScopeState, in_scope
from memory_sql.languages.dates import days_of

_o, _t = ObservationRow, ObservationStateRow
_KEY = ("agent_key", "scope_id", "seq")
# What the draft of a part says itself: its text, and what is read from that.
_OWN = ("content", "digest", "hash_version", "search_extra", "dates", "sensitivity", "categories")


async def keep(
    session: AsyncSession, scope: ScopeState, seq: int, newer: int, still: str, zone: tzinfo, now: datetime
) -> int | None:
    """What still holds of the observation that `newer` overtakes, as one of its own (`memory.keep_part`); its number."""
    said_at = await session.scalar(select(_o.observed_at).where(in_scope(_o, scope), _o.seq == seq))
    if said_at is None:
        return None
    place, dates = NewScope(scope.kind, scope.owner, scope.name), days_of(still, said_at, zone)
    (stored,) = stored_as([Draft(place, still, said_at, "observe", (), dates=dates)])
    draft = cast({name: stored[name] for name in _OWN}, JSONB)
    kept = func.memory.keep_part(scope.agent_key, scope.scope_id, seq, newer, draft, now)
    found: int | None = await session.scalar(select(kept))
    return found


async def whole_again(
    session: AsyncSession, scope: ScopeState, seqs: Collection[int], now: datetime, **cause: Any
) -> None:
    """What was kept of these gives way, and to nothing, so that it doesn't stand again by itself: they say it themselves."""
    if not seqs:
        return
    parts = (
        select(literal(scope.agent_key), literal(scope.scope_id), _o.seq, literal("superseded"), literal(now), null())
        .outerjoin(_t, and_(in_scope(_t, scope), _t.seq == _o.seq))
        .where(in_scope(_o, scope), among(_o.part_of, seqs), func.memory.in_use(_t.status))
    )
    columns = ("status", "status_at", "superseded_by")
    changed = upsert(_t).from_select([*_KEY, *columns], parts)
    set_ = {name: changed.excluded[name] for name in columns}
    kept = await session.scalars(changed.on_conflict_do_update(index_elements=_KEY, set_=set_).returning(_t.seq))
    row = {"agent_key": scope.agent_key, "scope_id": scope.scope_id, "kind": "status", "created_at": now, **cause}
    detail = {"from": "active", "to": "superseded", "why": "whole"}
    await record_all(session, [{**row, "seq": seq, "detail": detail} for seq in sorted(kept)])
