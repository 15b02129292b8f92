"""Databases that are emptied after a test and given to the next one, instead of being made and dropped for each.

What has to be emptied is read from the catalogue; what the migrations put there is read from an unused database. If a
test changed anything but rows, the system catalogues show it, since they record every table, function, grant and
statistic. Unless the catalogues are again as they were, as after a temporary table, its database is then dropped.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from memory_sql.db.naming import quoted
from memory_sql.db.urls import asyncpg_url

# Errors of a database that a test has dropped, renamed or closed to us.
GONE = (
    asyncpg.InvalidCatalogNameError,
    asyncpg.OperatorInterventionError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    OSError,
)
SCHEMA = "memory"  # another with --schema
PATIENCE_MS = 10_000  # how long to wait for a session to end
_numbers = itertools.count(1)

TABLES = """
SELECT tablename FROM pg_tables WHERE schemaname = $1 ORDER BY tablename
"""
SEQUENCES = """
SELECT sequencename, coalesce(last_value, start_value), last_value IS NOT NULL
FROM pg_sequences WHERE schemaname = $1 ORDER BY sequencename
"""
# For a table that was never vacuumed the planner expects ten pages. A smaller table keeps its dead rows, so that it stays
# that way and the plans of kept connections stay valid. Planning costs most tests more than all other work of the server.
USED = """
SELECT c.relname, pg_relation_size(c.oid) > $2 OR c.reltuples <> -1 FROM pg_class c
WHERE c.relnamespace = quote_ident($1)::regnamespace AND c.relkind = 'r' AND pg_relation_size(c.oid) > 0
"""
SMALL = 8 * 8192
# VACUUM frees the pages of an emptied table but not those of its indexes, whose size the planner uses.
LARGEST = """
SELECT coalesce(max(pg_relation_size(indexrelid)), 0) FROM pg_index JOIN pg_class c ON c.oid = indrelid
WHERE c.relnamespace = quote_ident($1)::regnamespace
"""
LARGEST_KEPT = 64 * 1024
# Settings and grants of the database itself are in catalogues of the whole server, together with other databases'.
SHARED_CATALOGUES = """
SELECT 'setting', setrole::text, xmin::text FROM pg_db_role_setting
WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL SELECT 'database', datname, xmin::text FROM pg_database WHERE datname = current_database()
"""
# How many changes each catalogue has had. A session's share is added when it ends, or is told to flush it.
CATALOGUES = """
SELECT oid::regclass::text, '',
       (pg_stat_get_tuples_inserted(oid) + pg_stat_get_tuples_updated(oid) + pg_stat_get_tuples_deleted(oid))::text
FROM pg_class WHERE relnamespace = 'pg_catalog'::regnamespace AND relkind = 'r' AND NOT relisshared
"""
# The planner's estimates aren't a change; `restore` looks after them.
ROWS = {
    "pg_class": "(to_jsonb(t) - '{relpages,reltuples,relallvisible,relallfrozen,relfrozenxid,relminmxid}'::text[])::text",
    "pg_namespace": "CASE WHEN nspname !~ '^pg_(toast_)?temp_' THEN t::text END",
}
CATALOGUE = "SELECT md5(coalesce(string_agg(row, ' ' ORDER BY row), '')) FROM (SELECT {row} AS row FROM {name} t) rows"
COUNT_OFF = "SELECT pg_stat_force_next_flush()"
END_OTHERS = """
SELECT pid, pid = ANY ($1::int[]) OR pg_terminate_backend(pid, $2)
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
# If VACUUM saw a table empty, the planner expects it to stay empty. For a new table it expects some pages.
FRESH = """
UPDATE pg_class SET reltuples = -1
WHERE relnamespace = quote_ident($1)::regnamespace AND relkind = 'r' AND reltuples = 0
"""


def of_schema(name: str) -> str:
    """The relation, within a literal."""
    return f'{quoted(SCHEMA)}."{name}"'.replace("'", "''")


def named(url: str, database: str) -> str:
    return asyncpg_url(url).set(database=database).render_as_string(hide_password=False)


async def connect(url: str) -> Any:
    return await asyncpg.connect(asyncpg_url(url).set(drivername="postgresql").render_as_string(hide_password=False))


async def administer(url: str, *statements: str) -> None:
    connection = await connect(url)
    try:
        for statement in statements:
            await connection.execute(statement)
    finally:
        await connection.close()


async def copy(server_url: str, source: str, name: str) -> str:
    """Copies a database and returns the URL of the copy.

    Ends the sessions of the original: Postgres copies only idle databases.
    """
    end = "SELECT pg_terminate_backend(pid, {}) FROM pg_stat_activity WHERE datname = '{}'"
    await administer(server_url, end.format(PATIENCE_MS, source), f"CREATE DATABASE {name} TEMPLATE {source}")
    return named(server_url, name)


