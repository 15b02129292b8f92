"""mem0 with pgvector: `add` asks the model for facts, as it does by default."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any

from benchmarks.server import plain_url
from benchmarks.survival.model import DIMENSIONS, EMBEDDER, KEY, NAME, Asked
from benchmarks.survival.system import Known, Place, Said, are_installed, versions


def answers(asked: Asked) -> str:
    new = asked.last.partition("## New Messages")[2].partition("\n## ")[0]
    return json.dumps({"memory": [{"id": str(n), "text": fact.text} for n, fact in enumerate(asked.news(new))]})


class Mem0:
    """Its blocking calls, each in a thread."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        messages = [{"role": one["role"], "content": one["content"]} for one in said]
        await asyncio.to_thread(self._memory.add, messages, user_id=user)

    async def _all(self, user: str) -> list[dict[str, Any]]:
        found = await asyncio.to_thread(self._memory.get_all, filters={"user_id": user})
        return list(found["results"])

    async def texts(self, user: str) -> list[str]:
        return [one["memory"] for one in await self._all(user)]

    async def search(self, query: str, user: str) -> list[str]:
        found = await asyncio.to_thread(self._memory.search, query, filters={"user_id": user})
        return [one["memory"] for one in found["results"]]

    async def ids(self, user: str) -> list[str]:
        return [one["id"] for one in await self._all(user)]

    async def get(self, memory_id: str, user: str) -> str | None:
        found = await asyncio.to_thread(self._memory.get, memory_id)
        return None if found is None else str(found["memory"])

    async def delete(self, memory_id: str, user: str) -> None:
        await asyncio.to_thread(self._memory.delete, memory_id)

    async def forget(self, user: str) -> None:
        await asyncio.to_thread(self._memory.delete_all, user_id=user)


@asynccontextmanager
async def opened(place: Place) -> AsyncIterator[Mem0]:
    provider = {"api_key": KEY, "openai_base_url": place.model}
    config = {
        "vector_store": {
            "provider": "pgvector",
            "config": {"connection_string": plain_url(place.url), "embedding_model_dims": DIMENSIONS},
        },
        "llm": {"provider": "openai", "config": {**provider, "model": NAME}},
        "embedder": {
            "provider": "openai",
            "config": {**provider, "model": EMBEDDER, "embedding_dims": DIMENSIONS},
        },
        "history_db_path": str(place.folder / "history.db"),
    }
    memory = await asyncio.to_thread(import_module("mem0").Memory.from_config, config)
    try:
        yield Mem0(memory)
    finally:
        memory.vector_store.connection_pool.close()
        memory.close()


KNOWN = Known(
    "mem0", lambda: are_installed("mem0", "psycopg"), lambda: versions("mem0ai"), opened, answers, works_later=False
)
