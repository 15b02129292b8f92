"""What a text asks the memory itself, to forget or to correct something, found by the rules of each language. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple

from memory_sql.languages.anchors import Anchored, letters_in
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Requests
from memory_sql.languages.wording import is_among, pieces

_END = re.compile(r"[,;.!?\n]|$")
_SENTENCE_END = re.compile(r"[.!?\n]")
_OPENING, _CLOSING = '"“„«「『', '"”»」』'
AROUND = 300  # characters of the sentence on each side of a request

Kind = Literal["forget", "correct"]


class FoundRequest(NamedTuple):
    """`what`: what stands behind the words that ask, up to the next comma or end, without where to delete it from.

    `start` and `end`: of all of it.
    """

    kind: Kind
    what: str
    start: int
    end: int


class _Rule(NamedTuple):
    language: str
    table: str  # of the language's requests
    pattern: str


def requests_in(text: str) -> list[FoundRequest]:
    """In the order of the text. What stands in quotation marks is somebody else's."""
    plain = text.replace("’", "'")
    lower = plain.lower()
    found = dict[int, FoundRequest]()
    for rule in sorted(_rules().worth_trying(lower, letters_in(lower))):
        own = of_all(Requests)[rule.language]
        for match in _compiled(rule.pattern).finditer(plain):
            end = _end(plain, match.end())
            if match.end() in found or _is_quoted(plain, match.start()):
                continue
            if rule.table != "behind" or _is_own(lower, match.start(), end, own.others):
                what = _without(text[match.end() : end], own.beside)
                kind: Kind = "correct" if rule.table == "correct" else "forget"
                found[match.end()] = FoundRequest(kind, what, match.start(), end)
    return sorted(found.values(), key=lambda one: one.start)


def may_ask_to_forget(text: str) -> bool:
    """Whether it has a word without which nobody asks for that, in a language that has rules."""
    there = pieces(text)
    return any(is_among(word, there) for word in _words())


@cache
def _words() -> frozenset[str]:
    return frozenset[str]().union(*(pieces(word) for one in of_all(Requests).values() for word in one.words))


@cache
def polite_words() -> frozenset[str]:
    """Those that tell nothing beside a request, in all languages."""
    return frozenset[str]().union(*(pieces(word) for one in of_all(Requests).values() for word in one.polite))


def _end(text: str, after: int) -> int:
    found = _END.search(text, after)
    return len(text) if found is None else found.start()


def _without(what: str, beside: str) -> str:
    """Where to delete it from is none of what is meant."""
    return re.sub(f"(?:{beside})\\s*$", "", what, flags=re.IGNORECASE).strip() if beside else what.strip()


def _is_own(lower: str, start: int, end: int, others: frozenset[str]) -> bool:
    """Whether nothing in the rest of the sentence says that somebody else asks, or nobody does."""
    before = _SENTENCE_END.split(lower[max(0, start - AROUND) : start])[-1]
    behind = _SENTENCE_END.split(lower[end : end + AROUND])[0]
    return others.isdisjoint(letters_in(before) | letters_in(behind))


def _is_quoted(text: str, at: int) -> bool:
    """Whether a quotation that began before goes on here."""
    opened = max(text.rfind(mark, 0, at) for mark in _OPENING)
    if opened < 0:
        return False
    return not any(mark in text[opened + 1 : at] for mark in _CLOSING)


@cache
def _rules() -> Anchored[_Rule]:
    return Anchored(
        (_Rule(language, table, pattern), pattern)
        for language, requests in of_all(Requests).items()
        for table in ("forget", "behind", "correct")
        for pattern in getattr(requests, table).values()
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
