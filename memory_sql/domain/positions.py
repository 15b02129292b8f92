"""Where a page ended, as text: for programs that keep no objects, and for as long as they like.

A position says when, and what breaks ties; it holds no text and needs no row, so it works after what it names is forgotten.
"""

from __future__ import annotations

import base64
import binascii
import json
from datetime import UTC, datetime, timedelta
from typing import Any

from memory_sql.errors import InputError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_MOST_CHARACTERS = 2000  # an id of 255 characters, each written in 12 bytes, as base64


def position(at: datetime, *tie: str | int) -> str:
    """Letters, digits, - and _ alone, so that it may stand in an address."""
    written = json.dumps([(at - _EPOCH) // _MICROSECOND, *tie], separators=(",", ":"))
    return base64.urlsafe_b64encode(written.encode()).decode().rstrip("=")


def read_position(text: str, *tie: type) -> tuple[Any, ...]:
    """The time, and what breaks ties, which must be of these types. Raises `InputError`."""
    try:
        if len(text) > _MOST_CHARACTERS:
            raise ValueError
        encoded = text.encode("ascii")
        values = json.loads(base64.b64decode(encoded + b"=" * (-len(encoded) % 4), altchars=b"-_", validate=True))
        if not isinstance(values, list) or [type(one) for one in values] != [int, *tie]:
            raise ValueError
        return (_EPOCH + timedelta(microseconds=values[0]), *values[1:])
    except (ValueError, binascii.Error, OverflowError, RecursionError):
        raise InputError("before isn't the position of anything that was listed") from None
