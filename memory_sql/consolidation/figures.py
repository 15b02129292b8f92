"""Checks what an answer says about its own figures: which words it wrote as a figure, and what it added up. Pure.

No rule knows what "half past eight" or "a fortnight" means in every language; the model does. The rules check only that
there were such words: they are quoted verbatim, are few, and contain no other number. Account numbers and distant days
aren't accepted as the meaning of words. Each quotation supports one figure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from itertools import chain, combinations, islice, product

from memory_sql.consolidation.numbers import CLOCK, FIGURE, ISO, Written, digits_of, values_in, values_of, written
from memory_sql.languages.wording import stands_word_for_word
from memory_sql.languages.words import fold, words_in

MOST_QUOTED = 8  # words that express one figure
MOST_NUMBERS = 2  # 20 h 30
LONG_NUMBER = 7  # digits of an account or telephone number, however they are grouped
DAYS_AROUND = 400  # from when something was said: "next year" reaches about so far
AFTERNOON = 12  # 2 pm is 14 h
CENTURIES = (1900, 2000)  # '87
MOST_SUMS = 10_000  # combinations tried


@dataclass(frozen=True, slots=True)
class Source:
    """Something that the text may be based on. `moment` is None: relative dates in it have no reference point."""

    text: str
    moment: datetime | None = None


@dataclass(frozen=True, slots=True)
class Restated:
    """`was`: the words in one of these sources that the figure stands for.

    None: the figure is the sum of one figure of each source, or the largest of them minus the others.
    """

    figure: str
    of: Sequence[Source]
    was: str | None = None


def borne_out(figures: Iterable[Restated], now: datetime, zone: tzinfo) -> Written:
    """The days, times and values that hold up."""
    said, quoted, by_text = list[Written](), set[tuple[str, ...]](), dict[str, set[Decimal]]()
    added = list[Restated]()
    for item in figures:
        quotation = (fold(item.was or ""), *(source.text for source in item.of))
        if not _is_said(item, now, zone):
            added.append(item)
        elif quotation not in quoted:
            quoted.add(quotation)
            said.append(written(item.figure))
            for source in item.of:
                by_text.setdefault(source.text, set()).update(said[-1].values)
    return Written(
        frozenset(chain.from_iterable(one.days for one in said)),
        frozenset(chain.from_iterable(one.times for one in said)),
        frozenset(chain(*(one.values for one in said), *(_sums(item, by_text) for item in added))),
    )


def _is_said(item: Restated, now: datetime, zone: tzinfo) -> bool:
    was = item.was or ""
    return (
        len(words_in(was)) <= MOST_QUOTED
        and any(stands_word_for_word(was, source.text) for source in item.of)
        and _comes_of_words(item.figure)
        and _holds_no_other(was, item.figure)
        and all(_is_near(day, item.of, now, zone) for day in written(item.figure).days)
    )


def _comes_of_words(figure: str) -> bool:
    numbers = _numbers(figure)
    return len(numbers) <= MOST_NUMBERS and all(len(digits_of(one).rstrip("0")) < LONG_NUMBER for one in numbers)


def _numbers(figure: str) -> list[str]:
    return FIGURE.findall(CLOCK.sub(" ", ISO.sub(" ", figure)))


def _holds_no_other(was: str, figure: str) -> bool:
    """Whether the words hold no number that the figure doesn't stand for, and no time or day.

    A figure may stand for a number in the words, or for the sum or product of two.
    """
    if ISO.search(was) or CLOCK.search(was):
        return False
    held, numbers = [values_of(one) for one in FIGURE.findall(was)], _numbers(figure)
    if not held or not numbers:
        return True
    values = values_of(numbers[0])
    made = {made for a, b in combinations(values_in(was), 2) for made in (a + b, a * b)}
    whole = {Decimal(int(value)) for value in values}  # 2 from "2 and a half", which is 2.5
    return len(numbers) == 1 and (bool(values & made) or all({*_meant(one)} & (values | whole) for one in held))


def _meant(values: set[Decimal]) -> Iterator[Decimal]:
    """The value itself, as an hour in the afternoon, and as a two-digit year."""
    for value in values:
        yield value
        if value <= AFTERNOON:
            yield value + AFTERNOON
        if value < 100:
            yield from (value + century for century in CENTURIES)


def _is_near(day: date, sources: Iterable[Source], now: datetime, zone: tzinfo) -> bool:
    days = ((source.moment or now).astimezone(zone).date() for source in sources)
    return any(abs(day - said) <= timedelta(days=DAYS_AROUND) for said in days)


def _sums(item: Restated, by_text: Mapping[str, set[Decimal]]) -> set[Decimal]:
    """The figure, if it is the sum of one figure of each source, or the largest minus the others.

    With a single source, several of its figures are combined.
    """
    each = [values_in(source.text) | by_text.get(source.text, set()) for source in item.of]
    chosen: Iterator[tuple[Decimal, ...]] = product(*each) if len(each) > 1 else _several(each)
    made = {value for some in islice(chosen, MOST_SUMS) for value in (sum(some), 2 * max(some) - sum(some))}
    return {value for value in written(item.figure).values if value in made}


def _several(each: Sequence[set[Decimal]]) -> Iterator[tuple[Decimal, ...]]:
    for values in each:
        yield from chain.from_iterable(combinations(values, n) for n in range(2, len(values) + 1))
