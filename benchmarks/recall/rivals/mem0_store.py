"""mem0 with `infer=False`: each turn is kept as it is and no model is asked; vectors in pgvector, otherwise its defaults.

Its word score and its entities need spaCy and a spaCy model, which it would download. Without these it ranks by vectors,
as for a user who installs only `mem0ai`. Its telemetry is off.
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
    """The interface of mem0's embedders. mem0's configuration can't name one of our own."""

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


def opened(url: str, folder: Path, embedder: object, dimensions: int, form: str = "Memory") -> Any:
    """Uses a database of its own. Its model is never asked. `form`: its class, `Memory` or `AsyncMemory`."""
    # mem0 reads both when it is imported.
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(folder)}
    nobody = {"provider": "openai", "config": {"api_key": "never used"}}  # it requires a model, but doesn't call it
    config = {
        "vector_store": {
            "provider": "pgvector",
            "config": {"connection_string": url, "embedding_model_dims": dimensions},
        },
        "llm": nobody,
        "embedder": nobody,
        "history_db_path": str(folder / "history.db"),
    }
    memory = getattr(import_module("mem0"), form).from_config(config)
    memory.embedding_model = embedder
    return memory


def close(memory: Any) -> None:
    memory.vector_store.connection_pool.close()
    memory.close()
