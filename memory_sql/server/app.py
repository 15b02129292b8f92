"""The application: the routes, keys, health, and whatever else is served beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, cast

from fastapi import Depends, FastAPI, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from memory_sql import __version__
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from memory_sql.server.guard import Guard
from memory_sql.server.identity import Bearer, Identify
from memory_sql.server.mounting import mount
from memory_sql.server.pages import add_pages
from memory_sql.server.problems import KINDS, problem
from memory_sql.server.routing import methods_at, router

BODY_BYTES = 2**20
REQUESTS_PER_MINUTE = 600
ANSWER_SECONDS = 5.0  # for the database to say that it is there
KEPT_SECONDS = 1.0  # what was last found out about it
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
NO_METRICS = 'no metrics here: pip install "memory-sql[telemetry]", and set MEMORY_SQL_TELEMETRY=1\n'


def create_app(
    memory: Memory | None = None,
    *,
    mcp: bool = True,
    pages: bool = True,
    identity: Identify | None = None,
    allowed_hosts: Sequence[str] | None = None,
    frame_origins: Sequence[str] = (),
    body_bytes: int = BODY_BYTES,
    requests_per_minute: int = REQUESTS_PER_MINUTE,
    metrics: Callable[[], bytes] | None = None,
) -> FastAPI:
    """The HTTP server as an ASGI application.

    `memory` is open, and stays the caller's to close; None: one of the settings is opened and closed with the application.
    `identity` None: keys (`memory.keys`), each with `requests_per_minute` in this process. `mcp`: also at `/mcp`, where that
    extra is installed, for the names in `allowed_hosts` (`memory.example.com`, `localhost:*`; None: those of the loopback).
    `pages`: the inspector at `/` (docs/inspector.md), where keys say who asks; `frame_origins` (`https://app.example.com`)
    may show a person's own page in a frame. Raises `ConfigurationError` for what isn't an origin.
    `body_bytes`: more is 413. `metrics` gives the text of `/metrics`.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as opened:
            app.state.memory = memory if memory is not None else await opened.enter_async_context(Memory())
            if mounted is not None:
                await opened.enter_async_context(mounted)
            yield

    app = FastAPI(
        title="memory_sql",
        version=__version__,
        description="Long-term memory for AI agents, in Postgres.",
        lifespan=lifespan,
        telemetry={
            "tracing": False,
            "logs": False,
        },  # FastAPI's have paths and queries, so ids of people, and messages of errors
        docs_url=None,  # its page runs scripts of another host, beside the inspector's
        redoc_url=None,
        redirect_slashes=False,
    )
    app.add_middleware(Guard, body_bytes=body_bytes)
    bearer = Bearer(memory_of, requests_per_minute)
    identify = identity or bearer
    shown = [Depends(HTTPBearer(auto_error=False, scheme_name="key", description="A key: memory-sql key create"))]
    app.include_router(router(memory_of, identify), dependencies=shown)
    app.add_exception_handler(HTTPException, _refused)
    _add_health(app, metrics)
    if pages and identity is None:
        add_pages(app, memory_of, bearer, frame_origins)
    mounted = mount(app, identify, allowed_hosts) if mcp else None
    return app


def memory_of(request: Request) -> Memory:
    return cast("Memory", request.app.state.memory)


async def _refused(request: Request, error: Exception) -> Response:
    """The application's own: no such route, no such method, too large a body."""
    assert isinstance(error, HTTPException)
    kind, headers = KINDS.get(error.status_code, "BadRequest"), error.headers
    if error.status_code == 405 and (methods := methods_at(request.url.path)):
        headers = {"Allow": ", ".join(sorted(methods))}
    return problem(request, error.status_code, kind, str(error.detail), headers=headers)


def _add_health(app: FastAPI, metrics: Callable[[], bytes] | None) -> None:
    """`/live`, `/health` and `/metrics`, by the names that the worker has; they need no key and show nothing of memory."""
    health = _Health()

    async def live() -> Response:
        return PlainTextResponse("live\n")

    async def well(request: Request) -> Response:
        is_well = await health.is_well(memory_of(request))
        return JSONResponse({"is_well": is_well, "version": __version__}, 200 if is_well else 503)

    async def measured() -> Response:
        if metrics is None:
            return PlainTextResponse(NO_METRICS, 404)
        return Response(await asyncio.to_thread(metrics), media_type=PROMETHEUS)

    for path, endpoint in (("/live", live), ("/health", well), ("/metrics", measured)):
        app.add_api_route(path, endpoint, methods=["GET", "HEAD"], include_in_schema=False)


class _Health:
    """Whether the database answers; asked at most once a second, however many ask."""

    def __init__(self) -> None:
        self._known: tuple[float, bool] | None = None
        self._asking: asyncio.Task[bool] | None = None

    async def is_well(self, memory: Memory) -> bool:
        if self._known is not None and time.monotonic() < self._known[0] + KEPT_SECONDS:
            return self._known[1]
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask(memory))
        return await asyncio.shield(self._asking)

    async def _ask(self, memory: Memory) -> bool:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await memory.database.check_schema()  # with shards, of the home: one that is away stops no other
            found = True
        except (DatabaseError, TimeoutError):
            found = False
        self._known = time.monotonic(), found
        return found


def openapi() -> dict[str, Any]:
    """What `/openapi.json` says, without a running server."""
    return create_app(Memory("postgresql://nobody@127.0.0.1:9/nothing")).openapi()
