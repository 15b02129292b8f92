"""Whether something was said in confidence: "between us", in the words of [sharing] of all languages."""

from __future__ import annotations

from functools import cache

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Pattern, Sharing


def said_in_confidence(text: str) -> bool:
    lower = " ".join(text.lower().replace("’", "'").split())
    return any(pattern.search(lower) for pattern in _patterns())


@cache
def _patterns() -> tuple[Pattern, ...]:
    return tuple(listed.confidence for listed in of_all(Sharing).values())
