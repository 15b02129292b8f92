"""The rows of a view as CSV, directly from the server."""

from __future__ import annotations

from typing import Any, BinaryIO

from sqlalchemy import column, func, select, table, text
from sqlalchemy.dialects import postgresql
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.ddl import VIEWS
from memory_sql.db.direct import driver_of
from memory_sql.db.models import SCHEMA, MovedAgentRow
from memory_sql.db.naming import in_schema, schema_of
from memory_sql.errors import InputError

OF_NO_AGENT = ("v_imports",)
_DIALECT = postgresql.dialect(paramstyle="numeric_dollar")  # type: ignore[no-untyped-call]
# Times as ISO 8601 in UTC, and all else as by default, whatever the settings of the host's sessions.
FORMS = {"TimeZone": "UTC", "DateStyle": "ISO, YMD", "IntervalStyle": "postgres", "extra_float_digits": "1"}
FORMS |= {"bytea_output": "hex"}
_PLAINLY = select(*(func.set_config(name, value, True) for name, value in FORMS.items()))


async def copy_view(session: AsyncSession, view: str, agent_id: str | None, to: BinaryIO) -> int:
    """Copies the rows of one agent, or of all that haven't left for another shard; returns how many were written.

    Raises `InputError` if `view` isn't one of our views, or the rows can't be written; an error of `to` that isn't the
    system's as it is.
    """

    failures: list[Exception] = []

    async def put(chunk: bytes) -> None:
        """After a failed write the rest is skipped: an error raised here would leave the driver waiting for ever."""
        if not failures:
            try:
                to.write(chunk)
            except Exception as error:  # noqa: BLE001 — of any kind, as of a file of text, or closed; raised below
                failures.append(error)

    if not callable(getattr(to, "write", None)):
        raise InputError(f"to must be a file that takes bytes, not {type(to).__name__}")
    if view not in VIEWS:
        raise InputError(f"there is no view {view!r}; there are {', '.join(VIEWS)}")
    if agent_id is not None and view in OF_NO_AGENT:
        raise InputError(f"{view} is of all agents")
    rows = select(text("*")).select_from(table(view, schema=SCHEMA))
    given: list[Any] = [] if agent_id is None else [agent_id]
    if agent_id is not None:
        rows = rows.where(column("agent_id") == agent_id)
    elif view not in OF_NO_AGENT:
        rows = rows.where(column("agent_id").not_in(select(MovedAgentRow.agent_id)))
    schema = schema_of(session)
    await session.execute(_PLAINLY)
    driver = await driver_of(session)
    copied = await driver.copy_from_query(
        in_schema(str(rows.compile(dialect=_DIALECT)), schema), *given, output=put, format="csv", header=True
    )
    if failures and isinstance(failures[0], OSError):
        raise InputError(f"the rows can't be written: {failures[0].strerror}") from failures[0]
    if failures:
        raise failures[0]
    return int(copied.removeprefix("COPY "))
