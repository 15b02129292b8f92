"""What is in schema `memory` that the library didn't make: it is named, and never touched."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

from sqlalchemy import ColumnElement, Select, Text, and_, cast, column, exists, literal, select, table, union
from sqlalchemy.dialects.postgresql import OID, REGCLASS, pg_catalog
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_sql.db import naming
from memory_sql.db.ddl import AFTER_TABLES, BEFORE_TABLES, VIEWS, script
from memory_sql.db.models import Base
from memory_sql.db.recorded import INSTALLATION, NOT_OURS, VERSION_TABLE, Recorded
from memory_sql.errors import SchemaError

MOST_NAMED = 10
TABLES = {"r": "table", "p": "table", "f": "table", "v": "view", "m": "view", "S": "sequence"}
_relation, _schema, _type = pg_catalog.pg_class, pg_catalog.pg_namespace, pg_catalog.pg_type
_function = table("pg_proc", column("oid"), column("proname"), column("pronamespace"), schema="pg_catalog")
_depends = table("pg_depend", column("classid"), column("objid"), column("deptype"), schema="pg_catalog")


def _independent(catalogue: str, oid: ColumnElement[Any]) -> ColumnElement[bool]:
    """Whether it belongs to no extension and no column."""
    of_it = and_(
        _depends.c.classid == cast(cast(f"pg_catalog.{catalogue}", REGCLASS), OID),
        _depends.c.objid == oid,
        cast(_depends.c.deptype, Text).in_(("a", "i", "e")),
    )
    return ~exists().where(of_it)


def _found(kind: ColumnElement[str], of: Any, name: str, namespace: str) -> Select[Any]:
    """Kind and name of each independent row of a catalogue that lies in the schema."""
    return (
        select(kind, of.c[name])
        .join(_schema, _schema.c.oid == of.c[namespace])
        .where(_schema.c.nspname == naming.SCHEMA, _independent(of.name, of.c.oid))
    )


def _unknown_functions() -> Select[Any]:
    scripts = (*BEFORE_TABLES, *AFTER_TABLES)
    made = {name for one in scripts for name in re.findall(r"FUNCTION memory\.(\w+)", script(one))}
    found = _found(literal("function", Text), _function, "proname", "pronamespace")
    return found.where(_function.c.proname.not_in({*made, "schema_fingerprint"}))


@cache
def unknown(*, fits: bool) -> Any:
    """Asks for kind and name of what is in the schema under a name that isn't one of ours.

    `fits`: the schema is this release's. An older one may have had functions of other names.
    """
    ours = {of.name for of in Base.metadata.tables.values()} | {VERSION_TABLE, INSTALLATION, *VIEWS}
    kind = cast(_relation.c.relkind, Text)
    relations = _found(kind, _relation, "relname", "relnamespace")
    relations = relations.where(kind.in_(TABLES), _relation.c.relname.not_in(ours))
    types = _found(literal("type", Text), _type, "typname", "typnamespace")
    types = types.where(cast(_type.c.typtype, Text).in_(("e", "d")))
    return union(relations, types, *([_unknown_functions()] if fits else []))


@cache
def anything() -> Select[Any]:
    """Asks for kind and name of all relations in the schema, but for a version table."""
    kind = cast(_relation.c.relkind, Text)
    found = _found(kind, _relation, "relname", "relnamespace")
    return found.where(kind.in_(TABLES), _relation.c.relname != VERSION_TABLE)


async def refuse_not_ours(connection: AsyncConnection, found: Recorded) -> None:
    """Raises `SchemaError` if the library didn't make the schema, and there is something in it."""
    if not found.is_ours:
        refuse_whole((await connection.execute(anything())).all())


async def refuse_all_foreign(connection: AsyncConnection, found: Recorded) -> None:
    """Also if there is something else in it."""
    await refuse_not_ours(connection, found)
    beside = (await connection.execute(unknown(fits=found.fits))).all()
    if beside:
        raise SchemaError(
            f"nothing was changed: our schema also holds what memory_sql didn't make ({_named(beside)}); move it"
            " away (ALTER … SET SCHEMA …) or drop it"
        )


def refuse_whole(found: Sequence[Any]) -> None:
    if found:
        raise SchemaError(f"nothing was changed: {NOT_OURS}; it holds {_named(found)}")


def _named(found: Sequence[Any]) -> str:
    names = sorted(f"{TABLES.get(kind, kind)} {name}" for kind, name in found)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
