"""The numbers written as words in a text, in any language that has [counting], and in Chinese characters. Pure."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Counting
from memory_sql.languages.words import fold, words_in

SHORTEST_COMPOUND = 6  # characters of a word composed of number words: "achtzehn"


_CHARACTERS = re.compile(r"[零〇一二两兩三四五六七八九十百千万萬]+")
_AS_TWO = str.maketrans("两兩〇", "二二零")


class _Language(NamedTuple):
    """`compound`: matches a word composed only of number words and joins; `pieces` finds its parts."""

    numbers: Mapping[str, int]
    joins: str
    compound: re.Pattern[str]
    pieces: re.Pattern[str]


def spelled(text: str) -> set[int]:
    """The numbers written as words: each single word, and the numbers that they form together."""
    words = [piece for word in words_in(text) for piece in fold(word).split("-")]
    found = {
        number for language in _languages() for run in _runs(words, language) for number in _numbers(run, language)
    }
    return found | {_of_characters(run[0]) for run in _CHARACTERS.finditer(text)}


def _of_characters(run: str) -> int:
    """二十五: each digit by the power of ten behind it; 万 multiplies all before it."""
    whole = part = digit = 0
    for character in run.translate(_AS_TWO):
        value = int(unicodedata.numeric(character))
        if value == 10_000:
            whole, part, digit = (whole + part + digit or 1) * value, 0, 0
        elif value >= 10:
            part, digit = part + (digit or 1) * value, 0
        else:
            digit = value
    return whole + part + digit


def _runs(words: Iterable[str], language: _Language) -> Iterator[list[str]]:
    """Sequences of number words, with the words that join them."""
    run: list[str] = []
    for word in words:
        pieces = _pieces(word, language)
        if pieces or (run and word == language.joins):
            run += pieces or [word]
            continue
        if run:
            yield run
        run = []
    if run:
        yield run


def _pieces(word: str, language: _Language) -> list[str]:
    if word in language.numbers:
        return [word]
    if len(word) < SHORTEST_COMPOUND or not language.compound.fullmatch(word):
        return []
    return language.pieces.findall(word)


def _numbers(run: Iterable[str], language: _Language) -> Iterator[int]:
    """The value of each word, and of words that form one number: "two thousand three hundred and forty-seven"."""
    whole = part = 0
    is_joined = begun = False
    for word in run:
        value = language.numbers.get(word)
        if value is None:
            is_joined = True
            continue
        yield value
        if value >= 1000:
            whole, part = whole + max(part, 1) * value, 0
        elif value == 100 and part < 100:
            part = max(part, 1) * 100
        elif _goes_on(part, value, is_joined):
            part += 76 if part % 100 == 4 and value == 20 and not is_joined else value  # quatre-vingts
        else:
            yield whole + part
            whole, part = 0, value
        is_joined, begun = False, True
    if begun:
        yield whole + part


def _goes_on(part: int, value: int, is_joined: bool) -> bool:
    """Whether the value continues the number so far by filling digits that are still 0."""
    tens = part % 100
    return (
        tens == 0
        or (value < 10 and tens % 10 == 0)
        or (value < 20 and tens in (60, 80))  # soixante-douze
        or (value == 20 and tens == 4)
        or (is_joined and value < 100 and value % 10 == 0 and tens < 10)  # vierundzwanzig
    )


@cache
def _languages() -> tuple[_Language, ...]:
    return tuple(map(_language, of_all(Counting).values()))


def _language(counting: Counting) -> _Language:
    numbers = {fold(word): value for value, words in enumerate(counting.words.split()) for word in words.split("/")}
    numbers |= {fold(word): value for words, value in counting.beyond.items() for word in words.split("/")}
    named = "|".join(sorted(map(re.escape, numbers), key=len, reverse=True))
    joins = fold(counting.joins)
    either = f"{named}|{re.escape(joins)}" if joins else named
    return _Language(numbers, joins, re.compile(f"(?:{either})+"), re.compile(either))
