"""Whether the figures, links and addresses in a new text are grounded in its sources, by value. Pure.

A figure is grounded if a source has its value (1,980 is 1980, `two` is 2, 2 pm is 14:00), if it belongs to a day that a
source mentions, relative to that source's own moment, or if the answer says correctly which words it stands for or what
it adds up (`figures`). A link or address must occur in a source as it is. What is written in words is left to the model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from decimal import Decimal
from functools import cache

from memory_sql.consolidation.derived import derived
from memory_sql.consolidation.figures import DAYS_AROUND, LONG_NUMBER, Restated, Source, borne_out
from memory_sql.consolidation.numbers import (
    CLOCK,
    FIGURE,
    ISO,
    Written,
    day_of,
    digits_of,
    time_of,
    values_in,
    values_of,
)
from memory_sql.languages.data import table
from memory_sql.languages.dates import find_dates
from memory_sql.languages.days import Days
from memory_sql.languages.tables import FunctionWords
from memory_sql.languages.text import sentences
from memory_sql.languages.words import words_in

ENGLISH = 0.15  # least share of function words in an English text
_LINK = re.compile(r"(?:https?://|www\.)[^\s<>\"'()\[\]]+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_NUMBER_RUN = re.compile(r"\d(?:[ \u00a0()/.+-]{0,2}\d)+")
_TRAILING = ".,;:!?…»”"


@dataclass(frozen=True, slots=True)
class Grounds:
    """What the sources contain."""

    values: frozenset[Decimal]
    names: frozenset[str]  # 1.2.3
    days: tuple[Days, ...]
    links: str
    digits: tuple[str, ...]
    around: tuple[date, ...]
    restated: Written

    def has_day(self, day: date) -> bool:
        named = any(days.first <= day <= days.last for days in self.days)
        return named or any(abs(day - other) <= timedelta(days=DAYS_AROUND) for other in self.around)

    def has_long(self, number: str) -> bool:
        """Whether it is part of an account or telephone number, however its digits are grouped."""
        digits = digits_of(number)
        return len(digits) >= LONG_NUMBER and any(digits in theirs for theirs in self.digits)

    def has(self, *values: Decimal) -> bool:
        return any(value in self.values or value in self.restated.values for value in values)


def ungrounded_in(
    texts: Sequence[str], sources: Sequence[Source], figures: Sequence[Restated], now: datetime, zone: tzinfo
) -> list[tuple[list[str], int]]:
    """Of each of these sentences its figures that aren't grounded, in order, and how many links and addresses aren't."""
    grounds = _grounds(sources, figures, now, zone)
    said = [part for source in sources for part in sentences(source.text)]
    return [_ungrounded_in(text, said, grounds) for text in texts]


def _ungrounded_in(text: str, said: Sequence[str], grounds: Grounds) -> tuple[list[str], int]:
    links = sum(link not in grounds.links for link in _links(text))
    rest = _LINK.sub(" ", text)
    figures = list(_figures_without(rest, grounds))
    if figures:
        more = derived(text, said)
        restated = grounds.restated
        values, times = restated.values | more.values, restated.times | more.times
        figures = list(_figures_without(rest, replace(grounds, restated=replace(restated, values=values, times=times))))
    return figures, links


def _links(text: str) -> list[str]:
    return [_plain(link) for link in _LINK.findall(text)]


def _plain(link: str) -> str:
    return re.sub(r"^(?:https?://)?(?:www\.)?", "", link.lower()).rstrip(_TRAILING + "/")


def _figures_without(text: str, grounds: Grounds) -> Iterator[str]:
    def known_day(found: re.Match[str]) -> str:
        return " " if _is_known_day(found, grounds) else found[0]

    def known_time(found: re.Match[str]) -> str:
        return " " if _is_known_time(found, grounds) else found[0]

    def known_number(found: re.Match[str]) -> str:
        return " " if grounds.has_long(found[0]) else found[0]

    text = _NUMBER_RUN.sub(known_number, CLOCK.sub(known_time, ISO.sub(known_day, text)))
    for found in FIGURE.finditer(text):
        if not _is_known(found[0], grounds):
            yield found[0]


def _is_known_day(found: re.Match[str], grounds: Grounds) -> bool:
    year, month, day = (int(part) if part else None for part in found.groups())
    try:
        named = date(year or 1, month or 1, day or 1)
    except ValueError:
        return False
    if grounds.has_day(named) or day_of(found) in grounds.restated.days:
        return True
    return grounds.has(Decimal(named.year)) and (day is None or grounds.has(Decimal(day)))


def _is_known_time(found: re.Match[str], grounds: Grounds) -> bool:
    hour, minute = int(found[1]), int(found[2])
    if (hour, minute) in grounds.restated.times:
        return True
    hours = [Decimal(hour + shift) for shift in (0, 12, -12) if hour + shift >= 0]
    return grounds.has(*hours) and (not minute or grounds.has(Decimal(minute)))


def _is_known(figure: str, grounds: Grounds) -> bool:
    if figure in grounds.names or grounds.has_long(figure) or grounds.has(*values_of(figure)):
        return True
    time = time_of(figure)
    parts = figure.split(".") if time else figure.split()
    return time in grounds.restated.times or (len(parts) > 1 and all(grounds.has(*values_of(part)) for part in parts))


def _grounds(sources: Sequence[Source], figures: Sequence[Restated], now: datetime, zone: tzinfo) -> Grounds:
    days, values, names = list[Days](), set[Decimal](), set[str]()
    moments = {source.moment.astimezone(zone).date() for source in sources if source.moment is not None}
    for source in sources:
        values |= values_in(source.text)
        names |= {figure for figure in FIGURE.findall(source.text) if not figure.isdigit()}
        found = find_dates(source.text, source.moment or now, zone)
        days += [item.days for item in found if source.moment is not None or not item.relative]
    for named in days:
        values |= {Decimal(part) for day in named for part in (day.year, day.month, day.day)}
    values |= {Decimal(day.year) for day in moments}
    around = tuple(
        source.moment.astimezone(zone).date()
        for source in sources
        if source.moment is not None and not _is_english(source.text)
    )
    values |= {Decimal(day.year + 1) for day in around} | {Decimal(day.year - 1) for day in around}
    return Grounds(
        frozenset(values),
        frozenset(names),
        (*days, *(Days(day, day) for day in {*moments, now.astimezone(zone).date()})),
        "\n".join(link for source in sources for link in _links(source.text)),
        tuple(digits_of(source.text) for source in sources),
        around,
        borne_out(figures, now, zone),
    )


def _is_english(text: str) -> bool:
    words = [word.lower() for word in words_in(text)]
    return sum(word in _small_words() for word in words) >= ENGLISH * len(words)


@cache
def _small_words() -> Collection[str]:
    return table("english", FunctionWords).common
