"""Copies the rows of one agent from one database to another, and what has changed since, until both hold the same.

Every table whose rows belong to an agent is copied, found by its column `agent_key`. A pass reads one snapshot of the source;
all that is written at the target is in one transaction, so until that is committed nobody sees it, and a crash leaves none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Table, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, AsyncSession

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.contents import ENTER
from memory_sql.db.engine import connect_once
from memory_sql.db.failures import RAISED
from memory_sql.db.locks import lock_whole_agent
from memory_sql.db.models import Base, ImportRow
from memory_sql.db.naming import in_schema
from memory_sql.db.queries.copied import FORMS
from memory_sql.errors import DatabaseError

CHUNKS = 16  # read ahead, of some 64 kB each
_preparer = postgresql.dialect().identifier_preparer  # type: ignore[no-untyped-call]
_IMPORTS: Any = ImportRow.__table__
TABLES: Sequence[Table] = [table for table in Base.metadata.sorted_tables if "agent_key" in table.c]
"""Each after those that it refers to."""

_SETTINGS = {**FORMS, "statement_timeout": "0", "idle_in_transaction_session_timeout": "0", "memory.copying": "on"}
_ENTER = ", ".join(
    [ENTER.replace(":", "\\:"), *(f"set_config('{name}', '{value}', true)" for name, value in _SETTINGS.items())]
)


@dataclass(frozen=True, slots=True)
class End:
    """A transaction of the owner in one of the databases."""

    connection: AsyncConnection
    schema: str

    async def run(self, sql: str, **given: Any) -> Any:
        return await self.connection.execute(text(sql), given)

    async def value(self, sql: str, **given: Any) -> Any:
        return (await self.run(sql, **given)).scalar()

    async def lock(self, agent_key: int) -> None:
        """Nobody reads, changes or adds anything of the agent under a lock until the transaction ends."""
        async with AsyncSession(bind=self.connection) as session:
            await lock_whole_agent(session, agent_key)

    async def driver(self) -> Any:
        return (await self.connection.get_raw_connection()).driver_connection

    def named(self, sql: str) -> str:
        """As the driver itself needs it, which nobody translates for."""
        return in_schema(sql, self.schema)


@asynccontextmanager
async def owner(
    url: str, schema: str = DEFAULT_SCHEMA, *, snapshot: bool = False, engine: AsyncEngine | None = None
) -> AsyncIterator[End]:
    """A transaction that sees every row and leaves triggers out; `snapshot`: all statements see the same, and only read.

    `engine`: by its connection instead of one of its own. Raises what the caller raised, also if rolling back fails after it.
    """
    failed: BaseException | None = None
    try:
        async with connect_once(url, schema) if engine is None else engine.begin() as connection:
            end = End(connection, schema)
            if snapshot:
                await end.run("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            await end.run(_ENTER)
            try:
                yield end
            except BaseException as error:
                failed = error
                raise
    except RAISED:
        if failed is None:
            raise
    if failed is not None:
        raise failed


@dataclass(frozen=True, slots=True)
class Moving:
    """One agent, copied into `target`, in whose transaction everything stays until it ends."""

    target: End
    agent_key: int

    async def begin(self) -> None:
        for table in (*TABLES, _IMPORTS):
            await self.target.run(
                f"CREATE TEMP TABLE {_staging(table)} ON COMMIT DROP AS"
                f" SELECT {_columns(table)} FROM memory.{_name(table)} WITH NO DATA"
            )

    async def copy(self, source: End, since: int | None = None) -> tuple[int, int]:
        """Copies what the snapshot `source` holds, or what has changed in it since another one.

        Returns how many rows that were, and of which snapshot it was, for the next copy. What has gone meanwhile goes.
        """
        try:
            async with self.target.connection.begin_nested():
                return await self._copy(source, since)
        except IntegrityError:
            if since is None:
                raise
        await delete_all(self.target, self.agent_key)  # such as two that have changed their names with one another
        return await self._copy(source, None)

    async def _copy(self, source: End, since: int | None) -> tuple[int, int]:
        seen = int(await source.value("SELECT (pg_snapshot_xmin(pg_current_snapshot())::text)::bigint"))
        count, tables = 0, TABLES
        if since is not None:
            tables = await self._changed(source, since)
            for table in reversed(tables):
                count += await self._delete_gone(source, table)
        if any("import_id" in table.c for table in tables):
            await self._copy_imports(source)
        for table in tables:
            count += await self._write(source, table, since)
        return count, seen

    async def _changed(self, source: End, since: int) -> list[Table]:
        """Those with a row that has changed or come since then, or with fewer rows than the copy: some have gone."""
        counted = " UNION ALL ".join(
            f"SELECT {n}, count(*), count(*) FILTER (WHERE {_since(since)}) FROM memory.{_name(table)}"
            f" WHERE agent_key = {self.agent_key}"
            for n, table in enumerate(TABLES)
        )
        copied = " UNION ALL ".join(
            f"SELECT {n}, count(*) FROM memory.{_name(table)} WHERE agent_key = {self.agent_key}"
            for n, table in enumerate(TABLES)
        )
        there = {row[0]: (row[1], row[2]) for row in await source.run(counted)}
        here = {row[0]: row[1] for row in await self.target.run(copied)}
        return [table for n, table in enumerate(TABLES) if there[n] != (here[n], 0)]

    async def compare(self, source: End) -> dict[str, int]:
        """The number of rows of each table that has any. Raises `DatabaseError` unless all rows are the same in both."""
        counts: dict[str, int] = {}
        for table in TABLES:
            there, here = await _both(*(_summed(end, table, self.agent_key) for end in (source, self.target)))
            if there != here:
                counted = f"{here[0]:,} rows instead of {there[0]:,}, or other values"
                raise DatabaseError(f"the copy of table {table.name} isn't the same: {counted}")
            if here[0]:
                counts[table.name] = here[0]
        return counts

    async def arrive(self) -> None:
        """What somebody worked on at the source is free."""
        for name in ("scopes", "conversations"):
            await self.target.run(
                f"UPDATE memory.{name} SET lease_until = clock_timestamp()"
                " WHERE agent_key = :agent AND lease_until > clock_timestamp()",
                agent=self.agent_key,
            )

    async def _copy_imports(self, source: End) -> None:
        """What says of an import where its rows come from, which belongs to no agent."""
        brought = " UNION ".join(
            f"SELECT import_id FROM memory.{name} WHERE agent_key = {self.agent_key}"
            for name in ("imported", "imported_messages")
        )
        await self._stage(
            source, _IMPORTS, f"SELECT {_columns(_IMPORTS)} FROM memory.imports WHERE import_id IN ({brought})"
        )
        await self.target.run(
            f"INSERT INTO memory.imports ({_columns(_IMPORTS)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {_columns(_IMPORTS)} FROM {_staging(_IMPORTS)} ON CONFLICT DO NOTHING"
        )

    async def _delete_gone(self, source: End, table: Table) -> int:
        keys = _columns(table, keys=True)
        await self._stage(
            source,
            table,
            f"SELECT {keys} FROM memory.{_name(table)} WHERE agent_key = {self.agent_key}",
            [column.name for column in table.primary_key],
        )
        same = " AND ".join(f"s.{_quoted(c.name)} = t.{_quoted(c.name)}" for c in table.primary_key)
        done = await self.target.run(
            f"DELETE FROM memory.{_name(table)} t WHERE t.agent_key = :agent"
            f" AND NOT EXISTS (SELECT FROM {_staging(table)} s WHERE {same})",
            agent=self.agent_key,
        )
        return int(done.rowcount)

    async def _write(self, source: End, table: Table, since: int | None) -> int:
        changed = "" if since is None else f" AND {_since(since)}"
        await self._stage(
            source,
            table,
            f"SELECT {_columns(table)} FROM memory.{_name(table)} WHERE agent_key = {self.agent_key}{changed}",
        )
        done = await self.target.run(
            f"INSERT INTO memory.{_name(table)} AS t ({_columns(table)}) OVERRIDING SYSTEM VALUE"
            f" SELECT {_columns(table)} FROM {_staging(table)}{_replacing(table)}"
        )
        return int(done.rowcount)

    async def _stage(self, source: End, table: Table, rows: str, columns: Sequence[str] = ()) -> None:
        await self.target.run(f"TRUNCATE {_staging(table)}")
        reader, writer = await source.driver(), await self.target.driver()
        ahead = asyncio.Queue[bytes | None](CHUNKS)

        async def read() -> None:
            try:
                await reader.copy_from_query(source.named(rows), output=put)
            except asyncio.CancelledError:
                reader.terminate()  # asyncpg 0.32 may not have told the server to stop, and fails at the next rows
                raise
            await ahead.put(None)

        async def put(chunk: bytes) -> None:
            await ahead.put(bytes(chunk))

        async def chunks() -> AsyncIterator[bytes]:
            while (chunk := await ahead.get()) is not None:
                yield chunk

        names = columns or [column.name for column in _stored(table)]
        await _both(read(), writer.copy_to_table(_staging(table), columns=names, source=chunks()))


async def _both(*both: Awaitable[Any]) -> list[Any]:
    """What they return. Neither still uses its connection when this ends, also if one fails or is cancelled."""
    tasks = [asyncio.ensure_future(one) for one in both]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def delete_all(end: End, agent_key: int) -> None:
    """Every row of the agent, which is locked, and it itself."""
    for table in reversed(TABLES):
        await end.run(f"DELETE FROM memory.{_name(table)} WHERE agent_key = :agent", agent=agent_key)


async def forget_move(end: End, agent_id: str) -> None:
    """The agent may be here, whether it comes back or hasn't gone."""
    await end.run("DELETE FROM memory.moved_agents WHERE agent_id = :agent", agent=agent_id)


