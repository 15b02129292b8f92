"""The revision of a database's schema, and whether it is that of this release."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, bindparam, cast, column, exists, func, or_, select, table, union_all
from sqlalchemy.dialects.postgresql import OID, pg_catalog
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.ddl import fingerprint
from memory_sql.db.naming import SCHEMA, of_schema
from memory_sql.errors import SchemaError

# The newest migration. Compared at start, so that a release never runs on a schema that it wasn't written for.
REVISION = "c41f8a2e90d6"
UNRELEASED = (
    "this schema was made by an unreleased version of memory_sql, and can't be upgraded; use a new database or data"
    " directory, or `memory-sql db reset`, which deletes everything in it"
)
NOT_OURS = (
    "the schema of this name isn't memory_sql's, which needs one of its own: name another (MEMORY_SQL_SCHEMA), use another"
    " database, or rename yours (ALTER SCHEMA memory RENAME TO …)"
)
MADE_BY_US = "Long-term memory of AI agents (memory_sql)."  # the comment on the schema
VERSION_TABLE = "alembic_version"
INSTALLATION = "installation"  # a table of one row: the id and the key of the database


class Recorded(NamedTuple):
    """The revisions that Alembic recorded. `own`: in our version table; else in the host's, perhaps with ours among them.

    `tables`: there are tables as ours. `fits`: the first schema that made them is that of this release. `marked`: something
    shows that the library made the schema, whichever version it was.
    """

    own: bool
    revisions: Sequence[str]
    tables: bool
    fits: bool
    marked: bool

    @property
    def is_ours(self) -> bool:
        return self.marked or REVISION in self.revisions

    def check(self) -> None:
        """Raises `SchemaError` unless this release's revision is among them and stands for the same schema."""
        if self.tables and not self.is_ours:
            raise SchemaError(NOT_OURS)
        if self.tables and not self.fits:
            raise SchemaError(UNRELEASED)
        if REVISION in self.revisions and self.tables:
            return
        if not self.revisions or REVISION in self.revisions:
            raise SchemaError("the database has no schema of this release; run `memory-sql db upgrade`")
        found = ", ".join(self.revisions)
        if self.own:
            raise SchemaError(f"the schema is at {found}, this release needs {REVISION}; run `memory-sql db upgrade`")
        raise SchemaError(
            f"no version table lists revision {REVISION}, which this release needs (found: {found}); run `memory-sql db"
            " upgrade`, or `alembic upgrade heads` where your Alembic keeps our schema"
        )


async def recorded(session: AsyncSession | AsyncConnection) -> Recorded:
    """The revision of the schema, kept by us in `memory.alembic_version`, or by the host's Alembic in its own table."""
    there = (await session.execute(THERE)).one()
    if there.versions:
        own = (await session.scalars(_listed(DEFAULT_SCHEMA, VERSION_TABLE))).all()
        if own:
            return Recorded(True, own, there.tables, there.fits, there.marked)
    version_tables = (await session.execute(_VERSION_TABLES)).all()
    lists = [_listed(schema, name) for schema, name in version_tables]
    found = (await session.scalars(union_all(*lists))).all() if lists else ()
    return Recorded(False, found, there.tables, there.fits, there.marked)


def _listed(schema: str, name: str) -> Select[Any]:
    return select(table(name, column("version_num"), schema=schema).c.version_num)


# The function says which first schema it was. It is read, not called: an unreleased version doesn't have it.
_function = table("pg_proc", column("oid"), column("prosrc"), schema="pg_catalog")
_made = select(_function.c.prosrc.contains(bindparam("fingerprint", callable_=fingerprint))).where(
    _function.c.oid == func.to_regprocedure(of_schema("schema_fingerprint()"))
)
THERE = select(
    func.to_regclass(of_schema(VERSION_TABLE)).is_not(None).label("versions"),
    func.to_regclass(of_schema("agents")).is_not(None).label("tables"),
    func.coalesce(_made.scalar_subquery(), False).label("fits"),
    or_(
        func.to_regprocedure(of_schema("schema_fingerprint()")).is_not(None),
        func.to_regprocedure(of_schema("installation_id()")).is_not(None),
        func.coalesce(
            func.obj_description(cast(func.to_regnamespace(SCHEMA), OID), "pg_namespace") == MADE_BY_US, False
        ),
    ).label("marked"),
)
_relation, _schema, _key = pg_catalog.pg_class, pg_catalog.pg_namespace, pg_catalog.pg_constraint
_maker = table("pg_proc", column("proname"), column("pronamespace"), schema="pg_catalog")
_of_ours = exists().where(_maker.c.pronamespace == _schema.c.oid, _maker.c.proname == "schema_fingerprint")
# Hosts choose the name of their version table; that of another installation of ours says nothing about this one. Alembic
# names its primary key and its only column.
_VERSION_TABLES = (
    select(_schema.c.nspname, _relation.c.relname)
    .select_from(_relation)
    .join(_schema, _schema.c.oid == _relation.c.relnamespace)
    .join(_key, _key.c.conrelid == _relation.c.oid)
    .join(pg_catalog.pg_attribute, pg_catalog.pg_attribute.c.attrelid == _relation.c.oid)
    .where(
        _key.c.contype == "p",
        _key.c.conname == _relation.c.relname.concat("_pkc"),
        pg_catalog.pg_attribute.c.attname == "version_num",
        or_(_schema.c.nspname == SCHEMA, ~_of_ours),
        func.has_schema_privilege(_schema.c.oid, "USAGE"),
        func.has_table_privilege(_relation.c.oid, "SELECT"),
    )
    .order_by(_schema.c.nspname, _relation.c.relname)
)
