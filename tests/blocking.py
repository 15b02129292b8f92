"""Hosts that block: how code with psycopg, psycopg2, Django or SQLAlchemy opens, ends and nests a transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, cast

import django
import psycopg
import psycopg2
import psycopg2.extras
from django.conf import settings
from django.db import connections, transaction
from django.db.utils import ConnectionHandler
from django.db.utils import Error as DjangoError
from psycopg.conninfo import conninfo_to_dict
from psycopg.rows import dict_row, tuple_row
from psycopg.types.numeric import FloatLoader
from psycopg.types.string import TextLoader
from sqlalchemy import create_engine, text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from tests.database import libpq

# Finds a row where a statement of this database waits for a lock; the server has those of other tests too.
WAITING = """
    SELECT 1 FROM pg_locks w JOIN pg_locks l USING (pid) JOIN pg_database d ON d.oid = l.database
    WHERE NOT w.granted AND d.datname = current_database()
"""


class Host:
    """`session`: what is passed as `session=`. `error`: what its driver raises, as the host sees it."""

    error: type[Exception] = psycopg.Error

    def __init__(self, session: Any) -> None:
        self.session = session

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with psycopg.Cursor(self.session, row_factory=tuple_row) as cursor:
            cursor.execute(sql)
            return cursor.fetchall() if cursor.description else []

    def begin(self) -> None:
        """The next transaction, where a statement doesn't begin it."""

    def commit(self) -> None:
        self.session.commit()

    def rollback(self) -> None:
        self.session.rollback()

    def savepoint(self) -> AbstractContextManager[object]:
        """Rolls back to it when an exception passes."""
        return cast("AbstractContextManager[object]", self.session.transaction())


class Psycopg2(Host):
    error = psycopg2.Error

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with psycopg2.extensions.cursor(self.session) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.rows("SAVEPOINT mine")
        try:
            yield
        except BaseException:
            self.rows("ROLLBACK TO SAVEPOINT mine")
            raise
        self.rows("RELEASE SAVEPOINT mine")


class Sqlalchemy(Host):
    error = DBAPIError

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        found = self.session.execute(text(sql))
        return [tuple(row) for row in found] if found.returns_rows else []

    def savepoint(self) -> AbstractContextManager[object]:
        return cast("AbstractContextManager[object]", self.session.begin_nested())


class Django(Host):
    """In `atomic`, which the test ends."""

    error = DjangoError

    def __init__(self, session: Any) -> None:
        super().__init__(session)
        self.begin()

    def begin(self) -> None:
        self.atomic: Any = transaction.atomic(using=self.session.alias)
        self.atomic.__enter__()

    def commit(self) -> None:
        atomic, self.atomic = self.atomic, None
        if atomic is not None:
            atomic.__exit__(None, None, None)

    def rollback(self) -> None:
        if self.atomic is not None:
            transaction.set_rollback(True, using=self.session.alias)
        self.commit()

    def rows(self, sql: str) -> Sequence[tuple[Any, ...]]:
        with self.session.cursor() as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []

    def savepoint(self) -> AbstractContextManager[object]:
        return cast("AbstractContextManager[object]", transaction.atomic(using=self.session.alias))


@contextmanager
def of_psycopg(url: str) -> Iterator[Host]:
    """With rows and types of its own."""
    with closing(psycopg.connect(libpq(url), row_factory=dict_row)) as connection:
        connection.adapters.register_loader("numeric", FloatLoader)
        connection.adapters.register_loader("jsonb", TextLoader)
        connection.adapters.register_loader("timestamptz", TextLoader)
        connection.execute("SET TIME ZONE 'America/New_York'")
        connection.commit()
        yield Host(connection)


@contextmanager
def of_psycopg2(url: str) -> Iterator[Host]:
    """With rows and types of its own."""
    connection = psycopg2.connect(libpq(url), cursor_factory=psycopg2.extras.RealDictCursor)
    with closing(connection):
        plain = psycopg2.extensions.new_type((1700, 3802, 1184), "PLAIN", lambda value, _: value)
        psycopg2.extensions.register_type(plain, connection)
        with connection.cursor() as cursor:
            cursor.execute("SET TIME ZONE 'America/New_York'")
        connection.commit()
        yield Psycopg2(connection)


def of_sqlalchemy(driver: str, opened: Callable[[Any], Any]) -> Callable[[str], AbstractContextManager[Host]]:
    @contextmanager
    def host(url: str) -> Iterator[Host]:
        engine = create_engine(libpq(url, f"postgresql+{driver}"))
        with closing(opened(engine)) as session:
            yield Sqlalchemy(session)
        engine.dispose()

    return host


@contextmanager
def in_django(url: str) -> Iterator[Host]:
    with _connected(url, "memory") as connection:
        host = Django(connection)
        yield host
        host.rollback()


def as_default(url: str) -> AbstractContextManager[object]:
    """Django's `connection` leads there."""
    return _connected(url, "default")


@contextmanager
def _connected(url: str, alias: str) -> Iterator[Any]:
    """Django takes the zone off its times here."""
    if not settings.configured:
        settings.configure(USE_TZ=False, TIME_ZONE="America/New_York")
        django.setup()
    connection = connections[alias] = _django(url, alias)
    yield connection
    connection.close()
    del connections[alias]


def django_place(url: str) -> dict[str, Any]:
    """What a database is in Django's settings."""
    place = conninfo_to_dict(libpq(url))
    named = {"HOST": "host", "PORT": "port", "USER": "user", "PASSWORD": "password", "NAME": "dbname"}
    return {name: place.get(key, "") for name, key in named.items()}


def _django(url: str, alias: str) -> Any:
    engine = {"ENGINE": "django.db.backends.postgresql", **django_place(url)}
    connection = ConnectionHandler({"default": engine})["default"]
    connection.alias = alias
    return connection


HOSTS: dict[str, Callable[[str], AbstractContextManager[Host]]] = {
    "psycopg": of_psycopg,
    "psycopg2": of_psycopg2,
    "django": in_django,
    "session": of_sqlalchemy("psycopg", Session),
    "session2": of_sqlalchemy("psycopg2", Session),
    "scoped": of_sqlalchemy("psycopg", lambda engine: scoped_session(sessionmaker(engine))),
    "connection": of_sqlalchemy("psycopg2", lambda engine: engine.connect()),
}
