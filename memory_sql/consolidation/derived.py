"""The figures that follow from what was said without standing there: sums, shares, lengths, times on the clock. Pure.

What two figures of one source, or one figure of each of a few sources, come to; what words stand for that multiply (a
dozen, half, an hour in minutes), by the languages' [amounts]. Only for the sources of one sentence: of many figures anything
follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from itertools import chain, combinations, islice, product
from typing import NamedTuple

from memory_sql.consolidation.numbers import Time, values_in
from memory_sql.languages.counting import spelled
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Amounts
from memory_sql.languages.wording import pieces, telling
from memory_sql.languages.words import fold, words_in

MOST_SOURCES = 4  # of one sentence
MOST_VALUES = 24  # of one source, beyond which nothing is combined
MOST_SUMS = 2_000  # over one figure of each source
HALF = Decimal("0.5")
_PERCENT = re.compile(r"(\d+(?:[.,]\d+)?)\s?[%\uff05]")
_APOSTROPHE = re.compile("['’]")
_HOUR = r"(\d{1,2}|[^\W\d_]+)"
_HOUR_IN_CHARACTERS = r"(\d{1,2}|[一二两兩三四五六七八九十]+)"


class Derived(NamedTuple):
    values: frozenset[Decimal] = frozenset()
    times: frozenset[Time] = frozenset()


def derived(sentence: str, sources: Sequence[str]) -> Derived:
    """What follows from the sources with which the sentence shares most words."""
    there = telling(sentence)
    by_likeness = sorted(sources, key=lambda source: -len(there & pieces(source)))
    own = [source for source in by_likeness if there & pieces(source)] or sources
    values, each = set[Decimal](), list[set[Decimal]]()
    for source in own[:MOST_SOURCES]:
        said = values_in(source)
        each.append(said)
        values.update(_of_one(source, said))
    for some in (some for n in range(2, len(each) + 1) for some in combinations(each, n)):
        for added in islice(product(*some), MOST_SUMS):
            values |= {sum(added, Decimal()), 2 * max(added) - sum(added, Decimal())}
    return Derived(frozenset(values), frozenset(time for source in own[:MOST_SOURCES] for time in _times(source)))


def _of_one(source: str, said: Collection[Decimal]) -> Iterator[Decimal]:
    worth = set(_worth(source))
    readings = [{value, *_counted(value, worth)} for value in said]
    yield from chain(*readings, () if said else _counted(Decimal(1), worth))
    if len(said) > 1:
        yield sum(said, Decimal())
    if sum(map(len, readings)) > MOST_VALUES:
        return
    for share in (Decimal(found[1].replace(",", ".")) / 100 for found in _PERCENT.finditer(source)):
        for value in chain(*readings):
            yield from (value * share, value - value * share, value + value * share)
    for one, other in (pair for some in combinations(readings, 2) for pair in product(*some)):
        yield from (one + other, abs(one - other), one * other)


def _counted(value: Decimal, worth: Collection[Decimal]) -> Iterator[Decimal]:
    """So many dozens, hours, halves: by one such word or by two, and with a half besides."""
    for times in worth:
        if len(worth) == 1 or value != 1:
            yield value * times
        if HALF in worth and times > 1:
            yield (value + HALF) * times
    for one, other in combinations(worth, 2):
        yield value * one * other


def _worth(source: str) -> Iterator[Decimal]:
    known, folded = _amounts(), fold(source)
    for part in (part for word in words_in(folded) for part in _APOSTROPHE.split(word)):  # un'ora
        if part in known:
            yield known[part]
    yield from (value for word, value in known.items() if not word.isascii() and word in folded and _is_character(word))


def _times(source: str) -> Iterator[Time]:
    folded = fold(source)
    for phrase, minutes, hours in _phrases():
        for found in phrase.finditer(folded):
            hour = hours.get(found[1]) or (int(found[1]) if found[1].isdecimal() else max(spelled(found[1]), default=0))
            if 1 <= hour <= 24:
                whole = (hour * 60 + minutes) % (12 * 60)
                yield from ((whole // 60 + shift, whole % 60) for shift in (0, 12))


def _is_character(word: str) -> bool:
    """Of a script without spaces between words."""
    return word[0] > "\u2e80"


@cache
def _amounts() -> Mapping[str, Decimal]:
    return {
        fold(word): Decimal(str(value))
        for amounts in of_all(Amounts).values()
        for words, value in amounts.worth.items()
        for word in words.split("/")
    }


@cache
def _phrases() -> Sequence[tuple[re.Pattern[str], int, Mapping[str, int]]]:
    """Each with the minutes that it adds, and the hours that aren't number words."""
    found = list[tuple[re.Pattern[str], int, Mapping[str, int]]]()
    for amounts in of_all(Amounts).values():
        hours = {fold(word): hour for hour, word in enumerate(amounts.hours.split(), 1)}
        for phrase, minutes in amounts.clock.items():
            is_character = any(map(_is_character, phrase))
            hour, bound = (_HOUR_IN_CHARACTERS, "") if is_character else (_HOUR, r"\b")
            found.append((re.compile(bound + fold(phrase).replace("{}", hour) + bound), minutes, hours))
    return found
