"""Whether a sensitive statement may be about a person: it names one, or says I, he or somebody."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cache

from memory_sql.languages.data import names as listed_names
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Pattern, Sharing
from memory_sql.languages.text import in_lower_case

_WORD = re.compile(r"[^\W\d_]+")


def is_about_somebody(text: str, names: Iterable[str]) -> bool:
    """`names`: those of known people, including ids. A part of a name is enough, and so is a common given name."""
    lower = in_lower_case(text)
    known = {part.lower() for name in names for part in _WORD.findall(name)}
    return any(pattern.search(lower) for pattern in _persons()) or _names_one(text, known)


def _names_one(text: str, known: Collection[str]) -> bool:
    """Names count if capitalized or no ordinary word; given names not if they are also a month, a place or the like."""
    listed = listed_names()
    for word in _WORD.findall(text):
        lower = word.lower()
        if lower in known and (word != lower or lower not in listed.words_too):
            return True
        if word != lower and lower in listed.given and lower not in listed.familiar:
            return True
    return False


@cache
def _persons() -> tuple[Pattern, ...]:
    return tuple(pattern for one in of_all(Sharing).values() for pattern in (one.first_person, one.somebody))
