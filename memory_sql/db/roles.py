"""The roles of a database with walls: `make.sql` and `drop.sql`, with the names that a host chooses.

Roles belong to the whole cluster, so no migration creates them; see docs/security.md.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from importlib.resources import files

from sqlalchemy import bindparam, column, func, select, table
from sqlalchemy.ext.asyncio import AsyncConnection

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.engine import connect_once
from memory_sql.db.failures import named_errors
from memory_sql.db.foreign import refuse_all_foreign, refuse_not_ours
from memory_sql.db.models import Base
from memory_sql.db.naming import SCHEMA, in_schema
from memory_sql.db.recorded import recorded
from memory_sql.errors import InputError

LOCK_TIMEOUT = "3s"  # every table is altered; waiting for a long transaction would make everybody else wait too
_LONGEST = 63  # bytes of a name; Postgres would truncate longer ones


@dataclass(frozen=True, slots=True)
class Roles:
    """The names of the roles; `make.sql` describes them."""

    owner: str
    app: str
    eraser: str
    reader: str
    analyst: str
    content: str

    @classmethod
    def of(cls, owner: str, app: str, analyst: str) -> Roles:
        """The other names are derived from these. Raises `InputError` for names that are equal or too long."""
        roles = cls(owner, app, f"{app}_eraser", f"{app}_reader", analyst, f"{analyst}_content")
        names = list(asdict(roles).values())
        if len(set(names)) < len(names):
            raise InputError("each role needs a different name")
        if any(not 0 < len(name.encode()) <= _LONGEST or "\x00" in name for name in names):
            raise InputError(f"the name of a role has 1 to {_LONGEST} bytes, including the endings that are added")
        return roles


def script(roles: Roles, *, drop: bool = False, schema: str = DEFAULT_SCHEMA) -> str:
    """The script that `make` or `drop` runs, for psql."""
    given = _setting(roles).replace("'", "''")
    return (
        f"BEGIN;\nSET LOCAL lock_timeout = '{LOCK_TIMEOUT}';\nSET LOCAL client_min_messages = warning;\n"
        f"SELECT set_config('memory.roles', '{given}', true);\n\n{in_schema(_sql(drop), schema).rstrip()};\n\nCOMMIT;\n"
    )


async def make(url: str, roles: Roles, schema: str = DEFAULT_SCHEMA) -> bool:
    """Creates the roles and assigns their objects, in one transaction; False: there is no schema, so only roles were created.

    Raises `DatabaseError`, and `SchemaError` if anything in the schema isn't ours: it would get another owner.
    """
    with named_errors():
        async with connect_once(url, schema) as connection:
            await refuse_all_foreign(connection, await recorded(connection))
            await _run(connection, roles, drop=False)
            return bool(await connection.scalar(_HAS_SCHEMA))


async def drop(url: str, roles: Roles, schema: str = DEFAULT_SCHEMA) -> list[str]:
    """Reverses `make`; returns the roles that remain because they can log in or another database needs them."""
    with named_errors():
        async with connect_once(url, schema) as connection:
            await refuse_not_ours(connection, await recorded(connection))
            await _run(connection, roles, drop=True)
            names = list(asdict(roles).values())
            left = await connection.scalars(select(_roles.c.rolname).where(_roles.c.rolname.in_(names)))
            return sorted(left)


async def _run(connection: AsyncConnection, roles: Roles, *, drop: bool) -> None:
    await connection.execute(_SET, {"name": "lock_timeout", "value": LOCK_TIMEOUT})
    await connection.execute(_SET, {"name": "memory.roles", "value": _setting(roles)})
    await connection.exec_driver_sql(_sql(drop))


def _sql(drop: bool) -> str:
    return (files(__package__) / "sql" / "roles" / ("drop.sql" if drop else "make.sql")).read_text("utf-8")


def _setting(roles: Roles) -> str:
    return json.dumps({"names": asdict(roles), "erase": erased_columns()})


def erased_columns() -> list[str]:
    """`table.column` of each column that may hold remembered text, as `models/` declares it."""
    return [
        f"{of.name}.{item.name}"
        for of in Base.metadata.sorted_tables
        for item in of.columns
        if item.info.get("text") == "erase"
    ]


_roles = table("pg_roles", column("rolname"), schema="pg_catalog")
_HAS_SCHEMA = select(func.to_regnamespace(SCHEMA).is_not(None))
_SET = select(func.set_config(bindparam("name"), bindparam("value"), True))
