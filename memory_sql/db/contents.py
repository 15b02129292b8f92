"""What a database holds, whichever version made its schema: checked before any of it is dropped."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from sqlalchemy import and_, column, func, literal, select, table, text, union_all
from sqlalchemy.dialects.postgresql import pg_catalog
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db import naming
from memory_sql.db.engine import connect_once
from memory_sql.db.failures import named_errors
from memory_sql.db.foreign import refuse_not_ours
from memory_sql.db.models import SCHEMA
from memory_sql.db.recorded import INSTALLATION, VERSION_TABLE, recorded
from memory_sql.errors import HeldError

# Where `db roles` has forced the walls on the owner too, a migration would find no rows to change. This does by hand what
# memory.enter does, since that function doesn't exist in the first migrations.
ENTER = (
    "SELECT set_config('memory.principal',"
    """ extract(epoch FROM transaction_timestamp())::text || ' {"serves_all": true }', true)"""
)
_HOLDS = "holds"
_relation, _schema, _column = pg_catalog.pg_class, pg_catalog.pg_namespace, pg_catalog.pg_attribute
_TABLES = (
    select(_relation.c.relname, func.count(_column.c.attname).label("ends"))
    .join(_schema, _schema.c.oid == _relation.c.relnamespace)
    .outerjoin(_column, and_(_column.c.attrelid == _relation.c.oid, _column.c.attname == "released_at"))
    .where(
        _schema.c.nspname == naming.SCHEMA,
        _relation.c.relkind.in_(("r", "p")),
        _relation.c.relname.not_in((VERSION_TABLE, INSTALLATION)),
    )
    .group_by(_relation.c.relname)
    .order_by(_relation.c.relname)
)


@dataclass(frozen=True, slots=True)
class Contents:
    """`rows`: the number of rows of each table that has any. `holds`: open legal holds."""

    rows: Mapping[str, int]
    holds: int

    def __bool__(self) -> bool:
        return bool(self.rows)

    def __str__(self) -> str:
        return ", ".join(f"{count:,} {name}" for name, count in self.rows.items()) or "nothing"

    def refuse_held(self) -> None:
        """Raises `HeldError` if a legal hold is open."""
        if self.holds:
            raise HeldError(self.holds)


async def contents(url: str, schema: str = DEFAULT_SCHEMA) -> Contents:
    """Empty if the database has no such schema. Raises `SchemaError` if that isn't the library's."""
    with named_errors():
        async with connect_once(url, schema) as connection:
            await refuse_not_ours(connection, await recorded(connection))
            return await contents_of(connection)


async def contents_of(connection: AsyncConnection) -> Contents:
    """Counts every table, in the caller's transaction."""
    await connection.execute(text(ENTER))
    tables = (await connection.execute(_TABLES)).all()
    if not tables:
        return Contents({}, 0)
    counted = [
        select(literal(row.relname), func.count()).select_from(table(row.relname, schema=SCHEMA)) for row in tables
    ]
    rows = {name: count for name, count in await connection.execute(union_all(*counted)) if count}
    ending = any(row.relname == _HOLDS and row.ends for row in tables)
    return Contents(rows, await _open_holds(connection) if ending else rows.get(_HOLDS, 0))


async def _open_holds(connection: AsyncConnection) -> int:
    holds = table(_HOLDS, column("released_at"), schema=SCHEMA)
    found = await connection.scalar(select(func.count()).select_from(holds).where(holds.c.released_at.is_(None)))
    return found or 0
