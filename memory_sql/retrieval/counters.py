"""What retrieval did, gathered in memory and written now and then, and what it says of how well words do.

Reads never write: what they did is counted here, and a task of its own writes it when enough has gathered or some time
has passed, and at the end. What a crash takes with it is missing from the counts, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime

from memory_sql.config import VECTORS_MILLISECONDS, VECTORS_WITHOUT_HIT
from memory_sql.domain.reading import Asked, RetrievalStats, Retrieved, Surface
from memory_sql.errors import MemorySQLError, ReadOnlyError

log = logging.getLogger("memory_sql")

Key = tuple[str, date, Surface, str]


@dataclass(slots=True)
class _Sum:
    """Of queries that came for the same reason. Of those that came for none nothing but their number counts."""

    queries: int = 0
    without_hit: int = 0
    seconds: float = 0.0
    slowest_seconds: float = 0.0

    def add_searched(self, hits: int, seconds: float) -> None:
        self.without_hit += hits == 0
        self.seconds += seconds
        self.slowest_seconds = max(self.slowest_seconds, seconds)


class Counters:
    """`write` adds what it is given to what the database holds, and may raise what `errors` names."""

    def __init__(
        self,
        write: Callable[[Sequence[Asked], Sequence[Retrieved]], Awaitable[None]],
        *,
        after_queries: int,
        after_seconds: float,
    ) -> None:
        self._write = write
        self._after_queries = after_queries
        self._after_seconds = after_seconds
        self._counted: dict[Key, _Sum] = {}
        self._shown: list[tuple[str, date, Surface, Sequence[str]]] = []
        self._gathered = 0
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._read_only = self._has_failed = False

    def count(
        self,
        agent_id: str,
        now: datetime,
        surface: Surface,
        reason: str | None,
        *,
        hits: int = 0,
        seconds: float = 0.0,
        shown: Sequence[str] = (),
    ) -> None:
        """One query; `reason` None: it did not fire. `shown`: the ids of the observations found that it returned."""
        if self._read_only:
            return
        day = now.date()
        counted = self._counted.setdefault((agent_id, day, surface, reason or "none"), _Sum())
        counted.queries += 1
        if reason is not None:
            counted.add_searched(hits, seconds)
        if shown:
            self._shown.append((agent_id, day, surface, shown))  # added up when it is written
        self._gathered += 1
        if self._gathered >= self._after_queries:
            self._begin()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._after_seconds, self._begin)

    def _begin(self) -> None:
        """Writes on a task of its own, one at a time; what comes meanwhile waits for the next."""
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        asked = [Asked(*key, **asdict(counted)) for key, counted in self._counted.items()]
        times = Counter((agent, day, surface, id) for agent, day, surface, ids in self._shown for id in ids)
        retrieved = [Retrieved(*key, times=n) for key, n in times.items()]
        self._counted, self._shown, self._gathered, self._timer = {}, [], 0, None
        if not asked:
            return
        try:
            await self._write(asked, retrieved)
        except ReadOnlyError:
            self._read_only = True  # a replica: whoever asks the primary counts for itself
            log.info("the database is read-only: queries aren't counted")
        except MemorySQLError as error:
            if not self._has_failed:
                log.warning("the counts of %s queries were lost: %s", sum(one.queries for one in asked), error)
            self._has_failed = True

    async def close(self) -> None:
        """Waits for what is being written, and writes the rest."""
        if self._task is not None:
            await self._task
        await self._flush()


def words_fall_short(stats: RetrievalStats) -> bool:
    """Whether searching by words was slow, or found nothing too often (R124, R138)."""
    if stats.mean_ms is None:
        return False
    return stats.mean_ms > VECTORS_MILLISECONDS or stats.without_hit > VECTORS_WITHOUT_HIT * stats.fired