async def _summed(end: End, table: Table, agent_key: int) -> tuple[int, int]:
    """The number of rows, and a sum of their hashes."""
    row = (
        await end.run(
            f"SELECT count(*), coalesce(sum(hashtextextended(ROW({_columns(table)})::text, 0)::numeric), 0)"
            f" FROM memory.{_name(table)} WHERE agent_key = :agent",
            agent=agent_key,
        )
    ).one()
    return int(row[0]), int(row[1])


def _replacing(table: Table) -> str:
    keys = ", ".join(_quoted(column.name) for column in table.primary_key)
    others = [_quoted(column.name) for column in _stored(table) if column.name not in table.primary_key.columns]
    if not others:
        return f" ON CONFLICT ({keys}) DO NOTHING"
    values = ", ".join(f"{name} = excluded.{name}" for name in others)
    old, new = (", ".join(f"{of}.{name}" for name in others) for of in ("t", "excluded"))
    return f" ON CONFLICT ({keys}) DO UPDATE SET {values} WHERE ROW({old}) IS DISTINCT FROM ROW({new})"


def _since(seen: int) -> str:
    """Of a row: written since that snapshot, or while it was taken."""
    return f"age(xmin) <= age('{seen % 2**32}'::xid)"


def _stored(table: Table) -> list[Any]:
    """The columns that are no function of others."""
    return [column for column in table.columns if column.computed is None]


def _columns(table: Table, *, keys: bool = False) -> str:
    return ", ".join(_quoted(column.name) for column in (table.primary_key if keys else _stored(table)))


def _quoted(name: str) -> str:
    return str(_preparer.quote(name))


def _name(table: Table) -> str:
    return _quoted(table.name)


def _staging(table: Table) -> str:
    return f"moving_{table.name}"
