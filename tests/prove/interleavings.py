"""Pairs of operations: one is stopped at each point where it talks to the database or the model, and the other one runs.

    python -m tests.prove.interleavings --url postgresql://… [--first forget_user,form] [--second undo] [--nested]

Each run begins with the same small memory (`interleaved`). `first` runs up to a point, `second` to its end or until it waits
for a lock of `first`, and `first` to its end. With `nested`, `second` is stopped too: `first` up to k, `second` up to j,
`first` up to l, then both to the end. Points where the outcome has to be that of the one before are left out.

After that whatever is due is done, and the memory must be as if one had come after the other: so nothing is lost, doubled or
left in any column of any table. `verify` finds nothing, nothing stays due or leased, and no error was raised but those that
a caller is promised.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import combinations, cycle, product
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from asyncpg.prepared_stmt import PreparedStatement  # type: ignore[import-untyped]

from memory_sql.db import migrate
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import DatabaseError, LanguageModelError, LockTimeoutError, MemorySQLError
from memory_sql.memory import Memory
from tests.prove.interleaved import (
    BY_TIME,
    IN_PIECES,
    LEFT_TO_A_PERSON,
    OPERATIONS,
    SCOPE_BY_SCOPE,
    SETTINGS,
    Act,
    Honest,
    World,
    prepare,
)
from tests.prove.kills import DUE
from tests.recycling import Contents, connect

PASSED: ContextVar[Callable[[str, object], Awaitable[None]] | None] = ContextVar("passed", default=None)
NO_POINTS = ("BEGIN", "SAVEPOINT", "RELEASE", "SET ")
POLL_SECONDS = 0.003
RUN_SECONDS = 60.0
MOST_ROUNDS = 8  # of `run_due`
LATER = timedelta(hours=1)  # when what has failed is tried again
QUICK = ("deadlock_timeout = '100ms'", "synchronous_commit = 'off'", "jit = 'off'")

BLOCKED = """
    SELECT EXISTS (SELECT FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = $1 AND wait_event_type = 'Lock')
"""
LEFT = f"""
    SELECT 'conversation ' || conversation_id, due_at, lease_until FROM memory.conversations
    WHERE due_at IS NOT NULL OR unformed_messages > 0 AND NOT excluded OR lease_until > now()
    UNION ALL
    SELECT concat_ws(' ', kind, owner, name), coalesce(due_at, propagate_at), lease_until FROM memory.scopes
    WHERE {DUE}
"""  # noqa: S608
SHOWN = (
    """
    SELECT 'observation', concat_ws(' ', s.kind, s.owner, s.name), left(o.content, 80), o.source_kind, o.no_propagate,
           o.sensitivity, o.related_users, coalesce(t.status, 'active'), coalesce(t.verification, 'unverified'),
           (SELECT content FROM memory.observations b
            WHERE (b.agent_key, b.scope_id, b.seq) = (o.agent_key, o.scope_id, t.superseded_by)),
           (SELECT count(*) FROM memory.evidence e WHERE (e.agent_key, e.scope_id, e.seq) = (o.agent_key, o.scope_id, o.seq))
    FROM memory.observations o JOIN memory.scopes s USING (agent_key, scope_id)
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    """,
    r"""
    SELECT 'told', concat_ws(' ', kind, owner, name), regexp_matches(content, '\mzu\w{4}zu\M', 'g')
    FROM memory.scopes JOIN memory.consolidations USING (agent_key, scope_id, version)
    """,
    """
    SELECT 'message', conversation_id, c.participants, m.message_id, m.user_id, m.content
    FROM memory.messages m JOIN memory.conversations c USING (agent_key, conversation_id)
    """,
    """
    SELECT 'member', owner, user_id, left_at IS NULL FROM memory.members JOIN memory.scopes USING (agent_key, scope_id)
    """,
)
WORDS = r"""
    SELECT DISTINCT '{0}', found[1] FROM memory.{0} t, regexp_matches(to_jsonb(t)::text, '\mzu\w{{4}}zu\M', 'g') found
"""

# A table, without what differs in each run: times, random ids, and numbers that a sequence gave.
STATE = r"""
    SELECT '{0}' || md5(string_agg(line, ' ' ORDER BY line)) FROM memory.{0} t, LATERAL regexp_replace(
        (to_jsonb(t) - '{{run_id,event_id,evidence_id,latency_seconds}}'::text[])::text,
        '\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?|[0-9a-f]{{8}}(-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}', '', 'g') line
