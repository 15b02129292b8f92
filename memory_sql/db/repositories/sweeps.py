"""What maintenance changes about observations as time passes: one function of the database a batch."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ARRAY, BigInteger, Text, cast, func, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.domain.ids import observation_id
from memory_sql.domain.results import Moved

Place = tuple[int, int, int]
"""An observation, by the keys of its agent and scope and its number."""
BEGINNING: Place = (0, 0, 0)


class Batch(NamedTuple):
    """The next observations after `after`, of one agent or of all; `dry`: only what would change.

    At most `most` are looked at, and at most `changes` of them changed: these are locked meanwhile.
    """

    agent_id: str | None
    after: Place
    most: int
    changes: int
    dry: bool = False


class Swept(NamedTuple):
    """After which the next batch goes on (None: it is through), how many changed, and examples."""

    last: Place | None
    changed: int
    examples: tuple[Moved, ...] = ()


async def sweep_stages(session: AsyncSession, batch: Batch, rules: Mapping[str, Any], now: datetime) -> Swept:
    return await _swept(session, "stages", func.memory.sweep_stages(*_given(batch, rules), now, batch.dry))


async def sweep_expiry(session: AsyncSession, batch: Batch, defaults: Mapping[str, Any], now: datetime) -> Swept:
    return await _swept(session, "expiry", func.memory.expire(*_given(batch, defaults), now))


async def sweep_archival(
    session: AsyncSession, batch: Batch, rules: Mapping[str, Any], threshold: int, now: datetime
) -> Swept:
    """`threshold`: of pending observations that make a scope due, where it has none of its own."""
    return await _swept(
        session, "archival", func.memory.sweep_archival(*_given(batch, rules), threshold, now, batch.dry)
    )


async def sweep_tiers(session: AsyncSession, batch: Batch, rules: Mapping[str, Any], now: datetime) -> Swept:
    return await _swept(session, "tiers", func.memory.sweep_tiers(*_given(batch, rules), now, batch.dry))


async def decay_links(session: AsyncSession, agent_id: str | None, most: int, now: datetime) -> int:
    """How many links have lost confidence; fewer than `most`: those were all that are due."""
    decay = func.memory.decay_links(cast(agent_id, Text), most, now)
    return int((await session.execute(select(decay))).scalar_one())


def _given(batch: Batch, rules: Mapping[str, Any]) -> tuple[Any, ...]:
    after = cast(list(batch.after), ARRAY(BigInteger))
    return cast(batch.agent_id, Text), after, batch.most, batch.changes, cast(dict(rules), JSONB)


async def _swept(session: AsyncSession, sweep: str, call: Any) -> Swept:
    names = ("last", "changed", "examples")
    row = (await session.execute(select(call.table_valued(*names)))).one()
    examples = () if row.examples is None else _moved(sweep, row.examples)
    return Swept(None if row.last is None else tuple(row.last), row.changed, examples)


def _moved(sweep: str, examples: Any) -> tuple[Moved, ...]:
    told = json.loads(examples) if isinstance(examples, str) else examples
    return tuple(
        Moved(
            sweep=sweep,
            agent_id=one["agent_id"],
            observation_id=observation_id(one["scope_id"], one["seq"]),
            was=one["was"],
            becomes=one["becomes"],
        )
        for one in told
    )
