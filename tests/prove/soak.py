"""A long life of everything at once, in which nothing may grow.

    python -m tests.prove.soak --embedded DIR --minutes 30 [--seed 7]

It is the life of `concurrent_life`, round after round, on a Postgres whose clock jumps ahead for good, and back for a moment.
Beside it there stay a worker on a machine with a clock of its own, and a `memory-sql serve`, which visitors reach by HTTP and
MCP; another server is stopped and started again and again. `verify` runs each minute and after each round, when all that
`judging` knows is checked. Then is measured: the memory of the server and the worker, what the database keeps open, and the
share of dead rows. In the last third of the time nothing may be a tenth above what it was in the second. Prints each round
and each finding; exits with 1 if there is one. Without libfaketime (Debian's faketime) the clocks stay as they are.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import astuple, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import text

from memory_sql import embedded
from memory_sql.db import migrate
from memory_sql.db.principals import SERVICE
from memory_sql.memory import Memory
from memory_sql.resources.clock import COMPARE_SECONDS
from tests.prove.concurrent_life.__main__ import QUICK, Life, environment, stop_at_once, worker
from tests.prove.concurrent_life.clients import Client
from tests.prove.concurrent_life.doors import doors
from tests.prove.concurrent_life.ledger import TOKEN
from tests.prove.concurrent_life.liar import liar
from tests.prove.concurrent_life.nursery import Nursery, nursery
from tests.prove.concurrent_life.visiting import SERVED, Servers, Visitor
from tests.prove.models import serving as serving_model
from tests.server.processes import memory_kib, serving

FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
ROUNDS_BETWEEN_STOPS = 5
VISITORS, VERIFY_SECONDS = 4, 60.0
JUMP_SECONDS = 25.0, 2 * COMPARE_SECONDS  # the least, and the most, between jumps
AHEAD_SECONDS = 140  # two such jumps stay below the five minutes by which clocks may differ
BACK_SECONDS = 20  # so much longer waits a statement for a lock, as Postgres goes by its clock
MACHINE_SECONDS = 86_400
LONG_SECONDS = 30.0
MOST_GROWTH = 1.1
MOST_DEAD = 0.2
OPEN = """
    SELECT count(*) FILTER (WHERE datname = current_database()) AS connections,
           count(*) FILTER (WHERE state = 'idle in transaction'
                            AND state_change < clock_timestamp() - make_interval(secs => :long)) AS idle,
           (SELECT count(*) FROM pg_locks l WHERE l.pid <> pg_backend_pid() AND NOT l.granted) AS waiting
    FROM pg_stat_activity WHERE backend_type = 'client backend'
"""
DEAD = """
    SELECT relname, n_dead_tup::float8 / greatest(n_live_tup, 1) FROM pg_stat_user_tables
    WHERE schemaname = 'memory' AND n_live_tup > 1000 ORDER BY 2 DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """`idle`: transactions that nobody ends. `waiting`: for locks. `dead`: by live rows, in the worst table."""

    minute: float
    server_kib: int
    worker_kib: int
    connections: int
    idle: int
    waiting: int
    dead: float


