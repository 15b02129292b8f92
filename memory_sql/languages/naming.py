"""The names in a text: of people, places, products, files. By rules, from capitals and figures: no model.

What is written without capitals, as in Chinese, has no names here but those with figures.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import cache

from memory_sql.languages.anchors import small_words
from memory_sql.languages.data import names as listed_names
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Causes, Dates

MOST_NAMES, MOST_CHARACTERS = 8, 60
_WORD = r"[^\W_]+(?:['’.-][^\W_]+)*"
_WORDS = re.compile(_WORD)
_JOIN = re.compile(r"\s+(?:(?:&|of|the|de|del|della|di|du|da|do|la|le|van|von|der|den|zu|y|e|et)\s+){0,2}|\s*-\s*")
_START = re.compile(r"(?:^|[.!?:;…\n])[\s\"'“„«(]*$")
_OWNED = re.compile(r"['’]s?$")
_CODE = re.compile(r"(?=.*\d)(?=.*[^\W\d_])")
_NOUNS = frozenset({"german"})  # languages in which every noun has a capital


def names_in(text: str, language: str = "english", known: Collection[str] = frozenset()) -> tuple[str, ...]:
    """In the order of the text, each once, at most eight. One word alone counts where its capital says something.

    That isn't so at the beginning of a sentence, nor in German, unless it is a common given name, has a figure, or is `known`
    to have a capital elsewhere (`capitals_in`).
    """
    found = dict[str, str]()
    for name in _runs(text, language, known):
        if len(name) <= MOST_CHARACTERS:
            found.setdefault(name.casefold(), name)
    return tuple(found.values())[:MOST_NAMES]


def capitals_in(text: str, language: str = "english") -> frozenset[str]:
    """The words with a capital inside of sentences, in lower case; none in German, where nouns have one."""
    if language in _NOUNS:
        return frozenset()
    words = (word for word in _WORDS.finditer(text) if _may_name(word[0]) and not _START.search(text, 0, word.start()))
    return frozenset(_bare(word[0]) for word in words)


def cause_in(text: str) -> str | None:
    """The first of the words, in the order of the languages' files, by which the text says that it follows from something.

    They may go on ("verursacht" in "verursachte"), but begin where a word begins: "sailed to" isn't "led to".
    """
    lower = text.lower()
    every = (marker for one in of_all(Causes).values() for marker in one.markers.values())
    return next((marker for marker in every if marker in lower and _begins(marker, lower)), None)


def _begins(marker: str, text: str) -> bool:
    if marker[0] == marker[0].upper():  # a script without capitals, and mostly without spaces
        return True
    return re.search(rf"(?<![^\W\d_]){re.escape(marker)}", text) is not None


def _runs(text: str, language: str, known: Collection[str]) -> list[str]:
    runs, words = list[str](), list(_WORDS.finditer(text))
    at = 0
    while at < len(words):
        if not _may_name(words[at][0]):
            at += 1
            continue
        first = at
        while (end := _next_of_name(text, words, at)) is not None:
            at = end
        if (name := _named(text, words[first : at + 1], language, known)) is not None:
            runs.append(name)
        at += 1
    return runs


def _is_joined(text: str, left: re.Match[str], right: re.Match[str]) -> bool:
    return _JOIN.fullmatch(text, left.end(), right.start()) is not None and not _OWNED.search(left[0])


def _next_of_name(text: str, words: list[re.Match[str]], at: int) -> int | None:
    """The place of the next word of the same name, behind small words that may join them ("Bank of Oslo"); None: it ends."""
    for place in range(at + 1, min(at + 4, len(words))):
        if _may_name(words[place][0]):
            return place if _is_joined(text, words[at], words[place]) else None
        if words[place][0] != words[place][0].lower():
            return None
    return None


def _may_name(word: str) -> bool:
    has_form = any(map(str.isupper, word)) or (_CODE.match(word) is not None and not word[0].isdigit())
    return has_form and _bare(word) not in _no_names()


def _named(text: str, words: list[re.Match[str]], language: str, known: Collection[str]) -> str | None:
    name = _OWNED.sub("", text[words[0].start() : words[-1].end()])
    if len(words) == 1 and not (_bare(name) in known or _counts_alone(text, words[0], language)):
        return None
    return name if len(name) > 1 else None


def _counts_alone(text: str, word: re.Match[str], language: str) -> bool:
    bare = _OWNED.sub("", word[0])
    if _CODE.match(bare) or _bare(bare) in listed_names().given or (len(bare) > 1 and bare[1:] != bare[1:].lower()):
        return True
    if language in _NOUNS:
        return False
    owns = bare != word[0]
    return owns or not _START.search(text, 0, word.start())


def _bare(word: str) -> str:
    return _OWNED.sub("", word).lower()


@cache
def _no_names() -> frozenset[str]:
    """Small words, and the names of days and months, which say when and not of what."""
    dates = of_all(Dates).values()
    return small_words() | {
        word for one in dates for table in (one.weekdays, one.months, one.seasons) for word in table
    }
