"""The calendar dates that a text mentions, relative to when and where it was said. Pure rules, no model.

A language is a table in its file, [dates]: its words, and one pattern for each way to name a date. English is complete.
Where English is ambiguous, it is read as follows:

- A week runs from Monday to Sunday; a weekend is its Saturday and Sunday. "Last night" is the day before.
- "Last Friday" is the nearest one before that day, "next Friday" the one in the week after, "this Friday" this week's.
- A weekday alone is the nearest one before in a sentence in the past tense ("we met on Monday"), else the nearest after.
- "Christmas Eve" and the like are the nearest by the same rule as "March 2".
- "Two weeks ago" is that whole week, "in two months" that month, "a year ago" that year: no more exact than the unit.
- "In May" or "on March 2" without a year is the nearest one before in a sentence in the past tense, the nearest one after in
  the future tense, else the nearest. "Last May" is the one before this month, "last summer" the latest that is over.
- Seasons are northern and made of whole months; winter begins in December of the year that names it.
- 3/2/2026 may be March or February, "a few days ago" may be anything, "every Monday" is no date: these are ignored.

In a question all of these mean a date. A text is found by a date only if it also speaks of a single event (`days_of`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import MAXYEAR, date, datetime, timedelta, tzinfo
from functools import cache, cached_property, lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo, available_timezones

from memory_sql.errors import InputError
from memory_sql.languages.anchors import Anchored, letters_in
from memory_sql.languages.data import of_all
from memory_sql.languages.days import (
    Days,
    month_of,
    months_from,
    one_day,
    span_of,
    unit_at,
    week_of,
    weekday_after,
    weekday_before,
    weekend_of,
    year_of,
)
from memory_sql.languages.tables import Dates

LAST_YEAR = MAXYEAR - 1  # the day after a range must be a valid date too
# So many characters before and after a date are read with it: a long text takes no longer for each of its dates.
REACH = 500


class DateFound(NamedTuple):
    """`text[start:end]` names these days. `relative`: they can't be known without the time of speaking.

    `certain`: they are the days of a single event, not of a habit, nor part of a name.
    """

    start: int
    end: int
    days: Days
    relative: bool
    certain: bool


@lru_cache(maxsize=64)
def zone_of(name: str) -> ZoneInfo:
    """The time zone of an IANA name. Raises `InputError`, also if the system has no time zones at all."""
    if name in _zones():
        return ZoneInfo(name)
    if not _zones():  # Windows, minimal containers
        raise InputError("this system has no time zone data; install the package tzdata")
    raise InputError("the time zone isn't known; write an IANA name such as Europe/Berlin")


@lru_cache(maxsize=1)
def _zones() -> frozenset[str]:
    """IANA's names: without other entries in a machine's directory, such as its own zone, and case-sensitive."""
    return frozenset(available_timezones() - {"localtime", "posixrules", "Factory"})


def find_dates(text: str, moment: datetime, zone: tzinfo, language: str = "english") -> list[DateFound]:
    """The dates in the text, in order, as said at that moment (aware) in that zone.

    Empty for a language without a table. Takes about 0.1 ms for a sentence, and a tenth of that if it names no date.
    """
    rules, lowered = _rules(language), _lowered(text)
    pattern = None if rules is None else rules.worth_trying(lowered)
    if rules is None or pattern is None:
        return []
    today = moment.astimezone(zone).date()
    found = []
    for match in pattern.finditer(lowered):
        name = match.lastgroup or ""
        days = _read(rules, name, match, text, today)
        if days is not None:
            certain = _is_certain(name, match, text, rules.language)
            found.append(DateFound(match.start(), match.end(), days, name in _RELATIVE, certain))
    return _apart(found, lowered, rules.language)


def name_relative_days(
    texts: Sequence[str], moments: Sequence[datetime], zone: tzinfo, language: str = "english"
) -> list[bool]:
    """For each text, whether it names a day relative to another ("next Monday"), as said at its moment.

    Most texts contain no word for that, so all of them are first checked together.
    """
    rules, lowered = _rules(language), _lowered("\n".join(texts))
    if rules is None or rules.near.worth_trying(lowered, letters_in(lowered)).isdisjoint(_RELATIVE):
        return [False] * len(texts)
    return [
        any(found.relative for found in find_dates(text, moment, zone, language))
        for text, moment in zip(texts, moments, strict=True)
    ]


def days_of(text: str, moment: datetime, zone: tzinfo, language: str = "english") -> tuple[Days, ...]:
    """The days of the events in a text, merged and in order, as said at that moment (aware) in that zone."""
    return merged(item.days for item in find_dates(text, moment, zone, language) if item.certain)


def merged(ranges: Iterable[Days]) -> tuple[Days, ...]:
    """Sorts ranges and merges those that overlap or touch."""
    result: list[Days] = []
    for days in sorted(ranges):
        if result and days.first <= result[-1].last + timedelta(days=1):
            result[-1] = Days(result[-1].first, max(result[-1].last, days.last))
        else:
            result.append(days)
    return tuple(result)


# Reading matches

_ASCII_LOWER = {ord(c): c.lower() for c in "ABCDEFGHIJKLMNOPQRSTUVWXYZ"} | {0x2019: "'"}  # keeps every position


def _lowered(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


_QUOTES = "\"'“”’«»*_"
_RELATIVE = frozenset(
    "day ago within last_units relation weekday_of_week weekday_relation weekday month_relation season_relation".split()
)


class _Rules:
    """`near` tells which forms of dates a text can contain; what finds them is compiled when a text contains one."""

    def __init__(self, language: Dates) -> None:
        near = {name: rf"(?<![\w-])(?:{pattern})(?![\w-])" for name, pattern in language.patterns.items()}
        self.language, self.near = language, Anchored(near.items())
        self._with_year = frozenset(name for name, digits in self.near.digits.items() if digits >= 4)

    def worth_trying(self, lowered: str) -> re.Pattern[str] | None:
        names = self.near.worth_trying(lowered, letters_in(lowered))
        if not names:
            return None
        return self._written if names <= self._with_year else self._any

    @cached_property
    def _any(self) -> re.Pattern[str]:
        return _any_of(self.language.patterns)

    @cached_property
    def _written(self) -> re.Pattern[str]:
        """Finds only those that need a year."""
        return _any_of({name: p for name, p in self.language.patterns.items() if name in self._with_year})


class _Said(NamedTuple):
    """A match with what is needed to read it. `past` None: the sentence has no clear tense."""

    words: Mapping[str, str]
    today: date
    past: bool | None
    language: Dates

    def number(self, name: str) -> int:
        word = self.words[name]
        return int(word) if word.isdecimal() else self.language.numbers[word.removeprefix("a ")]


@cache
def _rules(language: str) -> _Rules | None:
    table = of_all(Dates).get(language)
    return None if table is None else _Rules(table)


def _any_of(patterns: Mapping[str, str]) -> re.Pattern[str]:
    either = "|".join(f"(?P<{name}>{re.sub(r'[(][?]P<[a-z]+>', '(?:', p)})" for name, p in patterns.items())
    return re.compile(rf"(?<![\w-])(?:{either})(?![\w-])(?:'s\b)?")


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{pattern}(?![\w-])")


def _read(rules: _Rules, name: str, match: re.Match[str], text: str, today: date) -> Days | None:
    """None if it isn't a date after all, or one that doesn't exist or can't be represented."""
    language = rules.language
    said = _compiled(language.patterns[name]).match(match.string, match.start())
    assert said is not None  # the same pattern, at the same place
    if _is_quoted(text, match) or _is_verb(name, said, text, language) or _is_recurring(match, language):
        return None
    words = {key: value for key, value in said.groupdict().items() if value is not None}
    past = _is_past(match.string, match.start(), match.end(), language) if name in _BY_TENSE else None
    try:
        days = _READERS[name](_Said(words, today, past, language))
    except (ValueError, OverflowError):
        return None
    return days if days and days.last.year <= LAST_YEAR else None


