"""LangGraph's Postgres store: an item for each turn, its text embedded, otherwise its defaults; needs pgvector."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from langgraph.store.base import PutOp
from langgraph.store.postgres import AsyncPostgresStore

from benchmarks.recall.data import Question
from benchmarks.recall.rivals import embedding
from benchmarks.recall.systems import DEPTH, Ask, Corpus
from benchmarks.server import analyze, fresh_database, plain_url


@asynccontextmanager
async def stored(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    embedding.learn(corpus.texts)
    index = {"dims": embedding.DIMENSIONS, "embed": embedding.lists, "fields": ["text"]}
    async with (
        fresh_database(server, migrated=False) as url,
        AsyncPostgresStore.from_conn_string(plain_url(url), index=index) as store,
    ):
        await store.setup()
        await store.abatch(
            PutOp(("memories", turn.conversation), turn.id, {"text": turn.text(corpus.form)}) for turn in corpus.turns
        )
        await analyze(url)

        async def ask(question: Question) -> list[str]:
            found = await store.asearch(("memories", question.conversation), query=question.text, limit=DEPTH)
            return [item.key for item in found]

        yield ask
