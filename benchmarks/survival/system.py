"""What a system has to offer to be looked at, and how its store is read past it."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, TypedDict

import asyncpg  # type: ignore[import-untyped]

from benchmarks.server import plain_url
from benchmarks.survival.model import Answers

_TABLES = """
    SELECT format('%I.%I', schemaname, tablename) FROM pg_tables
    WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1
"""
_SQLITE = b"SQLite format 3\0"


class NoSuchCallError(Exception):
    """The system's interface has nothing for this."""


class Said(TypedDict):
    id: str
    role: str
    content: str


@dataclass(frozen=True)
class Place:
    """A database and a folder of its own, and where the model is."""

    url: str
    folder: Path
    model: str


class System(Protocol):
    """Each call is the one that the system's documentation names first for this. What it can't do is `NoSuchCallError`."""

    async def add(self, said: Sequence[Said], user: str, conversation: str) -> None:
        """Returns when the system has acknowledged it."""

    async def texts(self, user: str) -> list[str]:
        """All memories of a user."""

    async def search(self, query: str, user: str) -> list[str]: ...

    async def ids(self, user: str) -> list[str]:
        """Of the same memories, as `get` and `delete` take them."""

    async def get(self, memory_id: str, user: str) -> str | None:
        """None if this user has none of this id."""

    async def delete(self, memory_id: str, user: str) -> None: ...

    async def forget(self, user: str) -> None:
        """All that is known of a user."""


Opened = Callable[[Place], AbstractAsyncContextManager[System]]


def are_installed(*modules: str) -> bool:
    for module in modules:
        try:
            if find_spec(module) is None:
                return False
        except ModuleNotFoundError:  # what it is in
            return False
    return True


def versions(*packages: str) -> str:
    return ", ".join(f"{package} {version(package)}" for package in packages)


@dataclass(frozen=True)
class Known:
    """A system, and whether it can be looked at here."""

    name: str
    is_there: Callable[[], bool]
    version: Callable[[], str]
    opened: Opened
    answers: Answers
    works_later: bool = True  # something goes on after `add` has returned
    is_migrated: bool = False  # needs the schema of this library
    in_postgres: bool = True


async def stored_texts(place: Place) -> AsyncIterator[tuple[str, str]]:
    """Every row of every table and every file of a place, as text, with where it is."""
    connection = await asyncpg.connect(plain_url(place.url))
    try:
        for (table,) in await connection.fetch(_TABLES):
            for (row,) in await connection.fetch(f"SELECT t::text FROM {table} t"):  # noqa: S608  # the catalogue's names
                yield table, row
    finally:
        await connection.close()
    for path in sorted(path for path in place.folder.rglob("*") if path.is_file()):
        for text in _read(path):
            yield path.name, text


def _read(path: Path) -> list[str]:
    """A SQLite database by its rows, as a table of Postgres is read; any other file as it is."""
    raw = path.read_bytes()
    if not raw.startswith(_SQLITE):
        return [raw.decode("latin-1")]
    with closing(sqlite3.connect(path)) as database:
        return list(database.iterdump())
