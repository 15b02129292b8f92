"""Detects known people in a statement: by their id, their display name or a part of it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from memory_sql.languages.data import names as listed_names
from memory_sql.languages.tables import Words
from memory_sql.languages.words import fold
from memory_sql.propagation.shape import MAX_CHARACTERS
from memory_sql.propagation.tokens import JOINED, Token, tokens_of
from memory_sql.propagation.vocabulary import vocabulary


@dataclass(frozen=True, slots=True)
class _Known:
    """`whole`: names as folded words. `parts`: parts of names, which count only when they are capitalized."""

    whole: frozenset[tuple[str, ...]]
    parts: frozenset[str]


def names_somebody(text: str, names: Iterable[str], things: Collection[str] = ()) -> str | None:
    """Returns `name` if the text names any of these people. `things`: groups with such a name, which aren't people."""
    known = _near(names, text, frozenset(fold(thing) for thing in things))
    if not known.whole:
        return None
    tokens = tokens_of(text)
    found = any(_stands(name, tokens, place) for name in known.whole for place in range(len(tokens)))
    return "name" if found or any(_is_part(token, known) for token in tokens) else None


def _near(names: Iterable[str], text: str, things: frozenset[str]) -> _Known:
    """Keeps only names of which a part may occur in the text: a group may have thousands of members."""
    folded = fold(text[:MAX_CHARACTERS])
    near = (name[:MAX_CHARACTERS] for name in names if _may_stand_in(name[:MAX_CHARACTERS], folded))
    words = {tuple(token.key for token in tokens_of(name)) for name in near if fold(name) not in things}
    small = vocabulary().function_words
    parts = (part for name in words for key in name for part in (key, *JOINED.split(key)))
    return _Known(
        frozenset(name for name in words if name and not small.issuperset(name)),
        frozenset(part for part in parts if len(part) >= 3 and part not in small and part not in things),
    )


def _may_stand_in(name: str, folded: str) -> bool:
    return any(part in folded for part in (name.lower() if name.isascii() else fold(name)).replace("'", " ").split())


def _stands(name: Sequence[str], tokens: Sequence[Token], place: int) -> bool:
    """A one-word name that is also an ordinary word counts only when it is capitalized."""
    if tuple(token.key for token in tokens[place : place + len(name)]) != tuple(name):
        return False
    return len(name) > 1 or tokens[place].capital or name[0] not in _words_too()


def _is_part(token: Token, known: _Known) -> bool:
    if token.key in known.parts:
        return token.capital
    return not (set(JOINED.split(token.key)) & known.parts) <= _words_too()  # `anna_smith`, `Anna/Tom`


@cache
def _words_too() -> Words:
    people = listed_names()
    return people.words_too | people.familiar
