"""The service's env.py. Two lines of it are for memory_sql: 1 and 2."""

from __future__ import annotations

import asyncio
import os

from alembic import context
from service.models import Base
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql.db.migrate import host_include_name, prepare


def migrate(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_schemas=True,
        include_name=host_include_name,  # 1. --autogenerate leaves the schema `memory` alone
    )
    run_migrations()


def print_sql() -> None:
    context.configure(dialect_name="postgresql", literal_binds=True)
    run_migrations()


def run_migrations() -> None:
    with context.begin_transaction():
        prepare()  # 2. upgrades at once take turns, and none waits long for a lock
        context.run_migrations()


async def run() -> None:
    engine = create_async_engine(os.environ["HARBOUR_URL"], poolclass=NullPool)
    async with engine.connect() as connection:
        await connection.run_sync(migrate)
    await engine.dispose()


if context.is_offline_mode():
    print_sql()
else:
    asyncio.run(run())
