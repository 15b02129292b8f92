"""What a turn costs apart from the model: add, observe, context, search, against `SELECT 1` on the same connection pool.

Only ratios within one run count, not the milliseconds of this machine. One user has a consolidated text of 2,500
characters, a group and the collective scope, 20 pending observations each, and 1,000 absorbed ones.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import text

from benchmarks.server import fresh_database
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ROUNDS = 300
WORDS = "harbour gate berth boat ferry price kronor report freeze ship tea coffee map list server backup".split()
ABSORBED = """
    WITH told AS (
        INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)
        SELECT agent_key, scope_id, 1, 0, 1, last_seq, :story, 0, 'asked' FROM memory.scopes WHERE kind = 'individual'
    )
    UPDATE memory.scopes SET version = 1, done_seq = last_seq WHERE kind = 'individual'
"""


def sentence(n: int) -> str:
    return f"Fact {n}: the {WORDS[n % 16]} and the {WORDS[n // 16 % 16]} belong to the {WORDS[n // 7 % 16]}."


async def fill(memory: Memory) -> None:
    await memory.add([{"role": "user", "content": "Hello"}], **MIA, conversation_id="s", group_ids=["harbor"])
    for n in range(1000):
        await memory.observe(sentence(n), **MIA)
    async with memory.database.transaction() as session:
        await session.execute(text(ABSORBED), {"story": " ".join(map(sentence, range(45)))[:2500]})
    for n in range(20):
        await memory.observe(sentence(2000 + n), **MIA)
        await memory.observe(sentence(3000 + n), agent_id="ada", group_id="harbor")
        await memory.observe(sentence(4000 + n), agent_id="ada", collective=True)
    async with memory.database.statement() as session:
        await session.execute(text("ANALYZE"))


async def median_ms(call: Callable[[int], Awaitable[object]]) -> float:
    for n in range(20):
        await call(-n)
    times = []
    for n in range(ROUNDS):
        started = time.perf_counter()
        await call(n)
        times.append(time.perf_counter() - started)
    return statistics.median(times) * 1000


async def main() -> None:
    async with fresh_database() as url, Memory(url, Offline()) as memory:
        await fill(memory)

        async def select_one(_: int) -> None:
            async with memory.database.statement() as session:
                await session.execute(text("SELECT 1"))

        calls: dict[str, Callable[[int], Awaitable[object]]] = {
            "SELECT 1": select_one,
            "add (2 messages)": lambda n: memory.add(
                [{"role": "user", "content": sentence(n)}, {"role": "assistant", "content": "Noted."}],
                **MIA, conversation_id=f"b{n}",
            ),
            "observe": lambda n: memory.observe(sentence(n), agent_id="ada", user_id=f"u{n}"),
            "context": lambda _: memory.context(**MIA),
            "context, retrieving": lambda _: memory.context(**MIA, message="Do you remember the gate and the ferry?"),
            "search (1,060 rows)": lambda _: memory.search("gate ferry kronor", **MIA),
        }  # fmt: skip
        base = 0.0
        for name, call in calls.items():
            took = await median_ms(call)
            base = base or took
            print(f"{name:24} {took:8.2f} ms   {took / base:6.1f} x")
