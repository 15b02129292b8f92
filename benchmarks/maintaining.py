"""What a maintenance of many observations takes, and what others notice of it while it runs.

A process of its own maintains a database of two years, with all sweeps on: once, again, and as of a week later; then it says
by a dry run what a year would bring. Meanwhile somebody reads and somebody adds, half of it for the largest scope.
The maintenance stops between two transactions for a second of each three, so that both are compared within one run.
`python -m benchmarks.maintaining --observations 1000000`
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import event

from benchmarks.aged import AGENTS, Aged, fill
from benchmarks.crowd import SEED, words
from benchmarks.recall.metrics import percentile
from benchmarks.server import fresh_database, plain_url
from memory_sql.config import Settings
from memory_sql.db.engine import Database
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

OBSERVATIONS = 100_000
ALL = 10**9  # more than there are
SETTINGS = Settings(
    llm="offline", embedding="off", lifecycle=True, archival=True, keep_verbatim=True, commitment_days=90
)
WITH_SECONDS, WITHOUT_SECONDS = 2.0, 1.0
PAUSE_SECONDS = 0.01  # between two calls of the same client
LOOK_SECONDS = 0.02
_WAITING = """
    SELECT max(extract(epoch FROM clock_timestamp() - l.waitstart))::float8
    FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE NOT l.granted AND a.datname = current_database()
"""


@dataclass(slots=True)
class Told:
    """What the maintaining process says of itself. `parts`: seconds of each transaction, by its step. RSS in MB."""

    result: dict[str, Any]
    seconds: float
    statements: int
    parts: dict[str, list[float]]
    rss_before: float
    rss_peak: float


@dataclass(slots=True)
class Noticed:
    """What others noticed: milliseconds of each call, by its name and whether maintenance ran.

    `waited`: those of the longest wait for a lock, whoever waited for whom.
    """

    calls: dict[tuple[str, bool], list[float]] = field(default_factory=lambda: defaultdict(list))
    waited: float = 0.0
    is_running: bool = False


async def main(observations: int = OBSERVATIONS, *, statistics: bool = True) -> None:
    async with fresh_database() as url:
        started = time.perf_counter()
        there = await filled(url, observations, statistics=statistics)
        print(
            f"{there.observations:,} observations in {there.scopes:,} scopes, filled in {time.perf_counter() - started:.0f} s"
        )
        for name, days in (("the first time", 0), ("again", 0), ("a week later", 7)):
            await measured(url, name, there, days=days)
        await measured(url, "a dry run, a year later", there, days=365, dry=True)


async def filled(url: str, observations: int, *, statistics: bool) -> Aged:
    connection = await asyncpg.connect(plain_url(url))
    there = await fill(connection, observations)
    largest = await connection.fetchval("SELECT max(last_seq) FROM memory.scopes")
    await connection.execute(
        "UPDATE memory.agents SET settings = jsonb_build_object('retention', 'budget', 'store_items', $1::int)"
        " WHERE agent_id = 'bench0'",
        largest * 6 // 10,
    )
    if statistics:
        await connection.execute("VACUUM ANALYZE", timeout=None)
    await connection.close()
    return there


async def measured(url: str, name: str, there: Aged, *, days: int, dry: bool = False) -> None:
    noticed = Noticed()
    own, its = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=_maintain, args=(url, days, dry, its))
    async with Memory(url, Offline(), SETTINGS) as memory:
        await _once(memory, there)
        process.start()
        calls = (_read(memory, there, noticed), _add(memory, there, noticed), _look(url, noticed))
        others = [asyncio.create_task(call) for call in calls]
        told: Told = await _watched(own, noticed)
        for other in others:
            other.cancel()
            with suppress(asyncio.CancelledError):
                await other
    await asyncio.to_thread(process.join)
    print_told(name, told)
    print_noticed(noticed)


async def _watched(own: Connection, noticed: Noticed) -> Told:
    """Lets it run and stops it in turns, until it is done."""
    await asyncio.to_thread(own.recv)  # it is ready
    while True:
        for noticed.is_running, seconds in ((True, WITH_SECONDS), (False, WITHOUT_SECONDS)):
            own.send(noticed.is_running)
            if await asyncio.to_thread(own.poll, seconds):
                told: Told = own.recv()
                return told


# The process that maintains


def _maintain(url: str, days: int, dry: bool, channel: Connection) -> None:
    asyncio.run(_maintained(url, days, dry, channel))


async def _maintained(url: str, days: int, dry: bool, channel: Connection) -> None:
    def clock() -> datetime:
        return datetime.now(UTC) + timedelta(days=0 if dry else days)

    gate, statements = asyncio.Event(), Counter[str]()
    async with Memory(url, Offline(), SETTINGS, clock=clock) as memory:
        parts = _timed(memory, gate, statements)
        await memory.work.backlog()
        before = _rss("VmRSS")
        _begin_peak()
        channel.send(None)
        listening = asyncio.create_task(_listen(channel, gate))
        await gate.wait()
        statements.clear()
        at = datetime.now(UTC) + timedelta(days=days) if dry else None
        done = await memory.work.maintain(limit=ALL, dry_run=dry, at=at)
        told = Told(
            done.model_dump(exclude={"examples", "dry_run"}),
            sum(map(sum, parts.values())),
            statements.total(),
            dict(parts),
            before,
            _rss("VmHWM"),
        )
        listening.cancel()
    channel.send(told)


async def _listen(channel: Connection, gate: asyncio.Event) -> None:
    while True:
        if channel.poll():
            (gate.set if channel.recv() else gate.clear)()
        await asyncio.sleep(0.01)


def _timed(memory: Memory, gate: asyncio.Event, statements: Counter[str]) -> dict[str, list[float]]:
    """Each transaction waits for the gate, and its time is noted by the step that it carries out."""
    parts, write = defaultdict[str, list[float]](list), Database.write

    async def timed(self: Database, step: Callable[..., Awaitable[Any]], *given: Any, **named: Any) -> Any:
        await gate.wait()
        of = getattr(step, "func", step)
        started = time.perf_counter()
        try:
            return await write(self, step, *given, **named)
        finally:
            parts[f"{of.__module__.rpartition('.')[2]}.{of.__name__}"].append(time.perf_counter() - started)

    def count(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        statements[statement] += 1

    Database.write = timed  # type: ignore[method-assign]
    event.listen(memory.database.engine.sync_engine, "before_cursor_execute", count)
    return parts


def _begin_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _rss(name: str) -> float:
    """In MB, on Linux."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