def _is_quoted(text: str, match: re.Match[str]) -> bool:
    """It stands alone between quotation marks: a title, not a date."""
    before, after = _before(text, match.start())[-1:], text[match.end() : match.end() + 1]
    return bool(before and after and before in _QUOTES and after in _QUOTES)


def _is_verb(name: str, said: re.Match[str], text: str, language: Dates) -> bool:
    """ "Option 2 may work": a month that is also a verb counts only if it has a capital or a year."""
    if name not in ("month_day", "day_month") or said["month"] not in language.verbs_too or said["year"]:
        return False
    return not text[said.start("month")].isupper()


def _is_recurring(match: re.Match[str], language: Dates) -> bool:
    before = _before(match.string, match.start()).rsplit(maxsplit=1)
    return bool(before) and before[-1] in language.never_after


def _is_certain(name: str, match: re.Match[str], text: str, language: Dates) -> bool:
    """It states which days it means, or its clause is about a single event; and it isn't part of a name."""
    if name in _ABSOLUTE or (name in _BY_TENSE and match[0][-4:].isdecimal()):
        return True
    if _in_name(text, match, language):
        return False
    return name not in _BY_TENSE or _is_event(match.string, match.start(), match.end(), language)


def _in_name(text: str, match: re.Match[str], language: Dates) -> bool:
    """ "Monday.com", "Ruby Tuesday", "the Sunday Times": joined to something, or beside a capital (but not "On")."""
    end, last = match.end(), _before(text, match.end()).split()[-1]
    if _JOINED.match(text, end) or (last[0].isupper() and _CAPITAL.match(text, end)):
        return True
    beside = _BESIDE.search(_before(text, match.start())) if text[match.start()].isupper() else None
    return beside is not None and beside["word"].lower() not in language.leading


