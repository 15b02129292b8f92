"""Fresh databases for a benchmark: on MEMORY_SQL_BENCH_URL, else on an embedded server of its own.

That has the shared_buffers of MEMORY_SQL_BENCH_BUFFERS, such as 4GB; else Postgres' default, 128 MB.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql import embedded
from memory_sql.db import migrate
from memory_sql.db.urls import asyncpg_url

_AVAILABLE = text("SELECT 1 FROM pg_available_extensions WHERE name = :name")


@contextmanager
def server() -> Iterator[str]:
    """The URL of a server in which databases may be created."""
    url = os.environ.get("MEMORY_SQL_BENCH_URL")
    if url is not None:
        yield url
        return
    buffers = os.environ.get("MEMORY_SQL_BENCH_BUFFERS")
    options = {} if buffers is None else {"shared_buffers": buffers}
    with tempfile.TemporaryDirectory() as folder, embedded.acquire(Path(folder) / "bench", options=options) as running:
        yield running.url


@asynccontextmanager
async def fresh_database(url: str | None = None, *, migrated: bool = True) -> AsyncIterator[str]:
    """The URL of a new database, dropped at the end. It is on the given server, else on one that lives as long."""
    with ExitStack() as stack:
        there = asyncpg_url(stack.enter_context(server()) if url is None else url)
        name = f"memory_sql_bench_{uuid.uuid4().hex[:12]}"
        engine = create_async_engine(there, poolclass=NullPool, isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            await connection.execute(text(f"CREATE DATABASE {name}"))
            fresh = there.set(database=name).render_as_string(hide_password=False)
            if migrated:
                await asyncio.to_thread(migrate.upgrade, fresh)
            yield fresh
            await connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        await engine.dispose()


async def has_extension(url: str, name: str) -> bool:
    """Whether the server's databases can create it."""
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool)
    async with engine.connect() as connection:
        found = await connection.scalar(_AVAILABLE, {"name": name})
    await engine.dispose()
    return found is not None


def plain_url(url: str) -> str:
    """In the form of libpq and asyncpg."""
    return asyncpg_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


async def analyze(url: str) -> None:
    """Collects statistics for the planner, as autovacuum would in time."""
    engine = create_async_engine(asyncpg_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        await connection.execute(text("ANALYZE"))
    await engine.dispose()
