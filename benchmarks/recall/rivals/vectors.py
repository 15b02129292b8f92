"""Vectors alone: the nearest turns of the conversation by exact cosine."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import numpy as np

from benchmarks.recall.data import Question
from benchmarks.recall.rivals import embedding
from benchmarks.recall.systems import DEPTH, Ask, Corpus


@asynccontextmanager
async def nearest(corpus: Corpus, _server: str) -> AsyncIterator[Ask]:
    embedding.learn(corpus.texts)
    matrices = {
        conversation: np.stack([embedding.vector(turn.text(corpus.form)) for turn in turns])
        for conversation, turns in corpus.by_conversation().items()
    }
    ids = {conversation: [turn.id for turn in turns] for conversation, turns in corpus.by_conversation().items()}

    async def ask(question: Question) -> list[str]:
        closeness = matrices[question.conversation] @ embedding.vector(question.text)
        return [ids[question.conversation][n] for n in np.argsort(-closeness, kind="stable")[:DEPTH]]

    yield ask
