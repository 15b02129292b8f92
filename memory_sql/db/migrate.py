"""Alembic, from an installed package as from a checkout. Imported only by commands that need it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection

from memory_sql.db.engine import VERSION_TABLE, connect_once, named_errors
from memory_sql.db.tables import SCHEMA
from memory_sql.errors import SchemaError

LOCK_KEY = 0x6D656D6F7279  # "memory"; two upgrades at once take turns
_PACKAGE = Path(__file__).parents[1]


def scripts() -> Path:
    """The migrations: inside the package when installed from a wheel, beside it in a checkout."""
    shipped = _PACKAGE / "migrations"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "migrations"


def alembic_config(url: str | None = None, output: TextIO | None = None) -> Config:
    config = Config(stdout=output) if output is not None else Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = url
    return config


def upgrade(url: str, revision: str = "head") -> None:
    with _named_errors():
        command.upgrade(alembic_config(url), revision)


def downgrade(url: str, revision: str) -> None:
    with _named_errors():
        command.downgrade(alembic_config(url), revision)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        with named_errors():
            yield
    except CommandError as error:
        raise SchemaError(str(error)) from error


def current(url: str) -> str | None:
    """The revision that the database is at; None without a schema of ours."""
    return asyncio.run(_current(url))


async def _current(url: str) -> str | None:
    with named_errors():
        async with connect_once(url) as connection:
            return await connection.run_sync(_revision)


def _revision(connection: Connection) -> str | None:
    options = {"version_table": VERSION_TABLE, "version_table_schema": SCHEMA}
    return MigrationContext.configure(connection, opts=options).get_current_revision()


def check(url: str) -> str:
    """The revision, if it is this release's; else raises `SchemaError`."""
    found, needed = current(url), head()
    if found is None:
        raise SchemaError("the database has no schema of this release; run `memory-sql db upgrade`")
    if found != needed:
        raise SchemaError(f"the schema is at {found}, this release needs {needed}; run `memory-sql db upgrade`")
    return found


def head() -> str:
    """The newest revision that this release brings."""
    revision = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert revision is not None  # the package ships at least one
    return revision


def is_ours(name: str | None, type_: str, parent_names: Any) -> bool:
    """For `include_name`: keeps other schemas of the database, and the version table, out of autogenerate."""
    if type_ == "schema":
        return name == SCHEMA
    return not (type_ == "table" and name == VERSION_TABLE)
