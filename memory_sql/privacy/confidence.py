"""Whether something was said in confidence: "between us", in the words of [sharing] of all languages."""

from __future__ import annotations

from functools import cache

from memory_sql.languages.anchors import Anchored, letters_in
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Pattern, Sharing
from memory_sql.languages.text import in_lower_case


def said_in_confidence(text: str) -> bool:
    lower = in_lower_case(text)
    return any(pattern.search(lower) for pattern in _patterns().worth_trying(lower, letters_in(lower)))


@cache
def _patterns() -> Anchored[Pattern]:
    return Anchored((listed.confidence, listed.confidence.pattern) for listed in of_all(Sharing).values())
