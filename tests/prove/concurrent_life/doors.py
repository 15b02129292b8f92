"""The ways into the library: as a service opens it, with the host's engine, in the host's transaction, without awaiting.

Whatever is called through one is counted, by the public call and the door.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.db.engine import Database
from memory_sql.db.failures import named_errors
from memory_sql.db.urls import asyncpg_url
from memory_sql.memory import Memory
from memory_sql.resources.faces import FACES
from tests.prove.concurrent_life.world import World


class Door:
    """A memory, as its clients see it. `prefix`: of the names of the calls through it, "" or that of a face."""

    def __init__(self, world: World, memory: Any, database: Database, prefix: str = "") -> None:
        self.world, self.memory, self.database, self.prefix = world, memory, database, prefix

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.memory, name)
        if name in FACES and not self.prefix:
            return self.at(found, f"{name}.")
        if not callable(found):
            return found
        self.world.calls[type(self).__name__, self.prefix + name] += 1
        return self.calling(found, name)

    def at(self, face: Any, prefix: str) -> Door:
        return type(self)(self.world, face, self.database, prefix)

    def calling(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        return method


class Plain(Door):
    """`Memory(url)`."""


class OfEngine(Door):
    """`Memory(engine=)`."""


class Joined(Door):
    """Each call that can joins a transaction of the host's own, which commits it."""

    def __init__(self, world: World, memory: Any, database: Database, prefix: str = "", **engine: AsyncEngine) -> None:
        super().__init__(world, memory, database, prefix)
        self.engine = engine["engine"]

    def at(self, face: Any, prefix: str) -> Door:
        return Joined(self.world, face, self.database, prefix, engine=self.engine)

    def calling(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        if "session" not in inspect.signature(method).parameters:
            return method

        async def call(*given: Any, **named: Any) -> Any:
            if named.get("session") is not None or (name == "add" and named.get("wait")):
                return await method(*given, **named)
            async with host_transaction(self.engine) as session:
                return await method(*given, **named, session=session)

        return call


@asynccontextmanager
async def host_transaction(engine: AsyncEngine) -> AsyncIterator[AsyncSession]:
    """The library leaves the driver's errors to the host, which tells them apart as the library does elsewhere."""
    with named_errors():
        async with AsyncSession(engine) as session, session.begin():
            yield session


class Blocking(Door):
    """`memory_sql.sync` in threads. A call that nobody waits for any more runs on; so this does wait for it."""

    def calling(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(method) or (name == "export" and self.prefix == "people."):
            return lambda **named: each(method, named)

        if name == "now":
            return method

        async def call(*given: Any, **named: Any) -> Any:
            running = asyncio.ensure_future(asyncio.to_thread(method, *given, **named))
            try:
                return await asyncio.shield(running)
            finally:
                await asyncio.wait([running])
                running.exception()  # which is nobody's any more, if nobody waits

        return call


DOORS = [kind.__name__ for kind in (Plain, OfEngine, Joined, Blocking)]


async def each(method: Callable[..., Any], named: Mapping[str, Any]) -> AsyncGenerator[Any, None]:
    for item in await asyncio.to_thread(lambda: list(method(**named))):
        yield item


@asynccontextmanager
async def doors_over(
    world: World, urls: dict[str, str], settings: Settings
) -> AsyncIterator[tuple[Memory, list[Memory]]]:
    """The same over shards: there is no engine of the host's that would be of several databases."""
    async with AsyncExitStack() as stack:
        one, other = (Memory(shards=urls, settings=settings) for _ in range(2))
        for memory in (one, other):
            await stack.enter_async_context(memory)
        blocking = sync.Memory(shards=urls, settings=settings)
        await asyncio.to_thread(blocking.open)
        stack.push_async_callback(asyncio.to_thread, blocking.close)
        ways = [
            Plain(world, one, one.database),
            Plain(world, other, other.database),
            Blocking(world, blocking, one.database),
        ]
        for way in ways:
            vars(way)["databases"] = [shard.memory.database for shard in one._spread.shards.values()]
        yield one, cast("list[Memory]", ways)


@asynccontextmanager
async def doors(world: World, url: str, settings: Settings) -> AsyncIterator[tuple[Memory, list[Memory]]]:
    """A memory as it is, and the doors."""
    async with AsyncExitStack() as stack:
        engine = create_async_engine(asyncpg_url(url), pool_pre_ping=True)
        stack.push_async_callback(engine.dispose)
        one, other, hosted = (
            Memory(url, settings=settings),
            Memory(url, settings=settings),
            Memory(engine=engine, settings=settings),
        )
        for memory in (one, other, hosted):
            await stack.enter_async_context(memory)
        blocking = sync.Memory(url, settings=settings)
        await asyncio.to_thread(blocking.open)
        stack.push_async_callback(asyncio.to_thread, blocking.close)
        ways = [
            Plain(world, one, one.database),
            Plain(world, other, other.database),
            OfEngine(world, hosted, hosted.database),
            Joined(world, other, other.database, engine=engine),
            Blocking(world, blocking, one.database),
        ]
        yield one, cast("list[Memory]", ways)
