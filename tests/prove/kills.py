"""A busy life in which processes die: writers and workers are killed at random, and the database with them.

    python -m tests.prove.kills --url postgresql://… --kills 50 --seed 7
    python -m tests.prove.kills --embedded DIR --kills 1000 --crashes 50

Writers note each message after `add` has returned. The model makes one observation of each message, or is slow, fails or
answers nonsense one time in three. At the end the backlog drains, and then: every acknowledged message was formed exactly
once, every observation was absorbed at most once, `verify` finds nothing. Prints a summary; exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel
from sqlalchemy import text

from memory_sql import embedded
from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.errors import DatabaseError, UnavailableError
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.llm.tasks import ConsolidationTask, ExtractionTask
from memory_sql.memory import Memory

T = TypeVar("T", bound=BaseModel | str)

Role = Callable[[str, int, Path], Coroutine[Any, Any, None]]

WRITERS, WORKERS, SESSIONS = 4, 3, 12
SETTINGS = Settings(
    llm="offline",
    formation_messages=6,
    formation_min_messages=1,
    formation_cold_minutes=0.01,
    formation_window_messages=9,
    observation_max_items=50,
    consolidation_threshold=8,
    consolidation_min_ratio=0.0,
    consolidation_max_words=1_000_000,
    lease_seconds=1.0,
    retry_first_seconds=0.02,
    retry_longest_seconds=0.2,
    pool_size=3,
)


class Fickle:
    """Makes "fact <message>" of each message, slowly; one time in three something goes wrong."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    async def generate(self, request: Request[T]) -> Answer[T]:
        await asyncio.sleep(self._random.uniform(0, 0.06))
        match self._random.randrange(12):
            case 0 | 1:
                raise UnavailableError("timeout", "no answer")
            case 2 | 3:
                nonsense = "nonsense" if isinstance(request.material, ExtractionTask) else " "
                return Answer(read(nonsense, request.output), "")
        raw = self._answer(request)
        return Answer(read(raw, request.output), raw, Usage("fickle", 1, 1))

    def _answer(self, request: Request[Any]) -> str:
        if isinstance(request.material, ExtractionTask):
            items = [
                {"content": f"fact {t.text}", "scope": "individual", "sources": [t.n]} for t in request.material.turns
            ]
            return json.dumps({"observations": items})
        assert isinstance(request.material, ConsolidationTask)
        return "\n".join(
            filter(None, [request.material.current, *(item.text for item in request.material.observations)])
        )


async def write(url: str, seed: int, acknowledged: Path) -> None:
    chance = random.Random(seed)
    with acknowledged.open("a", buffering=1) as notes:
        async with Memory(url, Fickle(seed), SETTINGS) as memory:
            for n in range(1_000_000):
                names = [f"{seed}-{n}-{i}" for i in range(chance.randrange(1, 5))]
                said = [{"role": "user", "content": name, "id": name} for name in names]
                session = chance.randrange(SESSIONS)
                await memory.add(said, agent_id="a", user_id=f"u{session % 5}", session_id=f"s{session}")
                notes.write("".join(f"{name}\n" for name in names))
                await asyncio.sleep(chance.uniform(0, 0.1))


async def work(url: str, seed: int, _: Path) -> None:
    async with Memory(url, Fickle(seed), SETTINGS) as memory:
        while True:
            await memory.run_due(limit=4)
            await asyncio.sleep(0.02)


def child(role: Role, url: str, seed: int, notes: Path) -> int:
    """Forks a process that plays the role until it is killed; it starts again by itself when the database goes away."""
    pid = os.fork()
    if pid:
        return pid
    try:
        while True:
            try:
                asyncio.run(role(url, seed, notes))
            except DatabaseError:
                time.sleep(0.05)
                seed += 1_000_003  # ids of the unacknowledged attempt are not used again
    finally:  # never back into what the parent was doing
        traceback.print_exc()
        os._exit(3)


