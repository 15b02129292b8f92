"""How search grows with the database and with the scope, and what the library adds to its statements.

Only ratios within one run count. One database is filled step by step: scopes of 1,000 observations each, then one of
100,000. `python -m benchmarks.scale --sizes 10000,100000,1000000` goes up to a million. Another database is filled with
conversations.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import event

from benchmarks.crowd import AGENT, SEED, Crowd, Person, commonest, words
from benchmarks.recall.metrics import percentile
from benchmarks.server import fresh_database, plain_url
from benchmarks.walls import medians_ms
from benchmarks.wire import Wire, counted
from memory_sql.config import Settings
from memory_sql.db.engine import SERVER_SETTINGS
from memory_sql.llm.embeddings import ENCODER, LocalEmbeddings
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

SIZES = (10_000, 100_000)
SCOPE = 1_000  # observations of an ordinary user
BIG = 100_000  # observations of the largest user
SESSIONS = (1, 100_000, 500_000)  # conversations of one agent
OTHERS = 1_000  # other agents
NAMESAKES = 100_000  # agents with a user of the same id
LONG = 5_000  # messages of a long conversation
QUERY_WORDS = 4
WARM_UP, ROUNDS = 30, 300
SETTINGS = Settings(llm="offline", embedding="off")  # an encoder is measured separately

Call = Callable[[int], Awaitable[object]]


class CrowdError(Exception):
    """The rows copied into the tables aren't what the library would have left there."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A statement as it was sent to the driver."""

    statement: str
    parameters: Sequence[Any]


async def main(
    sizes: Sequence[int] = SIZES, big: int = BIG, sessions: Sequence[int] = SESSIONS, agents: int = NAMESAKES
) -> None:
    await observations(sizes, big)
    await conversations(sessions, agents)


async def observations(sizes: Sequence[int], big: int) -> None:
    async with fresh_database() as url, counted(url) as wire, Memory(url, Offline(), SETTINGS) as memory:
        connection = await asyncpg.connect(plain_url(url), server_settings=SERVER_SETTINGS)
        try:
            crowd = await Crowd.of(connection)
            people = await growth(memory, crowd, sizes)
            giant = (await crowd.add("giant", 1, big))[0]
            await settle(connection)
            await width(memory, people[0], giant)
            await nearness(crowd, giant)
            await overhead(memory, connection, people[0])
            await searching(memory, people[0])
            await statements(wire, people[0])
        finally:
            await connection.close()


