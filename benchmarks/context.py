"""`Memory.context` against the same function called by bare asyncpg, in one run. Only their ratio counts.

Five scopes have 14 kB of text and 33 pending observations together. Both ask the same server with a prepared statement;
`Memory.context` also converts the values, renders the XML and counts tokens. Then a user of 1,000 groups, each with a
text and three pending observations: with all of them, and with the default of `context_scopes_max`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
from sqlalchemy import text

from benchmarks.server import fresh_database
from memory_sql.db.engine import SERVER_SETTINGS
from memory_sql.db.urls import asyncpg_url
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
MANY = 1_000
CLUBS = (
    """INSERT INTO memory.scopes (agent_key, kind, owner, last_seq, last_activity_at, version)
    SELECT agent_key, 'group', 'g:club' || n, 3, now() - n * interval '1 hour', 1
    FROM memory.agents CROSS JOIN generate_series(1, 1000) n""",
    """INSERT INTO memory.members (agent_key, scope_id, user_id)
    SELECT agent_key, scope_id, 'kim' FROM memory.scopes WHERE owner LIKE 'g:club%'""",
    """INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)
    SELECT agent_key, scope_id, 1, 0, 0, 0, repeat('The gate of the harbour opens at seven. ', 8), 0, 'asked'
    FROM memory.scopes WHERE owner LIKE 'g:club%'""",
    """INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT agent_key, scope_id, n, 'The gate of ' || owner, now(), 'observe', 1
    FROM memory.scopes CROSS JOIN generate_series(1, 3) n WHERE owner LIKE 'g:club%'""",
    "ANALYZE",
)
BARE = "SELECT * FROM memory.static_layer($1, $2, $3, $4, $5)"


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


async def medians_us(*rivals: Callable[[], Awaitable[object]], rounds: int = ROUNDS, warm: int = 100) -> list[float]:
    """In turns, so that other load on the machine affects all of them."""
    times: list[list[float]] = [[] for _ in rivals]
    for n in range(-warm, rounds):
        for rival, took in zip(rivals, times, strict=True):
            started = time.perf_counter()
            await rival()
            took += [time.perf_counter() - started] if n >= 0 else []
    return [statistics.median(took) * 1e6 for took in times]


async def many_us(memory: Memory) -> list[float]:
    """A user of so many groups: with all of them, and with the newest."""
    async with memory.database.statement() as session:
        for statement in CLUBS:
            await session.execute(text(statement))
    took = []
    for most in (MANY, None):
        await memory.configure(agent_id="ada", context_scopes_max=most)
        took += await medians_us(lambda: memory.context(agent_id="ada", user_id="kim"), rounds=40, warm=5)
    return took


async def main() -> None:
    async with fresh_database() as url, Memory(url, Offline()) as memory:
        await fill(memory)
        dsn = asyncpg_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
        connection = await asyncpg.connect(dsn, server_settings=SERVER_SETTINGS)
        try:
            prepared = await connection.prepare(BARE)
            found = await prepared.fetch("ada", "mia", None, 20, 200)
            context = await memory.context(**MIA)
            assert len(found) == len(PENDING)
            assert len(context.xml) > CHARACTERS

            async def bare() -> object:
                return await prepared.fetch("ada", "mia", None, 20, 200)

            bare_us, context_us = await medians_us(bare, lambda: memory.context(**MIA))
            of_all_us, bounded_us = await many_us(memory)
        finally:
            await connection.close()
    print(f"bare asyncpg {bare_us:6.0f} us   Memory.context {context_us:6.0f} us   {context_us / bare_us:5.2f} x")
    print(f"{MANY} scopes: all {of_all_us:6.0f} us   the newest {bounded_us:6.0f} us   {bounded_us / of_all_us:5.2f} x")


if __name__ == "__main__":
    asyncio.run(main())
