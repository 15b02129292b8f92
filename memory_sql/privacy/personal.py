"""Rules that tell what is personal: the words and phrases of all languages put together, and forms that need no language.

But for streets everything is matched against the text in lower case without accents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from memory_sql.languages.data import of_all
from memory_sql.languages.tables import Category, Personal, Words

CATEGORIES = ("health", "financial", "identity", "intimate", "contact")  # that are told by words

EMAIL = re.compile(r"(?<=[a-z0-9])@(?=[a-z0-9])[a-z0-9-]{1,63}(?:\.[a-z0-9-]{1,63}){0,3}\.[a-z]{2,24}(?![a-z0-9])")
LOCAL_PART = re.compile(r"[a-z0-9.+_%-]{1,64}\Z")
PHONES = re.compile(
    r"(?<![\w+./-])(?:\+\d{1,3}(?:[ ()./-]{0,2}\d){7,12}|\(\d{3}\)\s?\d{3}[ -]\d{4}|\d{3}-\d{3}-\d{4})(?![\w-]|\.\d)"
)
SSN = re.compile(r"(?<![\w-])(?!000|666|9)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])")

# What `{name}` in a phrase stands for; the words of all languages come in the place of %s.
_PARTS = {
    "whose": r"(?:\b(?:%s)|'s|s')\s",
    "which": r"(?:(?:%s)\s){0,2}",
    "money": r"(?:[$€£]\s?\d|\d[\d.,]{0,12}\s?(?:k\b|[$€£]|eur|usd|gbp|chf|euros?|%s))",
    "day": r"(?:\d{1,2}[./-]|\d{4}-\d|(?:19|20)\d\d\b|%s)",
}
_DIGITS = r"[^\n]{0,24}?\b[a-z]{0,3}\d(?:[ -]?[a-z]?\d){4,20}"
_ISO_DAY = r"(?:19|20)\d\d-[01]\d-[0-3]\d(?!\d)"  # as we ask models to write days: no number to call
_PHONE = rf"(?:[^\n\d+(]|{_ISO_DAY}){{0,25}}[(+]{{0,2}}(?!{_ISO_DAY})\d(?:[ ()./-]{{0,2}}\d){{6,14}}(?!\d)"


@dataclass(frozen=True, slots=True)
class Rules:
    """`words` and `phrases` by category; one of either is enough. A person's address isn't one of a firm's `mailboxes`."""

    words: Mapping[str, Words]
    phrases: Mapping[str, re.Pattern[str]]
    mailboxes: Words
    streets: re.Pattern[str]


@cache
def rules() -> Rules:
    every = tuple(of_all(Personal).values())
    categories: dict[str, list[Category]] = {name: [getattr(one, name) for one in every] for name in CATEGORIES}
    parts = {name: around % "|".join(p for one in every for p in getattr(one, name)) for name, around in _PARTS.items()}
    parts |= {"digits": _DIGITS, "phone": _PHONE}
    return Rules(
        words={name: Words().union(*(one.words for one in some)) for name, some in categories.items()},
        phrases={name: _any_of((p for one in some for p in one.phrases), parts) for name, some in categories.items()},
        mailboxes=Words().union(*(one.mailboxes for one in every)),
        streets=_any_of((street for one in every for street in one.streets), {}),
    )


def _any_of(patterns: Iterable[str], parts: Mapping[str, str]) -> re.Pattern[str]:
    """Those that begin with a word apart from the others: what they have in common is then tried once."""
    whole = list(patterns)
    begun = [each for each in whole if each.lstrip().startswith(r"\b")]
    pattern = "|".join(f"(?:{'|'.join(some)})" for some in (begun, [one for one in whole if one not in begun]) if some)
    for name, part in parts.items():
        pattern = pattern.replace(f"{{{name}}}", part)
    return re.compile(pattern)