class Clock:
    """What a process that was started with `variables` takes for the time, and its children."""

    def __init__(self, file: Path) -> None:
        self.file, self.ahead = file, 0
        self.jump(0)

    def jump(self, seconds: int) -> None:
        """From where it is for good; the file is there at any moment."""
        self.ahead += seconds
        new = self.file.with_suffix(".new")
        new.write_text(f"{self.ahead:+d}\n")
        new.chmod(0o644)
        new.replace(self.file)

    @property
    def variables(self) -> dict[str, str]:
        if FAKETIME is None:
            return {}
        return {
            "LD_PRELOAD": str(FAKETIME),
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_CACHE_DURATION": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }


@contextmanager
def variables(given: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in given}
    os.environ |= given
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class Soak(Life):
    """`steady`: the worker that stays. `clocks`: the database's and the worker's."""

    servers: Servers
    steady: subprocess.Popen[bytes]

    def __init__(
        self, url: str, seed: int, workers: Nursery, stop: Callable[[], None], clocks: Sequence[Clock]
    ) -> None:
        super().__init__(url, seed, workers, stop)
        self.clocks, self.samples = clocks, list[Sample]()
        self.world.unjudged = frozenset({"no_transaction_idles"})  # by a clock that has just jumped

    async def soak(self, minutes: float, operations: int) -> None:
        began = time.monotonic()
        async with AsyncExitStack() as stack:
            memory, ways = await stack.enter_async_context(doors(self.world, self.url, self.settings))
            steady = await stack.enter_async_context(serving(self.url, *SERVED, MEMORY_SQL_LLM="openai"))
            self.servers = Servers(self.world, self.url, steady)
            key = await memory.keys.create("visitors", rights=["read", "write", "forget"])
            clients = [Client(self.world, way, self.random.randrange(10**9)) for way in (*ways, *ways[:2])]
            own = Client(self.world, memory, self.random.randrange(10**9))
            visitors = [Visitor(self.world, memory, n, self.servers, key.secret) for n in range(VISITORS)]
            n = 0
            while (minute := (time.monotonic() - began) / 60) < minutes and not self.world.findings:
                beside = [visitor.stay() for visitor in visitors]
                beside += [self.servers.keep_restarting(self.random), self.keep_verifying(own), self.keep_jumping()]
                stops = int(n % ROUNDS_BETWEEN_STOPS == ROUNDS_BETWEEN_STOPS - 1)
                await self.beside(beside, self.round(memory, clients, operations, stops))
                await self.rest(memory, own)
                self.listen()
                self.samples.append(await self.sample(memory, minute))
                print(*astuple(self.samples[-1]), flush=True)
                n += 1
        if self.steady.poll() is not None:
            self.world.found("the worker that was to stay has ended")

    def listen(self) -> None:
        """No server quotes what it was told."""
        steady = self.servers.steady
        if said := TOKEN.findall("\n".join((*steady.out, *steady.err))):
            self.world.found(f"the server's log quotes {said[:5]}")

    async def beside(self, running: Sequence[Any], whole: Any) -> None:
        """Until `whole` is done. What fails beside it is something found."""
        tasks = [asyncio.create_task(one) for one in running]
        try:
            await whole
        finally:
            for task in tasks:
                task.cancel()
            for ended in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(ended, Exception):
                    self.world.found(f"beside, {type(ended).__name__}: {ended}")

    async def keep_verifying(self, client: Client) -> None:
        while True:
            await client.do("verify")
            await asyncio.sleep(VERIFY_SECONDS)

    async def keep_jumping(self) -> None:
        """The database's clock never stays behind: what was put off by then would wait as long."""
        database, machine = self.clocks
        while FAKETIME is not None:
            await asyncio.sleep(self.random.uniform(*JUMP_SECONDS))
            machine.jump(self.random.randrange(-MACHINE_SECONDS, MACHINE_SECONDS))
            if self.random.randrange(2):
                database.jump(self.random.randrange(AHEAD_SECONDS))
            else:
                back = self.random.randrange(BACK_SECONDS)
                database.jump(-back)
                try:
                    await asyncio.sleep(self.random.uniform(1, 5))
                finally:
                    database.jump(back)
            self.world.did["clock jumped"] += 1

    async def sample(self, memory: Memory, minute: float) -> Sample:
        async with memory.database.transaction(principal=SERVICE) as unit:
            open_now = (await unit.execute(text(OPEN), {"long": LONG_SECONDS})).one()
            dead = (await unit.execute(text(DEAD))).first()
        share = 0.0 if dead is None else round(dead[1], 2)
        found = Sample(
            minute=round(minute, 1),
            server_kib=self.servers.steady.memory_kib(),
            worker_kib=memory_kib(self.steady.pid),
            **open_now._mapping,
            dead=share,
        )
        if found.idle:
            self.world.found(f"a transaction stays open: {found}")
        return found

    def growth(self) -> dict[str, float]:
        """The last third by the second, by what may not grow."""
        third = len(self.samples) // 3
        if not third:
            return {}
        return {
            name: statistics.median(getattr(one, name) for one in self.samples[-third:])
            / max(1, statistics.median(getattr(one, name) for one in self.samples[third : 2 * third]))
            for name in ("server_kib", "worker_kib", "connections")
        }


def live(seed: int, folder: Path, data: Path, minutes: float, operations: int) -> Soak:
    with ExitStack() as stack:
        folder.chmod(0o755)  # the server of the database, perhaps another user, reads its clock
        clocks = [Clock(folder / "database"), Clock(folder / "machine")]

        def start() -> str:
            with variables(clocks[0].variables):
                return stack.enter_context(embedded.acquire(data, options=QUICK)).url

        def stop_database() -> None:
            stop_at_once(data)
            start()

        url = start()
        migrate.upgrade(url)
        told = folder / "lies"
        told.touch()
        os.environ |= environment(stack.enter_context(serving_model(seed, partial(liar, told))), folder / "journal")
        workers = stack.enter_context(nursery(folder, lambda: worker(url)))
        soak = Soak(url, seed, workers, stop_database, clocks)
        command = [
            sys.executable,
            "-m",
            "memory_sql.cli",
            "worker",
            "--url",
            url,
            "--poll",
            "0.1",
            "--concurrency",
            "2",
        ]
        with (folder / "worker-steady.log").open("ab") as log:
            soak.steady = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | clocks[1].variables)
        try:
            asyncio.run(soak.soak(minutes, operations))
        finally:
            soak.steady.terminate()
            soak.steady.wait()
    return soak


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--embedded", type=Path, required=True)
    arguments.add_argument("--minutes", type=float, default=30.0)
    arguments.add_argument("--operations", type=int, default=100, help="of a round, beside what visitors do")
    arguments.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = arguments.parse_args()
    print(f"seed {given.seed}{'' if FAKETIME else '; clocks stay: there is no libfaketime'}", flush=True)
    with tempfile.TemporaryDirectory(prefix="memory-sql-soak-") as folder:
        soak = live(given.seed, Path(folder), given.embedded, given.minutes, given.operations)
    growth, findings, did = soak.growth(), soak.world.findings, soak.world.did
    findings += [f"{name} has grown to {by:.2f}" for name, by in growth.items() if by > MOST_GROWTH]
    if soak.samples and (dead := statistics.median(one.dead for one in soak.samples)) > MOST_DEAD:
        findings.append(f"dead rows: {dead:.2f} of those in use")
    print(", ".join(f"{name} {count}" for name, count in did.most_common()))
    print(", ".join(f"{name} {count}" for name, count in soak.world.refused.most_common()))
    print(", ".join(f"{name} × {by:.2f}" for name, by in growth.items()))
    print(
        f"{len(soak.samples)} rounds, {soak.kills} kills, {soak.stops} stops, {soak.servers.restarts} restarts of a server"
    )
    print("\n".join(findings) or "nothing lost, doubled, left or grown")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
