"""What lies beside the hot path: pages of a list, look-ups in views, an add and its statement, verify, sizes, the start.

Only ratios and pages within one run count. Lists are read in scopes of three sizes in one database; look-ups are made
before and after the database has grown tenfold.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Mapping
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.crowd import AGENT, Crowd, Person
from benchmarks.hot_paths import sentence
from benchmarks.scale import Sent, buffers, sent, settle
from benchmarks.server import fresh_database, plain_url
from benchmarks.walls import medians_ms
from memory_sql.config import Settings
from memory_sql.db.engine import SERVER_SETTINGS
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

SCOPES = (10, 1_000, 100_000)
STARTS = {
    "from memory_sql import Memory": "from memory_sql import Memory",
    "memory-sql --help": "from memory_sql.cli import main; main(['--help'])",
    "memory-sql --version": "from memory_sql.cli import main; main(['--version'])",
}
DRIVERS = "import sqlalchemy, asyncpg"
BARE = """
    CREATE TEMPORARY TABLE bare AS SELECT agent_key, scope_id, seq, content, observed_at FROM memory.observations;
    ALTER TABLE bare ADD PRIMARY KEY (agent_key, scope_id, seq)
"""
SIZES = """
    SELECT count(*) AS observations, (
               pg_total_relation_size('memory.observations') + pg_total_relation_size('memory.evidence')
           ) / count(*) AS bytes, pg_relation_size('memory.observations_search_idx') / count(*) AS words,
           pg_total_relation_size('bare') / count(*) AS bare
    FROM bare
"""
FIRST = """
import asyncio
from memory_sql import Memory

async def main():
    async with Memory({url!r}) as memory:
        {calls}

asyncio.run(main())
"""
_ADD = """await memory.add([{"role": "user", "content": "I moved to the harbour."}], **who)"""
_CONTEXT = """await memory.context(**who, message="What did I say of the harbour?")"""
_WHO = """who = {"agent_id": "ada", "user_id": "mia", "conversation_id": "42"}; """
CALLS = {"open": "pass", "add": _WHO + _ADD, "add and context": f"{_WHO}{_ADD}; {_CONTEXT}"}
TIMES = 7


async def main(scopes: tuple[int, ...] = SCOPES) -> None:
    async with fresh_database() as url, Memory(url, Offline(), Settings(llm="offline")) as memory:
        connection = await asyncpg.connect(plain_url(url), server_settings=SERVER_SETTINGS)
        crowd = await Crowd.of(connection)
        people = [(await crowd.add(f"first{size}-", 1, size))[0] for size in scopes[:-1]]
        await look_ups(connection, people[0])
        people += await crowd.add(f"first{scopes[-1]}-", 1, scopes[-1])
        await look_ups(connection, people[0])
        await pages(memory, people)
        await verify(memory, sum(scopes))
        await adding(memory, connection)
        await sizes(connection)
        await connection.close()
        await asyncio.to_thread(start, url)


async def look_ups(connection: asyncpg.Connection, person: Person) -> None:
    await settle(connection)
    count = await connection.fetchval("SELECT count(*) FROM memory.observations")
    asked = {"observation_id": f"o{person.scope_id}-1", "owner_id": person.user_id}
    for column, value in asked.items():
        item = Sent(f"SELECT * FROM memory.v_observations WHERE agent_id = $1 AND {column} = $2", (AGENT, value))  # noqa: S608
        print(f"v_observations by {column:16} {count:10,} observations   {await buffers(connection, item):6,} pages")


async def pages(memory: Memory, people: list[Person]) -> None:
    whose: list[dict[str, Any]] = [{"agent_id": AGENT, "user_id": person.user_id} for person in people]
    took = await medians_ms(*(lambda _, who=who: memory.observations.list(**who) for who in whose))
    for person, ms in zip(people, took, strict=True):
        print(f"list, in a scope of {person.observations:10,}   p50 {ms:7.2f} ms   {ms / took[0]:5.2f} x")


async def verify(memory: Memory, count: int) -> None:
    for hashes in (False, True):
        started = time.perf_counter()
        await memory.admin.verify(hashes=hashes)
        print(f"verify, {count:,} observations{', all hashes' * hashes}   {time.perf_counter() - started:.1f} s")


async def adding(memory: Memory, connection: asyncpg.Connection) -> None:
    """Compares it with its own statement by bare asyncpg, with other ids each time, in turns."""

    async def add(n: int) -> object:
        said = [{"role": "user", "content": sentence(n)}, {"role": "assistant", "content": "Noted."}]
        return await memory.add(said, agent_id=AGENT, user_id="mia", conversation_id=f"c{n % 50}")

    with sent(memory) as seen:
        await add(0)
    (item,) = seen

    async def bare(_: int) -> object:
        said = [{**one, "id": uuid.uuid4().hex} for one in json.loads(item.parameters[4])]
        return await connection.fetch(item.statement, *item.parameters[:4], json.dumps(said), *item.parameters[5:])

    library, alone = await medians_ms(add, bare)
    print(f"add (2 messages)   {library:.2f} ms   bare {alone:.2f} ms   {library / alone:.2f} x")


async def sizes(connection: asyncpg.Connection) -> None:
    """Compares an observation with its evidence and all indexes to its key, text and time alone."""
    await connection.execute(BARE, timeout=None)
    found = await connection.fetchrow(SIZES)
    print(
        f"an observation   {found['bytes']} bytes, {found['words']} of them in the index of words"
        f"   bare {found['bare']}   {found['bytes'] / found['bare']:.2f} x"
    )


def start(url: str | None = None) -> None:
    """The CPU time of a process, in turns; with `url`, also of its first calls in that database."""
    asked = ["--agent", "ada", "--user", "mia", "--message", "What did I say of the boat?", "--url", url]
    command = {"memory-sql context": f"from memory_sql.cli import main; main(['context', *{asked}])"} if url else {}
    first = (
        {f"import … first {call}": FIRST.format(url=url, calls=calls) for call, calls in CALLS.items()} if url else {}
    )
    codes = {DRIVERS: DRIVERS} | STARTS | command | first
    took: dict[str, list[float]] = {name: [] for name in codes}
    with tempfile.TemporaryDirectory() as compiled:  # as packages are that were installed
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(TIMES + 1):
            for name, code in codes.items():
                ms = _cpu_ms(code, environment)
                took[name] += [ms] if turn else []
    base = statistics.median(took[DRIVERS])
    for name, times in took.items():
        ms = statistics.median(times)
        print(f"{name:32} {ms:6.0f} ms of CPU   {ms / base:5.2f} x")


def _cpu_ms(code: str, environment: Mapping[str, str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


if __name__ == "__main__":
    asyncio.run(main())