@dataclass(frozen=True, slots=True)
class Contents:
    """What the migrations leave in the schema: tables with their rows, and the positions of sequences."""

    tables: Sequence[str]
    rows: dict[str, bytes]
    sequences: Sequence[tuple[str, int, bool]]

    @classmethod
    async def read(cls, connection: Any) -> Contents:
        tables = [name for (name,) in await connection.fetch(TABLES, SCHEMA)]
        rows = {}
        for table in tables:
            copied = BytesIO()
            await connection.copy_from_table(table, schema_name=SCHEMA, output=copied)
            rows[table] = copied.getvalue()
        sequences = [tuple(row) for row in await connection.fetch(SEQUENCES, SCHEMA)]
        return cls(tables, {table: copied for table, copied in rows.items() if copied}, sequences)

    async def restore(self, connection: Any) -> bool:
        """Restores the contents as a replica, so that no trigger fires and the order of tables doesn't matter.

        Returns whether that changed a catalogue.
        """
        used = {f'{quoted(SCHEMA)}."{table}"': grown for table, grown in await connection.fetch(USED, SCHEMA, SMALL)}
        emptying = "".join(f"DELETE FROM {table};" for table in used)
        counting = "".join(
            f"SELECT setval('{of_schema(name)}', {value}, {str(called).lower()});"
            for name, value, called in self.sequences
        )
        async with connection.transaction():
            await connection.execute(f"SET LOCAL session_replication_role = replica; {emptying} {counting}")
            for table, copied in self.rows.items():
                await connection.copy_to_table(table, schema_name=SCHEMA, source=BytesIO(copied))
        grown = [table for table, has_grown in used.items() if has_grown]
        if grown:
            await connection.execute(f"VACUUM {', '.join(grown)}")
            await connection.execute(FRESH, SCHEMA)
            await connection.execute(COUNT_OFF)
        return bool(grown)


Fingerprint = frozenset[tuple[str, ...]]


async def fingerprint(connection: Any) -> Fingerprint:
    """The number of changes of each system catalogue. It differs if anything but rows has changed."""
    rows = await connection.fetch(f"{CATALOGUES} UNION ALL {SHARED_CATALOGUES}")
    return frozenset(tuple(row) for row in rows)


async def catalogue(connection: Any, name: str) -> str:
    """A hash of all rows of a catalogue, but for the namespaces of temporary tables, which stay when these have gone."""
    digest: str = await connection.fetchval(CATALOGUE.format(name=name, row=ROWS.get(name, "t::text")))
    return digest


@dataclass(slots=True)
class Kept:
    """A database, a superuser's connection to it, and its catalogues' fingerprint from when it was clean."""

    url: str
    connection: Any
    clean: Fingerprint


@dataclass(slots=True)
class Databases:
    """The databases of one worker, copies of one template. One is made if none is free."""

    server_url: str
    template: str
    contents: Contents | None = None
    catalogues: dict[str, str] = field(default_factory=dict)
    free: list[Kept] = field(default_factory=list)
    taken: dict[str, Kept] = field(default_factory=dict)
    dropped: int = 0

    async def take(self) -> str:
        """The URL, for a superuser, of a database with what the migrations leave, which nobody else uses."""
        kept = self.free.pop() if self.free else await self._make()
        self.taken[kept.url] = kept
        return kept.url

    async def give_back(self, url: str, spared: Collection[int] = ()) -> bool:
        """Returns whether it was kept. Ends every session except those of the `spared` processes."""
        kept = self.taken.pop(url)
        if await self._cleaned(kept, spared):
            self.free.append(kept)
            return True
        self.dropped += 1
        await self._drop(kept)
        return False

    async def close(self) -> None:
        while self.free:
            await self._drop(self.free.pop())

    async def _make(self) -> Kept:
        name = f"memory_sql_recycled_{os.getpid()}_{next(_numbers)}"
        await administer(self.server_url, f"CREATE DATABASE {name} TEMPLATE {self.template}")
        url = named(self.server_url, name)
        connection = await connect(url)
        clean = await fingerprint(connection)
        if self.contents is None:
            self.contents = await Contents.read(connection)
            self.catalogues = {name: await catalogue(connection, name) for name, kind, _ in clean if not kind}
        return Kept(url, connection, clean)

    async def _cleaned(self, kept: Kept, spared: Collection[int]) -> bool:
        """False if a test has changed it, or left it in a state in which it can't be cleaned."""
        assert self.contents is not None
        try:
            await self._reconnect(kept)
            ended = await kept.connection.fetch(END_OTHERS, list(spared), PATIENCE_MS)
            if not all(gone for _, gone in ended):
                return False
            changed = {name for name, *_ in await fingerprint(kept.connection) ^ kept.clean}
            if not await self._is_as_made(kept.connection, changed):
                return False
            if changed:  # else whoever looks something up in them reads the dead rows of many tests
                await kept.connection.execute(f"VACUUM {', '.join(changed)}")
                await kept.connection.execute(COUNT_OFF)
            has_changed = await self.contents.restore(kept.connection) or bool(changed)
            if await kept.connection.fetchval(LARGEST, SCHEMA) > LARGEST_KEPT:
                return False
            if has_changed:
                kept.clean = await fingerprint(kept.connection)
        except GONE:
            return False
        return True

    async def _is_as_made(self, connection: Any, changed: Collection[str]) -> bool:
        """Whether what has changed is as it was: the test had temporary tables, or took back what it did."""
        for name in changed:
            if name not in self.catalogues or await catalogue(connection, name) != self.catalogues[name]:
                return False
        return True

    @staticmethod
    async def _reconnect(kept: Kept) -> None:
        """In case a test has ended our session too, which the driver may notice only when it sends something."""
        try:
            await kept.connection.execute("SELECT 1")
        except GONE:
            kept.connection = await connect(kept.url)

    async def _drop(self, kept: Kept) -> None:
        kept.connection.terminate()
        name = asyncpg_url(kept.url).database
        await administer(self.server_url, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
