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
from memory_sql.db.repositories.sweeps import BEGINNING, Batch, Place, Swept
from memory_sql.domain.results import MaintainResult, Moved
from memory_sql.lifecycle import archival, expiry, links, stages, tiers

LOOKED_AT_ONCE = 2_000  # most observations that one transaction reads, which locks nothing
CHANGED_AT_ONCE = 100  # and of which it changes so many, under locks; or maintenance_batch, if that is less
LOOKS = 4  # times as many are read as may change, while most of them do
EXAMPLES = 20  # of each sweep

Step = Callable[..., Awaitable[Swept]]
Places = dict[tuple[str, str | None], Place]
"""Where a pass goes on that was cut short by its limit, by its sweep and agent (None: all)."""
CHANGES: Mapping[Why, tuple[str, str]] = {
    "speculative": ("active", "evicted"),
    "expired": ("active", "archived"),
    "resolved": ("archived", "evicted"),
}
"""What expiry makes of a status, by the reason."""


class Done(NamedTuple):
    """How many observations changed, the first of them, and after which it goes on; None: those were all."""

    changed: int = 0
    examples: tuple[Moved, ...] = ()
    after: Place | None = None

    @property
    def is_whole(self) -> bool:
        return self.after is None


@dataclass(frozen=True, slots=True)
class Sweeps:
    """Their order makes no difference: each leaves alone what the others decide."""

    _database: Database
    _settings: Settings
    _now: Callable[[], datetime]
    _places: Places

    async def expire(self, agent_id: str | None, most: int) -> Done:
        """Takes out of use what has expired."""
        return await self._go_on("expiry", expiry.sweep, agent_id, most)

    async def sweep(self, done: MaintainResult, agent_id: str | None, most: int) -> MaintainResult:
        """`done` with what those sweeps have changed that are on."""
        if self._settings.link_decay:
            done = await self._decay(done, agent_id, most)
        if not (self._settings.lifecycle or self._settings.archival or self._settings.tiering):
            return done
        moved = await self._go_on("stages", stages.sweep, agent_id, most) if self._settings.lifecycle else Done()
        archived = await self._go_on("archival", archival.sweep, agent_id, most) if self._settings.archival else Done()
        tiered = await self._go_on("tiers", tiers.sweep, agent_id, most) if self._settings.tiering else Done()
        complete = done.complete and moved.is_whole and archived.is_whole and tiered.is_whole
        changed = {"stages": moved.changed, "archived": archived.changed, "tiers": tiered.changed}
        return done.model_copy(update={**changed, "complete": complete})

    async def _decay(self, done: MaintainResult, agent_id: str | None, most: int) -> MaintainResult:
        """Of links, those first that have been due longest."""
        now, count, at_once = self._now(), 0, min(self._settings.maintenance_batch, most)
        while count < most:
            step = partial(links.sweep, agent_id=agent_id, most=most - count, now=now, settings=self._settings)
            changed = await self._database.write(step, principal=service(agent_id))
            count += changed
            if changed < at_once:
                break
        return done.model_copy(update={"links": count, "complete": done.complete and count < most})

    async def preview(self, agent_id: str | None, most: int, at: datetime) -> MaintainResult:
        """What all sweeps would change at that time, each by itself."""
        batch = Batch(agent_id, BEGINNING, 0, 0, dry=True)
        moved = await self._through(stages.sweep, batch, most, lambda: at)
        archived = await self._through(archival.sweep, batch, most, lambda: at)
        tiered = await self._through(tiers.sweep, batch, most, lambda: at)
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

    async def _go_on(self, name: str, step: Step, agent_id: str | None, most: int) -> Done:
        """From where the pass before was cut short, else from the first."""
        after = self._places.pop((name, agent_id), BEGINNING)
        done = await self._through(step, Batch(agent_id, after, 0, 0), most, self._now)
        if done.after is not None:
            self._places[name, agent_id] = done.after
        return done

    async def _through(self, step: Step, batch: Batch, most: int, now: Callable[[], datetime]) -> Done:
        """Batch by batch from `batch` on, each at its own time, until `most` have changed."""
        at_once = LOOKED_AT_ONCE if batch.dry else min(CHANGED_AT_ONCE, self._settings.maintenance_batch)
        looks, done = LOOKED_AT_ONCE, Done(after=batch.after)
        while done.after is not None and done.changed < most:
            batch = batch._replace(after=done.after, most=looks, changes=min(at_once, most - done.changed))
            swept = await self._database.write(
                partial(step, batch=batch, settings=self._settings, now=now()), principal=service(batch.agent_id)
            )
            done = Done(done.changed + swept.changed, (done.examples + swept.examples)[:EXAMPLES], swept.last)
            looks = LOOKED_AT_ONCE if swept.changed < batch.changes else min(LOOKED_AT_ONCE, LOOKS * at_once)
        return done


def _moved(one: Expiring) -> Moved:
    was, becomes = CHANGES[one.why]
    return Moved(sweep="expiry", agent_id=one.agent_id, observation_id=one.id, was=was, becomes=becomes)