"""

Stops = tuple[int | None, ...]
Steps = tuple[Act, ...]


@contextmanager
def passing() -> Iterator[None]:
    """Whoever has set `PASSED` is called before each statement that its tasks send, with it and its connection."""
    connection, prepared = asyncpg.Connection, PreparedStatement
    execute, fetch, executemany, fetch_prepared = (
        connection.execute, connection.fetch, connection.executemany, prepared.fetch,
    )  # fmt: skip

    def watched(send: Any, asked: Callable[..., tuple[str, object]]) -> Any:
        async def sent(*given: Any, **named: Any) -> Any:
            passed = PASSED.get()
            if passed is not None:
                await passed(*asked(*given))
            return await send(*given, **named)

        return sent

    def directly(by: object, query: str, *_more: object) -> tuple[str, object]:
        return query, by

    def as_prepared(statement: PreparedStatement, *_more: object) -> tuple[str, object]:
        return str(statement.get_query()), statement._connection

    connection.execute, connection.fetch = watched(execute, directly), watched(fetch, directly)
    connection.executemany = watched(executemany, directly)
    prepared.fetch = watched(fetch_prepared, as_prepared)
    try:
        yield
    finally:
        connection.execute, connection.fetch, connection.executemany = execute, fetch, executemany
        prepared.fetch = fetch_prepared


@dataclass(eq=False)
class Side:
    """One of the two operations, in a memory of its own, whose sessions have its name."""

    name: str
    memory: Memory
    model: Honest
    control: Any
    looking: asyncio.Lock

    def begin(self, steps: Steps, world: World, other: Side) -> None:
        self.other = other
        self.points: list[str] = []
        self.commits: list[bool] = []  # whether what was sent at each point is committed by it, or commits
        self.transactions: set[object] = set()  # the connections that are in one
        self.blocked = False
        self.committed_before_blocked: bool | None = None  # None: it was never blocked
        self.stop: int | None = None
        self.waits: asyncio.Event | None = None
        self.task: asyncio.Task[Any] | None = None
        self.steps, self.world, self.done = steps, world, 0
        self.model.short, self.model.passed = 0, self.passed

    async def go(self, until: int | None) -> None:
        """Up to this point, its end, or a lock that the other one has."""
        self.stop = until
        if self.task is None:
            self.task = asyncio.create_task(self._act())
        elif self.waits is not None:
            self.waits.set()
            self.waits = None
        await self.settled()

    async def _act(self) -> None:
        PASSED.set(self.passed)
        for step in self.steps:
            await step(self.memory, self.world, self.model)
            self.done += 1

    async def passed(self, what: str, connection: object = None) -> None:
        if what.startswith(NO_POINTS):
            if what.startswith("BEGIN"):
                self.transactions.add(connection)
            return
        if self.other.blocked:
            await self.other.settled()  # it goes on as soon as it can
        is_in_one = connection in self.transactions
        self.commits.append(what.startswith("COMMIT") or not (is_in_one or what.startswith("model")))
        self.points.append(" ".join(what.split()))
        if len(self.points) - 1 == self.stop:
            self.waits = waits = asyncio.Event()
            await waits.wait()
        if what.startswith(("COMMIT", "ROLLBACK;")):
            self.transactions.discard(connection)

    async def settled(self) -> None:
        assert self.task is not None
        self.blocked = False
        while not self.task.done() and self.waits is None:
            await asyncio.wait([self.task], timeout=POLL_SECONDS)
            if self.task.done() or self.waits is not None or self.other.blocked or not self.other.transactions:
                continue
            if await self._waits_for_lock() and not self.other.blocked:
                self.blocked = True  # if both were, it would be a deadlock, which the server ends
                if self.committed_before_blocked is None:
                    self.committed_before_blocked = any(self.commits[:-1])
                return

    async def _waits_for_lock(self) -> bool:
        async with self.looking:
            return bool(await self.control.fetchval(BLOCKED, self.name))

    async def error(self) -> str | None:
        """How it failed, if it did; in full where no caller is promised that."""
        assert self.task is not None
        await asyncio.wait([self.task])
        error = self.task.exception()
        if error is None:
            return None
        is_promised = isinstance(error, MemorySQLError) and (
            isinstance(error, LockTimeoutError) or not isinstance(error, DatabaseError | LanguageModelError)
        )
        return type(error).__name__ if is_promised else f"unexpected {error!r}"


@dataclass(frozen=True)
class Rest:
    """What is there when all that was due is done, and what is wrong with it."""

    shown: Counter[str] = field(default_factory=Counter)
    words: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()

    def unlike(self, other: Rest) -> list[str]:
        return [f"+ {row}" for row in self.shown - other.shown] + [f"- {row}" for row in other.shown - self.shown]


@dataclass(frozen=True)
class Outcome:
    rest: Rest
    errors: list[str]
    done: tuple[int, int]  # steps of each
    points: tuple[list[str], list[str]]
    same_until: int  # up to this point of the first one there is nothing new to see


class Stage:
    def __init__(self, one: Side, two: Side, worker: Memory, control: Any) -> None:
        self.one, self.two, self.worker, self.control = one, two, worker, control
        self.rests: dict[frozenset[str], Rest] = {}
        self.orders: dict[Steps, Rest | None] = {}
        self.runs = 0

    async def set_up(self) -> None:
        self.world = await prepare(self.one.memory)
        self.contents = await Contents.read(self.control)
        self.words, self.state = (" UNION ALL ".join(map(sql.format, self.contents.tables)) for sql in (WORDS, STATE))

    async def play(self, first: str, second: str, *stops: int | None) -> Outcome:
        """Each side in turn up to these points, then both to the end."""
        await self.contents.restore(self.control)
        self.one.begin(steps_of(first), self.world, self.two)
        self.two.begin(steps_of(second), self.world, self.one)
        async with asyncio.timeout(RUN_SECONDS):
            for side, stop in zip(cycle((self.one, self.two)), (*stops, None, None), strict=False):
                await side.go(stop)
            errors = [error for side in (self.one, self.two) if (error := await side.error())]
        self.runs += 1
        done, points = (self.one.done, self.two.done), (self.one.points, self.two.points)
        same_until = self._same_until(stops)
        return Outcome(await self.rest(), errors, done, points, same_until)

    def _same_until(self, stops: Stops) -> int:
        """Who waits for a lock and has committed nothing does so at each later point of the other's transaction too."""
        if not stops or stops[-2] is None or self.two.committed_before_blocked is not False:
            return 0
        ends = (n for n, what in enumerate(self.one.points) if what.startswith(("COMMIT", "ROLLBACK")))
        return next((n for n in ends if n >= stops[-2]), 0)

    async def rest(self) -> Rest:
        state = frozenset(row[0] for row in await self.control.fetch(self.state))
        if state not in self.rests:
            self.rests[state] = await self._rest()
        return self.rests[state]

    async def _rest(self) -> Rest:
        failed, left = dict[str, str](), list[Any]()
        for _ in range(MOST_ROUNDS):
            failed = dict((await self.worker.run_due()).failed)
            left = await self.control.fetch(LEFT)
            if not left:
                break
        problems = [f"left: {tuple(row)} {failed}" for row in left]
        problems += [f"{v.invariant}: {v.key} {v.detail}" for v in await self.worker.admin.verify()]
        shown = Counter[str]()
        for sql in SHOWN:
            shown.update(str(tuple(row)) for row in await self.control.fetch(sql))
        words = frozenset(f"{word} in {table}" for table, word in await self.control.fetch(self.words))
        return Rest(shown, words, tuple(problems))

    async def one_by_one(self, steps: Steps) -> Rest | None:
        """None: they can't all be done in this order."""
        if steps not in self.orders:
            await self.contents.restore(self.control)
            self.one.begin(steps, self.world, self.two)
            self.two.begin((), self.world, self.one)
            await self.one.go(None)
            self.orders[steps] = None if await self.one.error() else await self.rest()
        return self.orders[steps]

    async def serial(self, first: str, second: str, done: tuple[int, int]) -> list[Rest]:
        """After so many steps of each, in every order."""
        sides = steps_of(first)[: done[0]], steps_of(second)[: done[1]]
        rests = list[Rest]()
        for firsts in combinations(range(sum(done)), done[0]):
            steps = [iter(side) for side in sides]
            rest = await self.one_by_one(tuple(next(steps[n not in firsts]) for n in range(sum(done))))
            rests += [rest] if rest is not None else []
        return rests

    async def pair(self, first: str, second: str, nested: bool) -> AsyncIterator[tuple[Stops, list[str]]]:
        """The points, and what is wrong after each."""
        k = 0
        while k <= len((outcome := await self.play(first, second, k, None)).points[0]):
            yield (k,), await self.wrong(first, second, outcome)
            for j in range(len(outcome.points[1]) if nested else 0):
                last = k + 1
                while last < len((inner := await self.play(first, second, k, j, last, None)).points[0]):
                    yield (k, j, last), await self.wrong(first, second, inner)
                    last = max(last, inner.same_until) + 1
            k = max(k, outcome.same_until) + 1

    async def wrong(self, first: str, second: str, outcome: Outcome) -> list[str]:
        """A step that has failed must have done nothing."""
        rest, unexpected = outcome.rest, [error for error in outcome.errors if error.startswith("unexpected")]
        serial = await self.serial(first, second, outcome.done)
        if not serial:  # where one finds what it asks for done by the other one, which it could be refused
            one, two = outcome.done
            serial = await self.serial(first, second, (one, 0)) + await self.serial(first, second, (0, two))
        remain = rest.words.difference(*(one.words for one in serial))
        apart = SCOPE_BY_SCOPE & {first, second} or (first, second) in IN_PIECES
        unlike = [] if apart else min((rest.unlike(one) for one in serial), key=len)
        return [
            *unexpected,
            *rest.problems,
            *(f"remains: {word}" for word in sorted(remain)),
            *([f"as in no order, {outcome.errors}: {'; '.join(unlike)}"] if unlike else []),
        ]


