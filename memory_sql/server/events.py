"""Long work as server-sent events: how far it is, and at the end its answer or what went wrong."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextvars import copy_context
from typing import Any

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from fastapi.sse import KEEPALIVE_COMMENT, format_sse_event
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from memory_sql.domain.results import Progress
from memory_sql.errors import MemorySQLError
from memory_sql.server.answers import NO_STORE, timely
from memory_sql.server.arguments import schema_of
from memory_sql.server.problems import SCHEMA, problem_of

EVENTS = "text/event-stream"
ALIVE_SECONDS = 15.0  # of silence, after which a comment says that the work goes on
HEADERS = {**NO_STORE, "X-Accel-Buffering": "no"}  # nginx would keep the events back

Work = Callable[[Callable[[Progress], None]], Awaitable[Response]]
Ended = tuple[str, Response]  # the name of the last event, and the answer whose body it has


class Told(StreamingResponse):
    """The answer to `work`, which is cancelled as soon as its client leaves, or takes nothing any more.

    What fails before the first event has a status of its own. For a client that reads slowly only the latest progress is
    kept.
    """

    def __init__(self, request: Request, work: Work) -> None:
        super().__init__((), headers=HEADERS, media_type=EVENTS)
        self._request, self._work, self._context = request, work, copy_context()
        self._latest: Progress | None = None
        self._news = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        working = asyncio.create_task(self._ended(), context=self._context)
        working.add_done_callback(lambda _: self._news.set())
        sending = asyncio.create_task(self._send(working, scope, receive, timely(send)))
        leaving = asyncio.create_task(_left(receive))
        tasks = (working, sending, leaving)
        try:
            await asyncio.wait((sending, leaving), return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise ClientDisconnect
            sending.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)  # what it had leased is given back meanwhile

    async def _ended(self) -> Ended:
        try:
            return "result", await self._work(self._tell)
        except MemorySQLError as error:
            return "problem", problem_of(self._request, error)

    def _tell(self, progress: Progress) -> None:
        self._latest = progress
        self._news.set()

    async def _send(self, working: asyncio.Task[Ended], scope: Scope, receive: Receive, send: Send) -> None:
        await self._has_news()
        if working.done() and self._latest is None and working.result()[0] == "problem":
            await working.result()[1](scope, receive, send)
            return
        self.body_iterator = self._pieces(working)
        await self.stream_response(send)

    async def _pieces(self, working: asyncio.Task[Ended]) -> AsyncIterator[bytes]:
        while True:
            latest, self._latest = self._latest, None
            if latest is not None:
                yield _event("progress", latest.model_dump_json())
            elif working.done():
                name, answer = working.result()
                yield _event(name, bytes(answer.body).decode())
                return
            elif not await self._has_news():
                yield KEEPALIVE_COMMENT

    async def _has_news(self) -> bool:
        """Waits for progress or the end; False: there was neither for long."""
        try:
            async with asyncio.timeout(ALIVE_SECONDS):
                await self._news.wait()
        except TimeoutError:
            return False
        self._news.clear()
        return True


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _event(name: str, data: str) -> bytes:
    return format_sse_event(event=name, data_str=data)


def described(kind: Any) -> dict[str, Any]:
    """The media type in OpenAPI, where `kind` is the answer; a stream is described as OpenAPI 3.2 does it."""
    of = {"progress": schema_of(Progress), "result": schema_of(kind), "problem": SCHEMA}
    return {"itemSchema": {"oneOf": [_described(name, schema) for name, schema in of.items()]}}


def _described(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    data = {"type": "string", "contentMediaType": "application/json", "contentSchema": schema}
    return {
        "type": "object",
        "required": ["event", "data"],
        "properties": {"event": {"const": name}, "data": data},
    }
