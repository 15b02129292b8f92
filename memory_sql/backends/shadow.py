"""Runs calls beside the host's answer: never delaying it, never raising. Counts by agent, and logs no remembered text."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from pydantic import Field

from memory_sql.backends.differences import ContextDifference, hashes
from memory_sql.domain.ids import Value
from memory_sql.errors import MemorySQLError

log = logging.getLogger("memory_sql")


class ShadowCounts(Value):
    """What an agent's shadow did in this process since it started.

    `calls`: those begun. `dropped`: those not begun because too many were running. `failed`: failures by the error's
    name. `contexts`: those compared; `differing`: those of them that weren't the same. `common`, `only_legacy` and
    `only_sql` add up their statements.
    """

    calls: int = 0
    dropped: int = 0
    failed: dict[str, int] = Field(default_factory=dict)
    contexts: int = 0
    differing: int = 0
    common: int = 0
    only_legacy: int = 0
    only_sql: int = 0

    @property
    def difference_rate(self) -> float | None:
        """The share of the contexts that differed; None: none was compared."""
        return self.differing / self.contexts if self.contexts else None

    @property
    def statement_rate(self) -> float | None:
        """The share of all statements that only one side made; None: there were none."""
        one_side = self.only_legacy + self.only_sql
        return one_side / (one_side + self.common) if one_side + self.common else None


@dataclass(slots=True)
class _Tally:
    counted: Counter[str] = field(default_factory=Counter)
    failed: Counter[str] = field(default_factory=Counter)

    def add(self, difference: ContextDifference) -> None:
        self.counted.update(
            contexts=1,
            differing=int(not difference.is_none),
            common=difference.common,
            only_legacy=len(difference.only_legacy),
            only_sql=len(difference.only_sql),
        )

    @property
    def counts(self) -> ShadowCounts:
        return ShadowCounts(failed=dict(self.failed), **self.counted)


class Shadow:
    """Runs at most `most` calls at once, each for at most `seconds`. Calls of one session run one after another, in order.

    So the contexts compared include the results of the session's earlier calls on both sides.
    """

    def __init__(self, *, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._tallies: dict[str, _Tally] = {}
        self._running: dict[asyncio.Task[None], tuple[str, str, str]] = {}
        self._last: dict[tuple[str, str], asyncio.Task[None]] = {}

    def start(self, agent_id: str, call: str, work: Callable[[], Awaitable[object]], session: str = "") -> None:
        """Returns at once. `work` begins when the caller next awaits something."""
        tally = self._of(agent_id)
        if len(self._running) >= self._most:
            tally.counted["dropped"] += 1
            log.warning("the shadow of agent %s skips %s: %s calls are in progress", agent_id, call, self._most)
            return
        tally.counted["calls"] += 1
        place = (agent_id, session)
        task = asyncio.get_running_loop().create_task(self._in_turn(work, self._last.get(place)))
        self._running[task], self._last[place] = (agent_id, session, call), task
        task.add_done_callback(self._ended)

    async def _in_turn(self, work: Callable[[], Awaitable[object]], before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        async with asyncio.timeout(self._seconds):
            await work()

    def _ended(self, task: asyncio.Task[None]) -> None:
        agent_id, session, call = self._running.pop(task)
        if self._last[agent_id, session] is task:
            del self._last[agent_id, session]
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None:
            self._of(agent_id).failed[type(error).__name__] += 1
            why = f": {error}" if isinstance(error, MemorySQLError) else ""  # other errors may quote what was said
            log.warning("the shadow of agent %s failed at %s (%s%s)", agent_id, call, type(error).__name__, why)

    def compared(self, agent_id: str, difference: ContextDifference) -> None:
        tally = self._of(agent_id)
        tally.add(difference)
        if not difference.is_none:
            log.info(
                "contexts of agent %s differ: %s statements in both, %s in legacy alone (%s), %s in sql alone (%s);"
                " %s of %s contexts so far",
                agent_id,
                difference.common,
                len(difference.only_legacy),
                hashes(difference.only_legacy),
                len(difference.only_sql),
                hashes(difference.only_sql),
                tally.counted["differing"],
                tally.counted["contexts"],
            )

    def counts(self, agent_id: str) -> ShadowCounts:
        return self._tallies[agent_id].counts if agent_id in self._tallies else ShadowCounts()

    async def settle(self) -> None:
        """Waits for the calls that are running."""
        while self._running:
            await asyncio.wait(list(self._running))

    def _of(self, agent_id: str) -> _Tally:
        return self._tallies.setdefault(agent_id, _Tally())
