"""Pages in a frame of a host's application: a person's own page alone, and only for the origins that the operator names.

Everything else stays `frame-ancestors 'none'`, so that nobody can lay a page of an operator under something to click on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from fastapi import Request, Response

from memory_sql.errors import ConfigurationError
from memory_sql.server.pages.origins import is_private
from memory_sql.server.pages.rendering import POLICY

_ORIGIN = re.compile(r"(https?)://([a-z0-9.-]+|\[[0-9a-f:]+\])(:\d{1,5})?", re.ASCII)
_LOOPBACK = re.compile(r"localhost|127(\.\d+){3}|\[::1\]", re.ASCII)
NOBODY = "frame-ancestors 'none'"


def origins_of(given: Iterable[str]) -> tuple[str, ...]:
    """The origins, as a browser writes them. Raises `ConfigurationError`; http only for this machine."""
    found = []
    for one in given:
        whole = _ORIGIN.fullmatch(one.strip().lower())
        if whole is None or (whole[1] == "http" and not _LOOPBACK.fullmatch(whole[2])):
            raise ConfigurationError(
                f"{one!r} is no origin that may show a page in a frame; it looks like https://app.example.com"
            )
        found.append(whole[0])
    return tuple(dict.fromkeys(found))


def let_frame(answer: Response, origins: Iterable[str]) -> None:
    """These may show the answer in a frame."""
    answer.headers["Content-Security-Policy"] = POLICY.replace(NOBODY, f"frame-ancestors {' '.join(origins)}")
    del answer.headers["X-Frame-Options"]  # which can name no origin


def is_in_frame(request: Request) -> bool:
    return request.headers.get("sec-fetch-dest", "") in ("iframe", "frame")


def cookie(name: str, value: str, seconds: int, request: Request, *, in_frame: bool) -> Mapping[str, str]:
    """The header that sets it; `seconds` 0: that ends it.

    A page in a frame of another site gets no cookie that is SameSite=Strict. There it is SameSite=None, hence Secure, and
    Partitioned (CHIPS): a browser keeps it apart for each site that the frame is in, and sends it to us nowhere else.
    """
    parts = [f"{name}={value}", "HttpOnly", f"Max-Age={seconds}", "Path=/"]
    parts += ["SameSite=None", "Secure", "Partitioned"] if in_frame else ["SameSite=strict"]
    if not in_frame and not is_private(request):
        parts.append("Secure")
    return {"Set-Cookie": "; ".join(parts)}
