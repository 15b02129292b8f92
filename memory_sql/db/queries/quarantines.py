"""What the events say of quarantines. Reads only."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.arrays import are_among
from memory_sql.db.models import EventRow
from memory_sql.db.repositories.observations import ObservationKey


async def quarantines(
    session: AsyncSession, agent_key: int, keys: Collection[ObservationKey]
) -> dict[ObservationKey, dict[str, Any]]:
    """What the ledger says of the newest quarantine of each of these, where it says something.

    If an operator has quarantined again what a user had, it says so.
    """
    e = EventRow
    found = await session.execute(
        select(e.scope_id, e.seq, e.detail)
        .where(
            e.agent_key == agent_key,
            e.kind == "status",
            are_among((e.scope_id, e.seq), keys),
            e.detail["to"].astext == "quarantined",
        )
        .order_by(e.event_id)
    )
    ledger = dict[ObservationKey, dict[str, Any]]()
    for scope_id, seq, detail in found:  # the newest comes last
        is_again = detail["from"] == "quarantined" and not detail.get("follows", False)
        before = ledger.get((scope_id, seq), {})
        if detail.get("why") == "leave":
            ledger[scope_id, seq] = _left(before)
            continue
        ledger[scope_id, seq] = {**before, "operator": True} if is_again else detail
    return ledger


def _left(ledger: dict[str, Any]) -> dict[str, Any]:
    """As it is once those have left who alone had said it."""
    stays = {name: value for name, value in ledger.items() if name not in ("superseded_by", "follows")}
    is_active = ledger.get("from", "active") == "active" or ledger.get("follows", False)
    return {**stays, "from": "archived"} if is_active else stays
