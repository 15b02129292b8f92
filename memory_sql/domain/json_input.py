"""JSON input. A duplicate key in an object is refused, because one of its values would be lost."""

from __future__ import annotations

import json
from typing import Any

from memory_sql.errors import InputError


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("an object has a duplicate key")
    return found


DECODER = json.JSONDecoder(object_pairs_hook=_each_once)


def parsed(text: str) -> Any:
    """The parsed value. Raises `InputError` for a duplicate key, and what `json.loads` raises."""
    return DECODER.decode(text)
