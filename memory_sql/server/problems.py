"""Errors as `application/problem+json` (RFC 9457), with the statuses of `memory_sql.errors`."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request, Response
from pydantic import ValidationError
from pydantic_core import to_json

from memory_sql.errors import BudgetError, InputError, MemorySQLError, StaleError, VersionError, http_status
from memory_sql.server.arguments import WORDS

log = logging.getLogger("memory_sql.server")

MEDIA_TYPE = "application/problem+json"
KINDS: Mapping[int, str] = {404: "NotFound", 405: "MethodNotAllowed", 413: "TooLargeError"}  # of what no route answers
RETRY_SECONDS = 1
TOLD = ("name", "reason", "position", "what", "key", "size", "limit", "holds", "found", "by", "until", "missing")
"""The attributes of errors that an answer has: ids, counts, limits and words of ours, never remembered text."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": ["type", "title", "status", "detail", "request_id"],
    "properties": {
        "type": {"type": "string", "description": "The kind of error: urn:memory-sql:NotFoundError."},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "request_id": {"type": "string", "description": "As in the header X-Request-Id, and in the log."},
    },
}
RESPONSE: dict[str, Any] = {"description": "What went wrong.", "content": {MEDIA_TYPE: {"schema": SCHEMA}}}


class RefusalError(Exception):
    """A request that is refused before it reaches `Memory`."""

    def __init__(self, status: int, kind: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status, self.kind, self.detail, self.headers = status, kind, detail, headers


def unknown_caller() -> RefusalError:
    """The same for a key that is missing, unknown, expired or revoked."""
    return RefusalError(401, "Unauthorized", "a valid key is needed", {"WWW-Authenticate": "Bearer"})


def denied() -> RefusalError:
    """The same for another agent, right or user."""
    return RefusalError(403, "Forbidden", "the key doesn't allow this")


def too_many_requests(wait: float) -> RefusalError:
    return RefusalError(
        429, "TooManyRequests", "too many requests with this key", {"Retry-After": str(math.ceil(wait))}
    )


def request_id_of(request: Request) -> str:
    """Empty in a host's application, which has no guard of ours."""
    return str(request.scope.get("memory_sql.request_id", ""))


def problem(
    request: Request,
    status: int,
    kind: str,
    detail: str,
    more: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    told = {
        "type": f"urn:memory-sql:{kind}",
        "title": _title(kind),
        "status": status,
        "detail": detail,
        "request_id": request_id_of(request),
    }
    body = to_json({**(more or {}), **told})
    return Response(body, status, {"Cache-Control": "no-store", **(headers or {})}, MEDIA_TYPE)


def problem_of(request: Request, error: MemorySQLError | RefusalError, *, conditional: bool = False) -> Response:
    """`conditional`: the request had If-Match, so another version, or something else to forget, is 412.

    What is wrong with the server or the model is logged, and not told in detail: it may name hosts and settings.
    """
    if isinstance(error, RefusalError):
        return problem(request, error.status, error.kind, error.detail, headers=error.headers)
    status = 412 if conditional and isinstance(error, VersionError | StaleError) else http_status(error)
    kind, more = type(error).__name__, {name: getattr(error, name) for name in TOLD if hasattr(error, name)}
    if error.added is not None:
        more["added"] = error.added.model_dump(mode="json")
    detail = str(error)
    if status >= 500:
        log.warning("request %s: %s: %s", request_id_of(request), kind, detail)
        detail = _title(kind)
    return problem(request, status, kind, detail, more, _retry(status, error))


def _retry(status: int, error: MemorySQLError) -> dict[str, str]:
    if isinstance(error, BudgetError):
        return {"Retry-After": f"{error.until:%a, %d %b %Y %H:%M:%S} GMT"}
    return {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}


def wrong_input(error: ValidationError, where: Sequence[str] = ()) -> InputError:
    """Names what is wrong, and never quotes a value."""
    first = error.errors(include_input=False, include_url=False)[0]
    place = ".".join(str(part)[:64] for part in (*where, *first["loc"]))
    said = "unknown" if first["type"] in ("extra_forbidden", "unexpected_keyword_argument") else first["msg"]
    if first["type"] == "string_pattern_mismatch":
        said = WORDS.get(first["ctx"]["pattern"], "isn't written as it has to be")
    return InputError(f"{place}: {said}" if place else said)


def _title(kind: str) -> str:
    """`NotFoundError` → `Not found`."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind.removesuffix("Error"))
    return words.strip().capitalize()
