"""How long forgetting a user takes, without the model: 500 to 5,000 observations of one user among as many of others.

The user's observations are in 50 versions of one text and share a group with others. The result is the ratio to a bare
DELETE of the same rows in the same run, which is rolled back, and the number of statements sent.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event, text

from benchmarks.hot_paths import sentence
from benchmarks.server import fresh_database
from memory_sql.config import Settings
from memory_sql.domain.results import Receipt
from memory_sql.domain.selection import Selection
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

ADA: dict[str, Any] = {"agent_id": "ada"}
SIZES = (500, 5000)


async def fill(memory: Memory, size: int) -> float:
    """Returns the seconds for the user's observations."""
    started = time.perf_counter()
    for n in range(size):
        scope = (await memory.observe(sentence(n), **ADA, user_id="mia")).scope
        if n % (size // 50) == 0:
            await memory.scopes.consolidate(**ADA, scope_id=scope.id)
    stored = time.perf_counter() - started
    for n in range(size // 10):
        await memory.observe(sentence(n), **ADA, user_id="mia", group_id="crew")
        await memory.observe(sentence(n), **ADA, user_id="jonas", group_id="crew")
        await memory.observe(sentence(n), **ADA, user_id=f"u{n % 50}")
    return stored


GOING = text(
    "CREATE TEMP TABLE going ON COMMIT DROP AS SELECT o.agent_key, o.scope_id, o.seq FROM memory.observations o"
    " WHERE format('o%s-%s', o.scope_id, o.seq) = ANY (:ids)"
)
DELETES = (
    "DELETE FROM memory.consolidations c USING (SELECT DISTINCT agent_key, scope_id FROM going) k"
    " WHERE (c.agent_key, c.scope_id) = (k.agent_key, k.scope_id)",
    "DELETE FROM memory.evidence e USING going k WHERE (e.agent_key, e.scope_id, e.seq) = (k.agent_key, k.scope_id, k.seq)",
    "DELETE FROM memory.evidence WHERE user_id = 'mia'",
    "DELETE FROM memory.observation_states t USING going k"
    " WHERE (t.agent_key, t.scope_id, t.seq) = (k.agent_key, k.scope_id, k.seq)",
    "DELETE FROM memory.observations o USING going k"
    " WHERE (o.agent_key, o.scope_id, o.seq) = (k.agent_key, k.scope_id, k.seq)",
)


async def bare(memory: Memory, receipt: Receipt) -> float:
    """The seconds for deleting the same rows, and nothing else."""
    async with memory.database.transaction() as session:
        await session.execute(GOING, {"ids": list(receipt.observations)})
        await session.execute(text("ANALYZE going"))
        started = time.perf_counter()
        for delete in DELETES:
            await session.execute(text(delete))
        took = time.perf_counter() - started
        await session.rollback()
    return took


@contextmanager
def counted(memory: Memory) -> Iterator[list[str]]:
    """Collects the statements that are sent."""
    sent: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        sent.append(statement)

    event.listen(memory.database.engine.sync_engine, "before_cursor_execute", note)
    try:
        yield sent
    finally:
        event.remove(memory.database.engine.sync_engine, "before_cursor_execute", note)


async def main() -> None:
    for size in SIZES:
        async with fresh_database() as url, Memory(url, Offline(), Settings(llm="offline")) as memory:
            stored = await fill(memory, size)
            async with memory.database.statement() as session:
                await session.execute(text("ANALYZE"))
            planned = await memory.forget(Selection(user_id="mia"), **ADA, dry_run=True)
            least = min([await bare(memory, planned) for _ in range(3)])
            with counted(memory) as sent:
                started = time.perf_counter()
                receipt = await memory.forget(Selection(user_id="mia"), **ADA, wait=False)
                took = time.perf_counter() - started
            print(
                f"{size:6,} observations: forgotten in {took:6.2f} s by {len(sent)} statements, {took / least:4.1f} times a"
                f" bare DELETE ({least:6.2f} s); stored in {stored:6.2f} s; counts {receipt.counts}"
            )
