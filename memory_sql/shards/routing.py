"""Sends each public call of a memory with shards to where it belongs, by its agent or by a table.

A memory of one database has none of this: what is made here becomes attributes of the one memory that has shards.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import cache, partial, wraps
from importlib import import_module
from typing import Any

from memory_sql.config import Settings
from memory_sql.config.shards import shards_of
from memory_sql.domain.arguments import id_of, needed_text, position_in
from memory_sql.domain.ids import host_id, stored_id
from memory_sql.errors import ConfigurationError, InputError, MovedAgentError, NotFoundError
from memory_sql.resources.faces import FACES, Faces
from memory_sql.shards.combining import COMBINED, refusal
from memory_sql.shards.moving import move
from memory_sql.shards.spread import Inner, Shard, Spread, naming

CREATES = frozenset({"add", "observe", "configure", "groups.create", "scopes.create", "holds.place", "people.merge"})
"""The calls that create an agent that isn't there yet, and so place it."""

OF_HOME = frozenset(
    "keys.create keys.list keys.revoke keys.find keys.known keys.link keys.redeem models.check models.prices"
    " conversations.message_ids".split()
)
"""What belongs to no agent, and is in the home alone."""

REFUSED = frozenset("imports.mongo imports.mem0 imports.list imports.verify imports.rollback".split())
"""What works on one database."""

READS = frozenset("context digest search".split())
"""What a replica answers, and takes a position."""

MOVE = "admin.move"
MOVING_SECONDS, PAUSE_SECONDS = 30.0, 0.05  # how long a call waits for an agent that moves, and how often it tries

SEVERAL = frozenset(
    "run_due conversations.form scopes.consolidate scopes.propagate work.embed work.recheck work.maintain work.trim"
    " work.learn".split()
)
"""The calls of several transactions, between which an agent may move: what they have done is done, so nothing is repeated."""

OF_ITSELF = frozenset("open close now require_llm".split())
"""What the outer memory does itself; `open` and `close` do it to all."""

NO_IMPORTS = (
    "an import fills one database: run it with url= of one shard, for agents that are nowhere yet; the shards find them"
)


def spread_over(
    memory: Faces,
    one: Callable[..., Inner],
    shards: Mapping[str, str] | None,
    read_url: str | Mapping[str, str] | None,
    others: Mapping[str, object],
) -> None:
    """Makes `one` memory for each of the shards, or of those in the settings: calls of `memory` go to them from now on.

    `read_url`: their replicas by the same names, or those in the settings.

    Raises `ConfigurationError`, also if `others` or the settings name a database besides.
    """
    settings: Settings = memory.settings  # type: ignore[attr-defined]  # Memory, which this package lies below, has them
    named = [name for name, value in others.items() if value is not None]
    if settings.url is not None and "url" not in named:
        named.append("url")
    if named:
        raise ConfigurationError(f"shards name the databases; leave out {' and '.join(named)}, or the shards")
    try:
        urls = shards_of(settings.shards if shards is None else shards)
    except ValueError as error:
        raise ConfigurationError(f"shards: {error}") from None
    replicas = _replicas(settings.read_url if read_url is None else read_url, urls)
    own = settings.model_copy(update={"shards": None, "read_url": None})
    spread = Spread(urls, lambda name: one(urls[name], settings=own, read_url=replicas.get(name)))
    memory._spread = spread
    memory._runtime = spread.home.memory._runtime

    async def open(*, restoring: bool = False) -> Faces:
        await spread.open(restoring=restoring)
        memory._runtime = spread.home.memory._runtime
        return memory

    routed: dict[str, Any] = {"open": open, "close": spread.close}
    for name, method in calls_of(type(memory)):
        if name not in OF_ITSELF:
            routed[name] = partial(_routed(name, method), memory)
    for face in FACES:
        made = _face(face)(memory._runtime)
        made._spread = spread
        routed[face] = made
    vars(memory).update(routed)


