"""Alembic, from an installed package or a checkout. Imported only by commands that need it.

A host whose own Alembic keeps this schema as a branch of its history, or compares the whole database, uses `scripts`,
`prepare`, `host_include_name` and `host_include_object` in its env.py; see docs/deploying.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TextIO

from alembic import command, context
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import Connection, event, func, select, text
from sqlalchemy.schema import DropSchema

from memory_sql.config import Settings
from memory_sql.db.contents import ENTER, Contents, contents, contents_of
from memory_sql.db.ddl import scripts as scripts
from memory_sql.db.engine import connect_once
from memory_sql.db.failures import named_errors
from memory_sql.db.foreign import anything, refuse_all_foreign, refuse_whole
from memory_sql.db.models import SCHEMA, Base
from memory_sql.db.naming import OURS, in_schema, names_schema, translating_ours
from memory_sql.db.recorded import (
    INSTALLATION,
    MADE_BY_US,
    REVISION,
    THERE,
    UNRELEASED,
    VERSION_TABLE,
    Recorded,
    recorded,
)
from memory_sql.errors import ConfigurationError, InputError, SchemaError

LOCK_KEY = 0x6D656D6F7279  # "memory"; concurrent upgrades take turns
LOCK_TIMEOUT = "3s"
NAME = "memory_sql_schema"  # among the attributes of a `Config`
DROP = "drop"  # the value in `alembic -x memory_sql=drop`
# CREATE SCHEMA IF NOT EXISTS requires the right to create schemas even if the schema exists.
CREATE_SCHEMA = f"""DO $$ BEGIN
    IF to_regnamespace('{SCHEMA}') IS NULL THEN
        CREATE SCHEMA {SCHEMA};
        COMMENT ON SCHEMA {SCHEMA} IS '{MADE_BY_US}';
    END IF;
END $$"""
# So that no hold can be placed between the check for holds and the drop.
LOCK_HOLDS = f"""DO $$ BEGIN
    IF to_regclass('{SCHEMA}.holds') IS NOT NULL THEN
        LOCK TABLE {SCHEMA}.holds IN ACCESS EXCLUSIVE MODE;
    END IF;
END $$"""
_KEPT_BY_THE_HOST = (
    "the schema is there, but `memory-sql db upgrade` hasn't made it: where your Alembic keeps it as a branch,"
)


def alembic_config(url: str | None = None, output: TextIO | None = None, schema: str | None = None) -> Config:
    config = Config(stdout=output) if output is not None else Config()
    config.set_main_option("script_location", str(scripts()).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["url"] = url
    config.attributes[NAME] = schema
    return config


def upgrade(url: str, revision: str = "head", *, schema: str = SCHEMA) -> None:
    with _named_errors():
        command.upgrade(alembic_config(url, schema=schema), revision)


def downgrade(url: str, revision: str, *, drop: bool = False, schema: str = SCHEMA) -> None:
    """Raises `HeldError` while a legal hold is open, and `InputError` if anything is remembered, unless `drop` allows
    deleting it.
    """
    held = asyncio.run(contents(url, schema))
    held.refuse_held()
    if held and not drop:
        raise InputError(
            f"nothing was changed: what the older schema can't store would be lost, of {held}; pass drop=True"
        )
    config = alembic_config(url, schema=schema)
    config.attributes["memory_sql"] = DROP if drop else None
    with _named_errors():
        command.downgrade(config, revision)


def reset(url: str, *, schema: str = SCHEMA) -> None:
    """Drops the schema with all that is in it and all that refers to it, and creates it again.

    Raises `HeldError` while a legal hold is open, and `SchemaError` if the host's Alembic keeps the schema (its version
    table would still list our revision), or if anything in the schema isn't ours.
    """
    asyncio.run(_drop(url, schema))
    upgrade(url, schema=schema)


async def _drop(url: str, schema: str) -> None:
    with named_errors():
        async with connect_once(url, schema) as connection:
            found = await recorded(connection)
            await refuse_all_foreign(connection, found)
            if found.tables and not found.own:
                raise SchemaError(f'{_KEPT_BY_THE_HOST} see "Starting over" in docs/deploying.md')
            await connection.execute(select(func.pg_advisory_xact_lock(LOCK_KEY)))
            await connection.execute(select(func.set_config("lock_timeout", LOCK_TIMEOUT, True)))
            await connection.execute(text(LOCK_HOLDS))
            (await contents_of(connection)).refuse_held()
            await connection.execute(DropSchema(SCHEMA, cascade=True, if_exists=True))


async def contents_to_drop(url: str, schema: str = SCHEMA) -> Contents:
    """What `reset` would delete. Raises `SchemaError` as it does."""
    with named_errors():
        async with connect_once(url, schema) as connection:
            await refuse_all_foreign(connection, await recorded(connection))
            return await contents_of(connection)


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        with named_errors():
            yield
    except CommandError as error:
        raise SchemaError(str(error)) from error


def current(url: str, *, schema: str = SCHEMA) -> str | None:
    """The revision of the library's schema in the database; None if there is no such schema."""
    found = asyncio.run(_recorded(url, schema))
    ours = found.revisions if found.own else [revision for revision in found.revisions if revision in _known()]
    return ours[0] if ours else None


