"""BM25 in memory: a `bm25s` index for each conversation, with stemming and the longer of its English stop-word lists."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import bm25s
import Stemmer

from benchmarks.recall.data import Question
from benchmarks.recall.systems import DEPTH, Ask, Corpus


@asynccontextmanager
async def ranked(corpus: Corpus, _server: str) -> AsyncIterator[Ask]:
    stemmer = Stemmer.Stemmer("english")

    def tokens(texts: list[str]) -> Any:
        return bm25s.tokenize(texts, stopwords="en_plus", stemmer=stemmer, show_progress=False)

    indexes = {}
    for conversation, turns in corpus.by_conversation().items():
        index = bm25s.BM25(corpus=[turn.id for turn in turns])
        index.index(tokens([turn.text(corpus.form) for turn in turns]), show_progress=False)
        indexes[conversation] = index

    async def ask(question: Question) -> list[str]:
        found, scores = indexes[question.conversation].retrieve(tokens([question.text]), k=DEPTH, show_progress=False)
        return [turn for turn, score in zip(found[0], scores[0], strict=True) if score > 0]

    yield ask
