"""Postgres' own text search with `ts_rank`: all words of the question, as in the first design, or any of them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncpg  # type: ignore[import-untyped]

from benchmarks.recall.data import Question
from benchmarks.recall.systems import DEPTH, Ask, Corpus
from benchmarks.server import analyze, fresh_database, plain_url

_TABLE = """
    CREATE TABLE turns (
        conversation text, id text, content text,
        search tsvector GENERATED ALWAYS AS (to_tsvector('english', content)) STORED,
        PRIMARY KEY (conversation, id)
    );
    CREATE INDEX ON turns USING gin (search);
"""
_SEARCH = """
    SELECT t.id
    FROM turns t, (SELECT {query} AS query) q
    WHERE t.conversation = $1 AND t.search @@ q.query
    ORDER BY ts_rank(t.search, q.query) DESC, t.id
    LIMIT $3
"""
EVERY_WORD = "plainto_tsquery('english', $2)"
ANY_WORD = "replace(plainto_tsquery('english', $2)::text, '&', '|')::tsquery"


@asynccontextmanager
async def every_word(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    async with _searched(corpus, server, EVERY_WORD) as ask:
        yield ask


@asynccontextmanager
async def any_word(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    async with _searched(corpus, server, ANY_WORD) as ask:
        yield ask


@asynccontextmanager
async def _searched(corpus: Corpus, server: str, query: str) -> AsyncIterator[Ask]:
    statement = _SEARCH.format(query=query)
    rows = [(turn.conversation, turn.id, text) for turn, text in zip(corpus.turns, corpus.texts, strict=True)]
    async with fresh_database(server, migrated=False) as url:
        connection = await asyncpg.connect(plain_url(url))
        try:
            await connection.execute(_TABLE)
            await connection.copy_records_to_table("turns", records=rows, columns=["conversation", "id", "content"])
            await analyze(url)

            async def ask(question: Question) -> list[str]:
                found = await connection.fetch(statement, question.conversation, question.text, DEPTH)
                return [row["id"] for row in found]

            yield ask
        finally:
            await connection.close()
