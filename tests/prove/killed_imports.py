"""An import whose process is killed at random again and again, and restarted: the result is the same.

    python -m tests.prove.killed_imports --url postgresql://… --kills 100 --seed 7

The process is `memory-sql import mongo`, including the start of the interpreter. Most kills come while it stores (an agent's
transaction is open), others at any time. Once it has finished, the result is compared with that of an undisturbed import, by
a hash over references, texts, states and order, and by its accounts. Then the import is rolled back and started again, until
there were so many kills, and at least one of them while it stored (about half of them miss it, so three may all miss it).
Prints how many kills came while it stored; exits with 1 for any difference.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from memory_sql.config import Settings
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.database import rows
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.legacy.stored import fingerprint

STORING = """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid() AND xact_start IS NOT NULL AND query LIKE '%import_%'
"""
AT_ANY_TIME = 0.25  # of the kills; the others while it stores
PATIENCE_SECONDS = 120
MOST_MISSES = 30


@dataclass(slots=True)
class Killing:
    """`whole_seconds` and `storing_seconds`: how long an import takes that nobody kills."""

    memory: Memory
    command: list[str]
    chance: random.Random
    wanted: int
    whole_seconds: float = 0.0
    storing_seconds: float = 0.0
    kills: int = 0
    while_storing: int = 0
    imports: int = 0
    problems: list[str] = field(default_factory=list)

    async def undisturbed(self) -> None:
        began = time.monotonic()
        process = await self._start()
        await self._until_storing(process)
        storing = time.monotonic()
        await self._ended(process)
        self.whole_seconds, self.storing_seconds = time.monotonic() - began, time.monotonic() - storing

    @property
    def is_enough(self) -> bool:
        return self.kills >= self.wanted and (self.while_storing > 0 or self.kills >= self.wanted + MOST_MISSES)

    async def until_it_comes_through(self) -> None:
        """With as many kills as it takes, and no more. One that comes when all is stored already is one as well."""
        while not self.is_enough:
            process = await self._start()
            await self._until_some_moment(process)
            is_storing = await self._is_storing()
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
            if await process.wait() != -signal.SIGKILL:
                break
            self.kills, self.while_storing = self.kills + 1, self.while_storing + is_storing
            if (await self.memory.imports.list())[-1].state == "finished":
                self.imports += 1
                return
        else:
            process = await self._start()
        await self._ended(process)

    async def _until_some_moment(self, process: asyncio.subprocess.Process) -> None:
        if self.chance.random() < AT_ANY_TIME:
            await self._wait(process, self.chance.uniform(0, self.whole_seconds))
        else:
            await self._until_storing(process)
            await self._wait(process, self.chance.uniform(0, self.storing_seconds))

    async def _start(self) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*self.command, stdout=asyncio.subprocess.DEVNULL, stderr=pipe)

    async def _wait(self, process: asyncio.subprocess.Process, seconds: float) -> None:
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            return

    async def _until_storing(self, process: asyncio.subprocess.Process) -> None:
        while process.returncode is None and not await self._is_storing():
            await self._wait(process, 0.03)

    async def _is_storing(self) -> bool:
        ((sessions,),) = await rows(self.memory, STORING)
        return bool(sessions)

    async def _ended(self, process: asyncio.subprocess.Process) -> None:
        _, error = await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
        self.imports += 1
        if process.returncode:
            self.problems.append(f"it ended with {process.returncode}: {error.decode()[-500:]}")


async def prove(url: str, folder: Path, kills: int, agents: int, seed: int) -> list[str]:
    dump(folder / "dump", Legacy(agents=agents).collections())
    command = [sys.executable, "-W", "ignore", "-m", "memory_sql.cli", "import", "mongo", "--url", url]
    command += ["--dump", str(folder / "dump"), "--key-file", str(folder / "key")]
    async with Memory(url, Offline(), Settings(url=url, llm="offline")) as memory:
        killing = Killing(memory, command, random.Random(seed), kills)
        await killing.undisturbed()
        wanted = await result(memory)
        print(
            f"undisturbed: {killing.whole_seconds:.1f} s, of which it stores {killing.storing_seconds:.1f} s; {wanted[0]}"
        )
        while not (killing.is_enough or killing.problems):
            await memory.imports.rollback((await memory.imports.list())[-1].run)
            await killing.until_it_comes_through()
            killing.problems += differing(wanted, await result(memory))
            killing.problems += [f"{v.invariant}: {v.key}" for v in await memory.admin.verify()]
        print(
            f"{killing.kills} kills, {killing.while_storing} while it stored; {killing.imports - 1} times it came through"
        )
    if not killing.while_storing:
        killing.problems.append("no kill came while it stored: that proves nothing")
    return killing.problems


async def result(memory: Memory) -> tuple[str, object]:
    return await fingerprint(memory), (await memory.imports.list())[-1].accounts


def differing(wanted: tuple[str, object], found: tuple[str, object]) -> list[str]:
    what = ("what stands there differs", "the accounts differ")
    return [f"{said}: {b}" for said, a, b in zip(what, wanted, found, strict=True) if a != b]


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--url", required=True)
    asked.add_argument("--kills", type=int, default=100)
    asked.add_argument("--agents", type=int, default=10, help="besides one for each anomaly")
    asked.add_argument(
        "--seed", type=int, default=int(os.environ.get("MEMORY_SQL_SEED", "0")) or random.randrange(10**6)
    )
    given = asked.parse_args()
    print(f"seed {given.seed}")
    with tempfile.TemporaryDirectory() as folder:
        problems = asyncio.run(prove(given.url, Path(folder), given.kills, given.agents, given.seed))
    print("\n".join(problems) or "the same each time")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
