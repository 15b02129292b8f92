"""JSON that somebody wrote: of a key that stands twice in an object, one value would be lost."""

from __future__ import annotations

import json
from typing import Any

from memory_sql.errors import InputError


def parsed(text: str) -> Any:
    """Raises `InputError` for a key that stands twice, and what `json.loads` raises."""
    return json.loads(text, object_pairs_hook=_each_once)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise InputError("a key stands twice in one object")
    return found
