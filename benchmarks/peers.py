"""The same operations by this library, mem0 and LangGraph's store, each through its own public API, in turns, in one run.

One server, a database for each; a user with so many memories among other users. The embedder and the model are in this
process, take no time and are the same for all, so only the libraries' own work is left. Only multiples of a bare
`SELECT 1` count, not the milliseconds of this machine. Libraries that aren't installed are left out.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from inspect import isawaitable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import asyncpg  # type: ignore[import-untyped]
from pydantic import BaseModel

from benchmarks.crowd import words
from benchmarks.server import analyze, fresh_database, has_extension, plain_url, server
from memory_sql.config import Settings
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory

T = TypeVar("T", bound=BaseModel | str)
Call = Callable[[int], Awaitable[object]]
Calls = Mapping[str, Call]
Multiples = Mapping[str, Mapping[str, float]]  # of a `SELECT 1`, by operation and library

DIMENSIONS = 256
MEMORIES = 1_000  # of the user, before measuring begins, by default
ROUNDS, WARM_UP = 200, 10
AT_ONCE = 500  # stored before measuring begins, where a library can
FIVE = 5
STORE, STORE_FIVE, EXTRACT = "store one", "store five messages", "five messages, facts extracted"
SEARCH, SEARCH_MESSAGES = "search, best five", "and five of the messages"  # which nobody else searches
GET, LIST, UPDATE, FORGET = "get one", "list twenty", "update one", "forget one"
OPERATIONS = (STORE, STORE_FIVE, EXTRACT, SEARCH, SEARCH_MESSAGES, GET, LIST, UPDATE, FORGET)
USER: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
MINE = {"user_id": "mia"}


def sentence(n: int) -> str:
    """Words as unevenly common as those of a language; a different sentence for each number."""
    return f"{words(random.Random(n), 12)} {n}."


def facts(n: int) -> list[str]:
    return [f"From {n}, {place}: {sentence(n)}" for place in range(FIVE)]


def spoken(n: int) -> list[dict[str, str]]:
    return [{"role": ("user", "assistant")[place % 2], "content": text} for place, text in enumerate(facts(n))]


_vectors = [[random.Random(seed).gauss(0, 1) for _ in range(DIMENSIONS)] for seed in range(1_024)]


def vector_of(text: str) -> list[float]:
    """One of 262,144: an index of vectors is slow where many rows have the same one, which no embedder does."""
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    vector, turned = _vectors[int.from_bytes(digest[:2]) % len(_vectors)], digest[2]
    return vector[turned:] + vector[:turned]


class Embeddings:
    """The interface that this library uses."""

    name, dimensions, local = "instant", DIMENSIONS, True

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return [vector_of(text) for text in texts]


class Embedder:
    """The interface that mem0 uses."""

    def embed(self, text: str, _action: str | None = None) -> list[float]:
        return vector_of(text)

    def embed_batch(self, texts: Sequence[str], _action: str | None = None) -> list[list[float]]:
        return [vector_of(text) for text in texts]


class Model:
    """Finds `facts`, in the formats that this library and mem0 ask for."""

    def __init__(self) -> None:
        self.facts: list[str] = []

    async def generate(self, request: Request[T]) -> Answer[T]:
        found = [{"content": text, "sources": [place + 1]} for place, text in enumerate(self.facts)]
        own, *others = cast(Any, request.output).offered
        raw = json.dumps({own: found, **{alias: [] for alias in others}})
        return Answer(read(raw, request.output), raw, Usage("instant", 0, 0))

    def generate_response(self, **_: Any) -> str:
        return json.dumps({"memory": [{"id": str(n), "text": text} for n, text in enumerate(self.facts)]})


@asynccontextmanager
async def ours(url: str, memories: int) -> AsyncIterator[Calls]:
    model = Model()
    async with Memory(url, model, Settings(llm="offline"), embeddings=Embeddings()) as memory:
        kept = [(await memory.observe(sentence(n), **USER)).id for n in range(memories)]
        await memory.work.embed()

        async def extract(n: int) -> object:
            model.facts = facts(n)
            where: dict[str, Any] = {**USER, "conversation_id": f"x{n}"}
            await memory.add(spoken(n), **where)
            return await memory.conversations.form(agent_id="ada", conversation_id=f"x{n}")

        yield {
            STORE: lambda n: memory.observe(sentence(memories + n), **USER),
            STORE_FIVE: lambda n: memory.add(spoken(n), **USER, conversation_id=f"m{n}"),
            EXTRACT: extract,
            SEARCH: lambda n: memory.search(sentence(n), **USER, top_k=FIVE, messages=0),
            SEARCH_MESSAGES: lambda n: memory.search(sentence(n), **USER, top_k=FIVE, messages=FIVE),
            GET: lambda n: memory.observations.get(kept[n % 500], **USER),
            LIST: lambda _: memory.observations.list(**USER, limit=20),
            UPDATE: lambda n: memory.observations.update(kept[500 + n], **USER, text=f"Now {sentence(n)}"),
            FORGET: lambda n: memory.forget(kept[-1 - n], agent_id="ada", wait=False),
        }


@asynccontextmanager
async def mem0(url: str, memories: int) -> AsyncIterator[Calls]:
    """Its blocking form: nothing else runs in this process meanwhile."""
    async with _mem0(url, "Memory", memories) as calls:
        yield {name: _at_once(call) for name, call in calls.items()}


@asynccontextmanager
async def mem0_from_asyncio(url: str, memories: int) -> AsyncIterator[Calls]:
    """Its asynchronous form, which others can wait beside, as they can beside this library."""
    async with _mem0(url, "AsyncMemory", memories) as calls:
        yield calls


@asynccontextmanager
async def _mem0(url: str, form: str, memories: int) -> AsyncIterator[Mapping[str, Callable[[int], Any]]]:
    """The calls of a class of its; those of `AsyncMemory` are to be awaited."""
    rival = import_module("benchmarks.recall.rivals.mem0_store")
    with tempfile.TemporaryDirectory() as folder:
        memory = rival.opened(plain_url(url), Path(folder), Embedder(), DIMENSIONS, form)
        memory.llm = model = Model()
        stored = [memory.add(sentence(n), **MINE, infer=False) for n in range(memories)]
        kept = [one["results"][0]["id"] for one in [await one if isawaitable(one) else one for one in stored]]

        def extract(n: int) -> Any:
            model.facts = facts(n)
            return memory.add(spoken(n), **MINE)

        yield {
            STORE: lambda n: memory.add(sentence(memories + n), **MINE, infer=False),
            STORE_FIVE: lambda n: memory.add(spoken(n), **MINE, infer=False),
            EXTRACT: extract,
            SEARCH: lambda n: memory.search(sentence(n), top_k=5, filters=MINE),
            GET: lambda n: memory.get(kept[n % 500]),
            LIST: lambda _: memory.get_all(filters=MINE, top_k=20),
            UPDATE: lambda n: memory.update(kept[500 + n], f"Now {sentence(n)}"),
            FORGET: lambda n: memory.delete(kept[-1 - n]),
        }
        rival.close(memory)


def _at_once(call: Callable[[int], object]) -> Call:
    """A blocking call, as one that is awaited."""

    async def answer(n: int) -> object:
        return call(n)

    return answer


@asynccontextmanager
async def langgraph(url: str, memories: int) -> AsyncIterator[Calls]:
    module = import_module("langgraph.store.postgres")
    put = import_module("langgraph.store.base").PutOp
    where = ("memories", "mia")
    index = {"dims": DIMENSIONS, "embed": Embedder().embed_batch, "fields": ["text"]}
    async with module.AsyncPostgresStore.from_conn_string(plain_url(url), index=index) as store:
        await store.setup()
        for first in range(0, memories, AT_ONCE):
            numbers = range(first, min(first + AT_ONCE, memories))
            await store.abatch([put(where, f"k{n}", {"text": sentence(n)}) for n in numbers])
        yield {
            STORE: lambda n: store.aput(where, f"s{n}", {"text": sentence(memories + n)}),
            STORE_FIVE: lambda n: store.abatch(
                [put(where, f"m{n}-{place}", {"text": text}) for place, text in enumerate(facts(n))]
            ),
            SEARCH: lambda n: store.asearch(where, query=sentence(n), limit=5),
            GET: lambda n: store.aget(where, f"k{n % 500}"),
            LIST: lambda _: store.asearch(where, limit=20),
            UPDATE: lambda n: store.aput(where, f"k{500 + n}", {"text": f"Now {sentence(n)}"}),
            FORGET: lambda n: store.adelete(where, f"k{memories - 1 - n}"),
        }


class Rival(NamedTuple):
    opened: Callable[[str, int], AbstractAsyncContextManager[Calls]]
    package: str
    module: str
    migrated: bool


RIVALS = {
    "memory_sql": Rival(ours, "memory-sql", "memory_sql", True),
    "mem0": Rival(mem0, "mem0ai", "mem0", False),
    "mem0, from asyncio": Rival(mem0_from_asyncio, "mem0ai", "mem0", False),
    "LangGraph's store": Rival(langgraph, "langgraph-checkpoint-postgres", "langgraph", False),
}


async def main(rounds: int, sizes: Sequence[int]) -> None:
    with server() as there:
        if not await has_extension(there, "vector"):
            print("the others need pgvector, which this server doesn't have")
            return
        installed = {name: rival for name, rival in RIVALS.items() if find_spec(rival.module) is not None}
        if len(installed) == 1:
            print("nobody else is installed: see benchmarks/requirements.txt")
            return
        for name, rival in installed.items():
            print(f"{name} {version(rival.package)}")
        found = {size: await measured(there, installed, rounds, size) for size in sizes}
        first, last = min(sizes), max(sizes)
        if last > first:
            print(f"\n{last:,} memories by {first:,}, each in multiples of its own `SELECT 1`")
            print_growth(installed, found[first], found[last])


async def measured(there: str, installed: Mapping[str, Rival], rounds: int, size: int) -> Multiples:
    """In databases of their own, and printed."""
    async with AsyncExitStack() as stack:
        known: dict[str, Calls] = {}
        for name, rival in installed.items():
            url = await stack.enter_async_context(fresh_database(there, migrated=rival.migrated))
            started = time.perf_counter()
            known[name] = await stack.enter_async_context(rival.opened(url, size))
            print(f"{name} filled in {time.perf_counter() - started:.0f} s", flush=True)
            await analyze(url)
        connection = await asyncpg.connect(plain_url(there))
        stack.push_async_callback(connection.close)
        return await compare(connection, known, rounds)


async def compare(connection: asyncpg.Connection, known: Mapping[str, Calls], rounds: int) -> Multiples:
    """The median of each in milliseconds, and in multiples of a `SELECT 1` in the same turns; the multiples are returned."""
    print(f"\n{'':32}" + "".join(f"{name:>26}" for name in known))
    found: dict[str, dict[str, float]] = {}
    for operation in OPERATIONS:
        calls: dict[str, Call] = {"SELECT 1": lambda _: connection.fetchval("SELECT 1")}
        calls |= {name: each[operation] for name, each in known.items() if operation in each}
        took: dict[str, list[float]] = {name: [] for name in calls}
        for n in range(-WARM_UP, rounds):
            for name, call in calls.items():
                started = time.perf_counter()
                await call(n + WARM_UP)
                took[name] += [time.perf_counter() - started] if n >= 0 else []
        medians = {name: statistics.median(times) * 1000 for name, times in took.items()}
        base = medians.pop("SELECT 1")
        found[operation] = {name: median / base for name, median in medians.items()}
        told = {name: f"{median:.2f} ms {median / base:7.1f} x" for name, median in medians.items()}
        print_row(operation, known, told)
    return found


def print_row(operation: str, names: Iterable[str], told: Mapping[str, str]) -> None:
    print(f"{operation:32}" + "".join(f"{told.get(name, '–'):>26}" for name in names), flush=True)


def print_growth(names: Iterable[str], first: Multiples, last: Multiples) -> None:
    for operation, took in last.items():
        print_row(
            operation, names, {name: f"{multiple / first[operation][name]:.1f} x" for name, multiple in took.items()}
        )


def sizes_of(text: str) -> list[int]:
    return [int(size) for size in text.split(",")]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each operation, in turns")
    parser.add_argument(
        "--memories",
        type=sizes_of,
        default=[MEMORIES],
        help="of the user, before measuring begins; 1,000 and more, or several numbers: 1000,100000",
    )
    given = parser.parse_args()
    asyncio.run(main(given.rounds, given.memories))
