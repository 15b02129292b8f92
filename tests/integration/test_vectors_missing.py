"""What has no vector: a query whose encoder hangs, a text without direction, an observation that waits for its vector."""

from __future__ import annotations

import asyncio
import math
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from random import Random
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import EmbedResult
from memory_sql.errors import UnavailableError
from memory_sql.llm import retry
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Meanings, Scripted
from tests.sizes import share

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
DIMENSIONS = 16
SLOOP = "Mia owns a sloop."
ASKED = "Which sloop has she got?"
LATE = "without vectors: no answer within 0.01 seconds"
WAITING = "without vectors: the embedding model hasn't answered an earlier query yet"


class Hanging(Meanings):
    """Its next calls don't end before `free` is set, each in a thread of its own, whatever is cancelled."""

    def __init__(self, *, local: bool = True) -> None:
        super().__init__(dimensions=DIMENSIONS, local=local)
        self.free = threading.Event()
        self.free.set()
        self.threads: list[threading.Thread] = []

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        vectors = await super().embed(texts)
        if self.free.is_set():
            return vectors
        ended = asyncio.Event()
        loop = asyncio.get_running_loop()

        def hang() -> None:
            self.free.wait()
            loop.call_soon_threadsafe(ended.set)

        self.threads.append(threading.Thread(target=hang, daemon=True))
        self.threads[-1].start()
        while not ended.is_set():
            try:
                await ended.wait()
            except asyncio.CancelledError:  # as of a host that shields its call
                continue
        return vectors


@pytest.fixture(params=[True, False], ids=["local", "remote"])
def hanging(request: pytest.FixtureRequest) -> Hanging:
    return Hanging(local=request.param)


@pytest.fixture
async def waiting(database_url: str, llm: Scripted, hanging: Hanging) -> AsyncIterator[Memory]:
    settings = Settings(
        llm="offline", embedding_local_seconds=0.01, embedding_query_seconds=0.01, embedding_retry_seconds=0
    )
    async with Memory(database_url, llm, settings, embeddings=hanging) as memory:
        await memory.observe(SLOOP, **MIA)
        await memory.work.embed()
        try:
            yield memory
        finally:
            hanging.free.set()


async def returned(hanging: Hanging) -> None:
    """Lets the calls end, and waits until they have."""
    hanging.free.set()
    for thread in hanging.threads:
        await asyncio.to_thread(thread.join)
    while any(not task.done() for task in asyncio.all_tasks() - {asyncio.current_task()}):  # noqa: ASYNC110 (theirs)
        await asyncio.sleep(0)


Read = Callable[[Memory], Awaitable[str | None]]


async def by_search(memory: Memory) -> str | None:
    found = await memory.search(ASKED, **MIA)
    assert [hit.observation.content for hit in found.results] == [SLOOP]
    return found.notice


async def by_context(memory: Memory) -> str | None:
    context = await memory.context(**MIA, message=ASKED, retrieve=True)
    assert SLOOP in str(context)
    return context.notice


@pytest.mark.parametrize("read", [by_search, by_context])
async def test_encoder_that_hangs_holds_no_read(waiting: Memory, hanging: Hanging, read: Read) -> None:
    """One call hangs; while it does the others go by words at once."""
    hanging.free.clear()
    asked = hanging.calls
    assert await read(waiting) == LATE
    assert [await read(waiting) for _ in range(5)] == [WAITING] * 5
    assert (hanging.calls, len(hanging.threads)) == (asked + 1, 1)
    await returned(hanging)
    assert await read(waiting) is None


@pytest.mark.parametrize("hanging", [True], ids=["local"], indirect=True)
async def test_local_encoder_hangs_in_one_thread_for_many_at_once(waiting: Memory, hanging: Hanging) -> None:
    hanging.free.clear()
    asked = hanging.calls
    assert set(await asyncio.gather(*(by_search(waiting) for _ in range(8)))) == {LATE}
    assert (hanging.calls, len(hanging.threads)) == (asked + 1, 1)
    assert await by_search(waiting) == WAITING
    await returned(hanging)
    assert hanging.calls == asked + 1  # who waited for their turn have gone
    assert await by_search(waiting) is None


