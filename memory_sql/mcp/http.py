"""For many at once: MCP's streamable HTTP as routes of a Starlette application, which says whose each request is."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, NamedTuple

from mcp.server.transport_security import TransportSecuritySettings

from memory_sql import __version__
from memory_sql.domain.arguments import id_of, ids_of
from memory_sql.domain.ids import Id
from memory_sql.errors import InputError
from memory_sql.mcp.server import Caller, Request, server_for
from memory_sql.memory import Memory
from memory_sql.tools import MemoryTools, Policy

MOST_CALLERS = 10_000  # whose previews of forgetting are kept


class Person(NamedTuple):
    """Whose a request is, as the application knows it from whoever vouches; never from what a model wrote."""

    agent_id: Id
    user_id: Id
    group_ids: Iterable[Id] = ()
    policy: Policy = Policy()


Identify = Callable[[dict[str, Any]], "tuple[Memory, Person] | Awaitable[tuple[Memory, Person]]"]
"""From a request's ASGI scope to its memory and its person. Raises `InputError` if it is nobody's."""


class Mounted(NamedTuple):
    """`routes` for an application's router; `run()` has to be open, in its lifespan, while it serves: once."""

    routes: Sequence[Any]
    run: Callable[[], AbstractAsyncContextManager[None]]


def mounted(
    identify: Identify,
    *,
    path: str = "/mcp",
    allowed_hosts: Sequence[str] | None = None,
    allowed_origins: Sequence[str] = (),
) -> Mounted:
    """MCP at `path`, without sessions: any process may answer any request.

        app.router.routes.extend(made.routes)      # not app.mount: it would answer 404 for every other address
        async with made.run(): ...                 # in the lifespan

    `allowed_hosts` (`memory.example.com`, `localhost:*`): the names by which it may be asked for, against DNS rebinding;
    None: those of the loopback. What was shown before forgetting is known to the process that has shown it.
    """
    callers = _Callers(identify)
    server = server_for(callers.of, __version__)
    security = None
    if allowed_hosts is not None:
        security = TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=[*allowed_hosts],
            allowed_origins=[*allowed_origins],
        )
    app = server.streamable_http_app(
        streamable_http_path=path, stateless_http=True, json_response=True, transport_security=security
    )
    return Mounted(tuple(app.routes), server.session_manager.run)


class _Callers:
    """The tools of each person, kept while others haven't pushed them out."""

    def __init__(self, identify: Identify) -> None:
        self._identify = identify
        self._tools: OrderedDict[Any, MemoryTools] = OrderedDict()

    async def of(self, request: Request) -> Caller:
        if request.request is None:
            raise InputError("this server is asked over HTTP")
        found = self._identify(request.request.scope)
        memory, person = await found if inspect.isawaitable(found) else found
        agent, user = id_of("agent_id", person.agent_id), id_of("user_id", person.user_id)
        groups = tuple(sorted(ids_of("group_ids", person.group_ids)))
        key = id(memory), agent, user, groups, person.policy
        tools = self._tools.pop(key, None) or MemoryTools(
            memory, agent_id=agent, user_id=user, group_ids=groups, policy=person.policy
        )
        self._tools[key] = tools
        while len(self._tools) > MOST_CALLERS:
            self._tools.popitem(last=False)
        return Caller(memory, tools, agent, user)