# The others


def _whose(source: random.Random, there: Aged) -> Mapping[str, Any]:
    """Half of the time the user with the largest scope."""
    n = source.choice([0, source.randrange(there.scopes)])
    return {"agent_id": f"bench{n % AGENTS}", "user_id": f"u{n}"}


async def _once(memory: Memory, there: Aged) -> None:
    ignored, source = Noticed(), random.Random(SEED)
    for call in (*_reads(memory, source, there).items(), *_writes(memory, source, there).items()):
        await _call(*call, ignored)


async def _read(memory: Memory, there: Aged, noticed: Noticed) -> None:
    calls = _reads(memory, random.Random(SEED), there)
    while True:
        for call in calls.items():
            await _call(*call, noticed)


async def _add(memory: Memory, there: Aged, noticed: Noticed) -> None:
    calls = _writes(memory, random.Random(SEED), there)
    while True:
        for call in calls.items():
            await _call(*call, noticed)


async def _call(name: str, call: Callable[[], Awaitable[object]], noticed: Noticed) -> None:
    """Counts for what ran when it began."""
    started, ran = time.perf_counter(), noticed.is_running
    await call()
    noticed.calls[name, ran].append((time.perf_counter() - started) * 1000)
    await asyncio.sleep(PAUSE_SECONDS)


def _reads(memory: Memory, source: random.Random, there: Aged) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "search": lambda: memory.search(words(source, 3), **_whose(source, there)),
        "context": lambda: memory.context(**_whose(source, there), message=words(source, 3), retrieve=True),
    }


def _writes(memory: Memory, source: random.Random, there: Aged) -> dict[str, Callable[[], Awaitable[object]]]:
    def said() -> list[dict[str, str]]:
        return [{"role": "user", "content": words(source, 12)}, {"role": "assistant", "content": words(source, 12)}]

    return {
        "add": lambda: memory.add(said(), **_whose(source, there), conversation_id=f"n{source.randrange(10**9)}"),
        "observe": lambda: memory.observe(words(source, 12), **_whose(source, there)),
    }


async def _look(url: str, noticed: Noticed) -> None:
    """How long anybody waits for a lock."""
    connection = await asyncpg.connect(plain_url(url))
    try:
        while True:
            waits = await connection.fetchval(_WAITING)
            if noticed.is_running and waits is not None:
                noticed.waited = max(noticed.waited, waits * 1000)
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await connection.close()


def print_told(name: str, told: Told) -> None:
    longest = max((seconds for part in told.parts.values() for seconds in part), default=0.0)
    changed = ", ".join(f"{count:,} {what}" for what, count in told.result.items() if what != "complete" and count)
    print(f"\n{name}: {told.seconds:.0f} s, {told.statements:,} statements; {changed or 'nothing changed'}")
    print(f"  the process had {told.rss_before:.0f} MB, and {told.rss_peak:.0f} MB at most")
    print(f"  longest transaction {longest * 1000:.0f} ms")
    for part, seconds in told.parts.items():
        p50, most = percentile(seconds, 0.5) * 1000, max(seconds) * 1000
        print(f"    {part:26} {len(seconds):7,} times {sum(seconds):8.1f} s   p50 {p50:6.0f}   longest {most:6.0f} ms")


def print_noticed(noticed: Noticed) -> None:
    print(f"  longest wait for a lock {noticed.waited:.0f} ms, looked at every {LOOK_SECONDS * 1000:.0f} ms")
    for name in dict.fromkeys(name for name, _ in noticed.calls):
        without, beside = noticed.calls[name, False], noticed.calls[name, True]
        if without and beside:
            p50, p99 = (f"{percentile(beside, p):6.1f} / {percentile(without, p):6.1f}" for p in (0.5, 0.99))
            most = f"{max(beside):6.1f} / {max(without):6.1f}"
            print(
                f"    {name:8} with / without: p50 {p50}   p99 {p99}   longest {most} ms   of {len(beside):,}",
                flush=True,
            )


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.maintaining", description=__doc__)
    parser.add_argument("--observations", type=int, default=OBSERVATIONS)
    parser.add_argument("--no-statistics", action="store_true", help="the planner knows nothing of the tables at first")
    return parser.parse_args()


if __name__ == "__main__":
    options = arguments()
    asyncio.run(main(options.observations, statistics=not options.no_statistics))
