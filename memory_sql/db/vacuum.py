"""Frees the space that forgotten texts still occupy in the files of the database."""

from __future__ import annotations

from sqlalchemy import text
from sqlalchemy.pool import NullPool

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.engine import engine_to
from memory_sql.db.failures import named_errors
from memory_sql.db.urls import asyncpg_url

# These remove what is left in old row versions and index entries. Each runs outside a transaction.
WITH_TEXT = (
    "messages",
    "observations",
    "observation_states",
    "observation_vectors",
    "observation_episodes",
    "links",
    "consolidations",
    "scopes",
    "prompts",
    "runs",
    "events",
    "holds",
)
PHYSICAL = (
    *(
        f"VACUUM (ANALYZE) memory.{table}"
        for table in (*WITH_TEXT, "evidence", "lineage", "judged", "members", "conversations", "episodes", "rechecked")
    ),
    *(f"REINDEX TABLE CONCURRENTLY memory.{table}" for table in WITH_TEXT),
)


async def vacuum(url: str, schema: str = DEFAULT_SCHEMA) -> None:
    """Frees the space of what was forgotten; others can read and write meanwhile."""
    engine = engine_to(asyncpg_url(url), {}, schema, poolclass=NullPool, isolation_level="AUTOCOMMIT")
    try:
        with named_errors():
            async with engine.connect() as connection:
                for statement in PHYSICAL:
                    await connection.execute(text(statement))
    finally:
        await engine.dispose()
