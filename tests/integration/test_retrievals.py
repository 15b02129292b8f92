"""Retrievals are counted, but never in anybody's read or transaction."""

from __future__ import annotations

import asyncio
import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.exports import ExportedObservation
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
                ("context", "too little", times, times, True, True, True),
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
            ("context", "found", 2, 0),
            ("digest", "asked", 6, 1),
        ]
        assert await rows(memory, "SELECT queries, fired_share::float FROM memory.v_retrieval") == [(8, 1.0)]


async def test_all_that_has_gathered_is_one_statement_for_queries_and_one_for_observations(
    database_url: str, llm: Scripted
) -> None:
    async with opened(database_url, llm) as memory:
        await ask(memory)
        await memory.observe("Tea.", agent_id="bob", user_id="mia")
        await memory.search("tea", agent_id="bob", user_id="mia")
        await memory.search("tea", agent_id="nobody", user_id="mia")
        with statements(memory) as seen:
            await memory.close()
    assert [re.findall(r"INSERT INTO memory\.(\w+)", statement) for statement in seen] == [
        ["retrievals"],
        ["observation_retrievals"],
    ]
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
        assert (stats.retrieval.queries, stats.retrieval.fired, stats.retrieval.without_hit) == (5, 5, 2)


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


# What each observation was retrieved for


RETRIEVED = """
    SELECT observation_id, surface, times FROM memory.v_retrieved
    WHERE agent_id = 'ada' AND day = '2026-03-02' ORDER BY observation_id, surface"""


async def pet(memory: Memory) -> str:
    """The id of an observation that no context shows unless it is found: it waits for nothing, and is in no text."""
    dog = await memory.observe("The dog is called Rex.", **MIA)
    await rows(memory, "UPDATE memory.scopes SET done_seq = last_seq")
    return dog.id


async def test_what_was_found_and_shown_is_counted_by_surface(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        dog = await pet(memory)
        new = (await memory.observe("Ida is a boat.", **MIA)).id
        for _ in range(2):
            await memory.search("dog boat", **MIA)
        await memory.search("submarine", **MIA)
        await memory.context(**MIA, message="What's my dog called?")
        await memory.context(**MIA, message="What's my dog called?", retrieve=False)
        await memory.context(**MIA, message="Thanks, that's perfect.")
        shown = await memory.context(**MIA, message="Where is my boat?")
        assert new in shown.sources  # as pending, not because it was found
        await memory.digest(**MIA, query="dog")
        await memory.context(**MIA, message="What's my dog called?", assembly="both")
        await memory.context(**MIA, message="What's my dog called?", assembly="digest")
        await memory.digest(**MIA, query="dog", budgets={"total": {"items": 0}})
    async with opened(database_url, llm) as memory:
        assert await rows(memory, RETRIEVED) == [
            (dog, "context", 2),
            (dog, "digest", 3),
            (dog, "search", 2),
            (new, "search", 2),
        ]


async def test_counts_of_observations_are_added_to_those_before(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        dog = await pet(memory)
    for times in (1, 2):
        async with opened(database_url, llm) as memory:
            with statements(memory) as seen:
                await memory.search("dog", **MIA)
            assert len(seen) == 1
        async with opened(database_url, llm) as memory:
            assert await rows(memory, RETRIEVED) == [(dog, "search", times)]


async def test_counts_go_with_the_observation(database_url: str, llm: Scripted) -> None:
    """Also where it went after it was found, before that was written; what else was counted isn't lost with it."""
    async with opened(database_url, llm) as memory:
        dog = await pet(memory)
        boat = (await memory.observe("The boat is called Ida.", **MIA)).id
        await memory.search("dog boat", **MIA)
    async with opened(database_url, llm) as memory:
        assert [row[0] for row in await rows(memory, RETRIEVED)] == [dog, boat]
        await memory.search("dog boat", **MIA)
        await memory.forget(dog, agent_id="ada")
    async with opened(database_url, llm) as memory:
        assert await rows(memory, RETRIEVED) == [(boat, "search", 2)]
        await memory.forget(Selection(everything=True), agent_id="ada")
        assert await rows(memory, "SELECT seq FROM memory.observation_retrievals") == []


async def test_writing_counts_waits_for_no_forgetting_and_none_is_left_behind(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        dog = (await memory.observe("The dog is called Rex.", **MIA)).id
        asking = await opened(database_url, llm).open()
        await asking.search("dog", **MIA)
        async with memory.database.transaction() as unit:
            await memory.forget(dog, agent_id="ada", session=unit)
            async with asyncio.timeout(10):
                await asking.close()  # which writes
        assert await rows(memory, "SELECT seq FROM memory.observation_retrievals") == []
        assert await rows(memory, "SELECT queries FROM memory.retrievals") == [(1,)]
        assert list(await memory.admin.verify()) == []


async def test_export_of_a_person_tells_what_was_retrieved_of_their_own(database_url: str, llm: Scripted) -> None:
    async with opened(database_url, llm) as memory:
        dog = await pet(memory)
        ours = (await memory.observe("The dog barks.", agent_id="ada", group_id="harbor", user_id="mia")).id
        await memory.groups.add_member("harbor", **MIA)
        for _ in range(2):
            await memory.search("dog", **MIA)
        await memory.digest(**MIA, query="dog")
    async with opened(database_url, llm) as memory:
        lines = [line async for line in memory.people.export(**MIA)]
        told = {line.id: line.retrieved for line in lines if isinstance(line, ExportedObservation)}
        assert told == {dog: {"search": 2, "digest": 1}, ours: {}}


async def counted_on(memory: Memory, *ago: int) -> None:
    for days in ago:
        await rows(
            memory,
            "INSERT INTO memory.observation_retrievals SELECT agent_key, scope_id, seq, :day, 'search', 1"
            " FROM memory.observations",
            day=(MONDAY - timedelta(days=days)).date(),
        )


async def test_maintenance_ends_counts_after_their_days(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_sql.resources.work.COUNTS_AT_ONCE", 2)
    async with opened(database_url, llm, count_days=30) as memory:
        for agent in ("ada", "bob"):
            await memory.observe("Tea.", agent_id=agent, user_id="mia")
        await counted_on(memory, 0, 30, 31, 32, 33)
        assert (await memory.work.maintain(agent_id="nobody")).counts == 0
        done = await memory.work.maintain(agent_id="ada", limit=1)
        assert (done.counts, done.complete) == (1, False)
        done = await memory.work.maintain()
        assert (done.counts, done.complete) == (5, True)
        left = await rows(memory, "SELECT DISTINCT day FROM memory.observation_retrievals ORDER BY day")
        assert left == [((MONDAY - timedelta(days=ago)).date(),) for ago in (30, 0)]


async def test_application_behind_walls_counts_and_ends_what_was_retrieved(
    walled_database: str, roles: Roles, llm: Scripted
) -> None:
    """It may delete no row itself but by the functions for that."""
    async with opened(as_login(walled_database, roles), llm) as walled:
        assert walled.database.walled
        dog = (await walled.observe("The dog is called Rex.", **MIA)).id
        await walled.search("dog", **MIA)
    async with opened(as_login(walled_database, roles), llm) as walled:
        assert await rows(walled, RETRIEVED) == [(dog, "search", 1)]
        await counted_on(walled, 100)
        assert (await walled.work.maintain()).counts == 1
        await walled.forget(dog, agent_id="ada")
        assert await rows(walled, "SELECT seq FROM memory.observation_retrievals") == []