def _is_event(lowered: str, start: int, end: int, language: Dates) -> bool:
    """The verbs of the clause say that something happened once or is to happen; none says that it happens regularly."""
    before, after = _clause(lowered, start, end, language)
    words = {*_WORD.findall(before), *_WORD.findall(after)}
    if words & language.habits:
        return False
    if words & language.to_come:
        return True
    return not words & language.future and any(_tells_past(word, language) for word in words)


def _clause(lowered: str, start: int, end: int, language: Dates) -> tuple[str, str]:
    """The parts of the clause before and after the date. In "On Friday, we met" the comma doesn't end the clause."""
    begins = _begin(_CLAUSE_END, lowered, start)
    before, comma = lowered[begins:start], _COMMA.match(lowered, end)
    words = _WORD.findall(before)
    leads = language.leading.issuperset(words) and (words or not begins or lowered[begins - 2] in ".!?;\n")
    behind = comma.end() if comma and leads else end
    return before, _behind(_CLAUSE_END, lowered, behind)


def _before(text: str, end: int) -> str:
    return text[max(0, end - REACH) : end]


def _begin(ends: re.Pattern[str], lowered: str, start: int) -> int:
    """Where the sentence or clause begins, whose ends the pattern finds."""
    least = max(0, start - REACH)
    return max((match.end() for match in ends.finditer(lowered, least, start)), default=least)


def _behind(ends: re.Pattern[str], lowered: str, begin: int) -> str:
    """What follows up to its end."""
    most = min(len(lowered), begin + REACH)
    end = ends.search(lowered, begin, most)
    return lowered[begin : end.start() if end else most]


def _apart(found: list[DateFound], lowered: str, language: Dates) -> list[DateFound]:
    """Drops weekdays that belong to a date beside them. Weekdays in a range or list aren't those of a single event."""
    weekdays = [lowered[item.start : item.end].split("'")[0] in language.weekdays for item in found]
    kept = []
    for n, item in enumerate(found):
        gaps = [
            (lowered[found[k].end : found[k + 1].start], k + (k == n)) for k in (n - 1, n) if 0 <= k < len(found) - 1
        ]
        if weekdays[n] and any(not weekdays[other] and _NO_WORD.fullmatch(gap) for gap, other in gaps):
            continue
        in_list = weekdays[n] and any(weekdays[other] and len(gap.split()) <= 1 for gap, other in gaps)
        kept.append(item._replace(certain=False) if in_list else item)
    return kept


_JOINED = re.compile(r"[.@/]\w")
_CAPITAL = re.compile(r" [A-Z]\w")  # but not " I"
_BESIDE = re.compile(r"(?:^|[^.!?\s]\s+|[a-z]\s)(?P<word>[A-Z][\w'’]*)\s$")
_COMMA = re.compile(r"\s*,\s")
_NO_WORD = re.compile(r"\W*")
_CLAUSE_END = re.compile(r"[.!?;:,()\n](?:\s|$)|\s[-–]\s|\s?—\s?")
_SENTENCE_END = re.compile(r"[.!?;\n]\s")
_WORD = re.compile(r"[a-z']+")


def _is_past(lowered: str, start: int, end: int, language: Dates) -> bool | None:
    """Whether the sentence is in the past tense, judged by the nearest verb before the date, else the nearest after it."""
    before = lowered[_begin(_SENTENCE_END, lowered, start) : start]
    behind = _behind(_SENTENCE_END, lowered, end)
    for word in (*reversed(_WORD.findall(before)), *_WORD.findall(behind)):
        if word in language.future:
            return False
        if _tells_past(word, language):
            return True
    return None


def _tells_past(word: str, language: Dates) -> bool:
    regular = len(word) > 4 and word.endswith(language.past_ending) and word not in language.not_past
    return regular or word in language.past


def _nearest(said: _Said, of_year: Callable[[int], Days]) -> Days | None:
    """The nearest one in the years around that fits the sentence's tense."""
    for reach in (1, 8):  # February 29 may be eight years away
        candidates = []
        for year in range(said.today.year - reach, said.today.year + reach + 1):
            with suppress(ValueError):
                candidates.append(of_year(year))
        told = [days for days in candidates if said.past is None or _fits(days, said)]
        if told:
            return min(told, key=lambda days: (_distance(days, said.today), days.first))
    return None


def _fits(days: Days, said: _Said) -> bool:
    return days.first <= said.today if said.past else days.last >= said.today


def _distance(days: Days, today: date) -> timedelta:
    return max(days.first - today, today - days.last, timedelta(0))


