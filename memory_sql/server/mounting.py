"""MCP beside the routes, where its extra is installed: a key says whose each request is, never what a model wrote."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Receive, Scope, Send

from memory_sql.domain.ids import host_id
from memory_sql.errors import InputError, MemorySQLError
from memory_sql.memory import Memory
from memory_sql.server.headers import header
from memory_sql.server.identity import Identify, Identity
from memory_sql.server.problems import RefusalError, denied, problem_of, unknown_caller

if TYPE_CHECKING:
    from memory_sql.mcp import Mounted, Person

AGENT, USER = "memory-agent", "memory-user"  # headers that a host sets where it makes the connection
_PERSON = "memory_sql.person"


def mount(app: FastAPI, identify: Identify, hosts: Sequence[str] | None) -> AbstractAsyncContextManager[None] | None:
    """Adds the routes at `/mcp`; what is returned has to be open while they are served. None: the extra isn't installed."""
    if find_spec("mcp") is None:
        return None
    made: Mounted = import_module("memory_sql.mcp").mounted(_served, allowed_hosts=hosts)
    for route in made.routes:
        route.app = _Known(route.app, identify)
    app.router.routes.extend(made.routes)
    return made.run()


def _served(scope: dict[str, Any]) -> tuple[Memory, Person]:
    return scope["app"].state.memory, scope[_PERSON]


class _Known:
    """Lets in who is known."""

    def __init__(self, app: ASGIApp, identify: Identify) -> None:
        self._app, self._identify = app, identify

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request: Request = Request(scope)
        try:
            identity = await self._identify(request)
            if identity is None:
                raise unknown_caller()
            scope[_PERSON] = person_of(identity, request)
            if request.method != "POST":  # GET asks for what the server says by itself, which is nothing
                raise RefusalError(405, "MethodNotAllowed", "Method Not Allowed", {"Allow": "POST"})
        except (MemorySQLError, RefusalError) as error:
            await problem_of(request, error)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def person_of(identity: Identity, request: Request) -> Person:
    """The key's agent and user, else those of the headers. Raises `RefusalError` where these name others, or `InputError`."""
    only = next(iter(identity.agents)) if identity.agents is not None and len(identity.agents) == 1 else None
    agent, user = _named(request, AGENT, only), _named(request, USER, identity.user_id)
    if not identity.may("read", agent):
        raise denied()
    tools = import_module("memory_sql.tools")
    policy = tools.Policy(writes="write" in identity.rights, forget="hide" if "forget" in identity.rights else "no")
    person: Person = import_module("memory_sql.mcp").Person(agent, user, (), policy)
    return person


def _named(request: Request, name: str, bound: str | None) -> str:
    """`bound`: what the key says, which a header can't change."""
    given = header(request, name)
    if given is None:
        if bound is None:
            raise InputError(f"{name.title()}: this key needs it, set where the connection is made")
        return bound
    if bound is not None and given != bound:
        raise denied()
    return host_id(given, name)
