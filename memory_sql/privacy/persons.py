"""Whether a sensitive statement may be about a person: it names one, or says I, he or somebody."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from memory_sql.languages.data import names as listed_names
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Pattern, Sharing
from memory_sql.languages.text import in_lower_case

_WORD = re.compile(r"[^\W\d_]+")


def is_about_somebody(text: str, names: Iterable[str], *, known_only: bool = False) -> bool:
    """`names`: those of known people, including ids. A part of a name is enough.

    So is a common given name, unless only known people count: it may be a goat's.
    """
    lower = in_lower_case(text)
    if any(pattern.search(lower) for pattern in _persons()) or _names_one(text, names):
        return True
    return not known_only and _has_given_name(text)


def _names_one(text: str, names: Iterable[str]) -> bool:
    """Capitalized or no ordinary word."""
    known, too = {part.lower() for name in names for part in _WORD.findall(name)}, listed_names().words_too
    return any(w.lower() in known and (w != w.lower() or w.lower() not in too) for w in _WORD.findall(text))


def _has_given_name(text: str) -> bool:
    """Not one that is also a month, a place or the like."""
    listed = listed_names()
    return any(
        word != word.lower() and word.lower() in listed.given and word.lower() not in listed.familiar
        for word in _WORD.findall(text)
    )


@cache
def _persons() -> tuple[Pattern, ...]:
    return tuple(pattern for one in of_all(Sharing).values() for pattern in (one.first_person, one.somebody))
