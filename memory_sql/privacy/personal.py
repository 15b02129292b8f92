"""Rules for personal data: the words and phrases of all languages together, and forms that need no language.

Everything but streets is matched against the text in lower case without accents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import NamedTuple

from memory_sql.languages.anchors import Anchored
from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Personal, Words

CATEGORIES = ("health", "financial", "identity", "intimate", "contact")  # those found by words

EMAIL = re.compile(r"(?<=[a-z0-9])@(?=[a-z0-9])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,3}\.[a-z]{2,24}(?![a-z0-9])")
LOCAL_PART = re.compile(r"[a-z0-9.+_%-]{1,64}\Z")
PHONES = re.compile(
    r"(?<![\w+./-])(?:\+\d{1,3}(?:[ ()./-]{0,2}\d){7,12}|\(\d{3}\)\s?\d{3}[ -]\d{4}|\d{3}-\d{3}-\d{4})(?![\w-]|\.\d)"
)
NEAR_NUMBERS = re.compile(r"\d(?:[\s()./-]{0,2}\d){8}|\+\d(?:[ ()./-]{0,2}\d){7}")  # in all that PHONES and SSN match
SSN = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])")

NUMBERS = {"contact": PHONES, "identity": SSN}

# What `{name}` in a phrase stands for. %s is replaced by the words of all languages.
_PARTS = {
    "whose": r"(?:\b(?:%s)|'s|s')\s",
    "which": r"(?:(?:%s)\s){0,2}",
    "money": r"(?:[$€£]\s?\d|\d[\d.,]{0,12}\s?(?:k\b|[$€£]|eur|usd|gbp|chf|euros?|%s))",
    "day": r"(?:\d{1,2}[./-]|\d{4}-\d|(?:19|20)\d\d\b|%s)",
}
_DIGITS = r"[^\n]{0,24}?\b[a-z]{0,3}\d(?:[ -]?[a-z]?\d){4,20}"
_ISO_DAY = r"(?:19|20)\d\d-[01]\d-[0-3]\d(?!\d)"  # as we ask models to write days: not a telephone number
_PHONE = rf"(?:[^\n\d+(]|{_ISO_DAY}){{0,25}}[(+]{{0,2}}(?!{_ISO_DAY})\d(?:[ ()./-]{{0,2}}\d){{6,14}}(?!\d)"


class Rules(NamedTuple):
    """`words`: the categories of each word. `phrases`: by category and pattern. A single match of either is enough.

    Phrases of the category `location` are `streets`. The `mailboxes` of firms aren't a person's address.
    """

    words: Mapping[str, frozenset[str]]
    every_word: Words
    phrases: Anchored[tuple[str, str]]
    mailboxes: Words
    streets: re.Pattern[str]


@cache
def rules() -> Rules:
    every = tuple(of_all(Personal).values())
    words = _by_word((word, name) for name in CATEGORIES for one in every for word in getattr(one, name).words)
    return Rules(
        words=words,
        every_word=frozenset(words),
        phrases=Anchored((named, named[1]) for named in phrases()),
        mailboxes=Words().union(*(one.mailboxes for one in every)),
        streets=re.compile("|".join(street for one in every for street in one.streets)),
    )


def phrases() -> Iterator[tuple[str, str]]:
    """The category and pattern of each phrase."""
    every = tuple(of_all(Personal).values())
    parts = {name: around % "|".join(p for one in every for p in getattr(one, name)) for name, around in _PARTS.items()}
    parts |= {"digits": _DIGITS, "phone": _PHONE}
    for name in CATEGORIES:
        yield from ((name, _filled(phrase, parts)) for one in every for phrase in getattr(one, name).phrases)
    yield from (("location", street) for one in every for street in one.streets)


@cache
def compiled(phrase: str) -> re.Pattern[str]:
    """Compiles each phrase when it is first tried."""
    return re.compile(phrase)


def _by_word(pairs: Iterable[tuple[str, str]]) -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for word, category in pairs:
        found.setdefault(word, set()).add(category)
    return {word: frozenset(some) for word, some in found.items()}


def _filled(pattern: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        pattern = pattern.replace(f"{{{name}}}", part)
    return pattern
