"""LangGraph's store alone, and LangMem on it: its manager, awaited, or handed to its executor for the background."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from functools import partial
from importlib import import_module
from typing import Any

from benchmarks.server import plain_url
from benchmarks.survival.model import DIMENSIONS, EMBEDDER, KEY, NAME, Asked, Call
from benchmarks.survival.system import Known, Opened, Place, Said, are_installed, versions

ROOT = "memories"


def answers(asked: Asked) -> str | Sequence[Call]:
    """Calls the tool by which LangMem takes a memory."""
    facts = asked.news(asked.prompt)
    if "Memory" not in asked.tools or not facts:
        return "There is nothing to remember."
    return [Call("Memory", {"content": fact.text}) for fact in facts]


class Store:
    """Each message is an item, under its id; which texts are worth it is the program's own affair."""

    def __init__(self, store: Any) -> None:
        self.store = store

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        for one in said:
            await asyncio.to_thread(self.store.put, (ROOT, user), one["id"], {"content": one["content"]})

    async def _all(self, user: str, query: str | None = None) -> list[Any]:
        return list(await asyncio.to_thread(self.store.search, (ROOT, user), query=query, limit=100))

    async def texts(self, user: str) -> list[str]:
        return [str(item.value) for item in await self._all(user)]

    async def search(self, query: str, user: str) -> list[str]:
        return [str(item.value) for item in await self._all(user, query)]

    async def ids(self, user: str) -> list[str]:
        return [item.key for item in await self._all(user)]

    async def get(self, memory_id: str, user: str) -> str | None:
        item = await asyncio.to_thread(self.store.get, (ROOT, user), memory_id)
        return None if item is None else str(item.value)

    async def delete(self, memory_id: str, user: str) -> None:
        await asyncio.to_thread(self.store.delete, (ROOT, user), memory_id)

    async def forget(self, user: str) -> None:
        for memory_id in await self.ids(user):
            await self.delete(memory_id, user)


class Managed(Store):
    """`remember` takes a conversation as LangMem's input, and whose it is."""

    def __init__(self, store: Any, remember: Callable[[Any, Any], object]) -> None:
        super().__init__(store)
        self._remember = remember

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        messages = {"messages": [{"role": one["role"], "content": one["content"]} for one in said]}
        config = {"configurable": {"langgraph_user_id": user, "thread_id": conversation}}
        await asyncio.to_thread(self._remember, messages, config)


@asynccontextmanager
async def stored(place: Place) -> AsyncIterator[Store]:
    with _store(place) as store:
        await asyncio.to_thread(store.setup)
        yield Store(store)


@asynccontextmanager
async def managed(place: Place) -> AsyncIterator[Store]:
    with _store(place) as store:
        await asyncio.to_thread(store.setup)
        yield Managed(store, _manager(place, store).invoke)


@asynccontextmanager
async def executed(place: Place) -> AsyncIterator[Store]:
    with _store(place) as store:
        await asyncio.to_thread(store.setup)
        executor = import_module("langmem").ReflectionExecutor(_manager(place, store), store=store)
        try:
            yield Managed(store, partial(executor.submit, after_seconds=0))
        finally:
            await asyncio.to_thread(executor.shutdown, wait=False)


def _store(place: Place) -> AbstractContextManager[Any]:
    embeddings = import_module("langchain_openai").OpenAIEmbeddings(
        model=EMBEDDER, dimensions=DIMENSIONS, base_url=place.model, api_key=KEY, check_embedding_ctx_length=False
    )
    index = {"dims": DIMENSIONS, "embed": embeddings, "fields": ["$"]}
    module = import_module("langgraph.store.postgres")
    opened: AbstractContextManager[Any] = module.PostgresStore.from_conn_string(
        plain_url(place.url), pool_config={"min_size": 1, "max_size": 10}, index=index
    )
    return opened


def _manager(place: Place, store: object) -> Any:
    model = import_module("langchain_openai").ChatOpenAI(model=NAME, base_url=place.model, api_key=KEY)
    langmem = import_module("langmem")
    return langmem.create_memory_store_manager(model, namespace=(ROOT, "{langgraph_user_id}"), store=store)


def _known(name: str, opened: Opened, *others: str, works_later: bool = False) -> Known:
    """`others`: packages besides the store's, which are modules of the same name."""
    needed = ("langgraph.store.postgres", "langchain_openai", *others)
    packages = (*others, "langgraph-checkpoint-postgres")
    there, told = partial(are_installed, *needed), partial(versions, *packages)
    return Known(name, there, told, opened, answers, works_later=works_later)


STORE = _known("LangGraph's store", stored)
MANAGER = _known("LangMem's manager", managed, "langmem")
EXECUTOR = _known("LangMem's executor", executed, "langmem", works_later=True)