class Life:
    def __init__(self, url: str, folder: Path, seed: int) -> None:
        self.url, self.folder, self.random, self.seed = url, folder, random.Random(seed), seed * 1_000
        self.alive: dict[int, Role] = {}
        self.failures = 0

    def spawn(self, role: Role) -> None:
        self.seed += 1
        self.alive[child(role, self.url, self.seed, self.folder / f"notes-{self.seed}")] = role

    def kill(self, pid: int) -> Role:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        self.failures += os.WIFEXITED(status) and os.WEXITSTATUS(status) == 3
        return self.alive.pop(pid)

    def live(self, kills: int, crashes: int, crash: Callable[[], None]) -> None:
        roles: list[tuple[Role, int]] = [(write, WRITERS), (work, WORKERS)]
        for role, count in roles:
            for _ in range(count):
                self.spawn(role)
        when = set(self.random.sample(range(kills), min(crashes, kills)))
        for n in range(kills):
            time.sleep(self.random.expovariate(4.0))
            if n in when:
                crash()
            self.spawn(self.kill(self.random.choice(list(self.alive))))
        for pid, was in list(self.alive.items()):
            if was is write:
                self.kill(pid)

    def end(self) -> None:
        for pid in list(self.alive):
            self.kill(pid)

    def acknowledged(self) -> set[str]:
        return {line for notes in self.folder.glob("notes-*") for line in notes.read_text().splitlines()}


async def drain(url: str, seconds: float) -> None:
    """Revives what was given up until nothing is left to do: the workers go on meanwhile."""
    async with Memory(url, Fickle(0), SETTINGS) as memory:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for dead in await memory.dead_runs():
                await memory.retry(agent_id=dead.agent_id, run_id=dead.run_id)
            async with memory.database.transaction() as session:
                left = await session.execute(text(LEFT))
            if left.scalar_one() == 0:
                return
            await asyncio.sleep(0.2)


LEFT = """
    SELECT (SELECT count(*) FROM memory.sessions WHERE due_at IS NOT NULL OR unformed_messages > 0 OR lease_until > now())
         + (SELECT count(*) FROM memory.scopes WHERE due_at IS NOT NULL OR lease_until > now())
"""


async def judge(url: str, acknowledged: set[str]) -> list[str]:
    async with Memory(url, Fickle(0), SETTINGS) as memory:
        problems = [f"{v.invariant}: {v.key} {v.detail}" for v in await memory.verify()]
        async with memory.database.transaction() as session:
            facts = Counter((await session.scalars(text("SELECT substr(content, 6) FROM memory.observations"))).all())
            stored = set((await session.scalars(text("SELECT message_id FROM memory.messages"))).all())
            texts = (
                await session.scalars(text("SELECT consolidation FROM memory.scopes WHERE consolidation > ''"))
            ).all()
            left = (await session.execute(text(LEFT))).scalar_one()
    told = Counter(line[5:] for content in texts for line in content.splitlines())
    problems += [f"acknowledged and lost: {name}" for name in sorted(acknowledged - stored)[:5]]
    problems += [f"stored and not formed: {name}" for name in sorted(stored - set(facts))[:5]]
    problems += [f"formed {count} times: {name}" for name, count in facts.items() if count > 1][:5]
    problems += [f"told {count} times: {name}" for name, count in told.items() if count > 1][:5]
    problems += [f"told, but not known: {name}" for name in sorted(set(told) - set(facts))[:5]]
    problems += [f"the backlog does not drain: {left} left"] if left else []
    print(f"{len(acknowledged)} acknowledged, {len(stored)} stored, {len(facts)} formed, {len(told)} in texts")
    return problems


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url")
    arguments.add_argument("--embedded", type=Path)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--crashes", type=int, default=0, help="of the database; needs --embedded")
    arguments.add_argument(
        "--seed", type=int, default=int(os.environ.get("MEMORY_SQL_SEED", "0")) or random.randrange(10**6)
    )
    arguments.add_argument("--drain", type=float, default=120.0, help="seconds")
    given = arguments.parse_args()
    print(f"seed {given.seed}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = given.url or stack.enter_context(embedded.acquire(given.embedded)).url
        migrate.upgrade(url)

        def crash() -> None:
            """An immediate stop, without a checkpoint: the next start has to recover from the log."""
            pid = int((given.embedded / "cluster" / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGQUIT)
            while embedded.running(given.embedded):
                time.sleep(0.01)
            stack.enter_context(embedded.acquire(given.embedded))

        life = Life(url, folder, given.seed)
        try:
            life.live(given.kills, given.crashes, crash)
            asyncio.run(drain(url, given.drain))
        finally:
            life.end()
        problems = asyncio.run(judge(url, life.acknowledged()))
    problems += [f"{life.failures} processes ended by an error of their own"] if life.failures else []
    print("\n".join(problems) or f"{given.kills} kills, {given.crashes} crashes: nothing lost, nothing doubled")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
