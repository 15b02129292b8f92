"""Runs the migrations of schema `memory`, on asyncpg, in one transaction, whoever calls and however many at once.

The version table lives in our schema, so that a database may have a history of its own. `alembic upgrade head --sql`
prints what would be run.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from alembic import context
from sqlalchemy import Connection

from memory_sql import embedded
from memory_sql.config import Settings
from memory_sql.db.engine import connect_once
from memory_sql.db.migrate import (
    CREATE_SCHEMA,
    Translated,
    is_ours,
    prepare,
    refuse_what_others_made,
    schema_of_settings,
)
from memory_sql.db.models import Base
from memory_sql.db.recorded import VERSION_TABLE

OPTIONS: dict[str, Any] = {
    "target_metadata": Base.metadata,
    "version_table": VERSION_TABLE,
    "include_schemas": True,
    "include_name": is_ours,
    "compare_server_default": True,
}


def print_sql() -> None:
    schema = schema_of_settings()
    context.configure(
        dialect_name="postgresql",
        literal_binds=True,
        dialect_opts={"paramstyle": "named"},
        version_table_schema=schema,
        output_buffer=Translated(  # type: ignore[arg-type]  # it has what is used of a file
            context.config.output_buffer or sys.stdout, schema
        ),
        **OPTIONS,
    )
    run_migrations()


def migrate(connection: Connection) -> None:
    context.configure(connection=connection, version_table_schema=schema_of_settings(), **OPTIONS)
    run_migrations(connection)


def run_migrations(connection: Connection | None = None) -> None:
    with context.begin_transaction():
        prepare()
        if connection is not None:
            refuse_what_others_made(connection)
        context.execute(CREATE_SCHEMA)  # for the version table, which is made before the first migration runs
        context.run_migrations()


@contextmanager
def database_url() -> Iterator[str]:
    """The database that the caller names, else that of the settings, else the embedded one while it is needed."""
    settings = Settings.load()
    url = context.config.attributes.get("url") or (settings.url.get_secret_value() if settings.url else None)
    if url is not None:
        yield url
        return
    with embedded.acquire(settings.embedded_data_dir) as server:
        yield server.url


async def run() -> None:
    with database_url() as url:
        async with connect_once(url, schema_of_settings()) as connection:
            await connection.run_sync(migrate)


if context.is_offline_mode():
    print_sql()
else:
    asyncio.run(run())