def _replicas(read_url: object, urls: Mapping[str, str]) -> dict[str, str]:
    """By the names of the shards. Raises `ConfigurationError`."""
    if read_url is None:
        return {}
    try:
        found = shards_of(read_url)
    except ValueError as error:
        raise ConfigurationError(f"with shards read_url names a replica by shard: a=URL b=URL; {error}") from None
    strange = [name for name in found if name not in urls]
    if strange:
        raise ConfigurationError(f"read_url names {strange[0]}, which is no shard")
    return found


def calls_of(cls: type) -> list[tuple[str, Callable[..., Any]]]:
    """The public methods, by name."""
    return [(name, call) for name, call in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")]


def face_of(face: str) -> type:
    found: type = getattr(import_module(f"memory_sql.resources.{face}"), FACES[face])
    return found


@cache
def _face(face: str) -> type:
    """The face with routed methods."""
    cls = face_of(face)
    routed: dict[str, Any] = {name: _routed(f"{face}.{name}", method) for name, method in calls_of(cls)}
    if face == "work":
        routed["refusal"] = property(lambda self: refusal(self._spread))
    return type(cls.__name__, (cls,), routed)


def _routed(call: str, method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)
    face, _, name = call.rpartition(".")

    def of(memory: Inner) -> Callable[..., Any]:
        found: Callable[..., Any] = getattr(getattr(memory, face) if face else memory, name)
        return found

    if inspect.isasyncgenfunction(method):

        @wraps(method)
        async def iterate(self: Any, *given: Any, **named: Any) -> AsyncGenerator[Any]:
            shard = await _shard_for(self._spread, call, named)
            with naming(shard):
                async with aclosing(of(await self._spread.memory_of(shard))(*given, **named)) as found:
                    async for one in found:
                        yield one

        return iterate

    @wraps(method)
    async def send(self: Any, *given: Any, **named: Any) -> Any:
        spread: Spread = self._spread
        if call == MOVE:
            asked = signature.bind(self, *given, **named).arguments
            return await move(spread, id_of("agent_id", asked["agent_id"]), needed_text("to", asked["to"]))
        if call in REFUSED:
            raise InputError(NO_IMPORTS)
        if call in OF_HOME:
            return await spread.in_shard(spread.home, lambda memory: of(memory)(*given, **named))
        if named.get("agent_id") is None and call in COMBINED:
            bound = dict(list(signature.bind(self, *given, **named).arguments.items())[1:])
            return await COMBINED[call](spread, lambda memory, **other: of(memory)(**{**bound, **other}), bound)
        return await _where_it_is(spread, call, named, lambda own, memory: of(memory)(*given, **own))

    return send


async def _where_it_is(
    spread: Spread, call: str, named: Mapping[str, Any], work: Callable[[Mapping[str, Any], Inner], Awaitable[Any]]
) -> Any:
    """In the agent's shard; while it moves, again and again."""
    until = time.monotonic() + MOVING_SECONDS
    shard = await _shard_for(spread, call, named)
    while True:
        try:
            return await spread.in_shard(shard, partial(work, _own(call, named, shard)))
        except NotFoundError as error:
            if error.what != "agent" or named.get("session") is not None or not await spread.lost(error.key, shard):
                raise
        except MovedAgentError as error:
            await spread.lost(stored_id(named["agent_id"], "agent_id"), shard)
            has_done_something = call in SEVERAL or error.added is not None
            if has_done_something or named.get("session") is not None or time.monotonic() > until:
                raise
            await asyncio.sleep(PAUSE_SECONDS)
        shard = await _shard_for(spread, call, named)


def _own(call: str, named: Mapping[str, Any], shard: Shard) -> Mapping[str, Any]:
    """With the shard's own part of a position."""
    after = named.get("after") if call in READS else None
    return named if after is None else {**named, "after": position_in(after, shard.name)}


async def _shard_for(spread: Spread, call: str, named: Mapping[str, Any]) -> Any:
    """By the agent; a call without one goes to the home, whose method refuses it."""
    agent_id = named.get("agent_id")
    if agent_id is None:
        return spread.home
    creates = call in CREATES
    known = host_id(agent_id, "agent_id") if creates else stored_id(agent_id, "agent_id")
    return await spread.of_agent(known, creates=creates, session=named.get("session"))
