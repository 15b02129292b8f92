"""Headers that say something about a request."""

from __future__ import annotations

from fastapi import Request

from memory_sql.errors import InputError


def header(request: Request, name: str) -> str | None:
    """Its value, in UTF-8. Raises `InputError` if it is given twice: whoever checked it before us may have read the other."""
    given = request.headers.getlist(name)
    if not given:
        return None
    if len(given) > 1:
        raise InputError(f"{name.title()}: it is given twice")
    try:
        return given[0].encode("latin-1").decode()
    except UnicodeDecodeError:
        raise InputError(f"{name.title()}: it isn't in UTF-8") from None
