"""From the result of a call to the response."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_origin, get_type_hints

from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from pydantic import TypeAdapter
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from memory_sql.domain.exports import ExportLine
from memory_sql.domain.messages import RetainedMessage
from memory_sql.domain.observations import Observation
from memory_sql.domain.people import UserSummary
from memory_sql.domain.reading import SearchResult
from memory_sql.domain.receipts import Receipt
from memory_sql.server.arguments import method_of
from memory_sql.server.positions import Page, next_of

JSON, TEXT, LINES = "application/json", "text/plain; charset=utf-8", "application/x-ndjson"
READ_SECONDS = 30.0  # in which a client has to take a piece of an answer that is streamed
NO_STORE = {"Cache-Control": "no-store"}


@cache
def kind_of(target: str) -> Any:
    """What the body of an answer is: a list as a `Page`. None: it has none. `ExportLine`: a line each."""
    returned = get_type_hints(method_of(target))["return"]
    if target == "conversations.form":
        returned = get_args(returned)[2]  # a coroutine of it
    origin, of = get_origin(returned), get_args(returned)
    if origin is AsyncGenerator:
        return ExportLine
    if origin in (list, tuple, Sequence):
        return Page[of[0]]  # type: ignore[valid-type]
    return None if returned is type(None) else returned


@cache
def _adapter(target: str) -> TypeAdapter[Any]:
    return TypeAdapter(kind_of(target))


def answer(
    request: Request, target: str, result: Any, status: int, limit: int | None, tag: str | None, *, may_be_text: bool
) -> Response:
    """`limit`: of the page that was asked for. `tag`: what `tag_of` said of the whole result."""
    kind = kind_of(target)
    if kind is None:
        return Response(status_code=204, headers=NO_STORE)
    if may_be_text and wants(request, "text/plain"):
        return Response(text_of(result), status, NO_STORE, TEXT)
    headers = dict(NO_STORE)
    if tag is not None:
        headers["ETag"] = f'"{tag}"'
    if isinstance(result, list | tuple):
        result = {"items": [*result], "next": _next(result, limit)}
        body = _adapter(target).dump_json(kind.model_construct(**result))
    else:
        body = _adapter(target).dump_json(result)
    return Response(body, status, headers, JSON)


def tag_of(result: Any) -> str | None:
    """What a later request can hold it to, by If-Match."""
    if isinstance(result, Observation):
        return str(result.version)
    return result.fingerprint if isinstance(result, Receipt) else None


def _next(items: Sequence[Any], limit: int | None) -> str | None:
    if items and isinstance(items[-1], UserSummary):
        return items[-1].user_id if len(items) == limit else None
    return next_of(items, limit)


def wants(request: Request, kind: str) -> bool:
    """Whether that media type is named before JSON, or alone."""
    kinds = [one.partition(";")[0].strip().lower() for one in request.headers.get("accept", "").split(",")]
    named = [one for one in kinds if one in (kind, JSON, "application/*", "*/*")]
    return bool(named) and named[0] == kind


def text_of(result: Any) -> str:
    """The text for a prompt; of a search a line for each hit, observations first."""
    if not isinstance(result, SearchResult):
        return str(result)
    found = [_line_of(one.observation.id, one.observation.said_at, one.observation.content) for one in result.results]
    said = [_line_of(f"{m.conversation_id}/{m.id}", m.said_at, f"{_who(m)}: {m.content}") for m in _messages(result)]
    return "".join((*found, *said))


def _messages(result: SearchResult) -> list[RetainedMessage]:
    return [one.message for one in result.messages]


def _who(message: RetainedMessage) -> str:
    return message.speaker or message.user_id or message.role


def _line_of(key: str, at: datetime, text: str) -> str:
    return f"{key} ({at:%Y-%m-%d}) {' '.join(text.split())}\n"


async def streamed(lines: AsyncGenerator[Any], turns: asyncio.Semaphore) -> Response:
    """A line of JSON each. The first is made before the answer begins, so what fails then has a status of its own.

    `turns`: how many are sent at once; others wait without a connection to the database.
    """
    await turns.acquire()
    try:
        first = await anext(lines)
    except BaseException:
        turns.release()
        raise

    async def told() -> AsyncIterator[bytes]:
        yield _line(first)
        async for line in lines:
            yield _line(line)

    return _Streamed(lines, told(), turns)


class _Streamed(StreamingResponse):
    """Holds a connection to the database, so it ends with the client, however that goes, and with one that doesn't read."""

    def __init__(self, source: AsyncGenerator[Any], told: AsyncIterator[bytes], turns: asyncio.Semaphore) -> None:
        super().__init__(told, headers=NO_STORE, media_type=LINES)
        self._source, self._turns = source, turns

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            async with aclosing(self._source):
                await super().__call__(scope, receive, timely(send))
        finally:
            self._turns.release()


def timely(send: Send) -> Send:
    """Raises `ClientDisconnect` where a client doesn't take a piece in time."""

    async def in_time(message: Message) -> None:
        try:
            async with asyncio.timeout(READ_SECONDS):
                await send(message)
        except TimeoutError:
            raise ClientDisconnect from None

    return in_time


_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BEGUN = re.compile(rb'([",;|]\s*)([=+@-])')


def _line(line: ExportLine) -> bytes:
    return inert(line.model_dump_json().encode()) + b"\n"


def inert(line: bytes) -> bytes:
    """The same JSON, in which nothing can begin a formula where a spreadsheet takes the line apart."""
    return _TEXT.sub(lambda text: _BEGUN.sub(_escaped, text[0]), line)


def _escaped(found: re.Match[bytes]) -> bytes:
    return found[1] + b"\\u%04x" % ord(found[2])
