"""A client of an ASGI application in the same event loop, as a `Memory` needs it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, urlencode

from fastapi import FastAPI
from starlette.types import ASGIApp, Message


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Client:
    def __init__(self, app: ASGIApp, headers: dict[str, str] | None = None) -> None:
        self.app, self.headers = app, headers or {}

    def with_key(self, secret: str, **more: str) -> Client:
        return Client(self.app, {**self.headers, "Authorization": f"Bearer {secret}", **more})

    async def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Any = None,
        headers: dict[str, str] | None = None,
        more_headers: Sequence[tuple[str, bytes]] = (),
        parts: Iterable[bytes] | None = None,
    ) -> Answer:
        """`path`: as it is sent; what isn't ASCII is encoded. `body`: bytes as they are, or a value to be sent as JSON.

        `more_headers`: beside the others, also if they have the same name. `parts`: in pieces, without a length.
        """
        sent = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        told = {"host": "localhost", **self.headers, **(headers or {})}
        if parts is None:
            told.setdefault("content-length", str(len(sent)))
        raw_path = quote(path, safe="/%:@!$&'()*+,;=~")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": unquote(raw_path),
            "raw_path": raw_path.encode(),
            "root_path": "",
            "query_string": query.encode() if isinstance(query, str) else urlencode(query or {}).encode(),
            "headers": [
                *((name.lower().encode(), value.encode()) for name, value in told.items()),
                *((name.lower().encode(), value) for name, value in more_headers),
            ],
            "client": ("127.0.0.1", 5),
            "server": ("127.0.0.1", 80),
            "state": {},
        }
        pieces = iter([sent] if parts is None else parts)
        answered: list[Message] = []
        ended = asyncio.Event()

        async def receive() -> Message:
            piece = next(pieces, None)
            if piece is None and ended.is_set():
                await asyncio.Event().wait()  # whoever is connected stays so
            ended.set() if parts is None or piece is None else None
            return {"type": "http.request", "body": piece or b"", "more_body": piece is not None and parts is not None}

        async def send(message: Message) -> None:
            answered.append(message)

        await self.app(scope, receive, send)
        start = answered[0]
        named = {name.decode().lower(): value.decode() for name, value in start["headers"]}
        return Answer(start["status"], named, b"".join(message.get("body", b"") for message in answered[1:]))


@asynccontextmanager
async def lived(app: FastAPI) -> AsyncIterator[Client]:
    """The application between its start and its end."""
    async with app.router.lifespan_context(app):
        yield Client(app)