async def growth(memory: Memory, crowd: Crowd, sizes: Sequence[int]) -> list[Person]:
    """Measures a turn in scopes of one size while the database grows. Users and words differ each time."""
    people: list[Person] = []
    first: dict[str, float] = {}
    print(f"p50 in scopes of {SCOPE:,} observations, {QUERY_WORDS} words, and times the first")
    for size in sizes:
        started = time.perf_counter()
        people += await crowd.add(f"user{size}-", (size - len(people) * SCOPE) // SCOPE, SCOPE)
        await settle(crowd.connection)
        filled = time.perf_counter() - started
        if size == sizes[0]:
            await check(memory)
        print(f"  {size:10,} observations (filled in {filled:.0f} s)")
        for name, call in turns(memory, people, size).items():
            p50 = percentile(await times_ms(call), 0.5)
            print(f"    {name:10} {p50:8.2f} ms   {p50 / first.setdefault(name, p50):5.2f} x", flush=True)
    return people


async def conversations(sessions: Sequence[int], agents: int) -> None:
    """A user's only conversation among those of the agent's other users, then among namesakes of other agents.

    Last a user who has a tenth of the conversations.
    """
    print("\none conversation of a user, among so many of the agent's")
    async with fresh_database() as url, Memory(url, Offline(), SETTINGS) as memory:
        connection = await asyncpg.connect(plain_url(url), server_settings=SERVER_SETTINGS)
        crowd = await Crowd.of(connection)
        await crowd.talk(OTHERS, user="anna", agent="other%")
        await crowd.talk(1, user="mia")
        for before, size in zip((1, *sessions), sessions, strict=False):
            await crowd.talk(size - before, user=f"user{size}-%")
            await among(memory, connection, f"{size:,}", "mia")
        await check(memory)
        await crowd.talk(agents, user="mia", agent="agent%")
        await among(memory, connection, f"and {agents:,} agents", "mia")
        await crowd.talk(sessions[-1] // 10, user="giant")
        await among(memory, connection, f"{sessions[-1] // 10:,} of one's own", "giant")
        await crowd.talk(1, user="long", messages=LONG)
        await among(memory, connection, f"{LONG:,} messages", "long")
        await connection.close()


async def among(memory: Memory, connection: asyncpg.Connection, name: str, user: str) -> None:
    """Measures times, and how many pages the statement reads from Postgres' buffers once it is planned."""
    await settle(connection)
    whose: dict[str, Any] = {"agent_id": AGENT, "user_id": user}
    calls: dict[str, Call] = {
        "search": lambda _: memory.search("which ferry left", **whose),
        "context": lambda _: memory.context(**whose, message="which ferry left", retrieve=True),
    }
    told = []
    for call_name, call in calls.items():
        p50 = percentile(await times_ms(call), 0.5)
        with sent(memory) as seen:
            await call(0)
        pages = [await buffers(connection, item) for _ in range(2) for item in seen][len(seen) :]
        told.append(f"{call_name} p50 {p50:7.2f} ms, {sum(pages):9,} pages")
    print(f"  {name:20} {'   '.join(told)}", flush=True)


async def buffers(connection: asyncpg.Connection, item: Sent) -> int:
    told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) {item.statement}", *item.parameters)
    plan = json.loads(told)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


async def settle(connection: asyncpg.Connection) -> None:
    await connection.execute("VACUUM ANALYZE", timeout=None)


async def check(memory: Memory) -> None:
    """Raises `CrowdError` if an invariant doesn't hold."""
    violations = await memory.admin.verify()
    if violations:
        raise CrowdError(f"{len(violations)} violations, the first of {violations[0].invariant}")


def turns(memory: Memory, people: Sequence[Person], size: int) -> dict[str, Call]:
    """Each call is for a different person every time."""
    source = random.Random(SEED)

    def whose() -> dict[str, Any]:
        return {"agent_id": AGENT, "user_id": source.choice(people).user_id}

    said = [{"role": "user", "content": words(source, 12)}, {"role": "assistant", "content": words(source, 12)}]
    return {
        "search": lambda _: memory.search(words(source, QUERY_WORDS), **whose()),
        "context": lambda _: memory.context(**whose(), message=words(source, QUERY_WORDS), retrieve=True),
        "digest": lambda _: memory.digest(**whose(), query=words(source, QUERY_WORDS)),
        "list": lambda _: memory.observations.list(**whose()),
        "add": lambda n: memory.add(said, **whose(), conversation_id=f"grown{size}-{n}"),
        "observe": lambda _: memory.observe(words(source, 12), **whose()),
    }


async def times_ms(call: Call) -> list[float]:
    times = []
    for n in range(-WARM_UP, ROUNDS):
        started = time.perf_counter()
        await call(n)
        times += [(time.perf_counter() - started) * 1000] if n >= 0 else []
    return times


async def width(memory: Memory, ordinary: Person, giant: Person) -> None:
    """The commonest words, which match most, in the largest scope and in an ordinary one, in turns."""
    query = commonest(QUERY_WORDS)

    def search(person: Person) -> Call:
        return lambda _: memory.search(query, agent_id=AGENT, user_id=person.user_id)

    small, large = await medians_ms(search(ordinary), search(giant))
    print(f"\nthe {QUERY_WORDS} commonest words")
    print(f"  {ordinary.observations:10,} in the scope   p50 {small:7.2f} ms")
    print(f"  {giant.observations:10,} in the scope   p50 {large:7.2f} ms   {large / small:5.2f} x")


async def nearness(crowd: Crowd, giant: Person) -> None:
    """The nearest observations in meaning among so many visible ones. Every vector is compared, by Hamming distance."""
    print("\nthe 50 nearest in meaning (memory.similar, 512 bits)")
    ones = [(await crowd.add(f"near{size}-", 1, size))[0] for size in (1_000, 10_000) if size < giant.observations]
    for person in (*ones, giant):
        await crowd.connection.execute(_VECTORS, crowd.agent_key, person.scope_id)
        await settle(crowd.connection)
        times = await times_ms(partial(_nearest_to, crowd, person))
        print(f"  {person.observations:10,} to be seen   p50 {percentile(times, 0.5):7.2f} ms")


async def _nearest_to(crowd: Crowd, person: Person, n: int) -> object:
    return await crowd.connection.fetch(_SIMILAR, crowd.agent_key, [person.scope_id], str(n))


_BITS = "('x' || md5({0} || 'a') || md5({0} || 'b') || md5({0} || 'c') || md5({0} || 'd'))::bit(512)"
_VECTORS = f"""
    INSERT INTO memory.observation_vectors (agent_key, scope_id, seq, model, bits)
    SELECT agent_key, scope_id, seq, 'bench:512', {_BITS.format("seq")} FROM memory.observations
    WHERE agent_key = $1 AND scope_id = $2
"""  # noqa: S608 (bits)
_SIMILAR = f"SELECT * FROM memory.similar($1, $2, 'bench:512', {_BITS.format('$3::text')}, false, NULL, NULL)"  # noqa: S608


async def overhead(memory: Memory, connection: asyncpg.Connection, person: Person) -> None:
    """Compares the calls with their own statements, sent again by bare asyncpg, in turns."""
    print("\nbeside the same statements by bare asyncpg")
    for name, call in reads(memory, person).items():
        with sent(memory) as seen:
            await call(0)
        library, bare = await medians_ms(call, again(connection, seen))
        print(f"  {name:22} {library:7.2f} ms   bare {bare:7.2f} ms   {library / bare:5.2f} x")


async def searching(memory: Memory, person: Person) -> None:
    """What a search in the same statement adds to a context, and what an encoder in the process adds."""
    query = words(random.Random(SEED), QUERY_WORDS)
    whose: dict[str, Any] = {"agent_id": AGENT, "user_id": person.user_id}
    without, searched = await medians_ms(
        lambda _: memory.context(**whose), lambda _: memory.context(**whose, message=query, retrieve=True)
    )
    print(f"\na context of {person.observations:,} observations")
    print(f"  without a search       p50 {without:7.2f} ms")
    print(f"  with one               p50 {searched:7.2f} ms   {searched / without:5.2f} x")
    if find_spec(ENCODER) is not None:
        model = LocalEmbeddings()
        times = await times_ms(lambda _: model.embed([query]))
        print(f"  the encoder            p50 {percentile(times, 0.5):7.2f} ms")


def reads(memory: Memory, person: Person) -> dict[str, Call]:
    query = words(random.Random(SEED), QUERY_WORDS)
    whose: dict[str, Any] = {"agent_id": AGENT, "user_id": person.user_id}
    return {
        "search": lambda _: memory.search(query, **whose),
        "context": lambda _: memory.context(**whose),
        "context, retrieving": lambda _: memory.context(**whose, message=query, retrieve=True),
    }


@contextmanager
def sent(memory: Memory) -> Iterator[list[Sent]]:
    """Collects what the library sends to the driver."""
    seen: list[Sent] = []

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Sequence[Any], *_: Any) -> None:
        seen.append(Sent(statement, parameters))

    async def note_direct(connection: asyncpg.Connection, statement: str, *parameters: Any) -> Any:
        seen.append(Sent(statement, parameters))
        return await fetch(connection, statement, *parameters)

    engine, fetch = memory.database.engine.sync_engine, asyncpg.Connection.fetch
    event.listen(engine, "before_cursor_execute", note)
    asyncpg.Connection.fetch = note_direct  # hot reads call the driver directly
    try:
        yield seen
    finally:
        event.remove(engine, "before_cursor_execute", note)
        asyncpg.Connection.fetch = fetch


