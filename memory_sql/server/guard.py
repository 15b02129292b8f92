"""Around every request: an id for the log, a limit for its body, and the last catch."""

from __future__ import annotations

import logging
import re
import time
import traceback
import uuid
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_sql.server.paths import keep_slashes
from memory_sql.server.problems import KINDS, problem

log = logging.getLogger("memory_sql.server")
_REQUEST_ID = re.compile(r"[\w.:-]{1,64}", re.ASCII)


class Guard:
    """ASGI middleware. A body over `body_bytes` is 413 before it is read whole, also if its length wasn't said.

    An unexpected exception is logged by its class and frames, since its message may quote memory.
    """

    def __init__(self, app: ASGIApp, body_bytes: int) -> None:
        self._app, self._body_bytes = app, body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        visit = _Visit(scope, receive, send, self._body_bytes)
        try:
            keep_slashes(scope)
            visit.check_length()
            await self._app(scope, visit.receive, visit.send)
        except HTTPException as error:
            await visit.answer(error.status_code, KINDS.get(error.status_code, "BadRequest"), str(error.detail))
        except ClientDisconnect:  # while it sent its body, or didn't take the answer
            log.info("request %s ended with its client", visit.id)
        except Exception as error:  # noqa: BLE001 (the edge of the process)
            _log_bug(visit.id, error)
            await visit.answer(500, "InternalError", "something unexpected went wrong")
        finally:
            visit.log()


class _Visit:
    """One request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, body_bytes: int) -> None:
        self._scope, self._receive, self._send = scope, receive, send
        self._left = self._body_bytes = body_bytes
        self._status, self._since = 0, time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        self.id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope["memory_sql.request_id"] = self.id

    def check_length(self) -> None:
        headers = Headers(scope=self._scope)
        if "transfer-encoding" in headers and "content-length" in headers:  # a proxy may go by the other one
            raise HTTPException(400, "the length of the body is given twice")
        length = headers.get("content-length", "0")
        if length.isascii() and length.isdigit() and int(length[:20]) > self._body_bytes:
            raise self._too_large()

    def _too_large(self) -> HTTPException:
        return HTTPException(413, f"the body has more than {self._body_bytes:,} bytes")

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self._left < 0:
                raise self._too_large()
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["X-Request-Id"] = self.id
            headers["X-Content-Type-Options"] = "nosniff"
        await self._send(message)

    async def answer(self, status: int, kind: str, detail: str) -> None:
        if not self._status:  # else the answer has begun, and can only break off
            request: Request[Any] = Request(self._scope)
            headers = {"Connection": "close"} if status in (400, 413) else None
            await problem(request, status, kind, detail, headers=headers)(self._scope, self._receive, self.send)

    def log(self) -> None:
        """The route, not the path, which has ids of people in it."""
        route = getattr(self._scope.get("route"), "path", None) or "-"
        spent = (time.perf_counter() - self._since) * 1000
        facts = {"event": "request", "request_id": self.id, "route": route, "status": self._status, "ms": round(spent)}
        log.info(
            "%s %s %s %d, %.0f ms", self.id, self._scope["method"], route, self._status, spent, extra={"facts": facts}
        )


def _log_bug(request_id: str, error: Exception) -> None:
    where = "".join(traceback.format_tb(error.__traceback__))
    log.error("request %s failed with %s\n%s", request_id, type(error).__name__, where)
