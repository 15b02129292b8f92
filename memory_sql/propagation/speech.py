"""The language of a statement, and whether it is an order, is told in the first person or is about somebody unnamed.

The words are in [sharing] of each language's file. Orders are looked for in all languages at once, since an order may be
in any of them. A language whose file has no [sharing] isn't covered: orders in it would go unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache

from memory_sql.languages.data import of_all, table
from memory_sql.languages.tables import FunctionWords, Sharing, ToldBy
from memory_sql.languages.text import in_lower_case
from memory_sql.propagation.tokens import SENTENCE

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_CLAUSE = re.compile(r"\s*[,;:()–—]\s+|\s-\s")
_LEAST = 8  # one function word in so many words identifies a language
_FRAGMENT = 3  # words: a sentence this short or shorter may have no language
_MARKS = " \"'“”„«»([¡¿.,!:;*-"


def language_of(text: str, around: str = "") -> str | None:
    """The covered language of the whole text; None: it isn't in one covered language, or that can't be determined.

    A text without any function word (`Server 3 runs Postgres 18`) is taken to be in the language of the text `around` it.
    """
    sentences = [words for sentence in SENTENCE.split(text) if (words := _words(sentence))]
    if not any(word in by.words for words in sentences for word in words for by in _told_by().values()):
        return _language_of(_words(around))
    told = [(_language_of(words), len(words)) for words in sentences]
    found = {language for language, length in told if language is not None or length > _FRAGMENT}
    return found.pop() if len(found) == 1 else None


def covered() -> tuple[str, ...]:
    """The languages that have rules."""
    return tuple(of_all(Sharing))


def _language_of(words: Sequence[str]) -> str | None:
    counts = {language: _count(words, by) for language, by in _told_by().items()}
    most = max(counts.values())
    if most <= 0 or most * _LEAST < len(words):
        return None
    best = [language for language, count in counts.items() if count == most]
    return next((language for language in best if language in covered()), None)


def _words(sentence: str) -> list[str]:
    """The words in lower case. A word with an apostrophe counts as two: `l'équipe`."""
    whole = (found.lower().replace("’", "'") for found in _WORD.findall(sentence))
    return [part for word in whole for part in ((word,) if word.endswith("'t") else word.split("'"))]


def _count(words: Sequence[str], by: ToldBy) -> int:
    return sum((word in by.words) - any(c > "z" and c not in by.letters for c in word) for word in words)


@cache
def _told_by() -> Mapping[str, ToldBy]:
    english = table("english", FunctionWords)
    return {"english": ToldBy(english.common | english.telling | english.claiming), **of_all(ToldBy)}


@cache
def _sharing() -> Mapping[str, Sharing]:
    return of_all(Sharing)


def is_order(text: str) -> bool:
    """Whether it tells the agent, or any reader, what to do."""
    lower = in_lower_case(text)
    if any(listed.ordered.search(lower) for listed in _sharing().values()):
        return True
    if any(listed.second_person.search(lower) for listed in _spoken(text)):
        return True
    clauses = (clause for sentence in SENTENCE.split(text) for clause in _CLAUSE.split(sentence))
    return any(_opens_order(clause.lower()) for clause in clauses)


def _opens_order(clause: str) -> bool:
    bare = clause.strip(_MARKS)
    return any(listed.opens_order.match(bare) for listed in _sharing().values())


def in_first_person(text: str) -> bool:
    """Whether it uses "I", which means nothing without the speaker."""
    return any(listed.first_person.search(in_lower_case(text)) for listed in _spoken(text))


def is_of_somebody(text: str) -> bool:
    """Whether it is about one person who isn't named: he, somebody, the user."""
    return any(listed.somebody.search(in_lower_case(text)) for listed in _spoken(text))


def _spoken(text: str) -> Sequence[Sharing]:
    """The rules for the text's language, since `mes` is "my" in one and "month" in another; all rules if it is unknown."""
    language = language_of(text)
    return tuple(_sharing().values()) if language is None else (_sharing()[language],)
