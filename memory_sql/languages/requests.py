"""What a text asks the memory itself, to forget or to correct something, found by the rules of each language. Pure."""

from __future__ import annotations

import re
from functools import cache
from typing import Literal, NamedTuple, cast

from memory_sql.languages.anchors import Anchored, letters_in
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Requests
from memory_sql.languages.wording import is_among, pieces

_END = re.compile(r"[,;.!?\n]|$")
_OPENING, _CLOSING = '"“„«「『', '"”»」』'


class FoundRequest(NamedTuple):
    """`what`: what stands behind the words that ask, up to the next comma or end. `start` and `end`: of all of it."""

    kind: Literal["forget", "correct"]
    what: str
    start: int
    end: int


def requests_in(text: str) -> list[FoundRequest]:
    """In the order of the text. What stands in quotation marks is somebody else's."""
    plain = text.replace("’", "'")
    lower = plain.lower()
    found = []
    for kind, pattern in sorted(_requests().worth_trying(lower, letters_in(lower))):
        for match in _compiled(pattern).finditer(plain):
            end = _end(plain, match.end())
            if not _is_quoted(plain, match.start()):
                what = text[match.end() : end].strip()
                found.append(FoundRequest(cast(Literal["forget", "correct"], kind), what, match.start(), end))
    return sorted(found, key=lambda one: one.start)


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


def _is_quoted(text: str, at: int) -> bool:
    """Whether a quotation that began before goes on here."""
    opened = max(text.rfind(mark, 0, at) for mark in _OPENING)
    if opened < 0:
        return False
    return not any(mark in text[opened + 1 : at] for mark in _CLOSING)


@cache
def _requests() -> Anchored[tuple[str, str]]:
    return Anchored(
        ((kind, pattern), pattern)
        for requests in of_all(Requests).values()
        for kind in ("forget", "correct")
        for pattern in getattr(requests, kind).values()
    )


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)
