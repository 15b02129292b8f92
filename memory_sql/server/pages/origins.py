"""Where a request comes from: what changes something has to come from a page of ours."""

from __future__ import annotations

from urllib.parse import urlsplit

from fastapi import Request

from memory_sql.server.problems import RefusalError
from memory_sql.server.serving import is_loopback


def check_origin(request: Request) -> None:
    """Raises `RefusalError`, unless a browser says that a page of this host sent it.

    A cookie with SameSite=Strict isn't enough: to a browser another port of the same host is the same site.
    """
    sites, origins = (request.headers.getlist(name) for name in ("sec-fetch-site", "origin"))
    if sites:
        is_ours = sites == ["same-origin"]
    else:
        is_ours = len(origins) == 1 and urlsplit(origins[0]).netloc == request.headers.get("host", "")
        is_ours = is_ours and origins[0].partition("://")[0] in ("http", "https")
    if not is_ours:
        raise RefusalError(403, "Forbidden", "this was sent from a page of another site")


def is_private(request: Request) -> bool:
    """Whether what is sent stays on this machine, so that it needs no encryption."""
    return is_loopback(request.url.hostname or "")
