"""Whether the words of one text occur in another, by their folded forms, in any language. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache, lru_cache
from math import ceil

from memory_sql.languages.anchors import small_words
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Dates, FunctionWords, Likeness, ToldBy
from memory_sql.languages.words import fold, is_unspaced, terms_of, words_in

QUOTED = 1 / 3  # of the words may be missing: inflected differently, or inserted
SAID_AGAIN = 1 / 8  # less tolerant: "with rum" is another fact than "with milk"
SHORTEST_STEM, STEM_SHARE = 4, 0.6
TELLING = 4  # a word of at least so many characters shows what a text is about
_INFLECTING = re.compile("[\u3040-\u309f]+")  # hiragana; what is told is written in Han or katakana
_MASKED = re.compile(r"\[[a-z]+(?:: [a-z ]+)?\]")  # [secret: code]


def stands_in(quote: str, text: str, others: float = QUOTED) -> bool:
    """Whether the text has every number and all but the share `others` of the words, in any order, perhaps inflected."""
    wanted, there = pieces(quote), pieces(text)
    missing = [word for word in wanted if not is_among(word, there)]
    if not wanted or any(word.isdigit() for word in missing):
        return False
    return len(missing) <= others * len(wanted)


def stands_word_for_word(quote: str, text: str) -> bool:
    """Whether the text has these words in a row. Case, accents and punctuation don't matter."""
    wanted, there = list(_pieces(quote)), list(_pieces(text))
    return bool(wanted) and any(there[n : n + len(wanted)] == wanted for n in range(len(there) - len(wanted) + 1))


def telling(text: str, names: Collection[str] = ()) -> frozenset[str]:
    """The words that show what a text is about, and its figures; without those of these names."""
    small, called = small_words(), frozenset[str]().union(*map(pieces, names))
    return frozenset(
        word
        for word in pieces(_MASKED.sub(" ", text)) - called
        if word not in small and (len(word) >= TELLING or word.isdigit() or not word.isascii())
    )


def says_nothing(word: str) -> bool:
    """Whether the folded word says nothing by itself, in some language: it joins, denies or counts time; it is a letter or a
    year; of scripts without spaces, it is of kana that only inflect.
    """
    if word.isdigit():
        return len(word) in (1, 4)
    if not any(character.isalnum() for character in word) or (len(word) == 1 and not is_unspaced(word)):
        return True
    return word in _fillers() or _INFLECTING.fullmatch(word) is not None


def saying(text: str) -> frozenset[str]:
    """Its figures, and its words but those that say nothing by themselves, also short ones: names, say."""
    return frozenset(word for word in pieces(text) if word.isdigit() or not says_nothing(word))


@cache
def _fillers() -> frozenset[str]:
    small = (one.common | one.claiming for one in of_all(FunctionWords).values())
    told_by = (one.words for one in of_all(ToldBy).values())
    denying = (one.negations for one in of_all(Likeness).values())
    dates = of_all(Dates).values()
    units = (frozenset(one.units) for one in dates)
    told = (frozenset(some) for one in dates for some in (one.months, one.numbers))  # May, one
    every = frozenset[str]().union(*small, *told_by, *denying, *units).difference(*told)
    return frozenset(map(fold, every))


def is_among(word: str, words: Collection[str]) -> bool:
    if word in words:
        return True
    if word.isdigit() or len(word) < SHORTEST_STEM:
        return False
    stem = word[:SHORTEST_STEM]
    return any(other.startswith(stem) and _are_forms(word, other) for other in words)


def share_among(words: Collection[str], there: Collection[str]) -> float:
    """How much of the words is there; 1 where there are none."""
    return sum(is_among(word, there) for word in words) / len(words) if words else 1.0


def same_ends(one: Sequence[str], other: Sequence[str]) -> tuple[int, int]:
    """How many words both begin with, and how many of the rest both end with."""
    least = min(len(one), len(other))
    before = next((n for n in range(least) if one[n] != other[n]), least)
    after = next((n for n in range(least - before) if one[-1 - n] != other[-1 - n]), least - before)
    return before, after


@lru_cache(maxsize=1024)
def pieces(text: str) -> frozenset[str]:
    """The folded words: compounds by their parts, text without spaces by pairs of characters."""
    return frozenset(_pieces(text))


def _pieces(text: str) -> Iterator[str]:
    for word in words_in(text):
        for term in terms_of(word):
            if term.words:
                yield term.words[-1]
            elif term.extra == (term.text,):
                yield term.text


def _are_forms(one: str, other: str) -> bool:
    """Whether they are forms of one word, judged by their common beginning."""
    common = max(SHORTEST_STEM, ceil(STEM_SHARE * max(len(one), len(other))))
    return min(len(one), len(other)) >= common and one[:common] == other[:common]
