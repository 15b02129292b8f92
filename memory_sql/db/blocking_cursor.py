"""Statements compiled as for asyncpg, on a connection of psycopg or psycopg2, in the thread of the host that has it.

The cursors are our own: what the host has made of types, rows and parameters doesn't matter. Values are those of asyncpg.
"""

from __future__ import annotations

import json
import re
import sys
from asyncio import Future
from collections import deque
from collections.abc import Callable, Sequence
from datetime import UTC
from functools import cache, lru_cache
from importlib import import_module
from typing import Any, NoReturn
from uuid import UUID

from sqlalchemy.dialects.postgresql.asyncpg import PGDialect_asyncpg
from sqlalchemy.util import await_only

from memory_sql.db.failures import code_of

Run = Callable[[Callable[[], None]], Future[None]]  # what is given is done in the host's thread

PSYCOPG, PSYCOPG2 = ("psycopg", "Connection"), ("psycopg2.extensions", "connection")
_PLACE = re.compile(r"""\$(\d+)|"(?:[^"]|"")*"|'(?:[^']|'')*'""")  # not within a name or a literal


def is_of(kind: tuple[str, str], connection: object) -> bool:
    """Whether it is a connection of that driver, which is imported only by a host that has it."""
    module, name = kind
    connections = getattr(sys.modules.get(module), name, None)
    return connections is not None and isinstance(connection, connections)


class BlockingConnection:
    """The host's connection as SQLAlchemy sees it. It stays open, and its transaction stays the host's."""

    autocommit = False

    def __init__(self, connection: Any, run: Run, dialect: PGDialect_asyncpg) -> None:
        self._connection = connection
        self._run = run
        self._dialect = dialect

    def cursor(self, server_side: bool = False) -> BlockingCursor:
        return BlockingCursor(self._connection, self._run, self._dialect)

    def _nothing(self) -> None:
        """Instead of ending the transaction or the connection."""

    commit = rollback = close = terminate = _nothing


class BlockingCursor:
    """PEP 249, with `$1` in statements. All rows are fetched at once."""

    arraysize = 1
    lastrowid = None
    _invalidate_schema_cache_asof = 0.0  # the dialect notes it

    def __init__(self, connection: Any, run: Run, dialect: PGDialect_asyncpg) -> None:
        self._connection = connection
        self._run = run
        self._dialect = dialect
        self.description: Sequence[Any] | None = None
        self.rowcount = -1
        self._rows = deque[Sequence[Any]]()

    def execute(self, operation: str, parameters: Sequence[Any] = ()) -> None:
        self.executemany(operation, [parameters])

    def executemany(self, operation: str, parameters: Sequence[Sequence[Any]]) -> None:
        try:
            await_only(self._run(lambda: self._send(operation, parameters)))
        except Exception as error:  # noqa: BLE001  # each is raised again
            self._raise(error)

    def _send(self, operation: str, parameters: Sequence[Sequence[Any]]) -> None:
        """In the host's thread."""
        cursor = plain_cursor(self._connection)
        try:
            for given in parameters:
                cursor.execute(*_named(operation, given))
            self.description, self.rowcount = cursor.description, cursor.rowcount
            self._rows = deque(cursor.fetchall() if cursor.description else ())
        finally:
            cursor.close()

    def _raise(self, error: Exception) -> NoReturn:
        """As the dialect's own error of the same class in PEP 249."""
        known: Any = self._dialect.dbapi
        for kind in type(error).__mro__:
            ours = getattr(known, kind.__name__, None)
            if isinstance(ours, type) and issubclass(ours, known.Error):
                told: Any = ours(str(error), error)
                told.sqlstate = told.pgcode = code_of(error)
                raise told from error
        raise error

    def fetchall(self) -> list[Sequence[Any]]:
        rows = list(self._rows)
        self._rows.clear()
        return rows

    def fetchone(self) -> Sequence[Any] | None:
        return self._rows.popleft() if self._rows else None

    def fetchmany(self, size: int | None = None) -> list[Sequence[Any]]:
        return [self._rows.popleft() for _ in range(min(size or self.arraysize, len(self._rows)))]

    def close(self) -> None:
        self._rows.clear()

    async def _async_soft_close(self) -> None:
        """What SQLAlchemy's asyncio asks of its own cursors; the host's is closed already."""


