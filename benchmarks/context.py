"""`Memory.context` against the same function called by bare asyncpg, in one run; their ratio counts.

Shape: five scopes with 14 kB of text and 33 pending observations between them. Both ask the same server with a prepared
statement; `Memory.context` also makes values of it, renders the XML and counts tokens.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
from sqlalchemy import text

from benchmarks.server import fresh_database
from memory_sql.db.engine import SERVER_SETTINGS, asyncpg_url
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
GROUPS = ("harbor", "ferry", "board")
PENDING = (7, 7, 7, 6, 6)
CHARACTERS = 14_000
ROUNDS = 1500
WORDS = "harbour gate berth boat ferry price kronor report freeze ship tea coffee map list server backup".split()
STORY = """
    WITH told AS (
        INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)
        SELECT agent_key, scope_id, 1, 0, 0, 0, :story, 0, 'asked' FROM memory.scopes
    )
    UPDATE memory.scopes SET version = 1
"""
BARE = "SELECT * FROM memory.static_layer($1, $2, $3, $4)"


def sentence(n: int) -> str:
    return f"Fact {n}: the {WORDS[n % 16]} & the {WORDS[n // 16 % 16]} belong to the {WORDS[n // 7 % 16]}."


async def fill(memory: Memory) -> None:
    await memory.add([{"role": "user", "content": "Hello"}], **MIA, conversation_id="s", group_ids=GROUPS)
    owners: list[dict[str, Any]] = [
        {"user_id": "mia"}, {"collective": True}, *({"group_id": group} for group in GROUPS)
    ]  # fmt: skip
    for owner, pending in zip(owners, PENDING, strict=True):
        for n in range(pending):
            await memory.observe(sentence(n), agent_id="ada", **owner)
    story = " ".join(map(sentence, range(100)))[: CHARACTERS // len(owners)]
    async with memory.database.statement() as session:
        await session.execute(text(STORY), {"story": story})
        await session.execute(text("ANALYZE"))


async def medians_us(*rivals: Callable[[], Awaitable[object]]) -> list[float]:
    """In turns, so that what else the machine does falls on all of them."""
    times: list[list[float]] = [[] for _ in rivals]
    for n in range(-100, ROUNDS):
        for rival, took in zip(rivals, times, strict=True):
            started = time.perf_counter()
            await rival()
            took += [time.perf_counter() - started] if n >= 0 else []
    return [statistics.median(took) * 1e6 for took in times]


async def main() -> None:
    async with fresh_database() as url, Memory(url, Offline()) as memory:
        await fill(memory)
        dsn = asyncpg_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        connection = await asyncpg.connect(dsn, server_settings=SERVER_SETTINGS)
        try:
            prepared = await connection.prepare(BARE)
            found = await prepared.fetch("ada", "mia", None, 20)
            context = await memory.context(**MIA)
            assert len(found) == len(PENDING)
            assert len(context.xml) > CHARACTERS

            async def bare() -> object:
                return await prepared.fetch("ada", "mia", None, 20)

            bare_us, context_us = await medians_us(bare, lambda: memory.context(**MIA))
        finally:
            await connection.close()
    print(f"bare asyncpg {bare_us:6.0f} us   Memory.context {context_us:6.0f} us   {context_us / bare_us:5.2f} x")


if __name__ == "__main__":
    asyncio.run(main())
