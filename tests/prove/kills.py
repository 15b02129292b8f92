"""A busy life in which processes die: writers and workers are killed at random, and so is the database.

    python -m tests.prove.kills --url postgresql://… --kills 50 --seed 7
    python -m tests.prove.kills --embedded DIR --kills 1000 --crashes 50 --exec --pause 0.8

Writers note each message after `add` has returned. Workers are `memory-sql worker`, with a model behind HTTP that makes
one observation of each message, shares what may be shared, is slow, and fails or answers nonsense one time in three.
Killed processes are replaced; one worker at a time is frozen for longer than its lease. At the end the backlog drains,
and then: every acknowledged message was formed exactly once, every observation was absorbed at most once, every statement
that may be shared is known to its group exactly once, from whoever said it, and `verify` finds nothing.
Prints a summary; exits with 1 otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import re
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import text

from memory_sql import cli, embedded
from memory_sql.config import ScopeSettings, Settings
from memory_sql.db import migrate
from memory_sql.errors import DatabaseError
from memory_sql.llm import openai  # noqa: F401 (a worker that is forked needn't import it again)
from memory_sql.memory import Memory
from tests.prove.models import Copying, name_of, serving

Role = Literal["writer", "worker"]

ROLES: dict[Role, int] = {"writer": 4, "worker": 3}
SESSIONS, USERS, GENERATION = 12, 5, 50
STATEMENT = "Release {} is deployed to staging."
FROZEN_FOR = 5  # kills
SETTINGS = Settings(
    graph=True,
    llm="openai",
    llm_timeout_seconds=1.0,
    llm_max_retries=0,
    formation_messages=6,
    formation_min_messages=1,
    formation_cold_minutes=0.01,
    formation_window_messages=9,
    observation_max_items=50,
    conversation_scope="summary",
    episodes=True,
    consolidation_threshold=8,
    consolidation_min_ratio=0.0,
    consolidation_max_words=100_000,
    propagation_interval_minutes=0.0,
    lease_seconds=1.0,
    retry_first_seconds=0.02,
    retry_longest_seconds=0.2,
    pool_size=3,
)
WRITER_FAILED = 3


def environment(model: str) -> dict[str, str]:
    """What makes a `memory-sql` that reads it behave as `SETTINGS` say, with the model at that URL."""
    settings = SETTINGS.model_dump(exclude_unset=True)
    return {f"MEMORY_SQL_{name.upper()}": str(value) for name, value in settings.items()} | {
        "MEMORY_SQL_CONFIG": os.devnull,
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "none",
    }


async def write(url: str, seed: int, acknowledged: Path) -> None:
    """Adds to the conversations of its generation: texts grow with each message, and are sent whole to the model."""
    chance, generation = random.Random(seed), seed // GENERATION
    with acknowledged.open("a", buffering=1) as notes:
        async with Memory(url, Copying(), SETTINGS) as memory:
            group = [f"g{generation}"]
            for k in range(USERS):  # a group of one neither takes nor gives
                hello = {"role": "user", "content": f"{seed}-hello-{k}", "id": f"{seed}-hello-{k}"}
                where: dict[str, Any] = {"user_id": f"u{generation}-{k}", "conversation_id": f"s{generation}-{k}"}
                await memory.add([hello], agent_id="a", **where, group_ids=group)
            latest = ScopeSettings(lanes="buffer", buffer_max=3, buffer_max_items=50)
            await memory.scopes.create(
                "individual", agent_id="a", owner_id=f"u{generation}-0", name="latest", settings=latest
            )
            for n in range(1_000_000):
                names = [f"{seed}-{n}-{i}" for i in range(chance.randrange(1, 5))]
                said = [{"role": "user", "content": name, "id": name} for name in names]
                release = f"{seed}.{n}"
                said.append({"role": "user", "content": STATEMENT.format(release), "id": release})
                session = chance.randrange(SESSIONS)
                user, conversation_id = f"u{generation}-{session % USERS}", f"s{generation}-{session}"
                await memory.add(said, agent_id="a", user_id=user, conversation_id=conversation_id, group_ids=group)
                notes.write("".join(f"{name}\n" for name in [*names, release]))
                await asyncio.sleep(chance.uniform(0, 0.3))


def writer(url: str, seed: int, notes: Path) -> int:
    """Starts again by itself when the database goes away."""
    while True:
        try:
            asyncio.run(write(url, seed, notes))
        except DatabaseError:
            time.sleep(0.05)
            seed += 1_000_003 * GENERATION  # ids of the unacknowledged attempt are not used again
        except BaseException:  # noqa: BLE001 (the end of a process)
            traceback.print_exc()
            return WRITER_FAILED


def worker(url: str, whole: bool) -> int:
    """The command itself; `whole`: from the interpreter on, else as a copy of this process, which has imported it all."""
    command = ["worker", "--url", url, "--poll", "0.1", "--concurrency", "2"]
    if whole:
        os.execv(sys.executable, [sys.executable, "-m", "memory_sql.cli", *command])
    return cli.main(command)


class Life:
    def __init__(self, url: str, folder: Path, seed: int, pause: float, whole: bool) -> None:
        self.url, self.folder, self.random, self.seed = url, folder, random.Random(seed), seed * 1_000 * GENERATION
        self.pause, self.whole = pause, whole
        self.alive: dict[int, tuple[Role, Path]] = {}
        self.frozen = 0
        self.killed: Counter[Role] = Counter()
        self.turned_away = 0
        self.failures: list[str] = []

    def spawn(self, role: Role) -> None:
        self.seed += 1
        log = self.folder / f"log-{self.seed}"
        pid = os.fork()
        if pid:
            self.alive[pid] = role, log
            return
        try:
            out = os.open(log, os.O_WRONLY | os.O_CREAT)
            os.dup2(out, 1)
            os.dup2(out, 2)
            if role == "worker":
                os._exit(worker(self.url, self.whole))
            os._exit(writer(self.url, self.seed, self.folder / f"notes-{self.seed}"))
        finally:  # never back into what the parent was doing
            traceback.print_exc()
            os._exit(WRITER_FAILED)

    def kill(self, pid: int) -> Role:
        os.kill(pid, signal.SIGKILL)
        return self._ended(pid, os.waitpid(pid, 0)[1])

    def _ended(self, pid: int, status: int) -> Role:
        """A worker that finds no database at its start says so and ends; nothing else ends by itself."""
        role, log = self.alive.pop(pid)
        if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
            self.killed[role] += 1
        elif role == "worker" and found_no_database(log.read_text()):
            self.turned_away += 1
        else:
            self.failures.append(f"a {role} ended by itself ({status}): {log.read_text()[-2000:]}")
        return role

    def supervise(self) -> None:
        """Starts anew who has ended by itself, as a supervisor does."""
        for pid in list(self.alive):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self.spawn(self._ended(pid, status))

    def live(self, kills: int, crashes: int, crash: Callable[[], None]) -> None:
        for role, count in ROLES.items():
            for _ in range(count):
                self.spawn(role)
        when = set(self.random.sample(range(kills), min(crashes, kills)))
        for n in range(kills):
            time.sleep(self.random.expovariate(1 / self.pause))
            if n in when:
                crash()
            self.supervise()
            self.spawn(self.kill(self.random.choice(list(self.alive))))
            if n % FROZEN_FOR == 0:
                self.freeze_one_and_thaw_the_other()
        self.thaw()

    def freeze_one_and_thaw_the_other(self) -> None:
        """Whoever stands still for longer than a lease comes back late: what they had in hand is somebody else's."""
        self.thaw()
        self.frozen = self.random.choice([pid for pid, (role, _) in self.alive.items() if role == "worker"])
        os.kill(self.frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        if self.frozen in self.alive:
            os.kill(self.frozen, signal.SIGCONT)

    def hear_some(self, least: int = 50, seconds: float = 60.0) -> None:
        """On a slow machine all writers may have been killed before they had said anything."""
        until = time.monotonic() + seconds
        while len(self.acknowledged()) < least and time.monotonic() < until:
            self.supervise()
            time.sleep(0.05)

    def stop_writing(self) -> None:
        for pid, (role, _) in list(self.alive.items()):
            if role == "writer":
                self.kill(pid)

    def end(self) -> None:
        for pid in list(self.alive):
            self.kill(pid)

    def acknowledged(self) -> set[str]:
        return {line for notes in self.folder.glob("notes-*") for line in notes.read_text().splitlines()}


def found_no_database(log: str) -> bool:
    """What a process said last that began while the database was away, or was just going."""
    last = (log.splitlines() or [""])[-1]
    said = r"memory-sql: (shard \w+: )?the (database|connection was closed before Postgres answered)"
    return re.search(said, last) is not None


async def drain(url: str, seconds: float, supervise: Callable[[], None]) -> None:
    """Revives what was given up until nothing is left to do, or no more was done for so long: the workers go on meanwhile.

    Texts only grow here, and the longer they are, the more versions a scope takes until nothing is left in it; what is judged
    and not shared lengthens none.
    """
    async with Memory(url, Copying(), SETTINGS) as memory:
        least, since = (sys.maxsize, 0), time.monotonic()
        while time.monotonic() < since + seconds:
            supervise()
            for dead in await memory.work.dead():
                await memory.work.retry(agent_id=dead.agent_id, run_id=dead.run_id)
            async with memory.database.transaction() as session:
                left = (
                    (await session.execute(text(LEFT))).scalar_one(),
                    (await session.execute(text(UNTOLD))).scalar_one(),
                )
            if left[0] == 0:
                return
            if left < least:
                least, since = left, time.monotonic()
            await asyncio.sleep(0.2)


_UNFORMED = "due_at IS NOT NULL OR unformed_messages > 0 OR lease_until > now()"
# A scope whose text was refused is tried again in a day at the earliest, and isn't due.
DUE = "due_at < now() + interval '12 hours' OR propagate_at IS NOT NULL OR lease_until > now()"
LEFT = f"""
    SELECT (SELECT coalesce(sum(1 + unformed_messages), 0) FROM memory.conversations WHERE {_UNFORMED})
         + (SELECT count(*) FROM memory.scopes WHERE {DUE})
"""  # noqa: S608
UNTOLD = """
    SELECT -coalesce(sum(length(content)), 0) - (SELECT count(*) FROM memory.judged)
    FROM memory.scopes JOIN memory.consolidations USING (agent_key, scope_id, version)
"""
LEFT_ROWS = f"""
    SELECT format('conversation %s: %s messages, due at %s, lease until %s, %s failures', conversation_id, unformed_messages,
                  due_at, lease_until, failures) FROM memory.conversations WHERE {_UNFORMED}
    UNION ALL
    SELECT format('scope %s: due at %s, propagated at %s, lease until %s, %s and %s failures', owner, due_at, propagate_at,
                  lease_until, failures, propagation_failures) FROM memory.scopes WHERE {DUE}
"""  # noqa: S608
OF_USERS = """
    FROM memory.observations t JOIN memory.scopes s USING (agent_key, scope_id) WHERE s.kind = 'individual' AND s.name = ''
"""
TEXTS = """
    SELECT content FROM memory.scopes JOIN memory.consolidations USING (agent_key, scope_id, version)
    WHERE kind = 'individual' AND name = ''
"""
BESIDE = """
    SELECT format('%s in %s %s', o.content, s.kind, s.name)
    FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)
    WHERE s.kind = 'conversation' OR s.name <> '' GROUP BY s.scope_id, s.kind, s.name, o.content HAVING count(*) > 1
"""
PROMOTED = """
    SELECT o.content, o.scope_id, array_agg(x.content) FILTER (WHERE x.content IS NOT NULL)
    FROM memory.observations o
    LEFT JOIN memory.lineage l USING (agent_key, scope_id, seq)
    LEFT JOIN memory.observations x
        ON (x.agent_key, x.scope_id, x.seq) = (l.agent_key, l.source_scope_id, l.source_seq)
    WHERE o.source_kind = 'propagation' GROUP BY o.agent_key, o.scope_id, o.seq, o.content
"""
HAPPENED = """
    SELECT count(*) FILTER (WHERE error_code IN ('abandoned', 'stale')),
           count(*) FILTER (WHERE error_code NOT IN ('abandoned', 'stale')), count(*) FROM memory.runs
"""


def spread(told: Iterable[str], promoted: Sequence[Any]) -> list[str]:
    """What is wrong with what groups know: of each statement that a user's text holds they know once, from that user."""
    groups = Counter(name_of(content) for content, _, _ in promoted)
    wanted = {name for name in told if "." in name}
    print(f"{len(wanted)} statements may be shared, {len(promoted)} are")
    problems = [f"told and not shared: {name}" for name in sorted(wanted - set(groups))[:5]]
    problems += [f"shared {count} times: {name}" for name, count in groups.items() if count > 1][:5]
    problems += [f"shared, but not told: {name}" for name in sorted(set(groups) - wanted)[:5]]
    problems += [f"made of {sources}: {content}" for content, _, sources in promoted if sources != [content]][:5]
    return problems if wanted else [*problems, "nothing was there to share"]


async def judge(url: str, acknowledged: set[str]) -> list[str]:
    async with Memory(url, Copying(), SETTINGS) as memory:
        problems = [f"{v.invariant}: {v.key} {v.detail}" for v in await memory.admin.verify()]
        async with memory.database.transaction() as session:
            own = await session.scalars(text(f"SELECT t.content {OF_USERS}"))
            twice = (await session.scalars(text(BESIDE))).all()
            facts = Counter(map(name_of, own))
            promoted = (await session.execute(text(PROMOTED))).all()
            stored = set((await session.scalars(text("SELECT message_id FROM memory.messages"))).all())
            texts = (await session.scalars(text(TEXTS))).all()
            left = (await session.scalars(text(LEFT_ROWS))).all()
            taken_over, failed, runs = (await session.execute(text(HAPPENED))).one()
    told = Counter(name_of(line) for content in texts for line in content.splitlines())
    problems += spread(told, promoted)
    problems += [f"acknowledged and lost: {name}" for name in sorted(acknowledged - stored)[:5]]
    problems += [f"stored and not formed: {name}" for name in sorted(stored - set(facts))[:5]]
    problems += [f"formed {count} times: {name}" for name, count in facts.items() if count > 1][:5]
    problems += [f"formed more than once: {name}" for name in twice[:5]]
    problems += [f"told {count} times: {name}" for name, count in told.items() if count > 1][:5]
    problems += [f"told, but not known: {name}" for name in sorted(set(told) - set(facts))[:5]]
    problems += [f"the backlog does not drain: {one}" for one in left]
    print(f"{len(acknowledged)} acknowledged, {len(stored)} stored, {len(facts)} formed, {len(told)} in texts")
    print(f"{runs} runs: {taken_over} taken over from the dead and the late, {failed} failed by the model")
    return problems


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url")
    arguments.add_argument("--embedded", type=Path)
    arguments.add_argument("--kills", type=int, default=50)
    arguments.add_argument("--crashes", type=int, default=0, help="of the database; needs --embedded")
    arguments.add_argument("--pause", type=float, default=0.4, help="seconds between kills, on average")
    arguments.add_argument("--exec", action="store_true", help="start workers from the interpreter on: 2 s of CPU each")
    arguments.add_argument(
        "--seed", type=int, default=int(os.environ.get("MEMORY_SQL_SEED", "0")) or random.randrange(10**6)
    )
    arguments.add_argument("--drain", type=float, default=120.0, help="seconds in which nothing was done")
    given = arguments.parse_args()
    print(f"seed {given.seed}")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        url = given.url or stack.enter_context(embedded.acquire(given.embedded)).url
        migrate.upgrade(url)
        os.environ |= environment(stack.enter_context(serving(given.seed)))

        def crash() -> None:
            """An immediate stop, without a checkpoint: the next start has to recover from the log."""
            pid = int((given.embedded / "cluster" / "postmaster.pid").read_text().split()[0])
            os.kill(pid, signal.SIGQUIT)
            while embedded.running(given.embedded):
                time.sleep(0.01)
            stack.enter_context(embedded.acquire(given.embedded))

        life = Life(url, folder, given.seed, given.pause, given.exec)
        try:
            began = time.monotonic()
            life.live(given.kills, given.crashes, crash)
            killed = dict(life.killed)
            life.hear_some()
            life.stop_writing()
            drained_from = time.monotonic()
            asyncio.run(drain(url, given.drain, life.supervise))
            print(f"{drained_from - began:.0f} s, drained in {time.monotonic() - drained_from:.0f} s")
        finally:
            life.end()
        problems = asyncio.run(judge(url, life.acknowledged())) + life.failures
    print(f"killed: {killed}; workers that found no database at their start: {life.turned_away}")
    print("\n".join(problems) or f"{given.kills} kills, {given.crashes} crashes: nothing lost, nothing doubled")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())