def _named(operation: str, given: Sequence[Any]) -> tuple[str, dict[str, Any] | None]:
    """The statement and its parameters as both drivers take them: by name, since a place may stand there twice."""
    if not given:
        return operation, None
    return _rewritten(operation), {f"p{place}": _written(value) for place, value in enumerate(given, 1)}


@lru_cache(maxsize=256)
def _rewritten(operation: str) -> str:
    """In brackets: psycopg2 writes the value itself, and a cast binds closer than a minus."""
    return _PLACE.sub(lambda found: f"(%(p{found[1]})s)" if found[1] else found[0], operation.replace("%", "%%"))


def _written(value: Any) -> Any:
    """psycopg2 knows no UUID. Every place says its type, so that text will do."""
    if isinstance(value, (list, tuple)):
        return [_written(one) for one in value]
    return str(value) if isinstance(value, UUID) else value


def plain_cursor(connection: Any) -> Any:
    return _psycopg(connection) if is_of(PSYCOPG, connection) else _psycopg2(connection)


def _psycopg(connection: Any) -> Any:
    kind, rows = _psycopg_kind()
    return kind(connection, row_factory=rows)


@cache
def _psycopg_kind() -> tuple[Any, Any]:
    """Its plain cursor, with the types that it has when nobody has changed them, and times in UTC."""
    dated = import_module("psycopg.types.datetime").TimestamptzLoader
    in_utc = type("InUTC", (dated,), {"load": lambda self, data: dated.load(self, data).astimezone(UTC)})
    known = import_module("psycopg.postgres")
    adapters = import_module("psycopg.adapt").AdaptersMap(types=known.types)
    known.register_default_adapters(adapters)
    import_module("psycopg.types.array").register_all_arrays(adapters)
    adapters.register_loader("timestamptz", in_utc)
    kind = type("Cursor", (import_module("psycopg").Cursor,), {"adapters": property(lambda _: adapters)})
    return kind, import_module("psycopg.rows").tuple_row


def _psycopg2(connection: Any) -> Any:
    driver = import_module("psycopg2.extensions")
    cursor = driver.cursor(connection)
    for kind in _psycopg2_kinds():
        driver.register_type(kind, cursor)
    return cursor


@cache
def _psycopg2_kinds() -> list[Any]:
    """The types that a plain cursor has when nobody has changed them, JSON and UUID as values, and times in UTC."""
    driver, binary = import_module("psycopg2.extensions"), import_module("psycopg2").BINARY
    names = ("UNICODE", "BOOLEAN", "INTEGER", "LONGINTEGER", "FLOAT", "DECIMAL", "PYDATE", "PYDATETIME", "PYINTERVAL")
    kinds = [getattr(driver, name + suffix) for name in names for suffix in ("", "ARRAY")]
    for name, numbers, array, read in (
        ("bytes", (17,), 1001, lambda value, cursor: bytes(binary(value, cursor))),
        ("utc", (1184,), 1185, lambda value, cursor: driver.PYDATETIMETZ(value, cursor).astimezone(UTC)),
        ("json", (114,), 199, lambda value, _: json.loads(value)),
        ("jsonb", (3802,), 3807, lambda value, _: json.loads(value)),
        ("uuid", (2950,), 2951, lambda value, _: UUID(value)),
    ):
        kind = driver.new_type(numbers, name, _or_none(read))
        kinds += [kind, driver.new_array_type((array,), f"{name}[]", kind)]
    return kinds


def _or_none(read: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, cursor: None if value is None else read(value, cursor)
