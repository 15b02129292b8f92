"""The vectors of observations, made in the background; and why there are none."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.repositories.vectors import Unembedded, VectorRepository
from memory_sql.domain.results import EmbedResult
from memory_sql.errors import AnswerError
from memory_sql.languages.text import words_of
from memory_sql.llm.embeddings import EmbeddingModel, InTime, bits_of, is_local, name_of
from memory_sql.retrieval.semantics import NO_MODEL

log = logging.getLogger("memory_sql")


def notice(model: EmbeddingModel | None, off: str | None, filled: int, without: int, observations: int) -> str:
    """For people: whether vectors count, for how many of the observations, and how many can't have one."""
    if model is None:
        return f"off: {off or NO_MODEL}"
    more = f", {without} without direction" if without else ""
    return f"on: {model.name}, {model.dimensions}, {filled}/{observations}{more}"


# Load, decide, apply


async def load(
    session: Session, model: EmbeddingModel, agent_id: str | None, most: int, settings: Settings, *, whole: bool
) -> Sequence[Unembedded]:
    """The next batch. What is sensitive is left out where its text would leave for somebody else's machine (B.5)."""
    sensitive, size = _sensitive(model, settings), min(most, settings.embedding_batch)
    return await VectorRepository(session, name_of(model)).missing(agent_id, size, sensitive=sensitive, whole=whole)


async def count(
    session: Session, model: EmbeddingModel, agent_id: str | None, most: int, settings: Settings, *, whole: bool
) -> int:
    """How many vectors are missing, at most `most`."""
    sensitive = _sensitive(model, settings)
    return await VectorRepository(session, name_of(model)).count_missing(
        agent_id, most, sensitive=sensitive, whole=whole
    )


def _sensitive(model: EmbeddingModel, settings: Settings) -> bool:
    return is_local(model) or settings.embed_sensitive


Embedded = list[tuple[Unembedded, list[float] | None]]


async def decide(asked: InTime, model: EmbeddingModel, loaded: Sequence[Unembedded], settings: Settings) -> Embedded:
    """Those with their vectors. A text that no vector can be made of stops no other; raises `LanguageModelError`."""
    texts = [text_of(one)[: settings.embedding_max_characters] for one in loaded]
    try:
        return list(zip(loaded, await asked.embed(model, texts), strict=True))
    except AnswerError:
        if len(texts) == 1:
            raise
    found = [pair for one in loaded for pair in await _alone(asked, model, one, settings)]
    if not found:
        raise AnswerError(f"the embedding model gave none of {len(loaded)} texts a vector")
    return found


async def _alone(asked: InTime, model: EmbeddingModel, one: Unembedded, settings: Settings) -> Embedded:
    try:
        return await decide(asked, model, [one], settings)
    except AnswerError as error:
        log.warning("observation %s of scope %s has no vector: %s", one.seq, one.scope_id, error)
        return []


def text_of(observation: Unembedded) -> str:
    """What is embedded: with the search cues, and with who said it where that is known and the text leaves it unsaid."""
    text, speaker = observation.content, observation.speaker
    if speaker and not set(words_of(speaker)) & set(words_of(text)):
        text = f"{speaker}: {text}"
    return f"{text} ({', '.join(observation.terms.splitlines())})" if observation.terms else text


async def apply(session: Session, model: EmbeddingModel, embedded: Embedded) -> EmbedResult:
    """What was stored; what was forgotten meanwhile is not. A text without direction is marked, and not asked for again."""
    of, vectors = zip(*embedded, strict=True)
    bits = [None if vector is None else bits_of(vector) for vector in vectors]
    stored = await VectorRepository(session, name_of(model)).save(of, bits)
    return EmbedResult(embedded=stored.count(True), without_direction=stored.count(False))
