"""The words by which two statements are compared: [likeness] of English, and what is derived from this and other tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from memory_sql.languages.data import of_all, table
from memory_sql.languages.tables import Dates, FunctionWords, Likeness, Pattern, ToldBy, Words
from memory_sql.languages.words import fold


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`certain_dates`: names of months and days that have no other meaning. `figures`: number words and their digits.

    `empty`: words that claim nothing. `negations` and `small` (function words) are those of all languages.
    """

    units: Words
    negations: Words
    named_team: Pattern
    function_words: Words
    small: Words
    certain_dates: Words
    figures: Mapping[str, str]
    same_words: Mapping[str, str]
    opposite_words: tuple[tuple[str, str], ...]
    empty: Words


@cache
def vocabulary() -> Vocabulary:
    listed, small, dates = table("english", Likeness), table("english", FunctionWords), table("english", Dates)
    lines = [line.split() for line in listed.same.splitlines()]
    opposites = tuple((a, b) for a, _, b in (pair.partition("/") for pair in listed.opposites))
    negations = Words().union(*(one.negations for one in of_all(Likeness).values()))
    function_words = small.common | small.claiming
    return Vocabulary(
        units=listed.units,
        negations=negations,
        named_team=listed.named_team,
        function_words=function_words,
        small=function_words.union(*(frozenset(map(fold, by.words)) for by in of_all(ToldBy).values())),
        certain_dates=(listed.days | dates.months.keys() | dates.weekdays.keys()) - listed.days_too,
        figures={word: str(number) for word, number in listed.numbers.items()},
        same_words={word: line[0] for line in lines for word in line},
        opposite_words=opposites,
        empty=(function_words | negations | listed.vague).difference(*opposites),
    )
