"""Whether what a model says still holds of an overtaken observation is in the words of that observation. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from functools import cache

from memory_sql.languages.anchors import small_words
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Likeness
from memory_sql.languages.wording import is_among, pieces, stands_in
from memory_sql.languages.words import fold, is_unspaced, words_in

_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)


def holds_of(still: str, older: str, was: str) -> bool:
    """Whether `still` says a part of `older`: each telling word and figure stands there, and not all that was overtaken.

    Small words may differ, but none that denies: what is denied there is denied here, unless that is what was overtaken.
    """
    if not _in_words_of(still, older):
        return False
    if stands_in(was, still, 0) or stands_in(older, still, 0):
        return False
    denied, there = denials(still), denials(older)
    return there - denials(was) <= denied <= there


def _in_words_of(still: str, older: str) -> bool:
    there, letters = pieces(older), frozenset(fold(older))
    telling = pieces(still) - small_words()
    return bool(telling) and all(is_among(word, there) or _of_letters(word, letters) for word in telling)


def _of_letters(word: str, letters: Collection[str]) -> bool:
    """A pair of characters of a text without spaces, where other pairs are made by what is left out."""
    return is_unspaced(word) and all(one in letters for one in word)


def denials(text: str) -> int:
    """How many words deny; of texts without spaces the pieces that do."""
    words = Counter(map(fold, words_in(text)))
    whole = sum(words[word] for word in _negations() if word.isascii() or not is_unspaced(word))
    pieces_too = sum(text.count(word) for word in _negations() if not word.isascii() and is_unspaced(word))
    return whole + pieces_too + len(_NOT.findall(text))


@cache
def _negations() -> frozenset[str]:
    return frozenset(map(fold, frozenset[str]().union(*(one.negations for one in of_all(Likeness).values()))))