def again(connection: asyncpg.Connection, seen: Sequence[Sent]) -> Call:
    async def send(_: int) -> None:
        for item in seen:
            await connection.fetch(item.statement, *item.parameters)

    return send


async def statements(wire: Wire, person: Person) -> None:
    """What a call sends once its statements are prepared, counted between client and server."""
    print("\nover the wire, per call")
    async with Memory(wire.url, Offline(), SETTINGS.model_copy(update={"pool_size": 1})) as memory:
        for name, call in (reads(memory, person) | writes(memory, person)).items():
            for n in range(3):
                await call(n)
            wire.types.clear()
            await call(3)
            print(f"  {name:22} {wire.statements:3} statements   {wire.round_trips:3} round trips")


def writes(memory: Memory, person: Person) -> dict[str, Call]:
    whose: dict[str, Any] = {"agent_id": AGENT, "user_id": person.user_id}
    source = random.Random(SEED)
    return {
        "add (2 messages)": lambda n: memory.add(
            [{"role": "user", "content": words(source, 12)}, {"role": "assistant", "content": words(source, 12)}],
            **whose, conversation_id=f"wire{n}",
        ),
        "observe": lambda _: memory.observe(words(source, 12), **whose),
    }  # fmt: skip


def _sizes(value: str) -> list[int]:
    sizes = _rising(value)
    if any(size < SCOPE or size % SCOPE for size in sizes):
        raise argparse.ArgumentTypeError(f"rising multiples of {SCOPE}, with commas")
    return sizes


def _rising(value: str) -> list[int]:
    numbers = [int(number) for number in value.split(",")]
    if numbers != sorted(set(numbers)) or numbers[0] < 1:
        raise argparse.ArgumentTypeError("rising multiples of one, with commas")
    return numbers


def arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--sizes", type=_sizes, default=list(SIZES), help="observations of the database, step by step")
    parser.add_argument("--big", type=int, default=BIG, help="observations of the largest scope")
    parser.add_argument("--sessions", type=_rising, default=list(SESSIONS), help="conversations, step by step")
    parser.add_argument("--agents", type=int, default=NAMESAKES, help="agents with a user of the same id")
    return parser.parse_args(given)


if __name__ == "__main__":
    options = arguments()
    asyncio.run(main(options.sizes, options.big, options.sessions, options.agents))
