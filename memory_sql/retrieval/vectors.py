"""The vectors of observations, made in the background; and why there are none."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.vectors import Unembedded, VectorRepository, Vectors
from memory_sql.errors import AnswerError
from memory_sql.llm.embeddings import EmbeddingModel, embed, is_local

log = logging.getLogger("memory_sql")

NO_MODEL = "no embedding model; the setting embedding names one"
NO_TABLE = "no table of vectors; `memory-sql db vectors enable` makes it"
NO_RIGHTS = "the application has no rights to the table of vectors; run `memory-sql db roles` again"


def why_off(model: EmbeddingModel | None, table: Vectors | None) -> str | None:
    """Why words alone count; None: vectors count as well."""
    if model is None:
        return NO_MODEL
    if table is None:
        return NO_TABLE
    if table.dimensions != model.dimensions:
        return f"the table of vectors has {table.dimensions} dimensions, the embedding model {model.dimensions}"
    return None if table.usable else NO_RIGHTS


def notice(model: EmbeddingModel | None, off: str | None, filled: int, observations: int) -> str:
    """For people: whether vectors count, and for how many of the observations."""
    if model is None or off is not None:
        return f"off: {off or NO_MODEL}"
    return f"on: {model.name}, {model.dimensions}, {filled}/{observations}"


# Load, decide, apply


async def load(
    session: Session, model: EmbeddingModel, agent_id: str | None, most: int, settings: Settings, *, whole: bool
) -> Sequence[Unembedded]:
    """The next batch. What is sensitive is left out where its text would leave for somebody else's machine (B.5)."""
    sensitive = is_local(model) or settings.embed_sensitive
    size = min(most, settings.embedding_batch)
    return await VectorRepository(session, model.name).missing(agent_id, size, sensitive=sensitive, whole=whole)


Embedded = list[tuple[Unembedded, list[float]]]


async def decide(model: EmbeddingModel, loaded: Sequence[Unembedded], settings: Settings) -> Embedded:
    """Those with their vectors. A text that no vector can be made of stops no other; raises `LanguageModelError`."""
    texts = [text_of(one)[: settings.embedding_max_characters] for one in loaded]
    try:
        return list(zip(loaded, await embed(model, texts), strict=True))
    except AnswerError:
        if len(texts) == 1:
            raise
    found = [pair for one in loaded for pair in await _alone(model, one, settings)]
    if not found:
        raise AnswerError(f"the embedding model gave none of {len(loaded)} texts a vector")
    return found


async def _alone(model: EmbeddingModel, one: Unembedded, settings: Settings) -> Embedded:
    try:
        return await decide(model, [one], settings)
    except AnswerError as error:
        log.warning("observation %s of scope %s has no vector: %s", one.seq, one.scope_id, error)
        return []


def text_of(observation: Unembedded) -> str:
    """What is embedded: with who said it, which the text itself seldom says: 24 instead of 15 answers of 100 (LoCoMo)."""
    return f"{observation.speaker}: {observation.content}" if observation.speaker else observation.content


async def apply(session: Session, model: EmbeddingModel, embedded: Embedded) -> int:
    """How many were stored; what was forgotten meanwhile is not."""
    return await VectorRepository(session, model.name).save(*zip(*embedded, strict=True))
