"""What retrieval did is counted, and nobody's read or transaction writes it."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql.config import Settings
from memory_sql.db.engine import asyncpg_url
from memory_sql.db.roles import Roles
from memory_sql.domain.selection import Selection
from memory_sql.errors import ReadOnlyError
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.database import rows, statements
from tests.factories import MONDAY
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
COUNTED = """
    SELECT surface, reason, queries, without_hit, seconds > 0, slowest_seconds > 0, slowest_seconds <= seconds
    FROM memory.retrievals WHERE day = '2026-03-02' ORDER BY surface, reason"""


def opened(url: str, llm: Scripted, **settings: Any) -> Memory:
    return Memory(url, llm, Settings(llm="offline", **settings), clock=lambda: MONDAY)


async def ask(memory: Memory) -> None:
    await memory.observe("The dog is called Rex.", **MIA)
    await memory.search("dog", **MIA)
    await memory.search("submarine", **MIA)
    await memory.context(**MIA, message="What's my dog called?")
    await memory.context(**MIA, message="Thanks, that's perfect.")
    await memory.context(**MIA, message="dog", retrieve=True)
    await memory.context(**MIA, message="What's my dog called?", retrieve=False)
    await memory.context(**MIA)


async def test_counts_are_written_on_close_and_added_to_those_before(database_url: str, llm: Scripted) -> None:
    for times in (1, 2):
        async with opened(database_url, llm) as memory:
            with statements(memory) as seen:
                await ask(memory)
            assert "retrievals" not in " ".join(seen)
        async with opened(database_url, llm) as memory:
            assert await rows(memory, COUNTED) == [
                ("context", "asked", times, 0, True, True, True),
                ("context", "found", times, 0, True, True, True),
                ("context", "none", times, 0, False, False, True),
                ("search", "asked", 2 * times, times, True, True, True),
            ]


async def test_digests_are_counted_where_they_looked_for_words(database_url: str, llm: Scripted) -> None:
    """A context of both is two: what is found is decided on for the XML alone."""
    async with opened(database_url, llm) as memory:
        await memory.observe("The dog is called Rex.", **MIA)
        for query in ("dog", "submarine", "what was it", None):
            await memory.digest(**MIA, query=query)
        for message in ("What's my dog called?", "Thanks for the dog, that's perfect.", None):
            await memory.context(**MIA, message=message, assembly="both")
            await memory.context(**MIA, message=message, assembly="digest")
        await memory.context(**MIA, message="dog", assembly="both", retrieve=False)
        await memory.configure(agent_id="ada", digest_keyword_limit=0)
        await memory.digest(**MIA, query="dog")
    async with opened(database_url, llm) as memory:
        assert [row[:4] for row in await rows(memory, COUNTED)] == [
            ("context", "found", 1, 0),
            ("context", "none", 1, 0),
            ("digest", "asked", 6, 1),
        ]
        assert await rows(memory, "SELECT queries, fired_share::float FROM memory.v_retrieval") == [(8, 0.5)]


async def test_all_that_has_gathered_is_one_statement(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        await ask(memory)
        await memory.observe("Tea.", agent_id="bob", user_id="mia")
        await memory.search("tea", agent_id="bob", user_id="mia")
        await memory.search("tea", agent_id="nobody", user_id="mia")
        with statements(memory) as seen:
            await memory.close()
    assert len([statement for statement in seen if "retrievals" in statement]) == len(seen) == 1
    async with opened(database_url, llm) as memory:
        agents = await rows(memory, "SELECT agent_id, queries FROM memory.v_retrieval ORDER BY 1")
        assert agents == [("ada", 5), ("bob", 1)]


async def test_nothing_is_written_in_the_hosts_transaction(database_url: str, llm: Scripted) -> None:
    engine = create_async_engine(asyncpg_url(database_url))
    async with opened(database_url, llm, count_queries=1) as memory:
        await memory.observe("The dog is called Rex.", **MIA)
        async with AsyncSession(engine) as host:
            await memory.search("dog", **MIA, session=host)
            await memory.context(**MIA, message="What's my dog called?", session=host)
            assert await host.scalar(text("SELECT pg_current_xact_id_if_assigned() IS NULL"))
            await host.rollback()
    async with opened(database_url, llm) as memory:
        assert await rows(memory, "SELECT sum(queries)::integer FROM memory.retrievals") == [(2,)]
    await engine.dispose()


async def test_application_behind_walls_counts(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings
) -> None:
    async with Memory(as_login(walled_database, roles), llm, settings) as walled:
        assert walled.database.walled
        await ask(walled)
    async with Memory(as_login(walled_database, roles), llm, settings) as walled:
        stats = await walled.admin.stats(agent_id="ada")
        assert (stats.retrieval.queries, stats.retrieval.fired, stats.retrieval.without_hit) == (5, 4, 1)


@pytest.mark.direct
async def test_replica_is_read_and_never_written(
    database_url: str, llm: Scripted, caplog: pytest.LogCaptureFixture
) -> None:
    async with opened(database_url, llm) as memory:
        await memory.observe("The dog is called Rex.", **MIA)
    parts = asyncpg_url(database_url).update_query_dict({"options": "-c default_transaction_read_only=on"})
    with caplog.at_level(logging.WARNING, "memory_sql"):
        async with opened(parts.render_as_string(hide_password=False), llm) as replica:
            assert (await replica.search("dog", **MIA)).results
            with pytest.raises(ReadOnlyError, match="25006"):
                await replica.observe("Tea.", **MIA)
    assert caplog.records == []
    async with opened(database_url, llm) as memory:
        assert await rows(memory, "SELECT count(*) FROM memory.retrievals") == [(0,)]


async def counted(memory: Memory, *days: tuple[int, str, int, int, float, float]) -> None:
    for ago, reason, queries, without_hit, seconds, slowest in days:
        await rows(
            memory,
            "INSERT INTO memory.retrievals SELECT agent_key, :day, 'context', :reason, :queries, :without, :sum, :slowest"
            " FROM memory.agents WHERE agent_id = 'ada'",
            day=(MONDAY - timedelta(days=ago)).date(), reason=reason, queries=queries, without=without_hit, sum=seconds,
            slowest=slowest,
        )  # fmt: skip


async def test_stats_sum_up_the_last_thirty_days(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        await memory.observe("Tea.", **MIA)
        assert (await memory.admin.stats(agent_id="ada")).retrieval.mean_ms is None
        await counted(
            memory, (31, "asked", 100, 100, 100.0, 100.0), (30, "asked", 2, 1, 0.5, 0.375), (0, "none", 7, 0, 0.0, 0.0),
            (0, "recall phrase", 2, 0, 0.5, 0.25),
        )  # fmt: skip
        found = (await memory.admin.stats(agent_id="ada")).retrieval
        assert (found.queries, found.fired, found.without_hit) == (11, 4, 1)
        assert (found.mean_ms, found.slowest_ms) == (250.0, 375.0)
        assert found.reasons == {"asked": 2, "none": 7, "recall phrase": 2}


async def test_vectors_are_advised_for_large_scopes_in_which_words_fall_short(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R124, R138."""
    monkeypatch.setattr("memory_sql.resources.admin.VECTORS_OBSERVATIONS", 2)
    async with opened(database_url, llm) as memory:
        for n in range(3):
            large = (await memory.observe(f"Fact {n}.", **MIA)).scope.key
        for n in range(2):
            await memory.observe(f"Fact {n}.", agent_id="ada", collective=True)
            await memory.observe(f"Other {n}.", agent_id="bob", user_id="mia")
        await counted(memory, (1, "asked", 10, 2, 1.0, 0.5))
        assert (await memory.admin.stats(agent_id="ada")).vectors_advised == ()
        await counted(memory, (0, "asked", 1, 1, 0.0, 0.0))
        assert (await memory.admin.stats(agent_id="ada")).vectors_advised == (f"s{large}",)


async def test_view_tells_shares_and_times(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        await memory.observe("Tea.", **MIA)
        await counted(
            memory, (1, "none", 3, 0, 0.0, 0.0), (0, "asked", 3, 2, 0.75, 0.5), (0, "none", 3, 0, 0.0, 0.0),
            (0, "recall phrase", 1, 1, 0.25, 0.25),
        )  # fmt: skip
        found = await rows(
            memory,
            "SELECT queries, fired_share::real, without_hit_share::real, mean_ms, slowest_ms FROM memory.v_retrieval"
            " WHERE agent_id = 'ada' ORDER BY day",
        )
        assert found == [(3, None, None, None, None), (7, 0.25, 0.75, 250.0, 500.0)]


async def test_forgetting_an_agent_forgets_what_it_was_asked(memory: Memory) -> None:
    await memory.observe("Tea.", **MIA)
    await counted(memory, (0, "asked", 3, 0, 0.0, 0.0))
    await memory.forget(Selection(everything=True), agent_id="ada")
    assert await rows(memory, "SELECT count(*) FROM memory.retrievals") == [(0,)]
