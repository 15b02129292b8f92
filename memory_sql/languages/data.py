"""Reads the languages' files, each once and only when it is first needed.

`german.toml` holds the tables of `TABLES` for German; a long table may have its own file, such as `english/names.toml`. A
new file is a new language: it needn't be listed anywhere. `{name}` in a pattern stands for the `parts` entry of that
name, or for any word of the list of that name, in the same table. A pattern may span lines; white space at the beginning
of a line is ignored.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, TypeVar, get_type_hints

from memory_sql.errors import ConfigurationError
from memory_sql.languages.tables import (
    Alternatives,
    Amounts,
    Causes,
    Counting,
    Dates,
    FunctionWords,
    Importance,
    Kinds,
    Likeness,
    Names,
    Pattern,
    Personal,
    Phrases,
    Recall,
    Requests,
    Search,
    Secrets,
    Sharing,
    Shortened,
    Signals,
    ToldBy,
    Words,
)

TABLES: Mapping[str, type] = {
    "function_words": FunctionWords,
    "recall": Recall,
    "signals": Signals,
    "requests": Requests,
    "search": Search,
    "dates": Dates,
    "names": Names,
    "personal": Personal,
    "secrets": Secrets,
    "sharing": Sharing,
    "counting": Counting,
    "amounts": Amounts,
    "likeness": Likeness,
    "told_by": ToldBy,
    "shortened": Shortened,
    "kinds": Kinds,
    "importance": Importance,
    "causes": Causes,
}

Table = TypeVar("Table")
Raw = Mapping[str, Any]
_PART = re.compile(r"\{([a-z_]+)\}")


@cache
def languages() -> tuple[str, ...]:
    """All names, English first."""
    names = (entry.name.removesuffix(".toml") for entry in _folder().iterdir() if entry.name.endswith(".toml"))
    return tuple(sorted(names, key=lambda name: (name != "english", name)))


def table(language: str, kind: type[Table]) -> Table:
    """The language's table of that kind, which is empty if the language has none. Raises `ConfigurationError`."""
    found: Table = _table(language, _key(kind))
    return found


def of_all(kind: type[Table]) -> Mapping[str, Table]:
    """The tables of that kind, by language, English first. Languages without one are left out."""
    key = _key(kind)
    return {language: table(language, kind) for language in languages() if _raw(language, key)}


@cache
def names() -> Names:
    """The names of all languages together."""
    every = of_all(Names).values()
    return Names(*(Words().union(*(getattr(one, field) for one in every)) for field in Names._fields))


def made(kind: Any, raw: Raw, place: str) -> Any:
    """Builds a table of that class from these values. Raises `ConfigurationError` for an unknown key."""
    known = get_type_hints(kind)
    names = kind._fields
    unknown = [key for key in raw if key not in names and key != "parts"]
    if unknown:
        raise ConfigurationError(f"{place} knows no {unknown[0]}; it knows {', '.join(names)}")
    parts = _Parts(raw, place)
    return kind(**{key: _value(known[key], raw[key], parts, f"{place} {key}") for key in raw if key != "parts"})


def _key(kind: type) -> str:
    return next(name for name, known in TABLES.items() if known is kind)


@cache
def _table(language: str, key: str) -> Any:
    return made(TABLES[key], _raw(language, key), f"{language} [{key}]")


def _folder() -> Traversable:
    return files("memory_sql.languages")


@cache
def _read(name: str) -> Raw:
    try:
        return tomllib.loads(_folder().joinpath(f"{name}.toml").read_text("utf-8"))
    except (FileNotFoundError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{name}.toml can't be read: {error}") from error


@cache
def _raw(language: str, key: str) -> Raw:
    """A table from the language's file, or from a file of its own."""
    whole = _read(language)
    unknown = [name for name in whole if name not in TABLES]
    if unknown:
        raise ConfigurationError(f"{language}.toml knows no [{unknown[0]}]; it knows {', '.join(TABLES)}")
    if _folder().joinpath(language, f"{key}.toml").is_file():
        return _read(f"{language}/{key}")
    found: Raw = whole.get(key, {})
    return found


class _Parts:
    """Fills `{name}` in the patterns of one table."""

    def __init__(self, raw: Raw, place: str) -> None:
        self._raw, self._place = raw, place
        self._known: dict[str, str] = {}
        for name, pattern in raw.get("parts", {}).items():
            self._known[name] = self.fill(_joined(pattern))

    def fill(self, pattern: str) -> str:
        return _PART.sub(lambda part: f"(?:{self._of(part[1])})", pattern)

    def _of(self, name: str) -> str:
        if name in self._known:
            return self._known[name]
        words = self._raw.get(name)
        if not isinstance(words, str | dict):
            raise ConfigurationError(f"{self._place} has no {{{name}}}: neither a part nor a list of words")
        longest_first = sorted(words.split() if isinstance(words, str) else words, key=len, reverse=True)
        return self._known.setdefault(name, "|".join(map(re.escape, longest_first)))


def _joined(pattern: object) -> str:
    """Joins alternatives to one pattern. Each may span several lines."""
    return "|".join(map(_in_one_line, pattern if isinstance(pattern, list) else [pattern]))


def _in_one_line(pattern: str) -> str:
    return "".join(map(str.lstrip, pattern.splitlines()))


def _compiled(pattern: str, place: str) -> Pattern:
    try:
        return re.compile(pattern)
    except re.error as error:
        raise ConfigurationError(f"{place}: {error}") from error


def _phrases(raw: Raw, parts: _Parts, place: str) -> Phrases:
    kinds = {kind: {said: parts.fill(_joined(p)) for said, p in some.items()} for kind, some in raw.items()}
    groups = (f"(?P<{kind}>{'|'.join(some.values())})" for kind, some in kinds.items())
    found = _compiled("|".join(groups), place)
    if found.groups > len(kinds):
        every = (phrase for some in kinds.values() for phrase in some.values())
        wrong = next(phrase for phrase in every if _compiled(phrase, place).groups)
        raise ConfigurationError(f"{place}: write (?:…) for (…) in {wrong}")
    return Phrases(kinds, found)


_MAKERS: Mapping[Any, Callable[[Any, _Parts, str], Any]] = {
    Words: lambda raw, _, place: frozenset(raw.split()),
    Pattern: lambda raw, parts, place: _compiled(parts.fill(_joined(raw)), place),
    Alternatives: lambda raw, _, place: tuple(map(_joined, raw)),
    Phrases: _phrases,
    Mapping[str, int]: lambda raw, _, place: dict(raw),
    Mapping[str, float]: lambda raw, _, place: dict(raw),
    Mapping[str, str]: lambda raw, parts, place: {key: parts.fill(_joined(value)) for key, value in raw.items()},
    str: lambda raw, _, place: raw,
    bool: lambda raw, _, place: raw,
}


def _value(kind: Any, raw: Any, parts: _Parts, place: str) -> Any:
    if kind not in _MAKERS:
        return made(kind, raw, place)
    try:
        return _MAKERS[kind](raw, parts, place)
    except (AttributeError, TypeError, ValueError) as error:
        raise ConfigurationError(f"{place} isn't written as it should be: {error}") from error
