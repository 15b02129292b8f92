"""A fresh migrated database for a benchmark: on MEMORY_SQL_BENCH_URL, else on an embedded server of its own."""

from __future__ import annotations

import asyncio
import os
import tempfile
import uuid
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import NullPool

from memory_sql import embedded
from memory_sql.db import migrate
from memory_sql.db.engine import asyncpg_url


@asynccontextmanager
async def fresh_database() -> AsyncIterator[str]:
    with ExitStack() as stack:
        url = os.environ.get("MEMORY_SQL_BENCH_URL")
        if url is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "bench"
            url = stack.enter_context(embedded.acquire(folder)).url
        name = f"memory_sql_bench_{uuid.uuid4().hex[:12]}"
        engine = create_async_engine(asyncpg_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
        async with engine.connect() as server:
            await server.execute(text(f"CREATE DATABASE {name}"))
            fresh = asyncpg_url(url).set(database=name).render_as_string(hide_password=False)
            await asyncio.to_thread(migrate.upgrade, fresh)
            yield fresh
            await server.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
        await engine.dispose()
