"""`Memory` and `AsyncMemory` with the calls and results of mem0: its code runs by changing the import.

from memory_sql.integrations.mem0 import Memory
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
from collections.abc import Callable, Coroutine, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

from memory_sql import memory as awaited
from memory_sql import sync
from memory_sql.domain.arguments import id_of
from memory_sql.domain.ids import Id
from memory_sql.errors import ForkedError, InputError
from memory_sql.integrations.mem0.arguments import (
    day_of,
    host_metadata,
    most_of,
    other_filters,
    query_of,
    refuse,
    whose,
)
from memory_sql.integrations.mem0.calls import MOST_FOUND, Calls
from memory_sql.integrations.mem0.config import Configured, configured

P = ParamSpec("P")
R = TypeVar("R")

AGENT = "mem0"
UNSET: Any = object()


class AsyncMemory:
    """mem0's `AsyncMemory`, over `memory_sql.Memory`. It connects with its first call.

    `config`: as mem0 takes it, a mapping or its `MemoryConfig`; None: the settings of memory_sql. `memory`: an open one of
    the host's, in its place. `agent_id`: the agent of memories that name none.
    """

    def __init__(self, config: Any = None, *, memory: awaited.Memory | None = None, agent_id: Id = AGENT) -> None:
        self._agent = id_of("agent_id", agent_id)
        self._config = Configured() if config is None else configured(config)
        self._own = (
            None if memory is not None else awaited.Memory(*self._config.arguments, embeddings=self._config.embeddings)
        )
        self._calls = None if memory is None else Calls(memory, self._agent)
        self._opening = asyncio.Lock()

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """Honours pgvector's connection and OpenAI's models, and warns of the rest by name. Raises `ConfigurationError`."""
        return cls(config_dict)

    async def add(
        self,
        /,
        messages: Any,
        *,
        user_id: Id | None = None,
        agent_id: Id | None = None,
        run_id: Id | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = None,
        infer: bool = True,
        **unknown: Any,
    ) -> dict[str, Any]:
        """Stores messages, forms memory of them, and returns what is new: `{"results": [{"id", "memory", "event"}]}`.

        If forming fails, the messages are stored, and the result says so (`stored`, `not_formed`): don't add them again.
        `infer=False`: stores each message as a memory, word for word.
        """
        refuse("add", unknown)
        who, hosts = whose({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}), host_metadata(metadata)
        last = None if expiration_date is None else day_of(expiration_date)
        calls = await self._ready()
        return await (calls.infer if infer else calls.keep)(messages, who, hosts, last)

    async def search(
        self,
        /,
        query: str,
        *,
        top_k: int | None = None,
        limit: int | None = None,
        filters: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        show_expired: bool = False,
        user_id: Id | None = None,
        agent_id: Id | None = None,
        run_id: Id | None = None,
        **unknown: Any,
    ) -> dict[str, Any]:
        """What is found, best first: `{"results": [{"id", "memory", "score", "created_at", …}]}`; at most 100.

        Whose memory it is stands in `filters`, or in arguments of their own. `limit`: another name of `top_k` (20).
        """
        refuse("search", unknown)
        who = whose({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}, filters)
        asked, most = query_of(query), most_of(top_k, limit, MOST_FOUND)
        calls = await self._ready()
        found = await calls.search(asked, who, other_filters(filters), threshold or 0.0, expired=show_expired)
        return {"results": found[:most]}

    async def get_all(
        self,
        /,
        *,
        filters: Mapping[str, Any] | None = None,
        top_k: int | None = None,
        limit: int | None = None,
        show_expired: bool = False,
        user_id: Id | None = None,
        agent_id: Id | None = None,
        run_id: Id | None = None,
        **unknown: Any,
    ) -> dict[str, Any]:
        """The memories of a user, agent by agent, newest first: `{"results": [{"id", "memory", "created_at", …}]}`."""
        refuse("get_all", unknown)
        who = whose({"user_id": user_id, "agent_id": agent_id, "run_id": run_id}, filters)
        most, results = most_of(top_k, limit), list[dict[str, Any]]()
        calls = await self._ready()
        async for item in calls.every(who, other_filters(filters), expired=show_expired):
            if len(results) == most:
                break
            results.append({name: value for name, value in item.items() if name != "score"})
        return {"results": results}

    async def get(self, memory_id: str) -> dict[str, Any] | None:
        """The memory as it is now; None: there is none."""
        calls = await self._ready()
        found = await calls.get(memory_id)
        return None if found is None else calls.item(found[1], found[0].agent, found[0].owner)

    async def update(
        self,
        memory_id: str,
        text: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        expiration_date: Any = UNSET,
        data: str | None = None,
    ) -> dict[str, Any]:
        """Changes the text, and with it metadata. The id stays good. Raises `ValueError` if there is no such memory."""
        content, hosts = data if text is None else text, host_metadata(metadata)
        if content is None:
            raise InputError("update needs text=: metadata and expiration_date are changed with it only")
        own = {} if expiration_date is UNSET else {"expiration_date": expiration_date and day_of(expiration_date)}
        await (await self._ready()).update(memory_id, content, hosts, own)
        return {"message": "Memory updated successfully!"}

    async def delete(self, memory_id: str) -> dict[str, Any]:
        """For good, with the messages that it came from and the answers to them.

        `also_deleted` in the result: what else was made of these messages alone, which goes with them. Raises `ValueError` if
        there is no such memory.
        """
        others = await (await self._ready()).forget(memory_id)
        return {"message": "Memory deleted successfully!", **({"also_deleted": others} if others else {})}

    async def delete_all(
        self, user_id: Id | None = None, agent_id: Id | None = None, run_id: Id | None = None
    ) -> dict[str, Any]:
        """Forgets all of a user, of one agent or of one run if those are named: also what was said."""
        who = whose({"user_id": user_id, "agent_id": agent_id, "run_id": run_id})
        await (await self._ready()).forget_all(who)
        return {"message": "Memories deleted successfully!"}

    async def history(self, memory_id: str) -> list[dict[str, Any]]:
        """What `update` has made of a memory, oldest first; empty if it was deleted."""
        return await (await self._ready()).history(memory_id)

    async def reset(self, *, confirm: bool = False) -> None:
        """Erases everything of every agent in the database, also what mem0's calls didn't store; only with `confirm=True`."""
        if confirm is not True:
            raise InputError("reset erases everything of every agent in the database: pass confirm=True")
        await (await self._ready()).reset()

    async def close(self) -> None:
        """Closes what it has opened."""
        if self._own is not None and self._calls is not None:
            self._calls = None
            await self._own.close()
        await self._config.close()

    async def _ready(self) -> Calls:
        async with self._opening:
            if self._calls is None:
                self._calls = Calls(await cast("awaited.Memory", self._own).open(), self._agent)
        return self._calls

    def __await__(self) -> Generator[Any, None, Self]:
        """So that `await AsyncMemory.from_config(…)`, as mem0 1.x has it, works too."""
        yield from self._ready().__await__()
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        await self.close()


class _Blocking(Generic[P, R]):
    """Makes a method a blocking one, with the same parameters and result."""

    def __init__(self, method: Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]) -> None:
        self.method = method

    def __get__(self, face: Memory, kind: type) -> Callable[P, R]:
        def call(*given: P.args, **named: P.kwargs) -> R:
            return face._run(lambda memory: self.method(memory, *given, **named))

        signature, made = inspect.signature(self.method), cast("Any", call)
        made.__name__, made.__doc__ = self.method.__name__, self.method.__doc__
        made.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])
        return call


class Memory:
    """mem0's `Memory`, over `memory_sql.sync.Memory`. It connects when it is made, and works where an event loop runs.

    Arguments as for `AsyncMemory`.
    """

    add = _Blocking(AsyncMemory.add)
    search = _Blocking(AsyncMemory.search)
    get_all = _Blocking(AsyncMemory.get_all)
    get = _Blocking(AsyncMemory.get)
    update = _Blocking(AsyncMemory.update)
    delete = _Blocking(AsyncMemory.delete)
    delete_all = _Blocking(AsyncMemory.delete_all)
    history = _Blocking(AsyncMemory.history)
    reset = _Blocking(AsyncMemory.reset)

    def __init__(self, config: Any = None, *, memory: sync.Memory | None = None, agent_id: Id = AGENT) -> None:
        self._agent, self._owns = id_of("agent_id", agent_id), memory is None
        self._config = Configured() if config is None else configured(config)
        self._memory = memory or sync.Memory(*self._config.arguments, embeddings=self._config.embeddings)
        self._awaited: AsyncMemory | None = None
        if self._owns:
            _without_loop(self._memory.open)
            atexit.register(self.close)  # programs of mem0 seldom close it

    @classmethod
    def from_config(cls, config_dict: Mapping[str, Any]) -> Self:
        """Honours pgvector's connection and OpenAI's models, and warns of the rest by name. Raises `ConfigurationError`."""
        return cls(config_dict)

    def close(self) -> None:
        """Closes what it has opened."""
        if self._owns:
            self._owns = False
            atexit.unregister(self.close)
            with suppress(ForkedError):  # the models are the parent's
                self._run(lambda _: self._config.close())
            _without_loop(self._memory.close)

    def _run(self, call: Callable[[AsyncMemory], Coroutine[Any, Any, R]]) -> R:
        async def called(memory: awaited.Memory) -> R:
            if self._awaited is None:
                self._awaited = AsyncMemory(memory=memory, agent_id=self._agent)
            return await call(self._awaited)

        return self._memory.run(called)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def _without_loop(call: Callable[[], Any]) -> None:
    """In a thread of its own where an event loop runs, which waits for it."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        call()
        return
    with ThreadPoolExecutor(1) as other:
        other.submit(call).result()