async def _recorded(url: str, schema: str) -> Recorded:
    with named_errors():
        async with connect_once(url, schema) as connection:
            return await recorded(connection)


def _known() -> set[str]:
    return {script.revision for script in ScriptDirectory.from_config(alembic_config()).walk_revisions()}


def check(url: str, *, schema: str = SCHEMA) -> str:
    """Returns the revision if it is this release's; otherwise raises `SchemaError`."""
    asyncio.run(_recorded(url, schema)).check()
    return REVISION


def head() -> str:
    """The newest revision of this release."""
    revision = ScriptDirectory.from_config(alembic_config()).get_current_head()
    assert revision is not None  # the package ships at least one
    return revision


def is_ours(name: str | None, type_: str, parent_names: Any) -> bool:
    """For `include_name`: keeps other schemas, and tables that aren't mapped, out of autogenerate."""
    if type_ == "schema":
        return name == schema_of_settings()
    return not (type_ == "table" and name in (VERSION_TABLE, INSTALLATION))


def schema_of_settings() -> str:
    """The name of our schema: what a caller in Python has put into the `Config`, else the setting."""
    config = getattr(context, "config", None)  # only where Alembic runs
    given: str | None = config.attributes.get(NAME) if config is not None else None
    return given or Settings.load().schema


class Translated(NamedTuple):
    """What `alembic upgrade --sql` writes to, statement by statement."""

    output: TextIO
    schema: str

    def write(self, sql: str) -> None:
        self.output.write(in_schema(sql, self.schema))

    def flush(self) -> None:
        self.output.flush()


def prepare() -> None:
    """For an env.py, first thing in `context.begin_transaction()`: concurrent upgrades take turns, and none waits long.

    What our migrations send is sent for the schema of the settings; nothing else is. Waiting for another upgrade is fine;
    queueing behind a long transaction would block everybody who comes after.
    """
    schema = schema_of_settings()
    if context.is_offline_mode():
        if schema != SCHEMA and not isinstance(context.get_context().impl.output_buffer, Translated):
            raise ConfigurationError(
                f"--sql prints the schema {SCHEMA} only; upgrade online where MEMORY_SQL_SCHEMA names another"
            )
    elif schema != SCHEMA and not names_schema(context.get_bind().engine, schema):
        event.listen(context.get_bind(), "before_cursor_execute", translating_ours(schema), retval=True)
    context.execute(f"SELECT pg_advisory_xact_lock({LOCK_KEY})")
    context.execute(f"SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'")
    context.execute("SET LOCAL standard_conforming_strings = on")  # whatever the host has set: backslashes are meant
    context.execute(ENTER, execution_options={OURS: True})
    if not context.is_offline_mode():  # Alembic has set it on the connection, which is the host's
        context.get_bind().execution_options(**{OURS: False})


def refuse_what_others_made(connection: Connection) -> None:
    """Raises `SchemaError` if our tables exist and can't be upgraded from here, or the schema is somebody else's.

    Either our version table doesn't list them, because the host's Alembic keeps them, or another first schema made them.
    """
    there = connection.execute(THERE).one()
    options = {"version_table": VERSION_TABLE, "version_table_schema": schema_of_settings()}
    own = MigrationContext.configure(connection, opts=options).get_current_heads()
    if not there.marked and not _known() & {*own}:
        refuse_whole(connection.execute(anything()).all())
    if there.tables and not own:
        raise SchemaError(f"{_KEPT_BY_THE_HOST} run `alembic upgrade heads`")
    if there.tables and not there.fits:
        raise SchemaError(UNRELEASED)


def host_include_name(name: str | None, type_: str, parent_names: Any) -> bool:
    """For the host's `include_name`: with `include_schemas`, keeps our schema out of autogenerate, without reading it."""
    return not (type_ == "schema" and name == schema_of_settings())


def host_include_object(object_: Any, name: str | None, type_: str, reflected: bool, compare_to: Any) -> bool:
    """For the host's `include_object`: keeps our tables out of autogenerate, including those in the host's metadata."""
    table = object_ if type_ == "table" else object_.table
    ours = schema_of_settings()
    if ours == SCHEMA or reflected:
        return bool(table.schema != ours)
    return (
        table.schema != SCHEMA or f"{SCHEMA}.{table.name}" not in Base.metadata.tables
    )  # a host may have that schema too


async def renew(url: str, schema: str = SCHEMA) -> str:
    """Gives the database an id of its own, which it returns. Only its owner may."""
    async with connect_once(url, schema) as connection:
        return str(await connection.scalar(select(func.memory.renew_installation())))
