"""A random life of everything at once: clients, worker processes, a lying model, kills, immediate stops, forgetting.

    python -m tests.prove.concurrent_life --url postgresql://… --operations 100 --seed 7
    python -m tests.prove.concurrent_life --embedded DIR --operations 500 --stops 2 [--seeds 20] [--shards]

Several tasks call everything that is public, through all `doors`, concurrently and in random order, while `memory-sql worker`
processes do what is due and are killed and frozen, and the database is stopped without a checkpoint. Everything that is said
contains a unique word. After each round the life rests: holds are released, the backlog must drain in bounded time, and then
`judging` checks. At half time a copy of the database is put away, and at the end the journal is followed in it. Prints each
finding, a summary and the seed; exits with 1 if there is a finding.
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
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

from sqlalchemy import text

from memory_sql import cli, embedded
from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.principals import SERVICE
from memory_sql.errors import MemorySQLError
from memory_sql.memory import Memory
from tests.prove.concurrent_life import backups, moving
from tests.prove.concurrent_life.calls import NOT_CALLED, public_calls
from tests.prove.concurrent_life.clients import WEIGHTS, Client
from tests.prove.concurrent_life.doors import DOORS, doors, doors_over
from tests.prove.concurrent_life.judging import judge
from tests.prove.concurrent_life.ledger import TOKEN
from tests.prove.concurrent_life.liar import LIES, liar
from tests.prove.concurrent_life.nursery import Nursery, nursery
from tests.prove.concurrent_life.world import AGENTS, World
from tests.prove.kills import DUE, found_no_database
from tests.prove.kills import SETTINGS as WORKERS
from tests.prove.models import serving

ROUND, CLIENTS, PROCESSES = 100, 7, 2
PAUSE_SECONDS = 1.0  # between kills, on average
DRAIN_SECONDS = 60.0  # without progress
MOVES_AMONG = 500  # operations there has to be time to move an agent
QUICK = {"fsync": "off"}  # what a stop without a checkpoint loses doesn't depend on it: the machine goes on
SETTINGS = Settings(
    **{
        **WORKERS.model_dump(exclude_unset=True),
        "consolidation_threshold": 4,
        "consolidation_min_ratio": 0.4,
        "max_errors": 1,
        "propagation_new_user_days": 0.0,
        "pool_size": 5,
    },
)
LEFT = f"""
    SELECT (SELECT coalesce(sum(1 + unformed_messages), 0) FROM memory.conversations
            WHERE due_at IS NOT NULL OR unformed_messages > 0 AND NOT excluded OR lease_until > now())
         + (SELECT count(*) FROM memory.scopes WHERE {DUE})
"""  # noqa: S608
WAITING = f"""
    SELECT 'c ' || conversation_id || ' ' || coalesce(due_at::text, '-') || ' ' || unformed_messages FROM memory.conversations
    WHERE due_at IS NOT NULL OR unformed_messages > 0 AND NOT excluded OR lease_until > now()
    UNION ALL
    SELECT 's' || scope_id || ' due ' || coalesce(due_at::text, '-') || ' propagate ' || coalesce(propagate_at::text, '-')
           || ' lease ' || coalesce(lease_until::text, '-') || ' fence ' || fence
           || ' failures ' || failures || ' ' || propagation_failures || ' errors ' || errors || ' ' || propagation_errors
    FROM memory.scopes WHERE {DUE}
"""  # noqa: S608
OPEN = """
    SELECT concat_ws(' ', pid, state, now() - xact_start, wait_event, left(query, 200)) FROM pg_stat_activity
    WHERE datname = current_database() AND xact_start IS NOT NULL AND pid <> pg_backend_pid()