def _date(said: _Said) -> Days | None:
    month, day = said.language.months[said.words["month"]], int(said.words["day"])
    if "year" in said.words:
        return one_day(date(int(said.words["year"]), month, day))
    return _nearest(said, lambda year: one_day(date(year, month, day)))


def _holiday(said: _Said) -> Days | None:
    month, day = divmod(said.language.holidays[said.words["holiday"]], 100)
    if "year" in said.words:
        return one_day(date(int(said.words["year"]), month, day))
    return _nearest(said, lambda year: one_day(date(year, month, day)))


def _around(said: _Said) -> Days | None:
    """The week or weekend of a date."""
    found = _date(said)
    if found is None:
        return None
    return (weekend_of if said.words["around"] == "weekend" else week_of)(found.first)


def _month_named(said: _Said) -> Days | None:
    month = said.language.months[said.words["month"]]
    if "year" in said.words:
        return month_of(int(said.words["year"]), month)
    return _nearest(said, lambda year: month_of(year, month))


def _month_relation(said: _Said) -> Days:
    month, relation = said.language.months[said.words["month"]], said.language.relations[said.words["relation"]]
    year, now = said.today.year, said.today.month
    if relation < 0:
        return month_of(year if month < now else year - 1, month)
    return month_of(year if relation == 0 or month > now else year + 1, month)


def _season(year: int, begins: int) -> Days:
    return months_from(year, begins, 3)


def _season_relation(said: _Said) -> Days:
    """Last: the latest that is over; next: the first that hasn't begun; this: the nearest."""
    begins, relation = said.language.seasons[said.words["season"]], said.language.relations[said.words["relation"]]
    seasons = [_season(said.today.year + n, begins) for n in (-2, -1, 0, 1)]
    if relation < 0:
        return max(days for days in seasons if days.last < said.today)
    if relation > 0:
        return min(days for days in seasons if days.first > said.today)
    return min(seasons, key=lambda days: _distance(days, said.today))


def _weekday_relation(said: _Said) -> Days:
    weekday, relation = said.language.weekdays[said.words["weekday"]], said.language.relations[said.words["relation"]]
    return one_day(weekday_before(said.today, weekday)) if relation < 0 else _weekday_of_week(said)


def _weekday_of_week(said: _Said) -> Days:
    weekday, relation = said.language.weekdays[said.words["weekday"]], said.language.relations[said.words["relation"]]
    return one_day(week_of(said.today).first + timedelta(weeks=relation, days=weekday))


def _weekday(said: _Said) -> Days:
    weekday = said.language.weekdays[said.words["weekday"]]
    return one_day((weekday_before if said.past else weekday_after)(said.today, weekday))


def _ago(said: _Said) -> Days:
    return unit_at(said.today, said.language.units[said.words["unit"]], -said.number("number"))


def _within(said: _Said) -> Days | None:
    """In the past tense "in two weeks" is a duration, not a date."""
    if said.past:
        return None
    return unit_at(said.today, said.language.units[said.words["unit"]], said.number("number"))


def _last_units(said: _Said) -> Days:
    relation = said.language.relations[said.words["relation"]]
    return span_of(said.today, said.language.units[said.words["unit"]], relation * said.number("number"))


def _relation(said: _Said) -> Days:
    relation, unit = said.language.relations[said.words["relation"]], said.language.units[said.words["unit"]]
    return unit_at(said.today, unit, relation)


def _iso(words: Mapping[str, str], suffix: str = "") -> date:
    return date(*(int(words[name + suffix]) for name in ("year", "month", "day")))


_READERS: Mapping[str, Callable[[_Said], Days | None]] = {
    "iso_span": lambda said: Days(*sorted((_iso(said.words), _iso(said.words, "b")))),
    "iso": lambda said: one_day(_iso(said.words)),
    "iso_month": lambda said: month_of(int(said.words["year"]), int(said.words["month"])),
    "around": _around,
    "month_day": _date,
    "day_month": _date,
    "holiday": _holiday,
    "month_year": _month_named,
    "month_relation": _month_relation,
    "month": _month_named,
    "quarter": lambda said: months_from(int(said.words["year"]), 3 * int(said.words["quarter"]) - 2, 3),
    "season_year": lambda said: _season(int(said.words["year"]), said.language.seasons[said.words["season"]]),
    "season_relation": _season_relation,
    "year": lambda said: year_of(int(said.words["year"])),
    "day": lambda said: one_day(said.today + timedelta(days=said.language.offsets[said.words["offset"]])),
    "ago": _ago,
    "within": _within,
    "last_units": _last_units,
    "weekday_of_week": _weekday_of_week,
    "weekday_relation": _weekday_relation,
    "relation": _relation,
    "weekday": _weekday,
}
_BY_TENSE = frozenset({"around", "month_day", "day_month", "holiday", "month", "within", "weekday"})
_ABSOLUTE = frozenset("iso_span iso iso_month month_year quarter season_year year".split())
