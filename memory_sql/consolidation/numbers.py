"""Finds the numbers, times and days in a text, by value: 1,980 is 1980, `two` is 2. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation

from memory_sql.languages.counting import spelled

SUFFIXES = (1_000, 1_000_000)  # 12k, 3 Mio
ISO = re.compile(r"(?<!\d)(\d{4})-(\d\d)(?:-(\d\d))?(?!\d)")
CLOCK = re.compile(r"(?<![\d.,:])(\d{1,2}):(\d\d)(?![\d:])")
FIGURE = re.compile(r"(?<!\d)\d{1,3}(?:[ \u00a0\u202f]\d{3})+(?!\d)|\d+(?:[.,'’]\d+)*")
_TIME = re.compile(r"([01]?\d|2[0-3])\.([0-5]\d)")  # 16.15 Uhr
_SUFFIX = re.compile(r"\s?[kKmMtT]")

Time = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Written:
    """`values`: numbers that are neither part of a day nor of a time with a colon."""

    days: frozenset[date] = frozenset()
    times: frozenset[Time] = frozenset()
    values: frozenset[Decimal] = frozenset()


def written(text: str) -> Written:
    days = {day for found in ISO.finditer(text) if (day := day_of(found)) is not None}
    rest = ISO.sub(" ", text)
    times = {(int(found[1]), int(found[2])) for found in CLOCK.finditer(rest)}
    figures = FIGURE.findall(CLOCK.sub(" ", rest))
    times |= {time for figure in figures if (time := time_of(figure)) is not None}
    return Written(frozenset(days), frozenset(times), frozenset(value for one in figures for value in values_of(one)))


def day_of(found: re.Match[str]) -> date | None:
    """The day of a match of `ISO`; None: it is only a month, or an impossible date."""
    try:
        return date(int(found[1]), int(found[2]), int(found[3])) if found[3] else None
    except ValueError:
        return None


def time_of(figure: str) -> Time | None:
    """Parses hours and minutes separated by a point."""
    found = _TIME.fullmatch(figure)
    return (int(found[1]), int(found[2])) if found else None


def values_of(figure: str) -> set[Decimal]:
    """The possible values: separators may group thousands, and the last one may be a decimal point."""
    whole = re.sub(r"[ \u00a0\u202f]", "", figure)
    parts = re.split(r"[.,'’]", whole)
    return set(_readings(parts))


def _readings(parts: list[str]) -> Iterator[Decimal]:
    readings = ["".join(parts)] if len(parts) == 1 or all(len(part) == 3 for part in parts[1:]) else []
    readings += ["".join(parts[:-1]) + "." + parts[-1]] if len(parts) > 1 else []
    for reading in readings:
        try:
            yield Decimal(reading)
        except InvalidOperation:
            continue


def values_in(text: str) -> set[Decimal]:
    """Includes numbers in words, and each part of a time."""
    values = set(map(Decimal, spelled(text)))
    for found in FIGURE.finditer(text):
        named = {value for part in (found[0], *found[0].split()) for value in values_of(part)}
        values |= named | {Decimal(part) for part in time_of(found[0]) or ()}
        if _SUFFIX.match(text, found.end()):
            values |= {value * times for value in named for times in SUFFIXES}
    return values


def digits_of(text: str) -> str:
    return re.sub(r"\D", "", text)