async def test_encoder_that_hangs_holds_no_work(
    database_url: str, llm: Scripted, hanging: Hanging, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told by its name; while the call goes on no other is made, and all other work is done."""
    monkeypatch.setattr(retry, "BACKOFF_SECONDS", 0.0)
    settings = Settings(llm="offline", llm_timeout_seconds=0.1, llm_max_retries=1)
    async with Memory(database_url, llm, settings, embeddings=hanging) as memory:
        await memory.observe(SLOOP, **MIA)
        hanging.free.clear()
        try:
            with pytest.raises(
                UnavailableError, match=r"the embedding model gave no answer within 0\.2 seconds"
            ) as told:
                await memory.work.embed()
            assert told.value.reason == "timeout"
            asked = hanging.calls
            for _ in range(3):
                with pytest.raises(UnavailableError, match="the embedding model hasn't answered an earlier call yet"):
                    await memory.work.embed()
            (scope,) = await memory.scopes.list(**MIA)
            llm.then(SLOOP)
            assert (await memory.scopes.consolidate(agent_id="ada", scope_id=scope.ref.id)).version == 1
            done = await memory.run_due()
            assert done.failed == {"vectors": "the embedding model hasn't answered an earlier call yet"}
            assert (hanging.calls, len(hanging.threads)) == (asked, 1)
        finally:
            await returned(hanging)
        assert (await memory.work.embed()).embedded == 1


async def test_memory_closes_while_its_encoder_hangs(waiting: Memory, hanging: Hanging) -> None:
    hanging.free.clear()
    await by_search(waiting)
    await waiting.close()
    assert not hanging.free.is_set()


async def test_who_gives_up_takes_no_turn_from_others(waiting: Memory, hanging: Hanging) -> None:
    hanging.free.clear()
    asked = hanging.calls
    given_up = asyncio.create_task(by_search(waiting))
    while hanging.calls == asked:  # noqa: ASYNC110 (until the encoder is asked)
        await asyncio.sleep(0)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    await returned(hanging)
    assert await by_search(waiting) is None


# A text without direction


@pytest.fixture
def model() -> Meanings:
    model = Meanings(dimensions=DIMENSIONS)
    model.without = "🙂"
    return model


@pytest.fixture
async def memory(database_url: str, model: Meanings, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(database_url, llm, settings, embeddings=model) as opened:
        yield opened


@pytest.mark.parametrize("number", [0.0, math.nan, math.inf])
async def test_query_without_direction_goes_by_words_alone(memory: Memory, model: Meanings, number: float) -> None:
    """And nobody else's does."""
    model.nothing = number
    await memory.observe(SLOOP, **MIA)
    await memory.work.embed()
    for _ in range(2):
        assert (await memory.search("🙂🙂 sloop", **MIA)).notice == "without vectors: the query has none"
        found = await memory.search("Which vessel has she got?", **MIA)
        assert ([hit.observation.content for hit in found.results], found.notice) == ([SLOOP], None)


@pytest.mark.parametrize("number", [0.0, math.nan, math.inf])
@pytest.mark.parametrize("size", [1, 2, 64], ids="by {}".format)
async def test_text_without_direction_stops_no_other_and_is_not_tried_again(
    database_url: str, llm: Scripted, model: Meanings, number: float, size: int
) -> None:
    model.nothing = number
    async with Memory(database_url, llm, Settings(llm="offline", embedding_batch=size), embeddings=model) as memory:
        for text in ("🙂🙂", SLOOP, "Great 🙂", "🙂", "Mia likes tea."):
            await memory.observe(text, **MIA)
        done = await memory.work.embed()
        assert (done.embedded, done.without_direction, done.complete) == (2, 3, True)
        asked = model.calls
        assert await memory.work.embed() == EmbedResult()
        assert model.calls == asked
        assert (await memory.admin.stats(agent_id="ada")).vectors == "on: meanings, 16, 2/5, 3 without direction"
        assert await memory.admin.verify() == []
        found = await memory.search("Great vessel", **MIA)
        assert {hit.observation.content for hit in found.results} == {SLOOP, "Mia likes tea.", "Great 🙂"}


async def test_text_that_one_model_finds_no_direction_in_is_tried_by_another(
    database_url: str, memory: Memory, llm: Scripted, settings: Settings
) -> None:
    await memory.observe("Great 🙂", **MIA)
    assert (await memory.work.embed()).without_direction == 1
    async with Memory(database_url, llm, settings, embeddings=Meanings("newer", DIMENSIONS)) as changed:
        assert (await changed.work.embed()).embedded == 1


# An observation that waits for its vector

RARE = "marmot kelp quartz fennel gasket lichen pewter turbot walnut zither".split()
COMMON = "Mia has seen that there was another one in town".split()


class Noise(Meanings):
    """Each text points somewhere, which says nothing of what it means."""

    def _vector(self, text: str) -> list[float]:
        chance = Random(text)
        return [chance.gauss(0, 1) for _ in range(self.dimensions)]


@pytest.mark.parametrize("seed", range(share(60)))
async def test_what_has_a_word_is_never_below_what_has_none_while_its_vector_is_missing(
    database_url: str, llm: Scripted, settings: Settings, seed: int
) -> None:
    """Whatever chance makes the nearest, whether the vector is still to be made or the text has no direction."""
    chance = Random(seed)
    async with Memory(database_url, llm, settings, embeddings=Noise(dimensions=64)) as memory:
        texts = [
            f"{' '.join(chance.sample(COMMON, 4))} {chance.choice(RARE)} {number}."
            for number in range(chance.choice([2, 12, 40]))
        ]
        made = [await memory.observe(text, **MIA, tags=chance.sample(["trip"], chance.randint(0, 1))) for text in texts]
        await memory.work.embed()
        await rows(memory, "UPDATE memory.observations SET terms = 'cabbage' WHERE seq % 7 = 3")
        for one in chance.sample(made, len(made) // 6):
            await memory.observations.dispute(one.id, **MIA)
        missing = {one.id for one in chance.sample(made, len(made) // 2)}
        seqs = [int(one.rpartition("-")[2]) for one in missing]
        await rows(memory, chance.choice([NO_VECTOR, NO_DIRECTION]), seqs=seqs)
        for asked in (
            *RARE,
            "cabbage",
            "marmot town",
            "What has Mia seen in town?",
            "kelp tag:trip",
            "quartz from 2019",
        ):
            hits = (await memory.search(asked, **MIA, top_k=chance.choice([3, 10, 100]), explain=True)).results
            every = (await memory.search(asked, **MIA, top_k=100, explain=True)).results
            assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
            assert [hit.observation.id for hit in every[: len(hits)]] == [hit.observation.id for hit in hits]
            wordless = [place for place, hit in enumerate(every) if not hit.covered]
            waiting = [place for place, hit in enumerate(every) if hit.covered and hit.observation.id in missing]
            assert max(waiting, default=-1) < min(wordless, default=len(every)), asked
            for hit in hits:
                assert hit.explanation is not None
                assert hit.score == pytest.approx(sum(hit.explanation.parts.values()))
                assert hit.near is (hit.observation.id not in missing and hit.explanation.parts.get("vector", 0) > 0)


NO_VECTOR = "DELETE FROM memory.observation_vectors WHERE seq = ANY (CAST(:seqs AS integer[]))"
NO_DIRECTION = "UPDATE memory.observation_vectors SET bits = NULL WHERE seq = ANY (CAST(:seqs AS integer[]))"


async def test_of_what_waits_for_its_vector_more_words_stand_higher(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    """And is stronger."""
    async with Memory(database_url, llm, settings, embeddings=Noise(dimensions=64)) as memory:
        for number in range(40):
            await memory.observe(f"Mia met somebody, number {number}.", **MIA)
        await memory.work.embed()
        for text in (
            "The marmot has eaten the kelp.",
            "The kelp has grown.",
            "The marmot has eaten.",
            "The marmot sleeps.",
        ):
            await memory.observe(text, **MIA)
        found = (await memory.search("marmot kelp", **MIA)).results
        texts = [hit.observation.content for hit in found]
        assert texts[:2] == ["The marmot has eaten the kelp.", "The kelp has grown."]
        assert [hit.strength for hit in found] == sorted((hit.strength for hit in found), reverse=True)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("My note 77.{} is kept.", "77.{}"),
        ("Mia has seen marmot {} in town.", "Has Mia seen marmot {}?"),
        ("Mia has seen marmot {} in town.", "marmot {} zither"),
    ],
)
async def test_what_has_most_of_the_words_is_first_while_its_vector_is_missing(
    database_url: str, llm: Scripted, settings: Settings, written: str, asked: str
) -> None:
    """The others have the common ones, and whatever chance makes near."""
    async with Memory(database_url, llm, settings, embeddings=Noise(dimensions=64)) as memory:
        for number in range(40):
            await memory.observe(written.format(1000 + number), **MIA)
        await memory.work.embed()
        sought = [await memory.observe(written.format(2000 + number), **MIA) for number in range(10)]
        for number, one in enumerate(sought):
            found = (await memory.search(asked.format(2000 + number), **MIA, explain=True)).results
            assert found[0].observation.id == one.id
            assert [hit.strength for hit in found] == sorted((hit.strength for hit in found), reverse=True)
            for hit in found:
                assert hit.explanation is not None
                assert hit.score == pytest.approx(sum(hit.explanation.parts.values()))


HUNG = """
import asyncio, sys, threading
from memory_sql.llm.embeddings import LocalEmbeddings

async def main():
    model, begun = LocalEmbeddings(), threading.Event()
    model._encoder = type("Hung", (), {"encode": lambda self, texts: begun.set() or threading.Event().wait()})()
    call = asyncio.ensure_future(model.embed(["tea"]))
    await asyncio.to_thread(begun.wait)
    call.cancel()

asyncio.run(main())
"""


@pytest.mark.slow
def test_process_ends_while_the_local_encoder_hangs() -> None:
    done = subprocess.run([sys.executable, "-c", HUNG], check=False, timeout=60)
    assert done.returncode == 0
