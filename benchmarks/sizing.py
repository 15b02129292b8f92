"""What a user costs a machine: bytes of a row on disk, and CPU of a call, in a town of 10⁵ observations and 10⁴ people.

Printed for docs/sizing.md. Bytes are those of the table and its indexes, after filling, by the rows in it; CPU is that of
this process (`client`) and of the database's (`server`), without its background processes, in milliseconds, the median.
"""

from __future__ import annotations

import statistics
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from benchmarks.hot_paths import sentence
from benchmarks.server import fresh_database, plain_url
from benchmarks.town import AGENT, fill
from benchmarks.turn import Cost, backends_of, cost_of
from memory_sql.config import Settings
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

ROUNDS = 200
MESSAGES = 20  # of a conversation that is formed
SIZES = """
    SELECT c.relname AS name, c.reltuples::bigint AS rows, pg_total_relation_size(c.oid) / c.reltuples::bigint AS bytes
    FROM pg_class c
    WHERE c.relnamespace = 'memory'::regnamespace AND c.relkind = 'r' AND c.reltuples > 1000
    ORDER BY pg_total_relation_size(c.oid) DESC
"""


async def main() -> None:
    async with fresh_database() as url:
        await fill(url)
        connection = await asyncpg.connect(plain_url(url))
        for row in await connection.fetch(SIZES):
            print(f"{row['name']:22} {row['rows']:8,} rows {row['bytes']:7,} bytes each")
        await connection.close()
        async with Memory(url, Offline(), Settings(llm="offline", pool_size=1)) as memory:
            await _calls(memory, url)


async def _calls(memory: Memory, url: str) -> None:
    def person(n: int) -> dict[str, Any]:
        return {"agent_id": AGENT, "user_id": f"p{n % 9_000 + 1}"}

    def said(n: int, count: int) -> list[dict[str, str]]:
        return [{"role": ("user", "assistant")[m % 2], "content": sentence(n * count + m)} for m in range(count)]

    async def talk(n: int) -> None:
        await memory.add(said(n, MESSAGES), **person(n), conversation_id=f"long{n}")

    async def form(n: int) -> None:
        await memory.conversations.form(agent_id=AGENT, conversation_id=f"long{n}")

    calls: dict[str, Callable[[int], Awaitable[object]]] = {
        "add (2 messages)": lambda n: memory.add(said(n, 2), **person(n), conversation_id=f"c{n}"),
        "context": lambda n: memory.context(**person(n)),
        "context with a message": lambda n: memory.context(**person(n), message=sentence(n)),
        "search": lambda n: memory.search("gate ferry kronor", **person(n)),
        "observe": lambda n: memory.observe(sentence(n), **person(n)),
        f"add ({MESSAGES} messages)": talk,
        f"form (of {MESSAGES}), without the model": form,
    }
    for name, call in calls.items():
        costs = [await cost_of(partial(call, n), await backends_of(url)) for n in range(ROUNDS)]
        middle = Cost(*map(statistics.median, zip(*costs[10:], strict=True)))
        print(f"{name:36} client {middle.client:6.2f}   server {middle.server:6.2f}")
