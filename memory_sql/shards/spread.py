"""The databases of one memory, each an inner `Memory` of its own, and the way from an agent to its database."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from memory_sql.db import Joinable
from memory_sql.db.joining import home_of
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories.shards import Holding, Self, holding, self_of
from memory_sql.errors import (
    ConfigurationError,
    DatabaseError,
    DividedAgentError,
    InputError,
    NotFoundError,
    ShardError,
)
from memory_sql.shards.places import Places

log = logging.getLogger("memory_sql")

Inner = Any  # a Memory of one database; this package lies below it
T = TypeVar("T")
NOT_OPEN = "this Memory is not open; use `async with Memory(…) as memory`"


class Shard:
    """One database. One that couldn't be reached when the memory was opened is opened with its next call."""

    def __init__(self, name: str, url: str, memory: Inner) -> None:
        self.name = name
        self.url = url
        self.memory = memory
        self.is_open = False
        self.known: Self | None = None  # what the database says of itself
        self._opening = asyncio.Lock()

    @property
    def schema(self) -> str:
        found: str = self.memory.settings.schema
        return found

    async def open(self, *, restoring: bool) -> None:
        try:
            with naming(self):
                await self.memory.open(restoring=restoring)
                async with self.memory.database.statement(principal=SERVICE) as unit:
                    self.known = await self_of(unit)
        except BaseException:
            await self.memory.close()
            raise
        self.is_open = True

    async def opened(self, check: Callable[[Shard], None], *, restoring: bool) -> Inner:
        """The memory. Raises `ShardError` while it can't be reached, `ConfigurationError` if `check` finds another one."""
        if not self.is_open:
            async with self._opening:
                if not self.is_open:
                    await self.open(restoring=restoring)
                    try:
                        check(self)
                    except ConfigurationError:
                        await self.close()
                        raise
        return self.memory

    async def close(self) -> None:
        self.is_open = False
        await self.memory.close()


@contextmanager
def naming(shard: Shard) -> Iterator[None]:
    """Names the shard in an error that says that a database can't be reached."""
    try:
        yield
    except DatabaseError as error:
        if type(error) is not DatabaseError:
            raise
        named = ShardError({shard.name: str(error)})
        named.added = error.added
        raise named from error


