"""Whether a translation has put names of its own in the place of those in another script. Pure."""

from __future__ import annotations

import calendar
import re

LATIN_UNTIL, LATIN_AGAIN = 0x24F, range(0x1E00, 0x1F00)
FEW = 2  # one capital may be a feast or a language
CAPITALIZING = frozenset({"german"})  # nouns, too
_INSIDE = re.compile(r"(?<=[\w,;:)] )[A-Z][\w'\u2019-]+")
_DAYS = frozenset({*calendar.day_name, *calendar.month_name})


def renames(sentence: str, source: str, language: str | None) -> bool:
    """A sentence that tells of people and firms, and has none of the letters in which its source names them."""
    if language in CAPITALIZING or not _has_other_letters(source) or _has_other_letters(sentence):
        return False
    there = source.casefold()
    named = [word for word in _INSIDE.findall(sentence) if word not in _DAYS and word.casefold() not in there]
    return len(named) >= FEW


def _has_other_letters(text: str) -> bool:
    return any(char.isalpha() and ord(char) > LATIN_UNTIL and ord(char) not in LATIN_AGAIN for char in text)