"""


class Life:
    def __init__(
        self,
        url: str,
        seed: int,
        workers: Nursery,
        stop_database: Callable[[], None] | None,
        shards: dict[str, str] | None = None,
    ) -> None:
        self.url, self.workers, self.stop_database, self.shards = url, workers, stop_database, shards
        self.journal = workers.folder / "journal"
        self.settings = SETTINGS.model_copy(update={"forget_journal": self.journal})
        self.random, self.world = random.Random(seed), World(seed)
        self.kills = self.stops = 0
        self.deck: list[str] = []

    async def live(self, operations: int, stops: int) -> None:
        rounds, copy = -(-operations // ROUND), None
        opened = (
            doors(self.world, self.url, self.settings)
            if self.shards is None
            else doors_over(self.world, self.shards, self.settings)
        )
        async with opened as (memory, ways):
            clients = [Client(self.world, ways[n % len(ways)], self.random.randrange(10**9)) for n in range(CLIENTS)]
            own = Client(self.world, memory, self.random.randrange(10**9))
            stopping = Counter(self.random.choices(range(rounds), k=stops))
            for n in range(rounds):
                count = min(ROUND, operations - n * ROUND)
                await self.round(memory, clients, count, stopping[n])
                await self.rest(memory, own)
                if self.world.findings:
                    return
                if n == rounds // 2 - 1 and self.shards is None:
                    copy = await self.copied()
        if copy is not None:
            await backups.restore(copy, self.world, self.settings, self.journal)
            await backups.drop(copy)

    async def copied(self) -> str:
        """Meanwhile there are no workers, and whoever else was connected finds that they aren't any more."""
        self.world.crashes += 1
        for pid in list(self.workers.alive):
            self.workers.kill(pid)
        try:
            return await backups.take(self.url)
        finally:
            self.world.crashes += 1

    async def round(self, memory: Memory, clients: list[Client], operations: int, stops: int) -> None:
        left = iter(range(operations))
        chaos, stop = asyncio.create_task(self.disturb(stops)), asyncio.Event()
        try:
            async with asyncio.TaskGroup() as together:
                if self.shards is not None:
                    together.create_task(moving.move_about(memory, self.world, self.random, stop))
                async with asyncio.TaskGroup() as working:
                    for client in clients:
                        working.create_task(self.work(client, left))
                stop.set()
        finally:
            chaos.cancel()
            with suppress(asyncio.CancelledError):
                await chaos
        await self.stop_for_good(stops - self.stops_of_round)

    async def work(self, client: Client, left: object) -> None:
        for _ in left:  # type: ignore[attr-defined]
            name = self.next_operation()
            if self.random.randrange(40) == 0:
                await self.interrupted(client, name)
            else:
                await client.do(name)

    async def interrupted(self, client: Client, name: str) -> None:
        """Whoever waited has gone away: what was committed by then stays."""
        doing = asyncio.create_task(client.do(name))
        await asyncio.wait([doing], timeout=self.random.uniform(0, 0.1))
        doing.cancel()
        with suppress(asyncio.CancelledError):
            await doing
        self.world.did["interrupted"] += 1

    def next_operation(self) -> str:
        """By weight, and each in every so many."""
        if not self.deck:
            without = () if self.shards is None else moving.NOT_OVER_SHARDS
            self.deck = [name for name, weight in WEIGHTS.items() if name not in without for _ in range(weight)]
            self.random.shuffle(self.deck)
        return self.deck.pop()

    async def disturb(self, stops: int) -> None:
        """Kills and freezes workers; stops the database so many times."""
        self.stops_of_round = 0
        frozen: int | None = None
        while True:
            self.supervise()
            await asyncio.sleep(self.random.expovariate(1 / PAUSE_SECONDS))
            if frozen in self.workers.alive:
                self.workers.kill(frozen, signal.SIGCONT)
            if self.stops_of_round < stops:
                await self.stop_for_good(1)
            victim = self.random.choice(list(self.workers.alive))
            if self.random.randrange(5) == 0:
                frozen = victim
                self.workers.kill(victim, signal.SIGSTOP)
            else:
                self.workers.kill(victim)
                self.kills += 1

    def supervise(self) -> None:
        """Starts anew who has ended, by a kill or because there was no database; nothing else ends a worker."""
        for log in self.workers.ended():
            if not found_no_database(log.read_text()):
                self.world.found(f"a worker ended by itself: {log.read_text()[-1000:]}")
        while len(self.workers.alive) < PROCESSES:
            self.workers.spawn()

    async def stop_for_good(self, times: int) -> None:
        """Not interrupted: else there would be no database."""
        for _ in range(times):
            assert self.stop_database is not None
            self.world.crashes += 1
            stopping = asyncio.create_task(asyncio.to_thread(self.stop_database))
            try:
                await asyncio.shield(stopping)
            finally:
                await asyncio.wait([stopping])
                self.world.crashes += 1
                self.stops += 1
                self.stops_of_round += 1

    async def rest(self, memory: Memory, client: Client) -> None:
        for pid in list(self.workers.alive):
            self.workers.kill(pid, signal.SIGCONT)
        self.supervise()
        if self.shards is not None:
            await moving.gather_home(memory, self.world)
        await self.end_exceptions(memory, client)
        await self.drain(memory)
        await memory.work.catch_up()  # what was being stored as the settings went back
        await self.drain(memory)
        await memory.work.maintain()  # which writes into the journal what a killed process hadn't
        status = await memory.admin.journal_status()
        if status.missing or status.others or status.copied_from:
            self.world.found(f"the journal of a database that was never restored: {status}")
        if not self.world.findings:
            await judge(memory, self.world, client)
        for path, log in self.workers.logs():
            said = TOKEN.findall(log)
            if said:
                self.world.found(f"{path.name} quotes {said[:5]}")

    async def end_exceptions(self, memory: Memory, client: Client) -> None:
        """No holds, nothing excluded, no settings of their own; what was held and is to be forgotten is asked for again."""
        while self.world.holds:
            await client.give_up(self.world.holds.pop())
        for agent in sorted(set(AGENTS)):  # workers that were frozen go on, with their locks
            await client.again_until_it_returns(partial(self.end_exceptions_of, memory, client, agent))
        owed, self.world.owed = self.world.owed, []
        for agent, selection, takes, touches in owed:
            with suppress(MemorySQLError):
                await client.forget(agent, selection, takes, touches)
        await memory.work.catch_up()

    async def end_exceptions_of(self, memory: Memory, client: Client, agent: str) -> None:
        for hold in await memory.holds.list(agent_id=agent):  # granted to who didn't wait for the answer
            await memory.holds.release(hold.hold_id, agent_id=agent)
        for (conversation,) in await client.sql(EXCLUDED, agent=agent):
            await memory.conversations.exclude(agent_id=agent, conversation_id=conversation, excluded=False)
            client.skip(agent, conversation)  # whoever excluded it was interrupted, and more was said since
        await memory.configure(agent_id=agent, **dict.fromkeys(await memory.admin.settings(agent_id=agent)))

    async def drain(self, memory: Memory) -> None:
        """Revives what was given up; fails where nothing moves for long."""
        least, since = sys.maxsize, time.monotonic()
        while time.monotonic() < since + DRAIN_SECONDS:
            self.supervise()
            for dead in await memory.work.dead():
                with suppress(MemorySQLError):
                    await memory.work.retry(agent_id=dead.agent_id, run_id=dead.run_id)
            async with memory.database.transaction(principal=SERVICE) as unit:
                left = await unit.scalar(text(LEFT))
            if not left:
                return
            if left < least:
                least, since = left, time.monotonic()
            await asyncio.sleep(0.3)
        async with memory.database.transaction(principal=SERVICE) as unit:
            waiting = (await unit.scalars(text(WAITING))).all()
            others = (await unit.scalars(text(OPEN))).all()
        logs = [log.read_text()[-500:] for log in self.workers.alive.values()]
        self.world.found(f"the backlog does not drain: {waiting[:5]}; transactions that are open: {others}; {logs}")