def steps_of(name: str) -> Steps:
    operation = OPERATIONS[name]
    return operation if isinstance(operation, tuple) else (operation,)


@asynccontextmanager
async def staged(url: str) -> AsyncIterator[Stage]:
    """For a database that is empty but for the schema."""
    control, looking = await connect(url), asyncio.Lock()
    for setting in QUICK:
        await control.execute(f"ALTER DATABASE {asyncpg_url(url).database} SET {setting}")

    def opened(name: str, model: Honest, **more: Any) -> Memory:
        named = asyncpg_url(url).update_query_dict({"application_name": name})
        return Memory(named.render_as_string(hide_password=False), model, SETTINGS, **more)

    models = Honest(), Honest()
    async with (
        opened("one", models[0]) as one,
        opened("two", models[1]) as two,
        opened("worker", Honest(), clock=lambda: datetime.now(UTC) + LATER) as worker,
    ):
        sides = Side("one", one, models[0], control, looking), Side("two", two, models[1], control, looking)
        stage = Stage(*sides, worker, control)
        with passing():
            await stage.set_up()
            yield stage
    await control.close()


async def prove(url: str, pairs: Iterable[tuple[str, str]], nested: bool) -> int:
    """How much was found."""
    findings = points = 0
    async with staged(url) as stage:
        for first, second in pairs:
            began, before = time.monotonic(), points
            async for stops, problems in stage.pair(first, second, nested):
                points += 1
                findings += len(problems)
                for problem in problems:
                    print(f"FOUND {first} x {second} at {stops}: {problem}", flush=True)
            print(f"{first} x {second}: {points - before} points, {time.monotonic() - began:.1f} s", flush=True)
        print(f"{points} points, {stage.runs} runs, {len(stage.rests)} different outcomes, {findings} findings")
    return findings


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--url", required=True)
    arguments.add_argument("--first", default="", help="operations, with commas; all by default")
    arguments.add_argument("--second", default="")
    arguments.add_argument("--nested", action="store_true")
    arguments.add_argument("--part", default="1/1", help="of the pairs")
    given = arguments.parse_args()
    migrate.upgrade(given.url)
    firsts, seconds = (names.split(",") if names else list(OPERATIONS) for names in (given.first, given.second))
    part, parts = map(int, given.part.split("/"))
    pairs = set(product(firsts, seconds)) - BY_TIME - LEFT_TO_A_PERSON
    both_ways = sorted({(min(pair), max(pair)) for pair in pairs})[part - 1 :: parts]  # they end in the same states
    wanted = [pair for one, two in both_ways for pair in dict.fromkeys([(one, two), (two, one)]) if pair in pairs]
    return bool(asyncio.run(prove(given.url, wanted, given.nested)))


if __name__ == "__main__":
    sys.exit(main())
