"""mem0 with `infer=False`: each turn is kept as it is, no model is asked; vectors in pgvector, its defaults for the rest.

Its word score and its entities need spaCy and a model of it, which it would fetch from the network: without them it ranks
by vectors, as it does for a user who installs no more than `mem0ai`. Its telemetry is off.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.recall.data import Question
from benchmarks.recall.rivals import embedding
from benchmarks.recall.systems import DEPTH, Ask, Corpus
from benchmarks.server import analyze, fresh_database, plain_url


class _Embedder:
    """The shape of mem0's embedders, which it can't be told of by its configuration."""

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        return embedding.lists([text])[0]

    def embed_batch(self, texts: Sequence[str], _action: str | None = None) -> list[list[float]]:
        return embedding.lists(texts)


@asynccontextmanager
async def stored(corpus: Corpus, server: str) -> AsyncIterator[Ask]:
    embedding.learn(corpus.texts)
    with tempfile.TemporaryDirectory() as folder:
        async with fresh_database(server, migrated=False) as url:
            memory = opened(plain_url(url), Path(folder), _Embedder(), embedding.DIMENSIONS)
            try:
                for turn in corpus.turns:
                    memory.add(
                        turn.text(corpus.form),
                        user_id=turn.conversation,
                        metadata={"turn": turn.id},
                        infer=False,
                    )
                await analyze(url)

                async def ask(question: Question) -> list[str]:
                    found = memory.search(question.text, top_k=DEPTH, filters={"user_id": question.conversation})
                    return [item["metadata"]["turn"] for item in found["results"]]

                yield ask
            finally:
                close(memory)


def opened(url: str, folder: Path, embedder: object, dimensions: int) -> Any:
    """On a database of its own; its model is never asked."""
    # Both are read when it is imported.
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
    nobody = {"provider": "openai", "config": {"api_key": "never used"}}  # it insists on a model, and doesn't call it
    config = {
        "vector_store": {
            "provider": "pgvector",
            "config": {"connection_string": url, "embedding_model_dims": dimensions},
        },
        "llm": nobody,
        "embedder": nobody,
        "history_db_path": str(folder / "history.db"),
    }
    memory = import_module("mem0").Memory.from_config(config)
    memory.embedding_model = embedder
    return memory


def close(memory: Any) -> None:
    memory.vector_store.connection_pool.close()
    memory.close()
