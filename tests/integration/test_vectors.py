"""Vectors beside words: what they find, how they are made, and that everything works without them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from alembic import command
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql.config import Settings
from memory_sql.db import migrate, vectors
from memory_sql.db.engine import asyncpg_url
from memory_sql.db.roles import Roles, make
from memory_sql.domain.reading import SearchResult
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, DatabaseError, LanguageModelError, UnavailableError
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.commands import memory_sql
from tests.conftest import as_login
from tests.database import rows, statements
from tests.fakes import Meanings, Scripted
from tests.migrations.databases import downgrade, execute, fetch, schema_of

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}
DIMENSIONS = 8
SLOOP = "Mia owns a sloop."
NOISE = ("The mole is closed.", "Rent is due on Friday.", "Jonas moved to Bergen.", "The stove was repaired.")
ASKED = "Which vessel has she got?"
COUNT = "SELECT count(*) FROM memory.observation_vectors"

Open = Callable[..., AbstractAsyncContextManager[Memory]]


async def _has_pgvector(url: str) -> bool:
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool)
    async with engine.connect() as connection:
        found = await connection.scalar(text("SELECT true FROM pg_available_extensions WHERE name = 'vector'"))
    await engine.dispose()
    return bool(found)


@pytest.fixture
async def plain(database_url: str, pytestconfig: pytest.Config) -> str:
    """The URL of a database that can have vectors and has none yet."""
    if pytestconfig.getoption("--walled"):
        pytest.skip("only the owner of the schema makes tables")
    if not await _has_pgvector(database_url):
        pytest.skip("this server has no pgvector")
    return database_url


@pytest.fixture
async def enabled(plain: str) -> str:
    await vectors.enable(plain, DIMENSIONS)
    return plain


@pytest.fixture
def model() -> Meanings:
    return Meanings(dimensions=DIMENSIONS)


@pytest.fixture
async def memory(enabled: str, model: Meanings, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(enabled, llm, settings, embeddings=model) as opened:
        yield opened


async def remember(memory: Memory, *texts: str) -> None:
    for text_ in texts:
        await memory.observe(text_, **MIA)


def contents(found: SearchResult) -> list[str]:
    return [hit.observation.content for hit in found.results]


async def test_search_finds_what_means_the_same_in_other_words(memory: Memory) -> None:
    """R139."""
    await remember(memory, SLOOP, *NOISE)
    assert contents(await memory.search(ASKED, **MIA)) == []
    assert (await memory.work.embed()).embedded == 5
    found = await memory.search(ASKED, **MIA, explain=True)
    assert contents(found)[0] == SLOOP
    assert found.notice is None
    (first, *_) = found.results
    assert first.explanation is not None
    assert first.explanation.admitted == "vector"
    assert first.explanation.parts["vector"] > 0
    assert first.score == pytest.approx(sum(first.explanation.parts.values()))


async def test_words_alone_find_as_before(memory: Memory, model: Meanings) -> None:
    await remember(memory, SLOOP, *NOISE)
    await memory.work.embed()
    asked = model.calls
    assert contents(await memory.search(ASKED, **MIA, semantic=False)) == []
    assert contents(await memory.search("sloop", **MIA, semantic=False)) == [SLOOP]
    assert model.calls == asked


async def test_search_with_a_vector_is_one_round_trip(memory: Memory) -> None:
    await remember(memory, SLOOP)
    await memory.work.embed()
    with statements(memory) as seen:
        await memory.search(ASKED, **MIA)
    assert len(seen) == 1


async def test_context_retrieves_by_meaning_and_holds_no_connection_meanwhile(
    enabled: str, model: Meanings, llm: Scripted
) -> None:
    settings = Settings(llm="offline", pool_size=1, pending_max=0)
    async with Memory(enabled, llm, settings, embeddings=model) as memory:
        await remember(memory, SLOOP, *NOISE)
        await memory.work.embed()
        model.meanwhile = lambda: memory.admin.stats(agent_id="ada")
        context = await memory.context(**MIA, message=ASKED, retrieve=True)
    assert SLOOP in str(context)
    assert context.notice is None


@pytest.mark.parametrize("by_meaning", [True, False])
async def test_digest_looks_for_meaning_where_that_is_switched_on(memory: Memory, *, by_meaning: bool) -> None:
    """R242, R259."""
    await remember(memory, SLOOP, *NOISE)
    await memory.work.embed()
    await memory.configure(agent_id="ada", digest_semantic=by_meaning)
    assert (SLOOP in str(await memory.digest(**MIA, query=ASKED))) is by_meaning
    context = await memory.context(**MIA, message=ASKED, assembly="digest")
    assert (SLOOP in str(context)) is by_meaning


async def test_fusion_of_places_explains_itself(enabled: str, model: Meanings, llm: Scripted) -> None:
    async with Memory(enabled, llm, Settings(llm="offline", fusion="rank"), embeddings=model) as memory:
        await remember(memory, SLOOP, "The vessel has left.", *NOISE)
        await memory.work.embed()
        found = await memory.search(ASKED, **MIA, explain=True)
    assert contents(found)[:2] == ["The vessel has left.", SLOOP]
    for hit in found.results:
        assert hit.explanation is not None
        assert set(hit.explanation.parts) == {"text", "vector"}
        assert hit.score == pytest.approx(sum(hit.explanation.parts.values()))


@pytest.mark.slow
async def test_vectors_find_in_scopes_that_are_not_read_whole(memory: Memory, model: Meanings) -> None:
    seed = await memory.observe(SLOOP, **MIA)
    await rows(
        memory,
        "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
        " SELECT 1, :scope, n, 'Note ' || n, now(), 'observe', 1 FROM generate_series(2, 1500) n",
        scope=seed.scope.key,
    )
    await rows(memory, "UPDATE memory.scopes SET last_seq = 1500 WHERE scope_id = :scope", scope=seed.scope.key)
    assert (await memory.work.embed()).embedded == 1500
    found = await memory.search(ASKED, **MIA, explain=True)
    assert contents(found)[0] == SLOOP
    found = await memory.search("sloop", **MIA, explain=True)
    assert found.results[0].explanation is not None
    assert {"words", "vector"} <= set(found.results[0].explanation.parts)


# Whose they are


async def test_nobody_finds_by_meaning_what_they_may_not_see(memory: Memory) -> None:
    await remember(memory, SLOOP, *NOISE)
    await memory.observe("Jonas has rented a ferry.", **JONAS)
    await memory.work.embed()
    assert SLOOP not in contents(await memory.search(ASKED, **JONAS, top_k=100))


@pytest.mark.parametrize("status", ["quarantined", "superseded"])
async def test_what_counts_no_more_is_not_found_by_meaning(memory: Memory, status: str) -> None:
    first = await memory.observe(SLOOP, **MIA)
    await remember(memory, *NOISE)
    await memory.work.embed()
    if status == "quarantined":
        await memory.observations.quarantine(first.id, **MIA)
    else:
        await memory.observations.update(first.id, **MIA, text="She owns nothing that floats.")
    assert SLOOP not in contents(await memory.search(ASKED, **MIA, top_k=100))


@pytest.mark.parametrize("fusion", ["score", "rank"])
@pytest.mark.parametrize("embedded", ["before", "after"])
async def test_superseded_is_found_by_meaning_where_it_is_asked_for(
    enabled: str, model: Meanings, llm: Scripted, fusion: str, embedded: str
) -> None:
    """Marked, and below what took its place, whenever it got its vector."""
    settings = Settings(llm="offline", fusion=fusion)
    async with Memory(enabled, llm, settings, embeddings=model) as memory:
        old = await memory.observe(SLOOP, **MIA)
        await remember(memory, *NOISE)
        if embedded == "before":
            await memory.work.embed()
        new = await memory.observations.update(old.id, **MIA, text="Mia owns a ferry.")
        await memory.work.embed()
        found = await memory.search(ASKED, **MIA, include_superseded=True)
        marks = [(hit.observation.id, hit.observation.status, hit.observation.superseded_by) for hit in found.results]
        assert marks[:2] == [(new.id, "active", None), (old.id, "superseded", new.id)]
        assert SLOOP not in contents(await memory.search(ASKED, **MIA, top_k=100))


async def test_past_is_searched_by_meaning_as_it_was(memory: Memory) -> None:
    first = await memory.observe(SLOOP, **MIA)
    await remember(memory, *NOISE)
    await memory.work.embed()
    then = memory.now()
    await memory.observations.quarantine(first.id, **MIA)
    assert contents(await memory.search(ASKED, **MIA, as_of=then))[0] == SLOOP


async def test_forgetting_takes_vectors_along(memory: Memory) -> None:
    """R139: nothing that tells of a text outlives it."""
    await remember(memory, SLOOP, *NOISE)
    await memory.observe("Jonas has rented a ferry.", **JONAS)
    await memory.work.embed()
    await memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert await rows(memory, COUNT) == [(1,)]
    await memory.forget(Selection(everything=True), agent_id="ada")
    assert await rows(memory, COUNT) == [(0,)]


# How they are made


async def test_what_is_due_is_embedded_once(memory: Memory, model: Meanings, llm: Scripted) -> None:
    await memory.observe(SLOOP, **MIA, speaker="Mia")
    assert (await memory.run_due()).embedded == 1
    assert (await memory.run_due()).embedded == 0
    assert model.texts == [f"Mia: {SLOOP}"]


async def test_many_are_embedded_in_batches_and_up_to_the_limit(enabled: str, model: Meanings, llm: Scripted) -> None:
    async with Memory(enabled, llm, Settings(llm="offline", embedding_batch=2), embeddings=model) as memory:
        await remember(memory, SLOOP, *NOISE)
        first = await memory.work.embed(limit=3)
        assert (first.embedded, first.complete, model.calls) == (3, False, 2)
        rest = await memory.work.embed(whole=False)
        assert (rest.embedded, rest.complete) == (2, True)


async def test_gap_is_found_by_looking_at_the_whole(memory: Memory) -> None:
    await remember(memory, *NOISE)
    await memory.work.embed()
    await rows(memory, "DELETE FROM memory.observation_vectors WHERE seq = 2")
    assert (await memory.work.embed(whole=False)).embedded == 0
    assert (await memory.work.embed()).embedded == 1


async def test_two_at_once_store_each_vector_once(memory: Memory, model: Meanings) -> None:
    await remember(memory, *NOISE)
    model.meanwhile = memory.work.embed
    done = await memory.work.embed()
    assert done.embedded == 0
    assert await rows(memory, COUNT) == [(len(NOISE),)]


async def test_what_is_forgotten_meanwhile_does_not_come_back(memory: Memory, model: Meanings) -> None:
    await remember(memory, SLOOP)
    await memory.observe("Jonas has rented a ferry.", **JONAS)
    model.meanwhile = lambda: memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert (await memory.work.embed()).embedded == 1
    assert await rows(memory, COUNT) == [(1,)]


async def test_text_without_a_vector_stops_no_other(memory: Memory, model: Meanings) -> None:
    await remember(memory, SLOOP, *NOISE)
    model.without = "stove"
    with pytest.raises(LanguageModelError):  # once nothing else is left
        await memory.work.embed()
    assert await rows(memory, COUNT) == [(len(NOISE),)]


@pytest.mark.parametrize(("local", "allowed", "sent"), [(False, False, 0), (False, True, 1), (True, False, 1)])
async def test_sensitive_leaves_only_where_it_may(
    enabled: str, llm: Scripted, local: bool, allowed: bool, sent: int
) -> None:
    """B.5."""
    model, settings = Meanings(dimensions=DIMENSIONS, local=local), Settings(llm="offline", embed_sensitive=allowed)
    async with Memory(enabled, llm, settings, embeddings=model) as memory:
        seen = await memory.observe("Mia sees a surgeon.", **MIA)
        await memory.observations.mark(seen.id, **MIA, sensitivity="sensitive")
        assert (await memory.work.embed()).embedded == sent
    assert len(model.texts) == sent


@pytest.mark.slow
async def test_vectors_of_another_model_are_left_alone_and_made_anew(
    enabled: str, memory: Memory, llm: Scripted, settings: Settings
) -> None:
    await remember(memory, SLOOP, *NOISE)
    await memory.work.embed()
    async with Memory(enabled, llm, settings, embeddings=Meanings("newer", DIMENSIONS)) as changed:
        assert contents(await changed.search(ASKED, **MIA)) == []
        assert (await changed.admin.stats(agent_id="ada")).vectors == "on: newer, 8, 0/5"
        assert (await changed.run_due()).embedded == 5
        assert contents(await changed.search(ASKED, **MIA))[0] == SLOOP
    assert contents(await memory.search(ASKED, **MIA))[0] == SLOOP


async def test_model_of_other_dimensions_is_an_error_only_to_what_fills(
    enabled: str, memory: Memory, llm: Scripted, settings: Settings
) -> None:
    await remember(memory, SLOOP)
    async with Memory(enabled, llm, settings, embeddings=Meanings(dimensions=6)) as changed:
        with pytest.raises(ConfigurationError, match="has 8 dimensions, the embedding model 6"):
            await changed.work.embed()
        assert "6" in (await changed.run_due()).failed["vectors"]
        assert contents(await changed.search("sloop", **MIA)) == [SLOOP]
        assert (await changed.admin.stats(agent_id="ada")).vectors.startswith(
            "off: the table of vectors has 8 dimensions"
        )


@pytest.mark.slow
async def test_worker_fills_in_the_background(memory: Memory, model: Meanings) -> None:
    await remember(memory, SLOOP, *NOISE)
    worked = await Worker(memory).run_once()
    assert worked.embedded == 5
    model.failing = UnavailableError("timeout", "no answer")
    await remember(memory, "The ferry is late.")
    worked = await Worker(memory).run_once()
    assert (worked.embedded, worked.failed) == (0, 1)
    model.failing = None
    stop = asyncio.Event()
    running = asyncio.create_task(Worker(memory, poll_seconds=0.01).run(stop))
    async with asyncio.timeout(20):
        while await rows(memory, COUNT) != [(6,)]:  # noqa: ASYNC110 (no event tells us)
            await asyncio.sleep(0)  # until the worker has
        stop.set()  # which may come between the commit and the count
        assert (await running).failed == 0


# What is missing


async def test_nothing_is_asked_for_without_a_model(database_url: str, llm: Scripted, settings: Settings) -> None:
    """R031, R137."""
    async with Memory(database_url, llm, settings) as memory:
        await remember(memory, SLOOP)
        assert (await memory.admin.stats(agent_id="ada")).vectors == (
            "off: no embedding model; the setting embedding names one"
        )
        assert (await memory.work.embed()).embedded == (await memory.run_due()).embedded == 0
        assert (await memory.search(ASKED, **MIA)).notice is None
        asked = await memory.search("sloop", **MIA, semantic=True)
    assert contents(asked) == [SLOOP]
    assert asked.notice is not None


async def test_model_without_a_table_is_not_asked(
    database_url: str, llm: Scripted, settings: Settings, model: Meanings
) -> None:
    async with Memory(database_url, llm, settings, embeddings=model) as memory:
        await remember(memory, SLOOP)
        assert contents(await memory.search("sloop", **MIA)) == [SLOOP]
        assert (await memory.run_due()).embedded == 0
        assert "db vectors enable" in (await memory.admin.stats(agent_id="ada")).vectors
    assert model.calls == 0


@pytest.mark.parametrize(
    "failure", [UnavailableError("connection", "no connection"), ValueError(SLOOP)], ids=["named", "unnamed"]
)
async def test_search_goes_by_words_when_the_model_fails(
    memory: Memory, model: Meanings, failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    await remember(memory, SLOOP)
    await memory.work.embed()
    asked, model.failing = model.calls, failure
    found = await memory.search("Which sloop has she got?", **MIA)
    assert contents(found) == [SLOOP]
    assert (found.notice or "").startswith("without vectors: ")
    assert SLOOP not in (found.notice or "") + caplog.text
    assert "without vectors" in caplog.text
    await memory.search(ASKED, **MIA)
    assert model.calls == asked + 1  # it isn't asked again at once
    context = await memory.context(**MIA, message=ASKED, retrieve=True)
    assert (context.notice or "").startswith("without vectors: ")


async def test_search_does_not_wait_for_a_slow_model(enabled: str, llm: Scripted, model: Meanings) -> None:
    settings = Settings(llm="offline", embedding_query_seconds=0.01, embedding_retry_seconds=0)
    async with Memory(enabled, llm, settings, embeddings=model) as memory:
        await remember(memory, SLOOP)
        model.meanwhile = asyncio.Event().wait
        found = await memory.search("sloop", **MIA)
        assert contents(found) == [SLOOP]
        assert found.notice == "without vectors: no answer within 0.01 seconds"
        assert (await memory.search("sloop", **MIA)).notice is None


# The table


async def test_enabling_again_keeps_what_is_filled(memory: Memory, enabled: str) -> None:
    await remember(memory, SLOOP)
    await memory.work.embed()
    assert await vectors.enable(enabled, DIMENSIONS) == vectors.Vectors(DIMENSIONS, usable=True, walled=False)
    assert await rows(memory, COUNT) == [(1,)]
    with pytest.raises(ConfigurationError, match="has 8 dimensions, not 9"):
        await vectors.enable(enabled, 9)


async def test_schema_is_the_same_again_without_vectors(plain: str) -> None:
    before = schema_of(plain)
    await vectors.enable(plain, DIMENSIONS)
    assert await vectors.disable(plain)
    assert not await vectors.disable(plain)
    assert await vectors.status(plain) is None
    assert schema_of(plain) == before


@pytest.mark.filterwarnings(
    "ignore:Computed default on (observations|messages).(search|cues) cannot be modified:UserWarning"
)
async def test_migrations_and_invariants_do_not_mind(memory: Memory, enabled: str) -> None:
    await remember(memory, SLOOP)
    await memory.work.embed()
    await asyncio.to_thread(command.check, migrate.alembic_config(enabled))
    assert [violation.key for violation in await memory.admin.verify()] == []
    await memory.database.engine.dispose()
    await downgrade(enabled)
    assert await fetch(enabled, "SELECT to_regclass('memory.observations')") == [(None,)]


def test_commands_enable_and_disable(plain: str) -> None:
    at = ("--url", plain, "--json")
    assert (memory_sql("db", "vectors", "status", *at)).value == {"enabled": False, "dimensions": None}
    refused = memory_sql("db", "vectors", "enable", *at, code=1)
    assert "MEMORY_SQL_EMBEDDING" in refused.err
    assert (memory_sql("db", "vectors", "enable", "--dimensions", 8, *at)).value["dimensions"] == 8
    assert (memory_sql("db", "vectors", "status", *at)).value == {"enabled": True, "dimensions": 8}
    memory_sql("db", "vectors", "disable", *at, code=1)
    assert (memory_sql("db", "vectors", "disable", "--yes", *at)).value == {"disabled": True}


async def test_server_without_the_extension_says_so(database_url: str, pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("--walled") or await _has_pgvector(database_url):
        pytest.skip("this server has pgvector")
    with pytest.raises(ConfigurationError, match="has no extension pgvector"):
        await vectors.enable(database_url, DIMENSIONS)


# Walls


@pytest.mark.slow
async def test_walls_stand_around_vectors(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings, model: Meanings
) -> None:
    if not await _has_pgvector(walled_database):
        pytest.skip("this server has no pgvector")
    made = await vectors.enable(walled_database, DIMENSIONS)
    assert made.walled
    url = as_login(walled_database, roles)
    async with Memory(url, llm, settings, embeddings=model) as memory:
        await remember(memory, SLOOP, *NOISE)
        assert contents(await memory.search("sloop", **MIA)) == [SLOOP]
        assert "db roles" in (await memory.admin.stats(agent_id="ada")).vectors
        await make(walled_database, roles)
        assert (await memory.work.embed()).embedded == 5
        assert contents(await memory.search(ASKED, **MIA))[0] == SLOOP
        assert [violation.key for violation in await memory.admin.verify()] == []
        async with memory.database.transaction() as unit:
            assert await unit.scalar(text(COUNT)) == 0
        async with memory.database.transaction(principal={**JONAS, "conversation_id": None}) as unit:
            assert await unit.scalar(text(COUNT)) == 0
        async with memory.database.transaction(principal={**MIA, "conversation_id": None}) as unit:
            assert await unit.scalar(text(COUNT)) == 5
        with pytest.raises(DatabaseError):
            async with memory.database.transaction(principal={**MIA, "conversation_id": None}) as unit:
                await unit.execute(text("DELETE FROM memory.observation_vectors"))
        await memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert await fetch(walled_database, COUNT) == [(0,)]
    with pytest.raises(Exception, match="permission denied"):
        await execute(
            walled_database,
            f'SET LOCAL ROLE "{roles.analyst}"',
            "SELECT embedding FROM memory.observation_vectors",
        )
