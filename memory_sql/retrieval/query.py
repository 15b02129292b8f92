"""What a query asks for, and how much each reason to find something counts. Pure rules, no model.

The score of a text is the BM25 of the query's words in it (k1 0.6, b 0.4, a word counts once), and for an observation
those of its search cues, its meaning and its date; for a message what its surroundings say. What each reason in `Weights`
is worth, and what others were that are gone, stands in docs/retrieval.md.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta, tzinfo
from functools import cache
from typing import Any, NamedTuple

from memory_sql.domain.episodes import is_episode_id, parse_episode_id
from memory_sql.domain.query import Query
from memory_sql.languages.data import of_all, table
from memory_sql.languages.dates import DateFound, find_dates, merged
from memory_sql.languages.days import Days
from memory_sql.languages.tables import FunctionWords, Search, Words
from memory_sql.languages.text import one_line
from memory_sql.languages.words import Term, terms_of, words_in

MAX_CHARACTERS = 512
MAX_TERMS = 32
PAST_YEARS = 30  # how far back "in May" reaches


class _Searched(NamedTuple):
    """`frame`: words that frame a question and say nothing of its answer (R085), beside the stop words of the text search.

    `variants`: forms that no stemmer brings together, each word with its others.
    """

    frame: Words
    variants: Mapping[str, tuple[str, ...]]


@cache
def _searched(language: str) -> _Searched:
    """Of that language; of English, where it has no table for it."""
    name = language if language in of_all(Search) else "english"
    search, small = table(name, Search), table(name, FunctionWords)
    lines = [line.split() for line in search.forms.splitlines()]
    variants = {
        word: tuple(other for other in line if other != word) for line in lines for word in line if len(line) > 1
    }
    return _Searched(small.common | small.asking, variants)


def parse(text: str, now: datetime, zone: tzinfo, language: str = "english", *, operators: bool = True) -> Query:
    """The query of a text: at most its first `MAX_CHARACTERS`, and `MAX_TERMS` of its words.

    With `operators` it may hold "a phrase", -word, from:name, after: and before: (2026, 2026-05 or 2026-05-17), tag: and
    episode: (e12).
    """
    asked = text[:MAX_CHARACTERS].replace("\x00", " ")
    given: dict[str, Any] = {}
    if operators:
        asked, given = _operators(asked)
    found, searched = find_dates(asked, now, zone, language), _searched(language)
    left_out: dict[str, str] = {}
    terms: dict[tuple[str, ...], Term] = {}
    words = words_in(asked)
    for start, end, word in _looked_at(asked, words, searched.frame, left_out):
        if any(item.start < end and start < item.end for item in found):
            left_out.setdefault(word, "date")  # looked for as well: it may be written like that
        for term in terms_of(word, searched.variants.get(word.lower(), ())):
            if len(terms) < MAX_TERMS:
                terms.setdefault((*term.words, *term.extra), term)
            else:
                left_out[term.text] = "too many words"
    for phrase in given.get("phrases", ()):
        for word in words_in(phrase):
            for term in terms_of(word):
                terms.setdefault((*term.words, *term.extra), term)
    spans = merged(day for item in found for day in _years_of(item, asked, now)) if found else ()
    return Query(
        text=" ".join(asked.split()),
        terms=tuple(terms.values())[:MAX_TERMS],
        names=tuple(dict.fromkeys(word.lower() for word in words)),
        spans=spans,
        left_out=left_out,
        **given,
    )


def _looked_at(
    text: str, words: Sequence[str], frame: Words, left_out: dict[str, str]
) -> Iterator[tuple[int, int, str]]:
    at = 0
    for word in words:
        at = text.find(word, at)
        if word.lower() in frame:
            left_out[word] = "frames the question"
        else:
            yield at, at + len(word), word
        at += len(word)


def _operators(text: str) -> tuple[str, dict[str, Any]]:
    """What is left of the text, and the operators in it by the field of `Query`."""
    given: dict[str, Any] = {"phrases": [], "without": [], "tags": []}

    def take(found: re.Match[str]) -> str:
        name, value = found["name"], found["quoted"] if found["quoted"] is not None else found["plain"]
        value = one_line(value)
        if not value:
            return " "
        match (found["sign"], name and name.lower()):
            case "-", None:
                given["without"].append(value)
            case _, "from":
                given["said_by"] = value.lower()
            case _, "tag":
                given["tags"].append(value)
            case _, ("after" | "before") as bound:
                days = _days_named(value)
                if days is None:
                    return found[0]
                given[bound] = days.last + timedelta(days=1) if bound == "after" else days.first
            case _, "episode":
                if not is_episode_id(value):
                    return found[0]
                given["episode"] = parse_episode_id(value)
            case _:
                given["phrases"].append(value)
        return " "

    rest = _OPERATOR.sub(take, text)
    return rest, {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


def _days_named(value: str) -> Days | None:
    """A year, month or day in digits."""
    found = re.fullmatch(r"(\d{4})(?:-(\d\d?))?(?:-(\d\d?))?", value)
    if found is None:
        return None
    year, month, day = (int(part) if part else None for part in found.groups())
    try:
        first = date(year or 0, month or 1, day or 1)
        last = first if day else _last_of_month(first if month else first.replace(month=12))
        last + timedelta(days=1)
    except (ValueError, OverflowError):
        return None
    return Days(first, last)


def _last_of_month(day: date) -> date:
    return (day.replace(day=1) + timedelta(days=31)).replace(day=1) - timedelta(days=1)


def _years_of(item: DateFound, text: str, now: datetime) -> Iterable[Days]:
    """The days that are named; of a month or day without a year those of each of the years behind us."""
    named = text[item.start : item.end]
    if item.relative or re.search(r"\d{4}", named) or not re.search(r"[^\W\d_]{3}", named):
        return (item.days,)
    return tuple(days for year in range(now.year - PAST_YEARS, now.year + 2) if (days := _in_year(item.days, year)))


def _in_year(days: Days, year: int) -> Days | None:
    try:
        return Days(days.first.replace(year=year), days.last.replace(year=year + days.last.year - days.first.year))
    except ValueError:  # 29 February
        return None


_OPERATOR = re.compile(
    r"(?<!\S)(?P<sign>-?)(?:(?P<name>from|after|before|tag|episode):)?(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>(?<=[:-])[^\s\"-][^\s\"]*))",
    re.IGNORECASE,
)