class Spread:
    """The shards of a memory. What it raises names the shard that can't be reached."""

    def __init__(self, urls: Mapping[str, str], one: Callable[[str], Inner]) -> None:
        """`one` makes the memory of the shard of this name."""
        self.shards = {name: Shard(name, url, one(name)) for name, url in urls.items()}
        self.home = next(iter(self.shards.values()))  # until the databases have said which it is
        self._places: Places | None = None
        self._restoring = False
        self._turn = 0

    async def open(self, *, restoring: bool) -> None:
        """Opens what can be reached. Raises `ShardError` without the home, and whatever is wrong with any other."""
        if self._places is not None:
            raise InputError("this Memory is open already")
        self._restoring = restoring
        each = list(self.shards.values())
        found = await asyncio.gather(*(one.open(restoring=restoring) for one in each), return_exceptions=True)
        try:
            _raise_first(error for error in found if not isinstance(error, ShardError))
            away = {
                name: said for error in found if isinstance(error, ShardError) for name, said in error.shards.items()
            }
            home = home_of({one.name: one.known for one in each if one.known is not None})
            if home is None:
                raise ShardError(away) if away else ConfigurationError(_unjoined(each[0].name))
            self.home = self.shards[home]
            for one in each:
                if one.is_open:
                    self._check(one)
            places = Places(self.home.memory.database, self.home.memory.now, self._found)
            self._compare(await places.shards())
        except BaseException:
            await self.close()
            raise
        for name, said in away.items():
            log.warning("shard %s: %s; its agents have to wait", name, said)
        self._places = places

    async def close(self) -> None:
        """The home last: the others use its models."""
        self._places = None
        others = (one.close() for one in self.shards.values() if one is not self.home)
        found = await asyncio.gather(*others, return_exceptions=True)
        await self.home.close()
        _raise_first(found)

    def _check(self, shard: Shard) -> None:
        known, home = shard.known, self.home.known
        assert known is not None  # both are open
        assert home is not None
        if known.shards is None:
            raise ConfigurationError(_unjoined(shard.name))
        if known.shard != shard.name or known.shards != home.shards:
            whose = "these" if known.shards == home.shards else "others"
            raise ConfigurationError(
                f"shards: the database of {shard.name} is the shard {known.shard} of {whose}; correct its URL, or its name"
            )
        if known.key_hash != home.key_hash:
            raise ConfigurationError(
                f"shards: the database of {shard.name} has another key than the home, so no hash of it can be compared;"
                " restore it from its own backup"
            )
        if shard is not self.home:
            shard.memory._runtime.borrow_models(self.home.memory._runtime)

    def _compare(self, in_map: Sequence[str]) -> None:
        missing = [name for name in in_map if name not in self.shards]
        if missing:
            raise ConfigurationError(
                f"shards: the map in {self.home.name} also has {', '.join(missing)}, which isn't named; name all of them"
            )
        new = [name for name in self.shards if name not in in_map]
        if new:
            raise ConfigurationError(_unjoined(new[0]))

    async def memory_of(self, shard: Shard) -> Inner:
        self._opened_places()
        return await shard.opened(self._check, restoring=self._restoring)

    async def in_shard(self, shard: Shard, work: Callable[[Inner], Awaitable[T]]) -> T:
        """Raises `ShardError` where the database can't be reached; its other errors as they are."""
        with naming(shard):
            return await work(await self.memory_of(shard))

    async def of_agent(self, agent_id: str, *, creates: bool, session: Joinable | None = None) -> Shard:
        """The shard that holds the agent; if none does and the call `creates` it, the one that it is placed on.

        Else the home, which doesn't know it either. A session's own shard gets an agent that is created in it.
        """
        places = self._opened_places()
        known = await self.in_shard(self.home, lambda _: places.find(agent_id))
        if known is None:
            held = await self._holder(agent_id)
            if held is None and not creates:
                return self.home
            where = held or (None if session is None else await self._of_session(session))
            known = await self.in_shard(self.home, lambda _: places.place(agent_id, where))
        found = self.shards.get(known)
        if found is None:
            raise ConfigurationError(f"shards: agent {agent_id} is in the shard {known}, which isn't named")
        return found

    def _found(self, name: str) -> None:
        """By the map, an agent is in that shard: a replica of it has yet to be asked whether it knows."""
        shard = self.shards.get(name)
        if shard is not None and shard.is_open:
            shard.memory.database.committed()

    @property
    def has_replica(self) -> bool:
        return any(shard.is_open and shard.memory.database.has_replica for shard in self.shards.values())

    @property
    def home_database(self) -> Any:
        self._opened_places()
        return self.home.memory.database

    async def take_in(self, agent_id: str) -> None:
        """One that was written straight into a shard is in the map from now on. Raises `NotFoundError`."""
        places = self._opened_places()
        if await places.find(agent_id) is None:
            held = await self._holder(agent_id)
            if held is None:
                raise NotFoundError("agent", agent_id)
            await places.place(agent_id, held)

    async def lost(self, agent_id: str, shard: Shard) -> bool:
        """Whether it is elsewhere than in that shard, where a call has not found it."""
        places = self._opened_places()
        places.forget(agent_id)
        return await self.in_shard(self.home, lambda _: places.find(agent_id)) not in (None, shard.name)

    async def _holder(self, agent_id: str) -> str | None:
        """Who holds it without the map. Raises `DividedAgentError`."""

        async def look(memory: Inner) -> Holding | None:
            async with memory.database.statement(principal=SERVICE) as unit:
                return await holding(unit, agent_id)

        told = await self.each(look)
        known = {name: found for name, found in told.items() if found is not None}
        full = [name for name, found in known.items() if not found.is_empty]
        if len(full) > 1:
            raise DividedAgentError(agent_id, full)
        return next(iter([*full, *known]), None)

    async def _of_session(self, session: Joinable) -> str | None:
        """None: it is of no shard, which the call itself will say."""
        for shard in self.shards.values():
            memory = await self.memory_of(shard)
            try:
                async with memory.database.transaction(session):
                    return shard.name
            except InputError:
                continue
        return None

    async def each(self, work: Callable[[Inner], Awaitable[T]]) -> dict[str, T]:
        """What each said, by its name. Raises `ShardError`, naming those that didn't answer, once all others have."""
        told, away = await self.answers(work)
        if away:
            raise ShardError(away)
        return told

    async def answers(self, work: Callable[[Inner], Awaitable[T]]) -> tuple[dict[str, T], dict[str, str]]:
        """What each said, and why others said nothing, by their names."""
        each = list(self.shards.values())
        found = await asyncio.gather(*(self.in_shard(one, work) for one in each), return_exceptions=True)
        told: dict[str, T] = {}
        away: dict[str, str] = {}
        for shard, one in zip(each, found, strict=True):
            if isinstance(one, ShardError):
                away |= one.shards
            elif isinstance(one, BaseException):
                raise one
            else:
                told[shard.name] = one
        return told, away

    def in_turn(self) -> list[Shard]:
        """All of them, each time beginning with the next, so that none starves."""
        each = list(self.shards.values())
        self._turn = (self._turn + 1) % len(each)
        return each[self._turn :] + each[: self._turn]

    def _opened_places(self) -> Places:
        if self._places is None:
            raise InputError(NOT_OPEN)
        return self._places


def _unjoined(name: str) -> str:
    return f"shards: the database of {name} hasn't joined; run `memory-sql db upgrade` with the same shards"


def _raise_first(found: Any) -> None:
    for error in found:
        if isinstance(error, BaseException):
            raise error
