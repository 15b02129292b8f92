"""How long forgetting a user takes, without the model's time: 500 to 5,000 observations of one user among as many of others.

The user's observations stand in 50 versions of one text and share a group with others. Said as milliseconds per 1,000
observations, beside storing the same number by `observe`, in one run.
"""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import text

from benchmarks.hot_paths import sentence
from benchmarks.server import fresh_database
from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

ADA: dict[str, Any] = {"agent_id": "ada"}
SIZES = (500, 5000)


async def fill(memory: Memory, size: int) -> float:
    """Seconds for the user's observations."""
    started = time.perf_counter()
    scope_id = ""
    for n in range(size):
        scope_id = (await memory.observe(sentence(n), **ADA, user_id="mia")).scope.key
        if n % (size // 50) == 0:
            await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")
    stored = time.perf_counter() - started
    for n in range(size // 10):
        await memory.observe(sentence(n), **ADA, user_id="mia", group_id="crew")
        await memory.observe(sentence(n), **ADA, user_id="jonas", group_id="crew")
        await memory.observe(sentence(n), **ADA, user_id=f"u{n % 50}")
    return stored


async def main() -> None:
    for size in SIZES:
        async with fresh_database() as url, Memory(url, Offline(), Settings(llm="offline")) as memory:
            stored = await fill(memory, size)
            async with memory.database.statement() as session:
                await session.execute(text("ANALYZE"))
            started = time.perf_counter()
            receipt = await memory.forget(Selection(user_id="mia"), **ADA, wait=False)
            took = time.perf_counter() - started
            print(
                f"{size:6,} observations: forgotten in {took:6.2f} s ({took / size * 1e6:,.0f} ms per 1,000), "
                f"stored in {stored:6.2f} s; counts {receipt.counts}"
            )
