"""The sweeps of maintenance over observations: batch by batch, each in a transaction of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import NamedTuple

from memory_sql.config import Settings
from memory_sql.db import Database
from memory_sql.db.principals import service
from memory_sql.db.repositories.expiry import Expiring, Why
from memory_sql.db.repositories.sweeps import BEGINNING, Batch, Swept
from memory_sql.domain.results import MaintainResult, Moved
from memory_sql.lifecycle import archival, expiry, stages, tiers

LOOKED_AT_ONCE = 2_000  # observations of one transaction
TIERED_AT_ONCE = 500  # another tier is another place in the indexes of words and vectors, while the scope is locked
EXAMPLES = 20  # of each sweep

Step = Callable[..., Awaitable[Swept]]
CHANGES: Mapping[Why, tuple[str, str]] = {
    "speculative": ("active", "evicted"),
    "expired": ("active", "archived"),
    "resolved": ("archived", "evicted"),
}
"""What expiry makes of a status, by the reason."""


class Done(NamedTuple):
    """How many observations changed, the first of them, and whether those were all."""

    changed: int = 0
    examples: tuple[Moved, ...] = ()
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Their order makes no difference: each leaves alone what the other decides."""

    _database: Database
    _settings: Settings
    _now: Callable[[], datetime]

    async def sweep(self, done: MaintainResult, agent_id: str | None, most: int) -> MaintainResult:
        """`done` with what those sweeps have changed that are on."""
        if not (self._settings.lifecycle or self._settings.archival or self._settings.tiering):
            return done
        now = self._now()
        moved = await self._through(stages.sweep, agent_id, most, now) if self._settings.lifecycle else Done()
        archived = await self._through(archival.sweep, agent_id, most, now) if self._settings.archival else Done()
        tiered = (
            await self._through(tiers.sweep, agent_id, most, now, at_once=TIERED_AT_ONCE)
            if self._settings.tiering
            else Done()
        )
        complete = done.complete and moved.is_whole and archived.is_whole and tiered.is_whole
        changed = {"stages": moved.changed, "archived": archived.changed, "tiers": tiered.changed}
        return done.model_copy(update={**changed, "complete": complete})

    async def preview(self, agent_id: str | None, most: int, at: datetime) -> MaintainResult:
        """What all sweeps would change at that time, each by itself."""
        moved = await self._through(stages.sweep, agent_id, most, at, dry=True)
        archived = await self._through(archival.sweep, agent_id, most, at, dry=True)
        tiered = await self._through(tiers.sweep, agent_id, most, at, dry=True)
        counts, first = await self._database.write(
            lambda unit: expiry.due(unit, agent_id, self._settings, at, EXAMPLES), principal=service(agent_id)
        )
        return MaintainResult(
            messages=0,
            expired=sum(counts.values()),
            stages=moved.changed,
            archived=archived.changed,
            tiers=tiered.changed,
            examples=(*moved.examples, *archived.examples, *tiered.examples, *map(_moved, first)),
            dry_run=True,
            complete=moved.is_whole and archived.is_whole and tiered.is_whole,
        )

    async def _through(
        self,
        step: Step,
        agent_id: str | None,
        most: int,
        now: datetime,
        *,
        dry: bool = False,
        at_once: int | None = None,
    ) -> Done:
        at_once = at_once or LOOKED_AT_ONCE
        changed, examples, after, looked, size = 0, tuple[Moved, ...](), BEGINNING, at_once, at_once
        while changed < most and looked == size:
            size = min(at_once, most - changed)
            batch = Batch(agent_id, after, size, dry)
            swept = await self._database.write(
                partial(step, batch=batch, settings=self._settings, now=now), principal=service(agent_id)
            )
            changed, looked, after = changed + swept.changed, swept.looked, swept.last or after
            examples = (examples + swept.examples)[:EXAMPLES] if dry else ()
        return Done(changed, examples, looked < size)


def _moved(one: Expiring) -> Moved:
    was, becomes = CHANGES[one.why]
    return Moved(sweep="expiry", agent_id=one.agent_id, observation_id=one.id, was=was, becomes=becomes)
