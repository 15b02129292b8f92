"""What row-level security costs: the same calls by a superuser, who passes the walls, and by the application behind them.

Only the ratio within one run counts. Search without the function shows what its statement costs if the policies are
evaluated for each row, which the function avoids.
"""

from __future__ import annotations

import statistics
import time
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from sqlalchemy import text

from benchmarks.hot_paths import MIA, ROUNDS, fill, sentence
from benchmarks.server import fresh_database
from memory_sql.db.roles import Roles, drop, make
from memory_sql.db.urls import asyncpg_url
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory

Call = Callable[[int], Awaitable[object]]

UNDER_POLICIES = text("""
    SELECT o.scope_id, o.seq, ts_rank(o.search, websearch_to_tsquery('english', :query)) AS score
    FROM memory.observations o
    WHERE o.search @@ websearch_to_tsquery('english', :query)
    ORDER BY 3 DESC LIMIT 5
""")


async def main() -> None:
    prefix = f"bench_{uuid.uuid4().hex[:8]}"
    roles = Roles.of(f"{prefix}_owner", f"{prefix}_app", f"{prefix}_analyst")
    async with fresh_database() as url:
        async with Memory(url, Offline()) as memory:
            await fill(memory)
        await make(url, roles)
        as_app = asyncpg_url(url).update_query_dict({"options": f"-c role={roles.app}"})
        app = as_app.render_as_string(hide_password=False)
        async with Memory(url, Offline()) as unwalled, Memory(app, Offline()) as walled:
            assert walled.database.walled
            unwalled.database.walled = False  # as on a database without roles: passes the walls, names no principal
            open_calls, walled_calls = calls(unwalled), calls(walled)
            print(f"{'':32} {'open':>8} {'walled':>8}")
            for name, call in open_calls.items():
                open_ms, walled_ms = await medians_ms(call, walled_calls[name])
                print(f"{name:32} {open_ms:8.2f} {walled_ms:8.2f} ms   {walled_ms / open_ms:5.2f} x")
        await drop(url, roles)


async def medians_ms(*rivals: Call) -> tuple[float, ...]:
    """In turns, so that other load on the machine affects all of them."""
    times: tuple[list[float], ...] = tuple([] for _ in rivals)
    for n in range(-20, ROUNDS):
        for rival, took in zip(rivals, times, strict=True):
            started = time.perf_counter()
            await rival(n)
            took += [time.perf_counter() - started] if n >= 0 else []
    return tuple(statistics.median(took) * 1000 for took in times)


def calls(memory: Memory) -> dict[str, Call]:
    principal: dict[str, Any] = {**MIA, "conversation_id": None}

    async def without_function(_: int) -> None:
        async with memory.database.statement(principal=principal) as unit:
            await unit.execute(UNDER_POLICIES, {"query": "gate or ferry or kronor"})

    return {
        "add (2 messages)": lambda n: memory.add(
            [{"role": "user", "content": sentence(n)}, {"role": "assistant", "content": "Noted."}],
            **MIA, conversation_id=f"{memory.database.walled}{n}",
        ),
        "observe": lambda n: memory.observe(sentence(n), agent_id="ada", user_id=f"{memory.database.walled}{n}"),
        "context": lambda _: memory.context(**MIA),
        "search (1,060 rows)": lambda _: memory.search("gate ferry kronor", **MIA),
        "search without the function": without_function,
        "list (50)": lambda _: memory.observations.list(**MIA),
    }  # fmt: skip
