"""Ids in a path. One that contains `/` is sent with %2F, which a server decodes before anybody routes by it."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.types import Scope

SLASH = "\udc2f"  # stands for one within an id; decoding never gives a surrogate


def keep_slashes(scope: Scope) -> None:
    """Decodes the path anew, so that an id stays in one piece. Raises `HTTPException` unless path and query are UTF-8.

    A server reads any other byte as U+FFFD, and so would store ids that nobody has sent.
    """
    raw, query = scope.get("raw_path") or b"", scope["query_string"]
    if b"%" in query:
        _decoded(query)
    if b"%" in raw:
        scope["path"] = "/".join(_decoded(part).replace("/", SLASH) for part in raw.split(b"/"))


def ids_of(request: Request) -> dict[str, str]:
    """The parameters of the path."""
    return {name: value.replace(SLASH, "/") for name, value in request.path_params.items()}


def _decoded(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise HTTPException(400, "the address isn't in UTF-8") from None