EXCLUDED = """
    SELECT conversation_id FROM memory.conversations JOIN memory.agents USING (agent_key)
    WHERE agent_id = :agent AND excluded
"""


def worker(url: str | None) -> int:
    """None: of the shards in the environment."""
    where = [] if url is None else ["--url", url]
    return cli.main(["worker", *where, "--poll", "0.1", "--concurrency", "2"])


def stop_at_once(data: Path) -> None:
    """Without a checkpoint: the next start has to recover from the log."""
    os.kill(int((data / "cluster" / "postmaster.pid").read_text().split()[0]), signal.SIGQUIT)
    while embedded.running(data):
        time.sleep(0.01)


def live(seed: int, given: argparse.Namespace) -> Life:
    """One life, in a database that is empty at its beginning."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="memory-sql-life-")))
        data = given.embedded and given.embedded / f"seed-{seed}"
        url = given.url or stack.enter_context(embedded.acquire(data, options=QUICK)).url
        migrate.upgrade(url)
        told = folder / "lies"
        told.touch()
        os.environ |= environment(stack.enter_context(serving(seed, partial(liar, told))), folder / "journal")

        def stop_database() -> None:
            stop_at_once(data)
            stack.enter_context(embedded.acquire(data, options=QUICK))

        shards = None
        if given.shards:
            moving.hurry()
            shards = moving.two_shards(url)
            os.environ |= moving.environment(shards)
        workers = stack.enter_context(nursery(folder, lambda: worker(None if shards else url)))
        life = Life(url, seed, workers, stop_database if data else None, shards)
        began = time.monotonic()
        asyncio.run(life.live(given.operations, given.stops))
        life.world.did.update(told.read_text().splitlines())
        print(f"seed {seed}: {time.monotonic() - began:.0f} s, {life.kills} kills, {life.stops} stops, "
              f"{len(life.world.findings)} findings", flush=True)  # fmt: skip
    return life


def environment(model: str, journal: Path) -> dict[str, str]:
    settings = SETTINGS.model_dump(exclude_unset=True)
    return {f"MEMORY_SQL_{name.upper()}": str(value) for name, value in settings.items()} | {
        "MEMORY_SQL_CONFIG": os.devnull,
        "MEMORY_SQL_FORGET_JOURNAL": str(journal),
        "OPENAI_BASE_URL": model,
        "OPENAI_API_KEY": "none",
    }


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url")
    arguments.add_argument("--embedded", type=Path)
    arguments.add_argument("--operations", type=int, default=500, help="of each seed")
    arguments.add_argument("--stops", type=int, default=0, help="of the database; needs --embedded")
    arguments.add_argument("--seeds", type=int, default=1)
    arguments.add_argument("--shards", action="store_true", help="over two databases, between which agents move")
    arguments.add_argument("--least", type=int, default=0, help="times that each operation has to have been done")
    arguments.add_argument(
        "--seed", type=int, default=int(os.environ.get("MEMORY_SQL_SEED", "0")) or random.randrange(10**6)
    )
    given = arguments.parse_args()
    did, refused, findings, calls = Counter[str](), Counter[str](), list[str](), Counter[tuple[str, str]]()
    kills = stops = 0
    for seed in range(given.seed, given.seed + given.seeds):
        print(f"seed {seed}", flush=True)
        life = live(seed, given)
        did += life.world.did
        refused += life.world.refused
        calls += life.world.calls
        findings += [f"seed {seed}: {finding}" for finding in life.world.findings]
        kills, stops = kills + life.kills, stops + life.stops
    print(", ".join(f"{name} {count}" for name, count in did.most_common()))
    print(", ".join(f"{name} {count}" for name, count in refused.most_common()))
    print(", ".join(f"{door} {sum(n for (through, _), n in calls.items() if through == door)}" for door in DOORS))
    wanted = {*WEIGHTS, *LIES} - {*(moving.NOT_OVER_SHARDS if given.shards else ())}
    findings += [f"{name} happened {did[name]} times" for name in sorted(wanted) if did[name] < given.least]
    made = {call for _, call in calls}
    findings += [
        f"nobody called {call}"
        for call in sorted(public_calls())
        if given.least and not given.shards and call not in made | NOT_CALLED.keys()
    ]
    if given.shards and given.operations >= MOVES_AMONG and not did["moves"]:
        findings.append("no agent has moved")
    done = sum(did[name] for name in WEIGHTS)
    print("\n".join(findings) or f"{done} operations, {kills} kills, {stops} stops: nothing lost, doubled or left")
    return bool(findings)


if __name__ == "__main__":
    sys.exit(main())
