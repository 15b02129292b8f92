"""The language of a statement, and whether it is an order, is told in the first person or is about somebody unnamed.

The words are in [sharing] of each language's file. Orders are looked for in all languages at once, since an order may be
in any of them. A language whose file has no [sharing] isn't covered: orders in it would go unnoticed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from memory_sql.languages.data import of_all, table
from memory_sql.languages.tables import FunctionWords, Sharing, ToldBy
from memory_sql.languages.text import in_lower_case, sentences
from memory_sql.propagation.letters import likeness
from memory_sql.propagation.tokens import SENTENCE

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?")
_CLAUSE = re.compile(r"\s*[,;:()–—]\s+|\s-\s")
_LEAST = 8  # one function word in so many words identifies a language
# How much letters have to speak for a language: by how many of its function words stand there; more of them aren't by chance.
_LIKE = {0: -0.1, 1: -0.3, 2: -0.8}
_LIKE_ONE_OF_SEVERAL = -0.15  # where the words are as many of a language without rules
_LIKE_ANOTHER = 0.3  # where the text around is in another language
_MARKS = " \"'“”„«»([¡¿.,!:;*-"


def language_of(text: str, around: str = "") -> str | None:
    """The covered language of the whole text; None: it isn't in one covered language, or that can't be determined.

    A sentence without any function word (`Server 3 runs Postgres 18`) is taken to be in the language of the others, else of
    the text `around` it, if its letters speak for that. In a few words one function word may be there by chance
    (`Linnea on raskaana`), so letters must not speak against it.
    """
    parts = [part for part in sentences(text) if _WORD.search(part)]
    expected = _language_around(around)
    by_words = [_language_of(part, expected) for part in parts]
    found = {language for language in by_words if language is not None}
    if len(found) > 1 or not (found or expected):
        return None
    language = found.pop() if found else expected
    assert language is not None
    untold = [part for part, told in zip(parts, by_words, strict=True) if told is None]
    return language if all(_may_be(language, part) for part in untold) else None


@lru_cache(maxsize=8)  # all claims of a scope are looked at beside its text
def _language_around(text: str) -> str | None:
    return _language_of(text)


def covered() -> tuple[str, ...]:
    """The languages that have rules."""
    return tuple(of_all(Sharing))


def _language_of(text: str, expected: str | None = None) -> str | None:
    """By function words, and where they are few by letters too. `expected`: the language of what stands around them."""
    words = _words(text)
    counts = {language: _count(words, by) for language, by in _told_by().items()}
    most = max(counts.values())
    if most <= 0 or most * _LEAST < len(words):
        return None
    best = [language for language, count in counts.items() if count == most]
    alike = {language: likeness(text, language) for language in best if language in covered()}
    language = expected if expected in alike else max(alike, key=lambda one: alike[one], default=None)
    least = _LIKE.get(most)
    if language is None or least is None:
        return language
    if expected not in (None, language):
        least = _LIKE_ANOTHER
    elif len(alike) < len(best):
        least = _LIKE_ONE_OF_SEVERAL
    return language if alike[language] >= least else None


def _words(sentence: str) -> list[str]:
    """The words in lower case. A word with an apostrophe counts as two: `l'équipe`."""
    whole = (found.lower().replace("’", "'") for found in _WORD.findall(sentence))
    return [part for word in whole for part in ((word,) if word.endswith("'t") else word.split("'"))]


def _count(words: Sequence[str], by: ToldBy) -> int:
    strange = (any(c > "z" and c not in by.letters for c in word) for word in words if not word.isascii())
    return sum(word in by.words for word in words) - sum(strange)


def _may_be(language: str, sentence: str) -> bool:
    """Whether a sentence without function words may be in the language, by its letters."""
    if any(word in by.words for by in _told_by().values() for word in _words(sentence)):
        return False
    letters = _told_by()[language].letters
    own = all(c <= "z" or c in letters for word in _WORD.findall(sentence) if word[0].islower() for c in word.lower())
    return own and likeness(sentence, language) >= _LIKE[0]


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
