"""Maintenance of a large database: each transaction does little, however much there is, and none looks through all of it."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import AsyncIterator, Sequence
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from benchmarks.aged import fill
from benchmarks.crowd import commonest
from benchmarks.server import plain_url
from memory_sql.config import Settings
from memory_sql.domain.results import MaintainResult
from memory_sql.memory import Memory
from memory_sql.resources import sweeping
from tests.database import owners_url, rows, statements
from tests.fakes import Scripted

pytestmark = pytest.mark.direct  # fills tables and plans on a connection of its own
SIZE, LOOKED, CHANGED = 1_200, 100, 30
SETTINGS = Settings(
    llm="offline", embedding="off", lifecycle=True, archival=True, maintenance_batch=50, commitment_days=90
)
RULES = '{"promote": 0.55, "stale": 0.65, "archive": 0.74, "protected": [], "days": 90, "importance": 0.3, "uses": 2}'
TIER_RULES = '{"demote": 0.35, "promote": 0.7, "days": 14, "protected": []}'
DEFAULTS = '{"speculative_days": 30, "commitment_days": 90, "time_zone": "UTC", "consolidation_threshold": 10}'
EXPLAIN = "EXPLAIN (ANALYZE, BUFFERS, FORMAT json) SELECT * FROM "
CALLS = {
    "stages": f"memory.sweep_stages(NULL, '{{0,0,0}}', 100, 30, '{RULES}', now(), true)",
    "archival": f"memory.sweep_archival(NULL, '{{0,0,0}}', 100, 30, '{RULES}', 10, now(), true)",
    "tiers": f"memory.sweep_tiers(NULL, '{{0,0,0}}', 100, 30, '{TIER_RULES}', now(), true)",
    "expiry": f"memory.expire(NULL, '{{0,0,0}}', 100, 30, '{DEFAULTS}', now())",
}


@pytest.fixture
async def old(database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Memory]:
    """After two years, without statistics."""
    monkeypatch.setattr(sweeping, "LOOKED_AT_ONCE", LOOKED)
    monkeypatch.setattr(sweeping, "CHANGED_AT_ONCE", CHANGED)
    await filled(database_url)
    async with Memory(database_url, llm, SETTINGS) as memory:
        yield memory
        assert await memory.admin.verify() == []


async def filled(url: str, size: int = SIZE) -> None:
    connection = await asyncpg.connect(plain_url(owners_url(url)))
    await connection.execute("TRUNCATE memory.agents CASCADE")
    await fill(connection, size, ordinary=size // 5, index_last=False)
    await connection.close()


@pytest.mark.slow
async def test_each_transaction_changes_few_and_all_of_them_what_is_due(old: Memory) -> None:
    before = {*await rows(old, "SELECT DISTINCT xmin::text FROM memory.observation_states")}
    with statements(old) as sent:
        done = await old.work.maintain()
    assert done.complete
    assert min(done.expired, done.stages, done.archived, done.counts, done.messages) > CHANGED
    assert done.classified
    written = await rows(
        old,
        "SELECT count(*) FROM memory.observation_states WHERE NOT xmin::text = ANY (:before) GROUP BY xmin::text",
        before=[one for (one,) in before],
    )
    assert max(n for (n,) in written) <= CHANGED
    for name, changed in (("sweep_stages", done.stages), ("sweep_archival", done.archived), ("expire", done.expired)):
        sweeps = sum(f"memory.{name}(" in statement for statement in sent)
        assert changed / CHANGED <= sweeps <= changed / CHANGED + SIZE / LOOKED + 2, name
    with statements(old) as sent:
        assert await old.work.maintain() == MaintainResult(messages=0, complete=True)
    assert _sweeps(sent) <= SIZE / LOOKED + 1


@pytest.mark.slow
async def test_pass_that_is_cut_goes_on_where_it_stopped(old: Memory) -> None:
    with statements(old) as whole:
        await old.work.maintain(dry_run=True)
    looks, changed, done = _sweeps(whole), 0, MaintainResult(messages=0, complete=False)
    with statements(old) as sent:
        while not done.complete:
            done = await old.work.maintain(limit=CHANGED)
            changed += done.stages
    assert changed > 10 * CHANGED
    runs = sum("memory.end_counts(" in one for one in sent)
    assert _sweeps(sent) <= looks + runs  # and not each from the first
    assert await old.work.maintain() == MaintainResult(messages=0, complete=True)


def _sweeps(sent: Sequence[str]) -> int:
    return sum("memory.sweep_stages(" in one for one in sent)


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
async def test_without_statistics_a_batch_reads_as_little_of_much_as_of_little(database_url: str, name: str) -> None:
    pages = []
    for size in (SIZE, 5 * SIZE):
        await filled(database_url, size)
        connection = await asyncpg.connect(plain_url(owners_url(database_url)))
        transaction = connection.transaction()
        await transaction.start()
        for _ in range(2):  # the first reads the catalogues
            plan = json.loads(await connection.fetchval(EXPLAIN + CALLS[name]))[0]["Plan"]
        pages.append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
        await transaction.rollback()
        await connection.close()
    assert pages[1] <= 1.3 * pages[0]


@pytest.mark.slow
async def test_memory_of_the_process_does_not_grow_with_what_is_due(old: Memory) -> None:
    async def peak(**given: Any) -> int:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        await old.work.maintain(**given)
        return tracemalloc.get_traced_memory()[1] - before

    await old.work.maintain(limit=1)  # which compiles its statements
    tracemalloc.start()
    try:
        few, many = await peak(limit=CHANGED), await peak()
        assert many <= 2 * few
    finally:
        tracemalloc.stop()


async def test_database_of_two_years_is_as_the_library_would_have_left_it(old: Memory) -> None:
    assert await old.admin.verify() == []
    user: dict[str, Any] = {"agent_id": "bench0", "user_id": "u0"}
    assert (await old.search(commonest(4), **user)).results
    assert str(await old.context(**user))


@pytest.mark.slow
async def test_plan_of_long_ago_is_archived_and_evicted_in_one_run(old: Memory) -> None:
    await old.work.maintain()
    told = await rows(
        old,
        "SELECT detail->>'from', detail->>'to', detail->>'why', count(*) > 5 FROM memory.events"
        " WHERE detail->>'why' NOT IN ('age', 'resolve') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3",
    )
    assert told == [
        ("active", "archived", "expired", True),
        ("active", "evicted", "speculative", True),
        ("archived", "evicted", "resolved", True),
    ]
