"""The words and patterns that the rules of propagation go by: English, [sharing], and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache

from memory_sql.languages.data import names, of_all, table
from memory_sql.languages.tables import Dates, FunctionWords, NotEnglish, Sharing, Words
from memory_sql.languages.words import fold


@dataclass(frozen=True, slots=True)
class Vocabulary(Sharing):
    """`Sharing` with what follows from it and from other tables.

    `certain_dates`: names of months and days that are nothing else. `figures`: number words with their digits. `small`:
    words that are never names. `ordinary`: words that are not names by themselves. `empty`: words that claim nothing.
    """

    function_words: Words = frozenset()
    surely_foreign: Words = frozenset()
    hardly_foreign: Words = frozenset()
    given: Words = frozenset()
    words_too: Words = frozenset()
    months_and_days: Words = frozenset()
    certain_dates: Words = frozenset()
    figures: Mapping[str, str] = field(default_factory=dict)
    same_words: Mapping[str, str] = field(default_factory=dict)
    opposite_words: tuple[tuple[str, str], ...] = ()
    strong_work: Words = frozenset()
    only_work: Words = frozenset()
    life: Words = frozenset()
    things_may: Words = frozenset()
    small: Words = frozenset()
    ordinary: Words = frozenset()
    empty: Words = frozenset()


@cache
def vocabulary() -> Vocabulary:
    listed, people = table("english", Sharing), names()
    small, dates, foreign = table("english", FunctionWords), table("english", Dates), of_all(NotEnglish).values()
    function_words = small.common | small.claiming
    months_and_days = listed.days | dates.months.keys() | dates.weekdays.keys()
    lines = [line.split() for line in listed.same.splitlines()]
    opposites = tuple((a, b) for a, _, b in (pair.partition("/") for pair in listed.opposites))
    numbers = listed.numbers.keys()
    return Vocabulary(
        **{key.name: getattr(listed, key.name) for key in fields(Sharing)},
        function_words=function_words,
        surely_foreign=Words().union(*(one.surely for one in foreign)),
        hardly_foreign=Words().union(*(one.hardly for one in foreign)),
        given=frozenset(fold(name) for name in people.given),
        words_too=people.words_too,
        months_and_days=months_and_days,
        certain_dates=months_and_days - listed.days_too,
        figures={word: str(number) for word, number in listed.numbers.items()},
        same_words={word: line[0] for line in lines for word in line},
        opposite_words=opposites,
        strong_work=listed.work - listed.weak_work,
        only_work=listed.work - listed.doing,
        life=listed.private | listed.chatting,
        things_may=listed.things_can | listed.done_by_things | listed.work,
        small=function_words | numbers,
        ordinary=people.words_too
        | people.familiar
        | function_words
        | listed.work
        | listed.groups
        | listed.orders
        | listed.judging
        | numbers,
        empty=(function_words | listed.negations | listed.vague).difference(*opposites),
    )
