"""Vectors of observations, in a table that not every database has: `enable.sql` makes it, `disable.sql` takes it back.

It is no part of the migrations: it needs the extension pgvector, which is often not to be had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from sqlalchemy import (
    ARRAY,
    REAL,
    BigInteger,
    Boolean,
    Integer,
    Text,
    and_,
    bindparam,
    case,
    cast,
    column,
    exists,
    func,
    or_,
    select,
    table,
    true,
)
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.dialects.postgresql import pg_catalog
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

from memory_sql.db.engine import connect_once
from memory_sql.db.failures import named_errors
from memory_sql.db.models import SCHEMA, AgentRow, ObservationRow, ObservationStateRow, ScopeRow
from memory_sql.errors import ConfigurationError, SchemaError

TABLE = "observation_vectors"
ERASED = (f"{TABLE}.embedding",)  # what may hold remembered text, beside the columns of `models/`
EXTENSION = "vector"
LEAST_VERSION = (0, 7)  # of pgvector, the first with vectors of two bytes a number
LOCK_TIMEOUT = "3s"


@dataclass(frozen=True, slots=True)
class Vectors:
    """The table of a database. `usable`: this role may write to it and ask it; `walled`: so are the other tables."""

    dimensions: int
    usable: bool
    walled: bool


@dataclass(frozen=True, slots=True)
class Unembedded:
    """An observation that has no vector of the model that was asked for."""

    agent_key: int
    scope_id: int
    seq: int
    speaker: str | None
    content: str


async def enable(url: str, dimensions: int) -> Vectors:
    """Makes the extension, the table and `memory.similar`, or brings them up to date; what is filled stays.

    Raises `ConfigurationError` where the extension can't be had, or where the table has other dimensions.
    """
    with named_errors():
        async with connect_once(url) as connection:
            await connection.execute(_LIMIT)
            schema = await _extension(connection)
            found = await find_vectors(connection)
            if found is not None and found.dimensions != dimensions:
                raise ConfigurationError(
                    f"the table of vectors has {found.dimensions} dimensions, not {dimensions}; `memory-sql db vectors"
                    " disable` takes it back, with what is in it"
                )
            await _run(connection, "enable", {"@schema@": schema, "@dimensions@": str(dimensions)})
            made = await find_vectors(connection)
    assert made is not None  # it was made in this transaction
    return made


async def disable(url: str) -> bool:
    """Whether there were any."""
    with named_errors():
        async with connect_once(url) as connection:
            await connection.execute(_LIMIT)
            found = await find_vectors(connection)
            await _run(connection, "disable", {})
    return found is not None


async def status(url: str) -> Vectors | None:
    with named_errors():
        async with connect_once(url) as connection:
            return await find_vectors(connection)


async def _extension(connection: AsyncConnection) -> str:
    """Its schema, quoted; it is created where it isn't there yet."""
    if not await connection.scalar(select(func.to_regclass(f"{SCHEMA}.observations").is_not(None))):
        raise SchemaError("the database has no schema of this release; run `memory-sql db upgrade`")
    version = await connection.scalar(_AVAILABLE)
    if version is None:
        raise ConfigurationError("the server has no extension pgvector; its package has to be installed there first")
    if tuple(int(part) for part in version.split(".")[:2]) < LEAST_VERSION:
        raise ConfigurationError(f"pgvector {version} is too old; {'.'.join(map(str, LEAST_VERSION))} is needed")
    await connection.exec_driver_sql(f"CREATE EXTENSION IF NOT EXISTS {EXTENSION}")
    return str(await connection.scalar(_SCHEMA_OF_EXTENSION))


async def _run(connection: AsyncConnection, name: str, values: dict[str, str]) -> None:
    script = (files(__package__) / "sql" / "vectors" / f"{name}.sql").read_text("utf-8")
    for placeholder, value in values.items():
        script = script.replace(placeholder, value)
    driver = (await connection.get_raw_connection()).driver_connection
    assert driver is not None  # of a connection that is open
    await driver.execute(script)


async def find_vectors(session: AsyncSession | AsyncConnection) -> Vectors | None:
    """None: this database has no table of vectors."""
    row = (await session.execute(_FIND)).one_or_none()
    return None if row is None else Vectors(row.dimensions, row.usable, row.walled)


class VectorRepository:
    """The vectors of one model. Only for a database that has the table."""

    def __init__(self, session: AsyncSession, model: str) -> None:
        self._session = session
        self._model = model

    async def missing(self, agent_id: str | None, limit: int, *, sensitive: bool, whole: bool) -> Sequence[Unembedded]:
        """Observations that a search may find and have no vector yet, oldest first within a scope, of one agent or of all.

        Without `whole` only those that are newer than the newest vector of their scope, which costs one look per scope.
        """
        given = {"agent_id": agent_id, "model": self._model, "limit": limit, "sensitive": sensitive, "whole": whole}
        return [Unembedded(*row) for row in await self._session.execute(_MISSING, given)]

    async def save(self, of: Sequence[Unembedded], vectors: Sequence[Sequence[float]]) -> int:
        """How many were stored: what was forgotten meanwhile isn't, nor what somebody else has stored."""
        given = {
            "agent_keys": [one.agent_key for one in of],
            "scope_ids": [one.scope_id for one in of],
            "seqs": [one.seq for one in of],
            "vectors": ["{" + ",".join(map(repr, vector)) + "}" for vector in vectors],
            "model": self._model,
        }
        return len((await self._session.execute(_SAVE, given)).all())

    async def filled(self, agent_key: int) -> int:
        """How many observations of the agent have one."""
        found = await self._session.scalar(_FILLED, {"agent_key": agent_key, "model": self._model})
        return int(found or 0)


_vectors = table(
    TABLE,
    column("agent_key", BigInteger),
    column("scope_id", BigInteger),
    column("seq", Integer),
    column("model", Text),
    column("embedding", ARRAY(REAL)),  # as it is written; Postgres makes a vector of it
    schema=SCHEMA,
)
_SIMILAR = "memory.similar(text, text, text, timestamptz, text, real[], integer, bigint[], integer[], boolean)"
_relation, _attribute = pg_catalog.pg_class, pg_catalog.pg_attribute
_walled = select(_relation.c.relforcerowsecurity).where(_relation.c.oid == func.to_regclass(f"{SCHEMA}.observations"))
_FIND = select(
    _attribute.c.atttypmod.label("dimensions"),
    and_(
        func.has_table_privilege(_attribute.c.attrelid, "INSERT"),
        func.has_table_privilege(_attribute.c.attrelid, "SELECT"),
        func.coalesce(func.has_function_privilege(func.to_regprocedure(_SIMILAR), "EXECUTE"), False),
    ).label("usable"),
    _walled.scalar_subquery().label("walled"),
).where(_attribute.c.attrelid == func.to_regclass(f"{SCHEMA}.{TABLE}"), _attribute.c.attname == "embedding")
_LIMIT = select(func.set_config("lock_timeout", LOCK_TIMEOUT, True))
_available = table("pg_available_extensions", column("name"), column("default_version"), column("installed_version"))
_AVAILABLE = select(func.coalesce(_available.c.installed_version, _available.c.default_version)).where(
    _available.c.name == EXTENSION
)
_installed, _schema = table("pg_extension", column("extname"), column("extnamespace")), pg_catalog.pg_namespace
_SCHEMA_OF_EXTENSION = (
    select(func.quote_ident(_schema.c.nspname))
    .select_from(_installed)
    .join(_schema, _schema.c.oid == _installed.c.extnamespace)
    .where(_installed.c.extname == EXTENSION)
)

_model = bindparam("model", type_=Text)
_limit = bindparam("limit", type_=Integer)
_agent = bindparam("agent_id", type_=Text)
_of_scope = and_(
    _vectors.c.agent_key == ScopeRow.agent_key, _vectors.c.scope_id == ScopeRow.scope_id, _vectors.c.model == _model
)
_newest = select(
    case(
        (bindparam("whole", type_=Boolean), 0),
        else_=func.coalesce(
            select(_vectors.c.seq)
            .where(_of_scope)
            .order_by(_vectors.c.seq.desc())
            .limit(1)
            .correlate(ScopeRow)
            .scalar_subquery(),
            0,
        ),
    ).label("seq")
).lateral("newest")
_status = (
    select(ObservationStateRow.status)
    .where(
        ObservationStateRow.agent_key == ObservationRow.agent_key,
        ObservationStateRow.scope_id == ObservationRow.scope_id,
        ObservationStateRow.seq == ObservationRow.seq,
    )
    .scalar_subquery()
)
_left = (
    select(ObservationRow.seq, ObservationRow.speaker, ObservationRow.content)
    .where(
        ObservationRow.agent_key == ScopeRow.agent_key,
        ObservationRow.scope_id == ScopeRow.scope_id,
        ObservationRow.seq > _newest.c.seq,
        or_(bindparam("sensitive", type_=Boolean), ObservationRow.sensitivity != "sensitive"),
        func.memory.is_sought(_status, true()),
        ~exists().where(
            _vectors.c.agent_key == ObservationRow.agent_key,
            _vectors.c.scope_id == ObservationRow.scope_id,
            _vectors.c.seq == ObservationRow.seq,
            _vectors.c.model == _model,
        ),
    )
    .order_by(ObservationRow.seq)
    .limit(_limit)
).lateral("missing")
_MISSING = (
    select(ScopeRow.agent_key, ScopeRow.scope_id, _left.c.seq, _left.c.speaker, _left.c.content)
    .join(AgentRow, AgentRow.agent_key == ScopeRow.agent_key)
    .join(_newest, ScopeRow.last_seq > _newest.c.seq)
    .join(_left, true())
    .where(ScopeRow.is_active, or_(_agent.is_(None), AgentRow.agent_id == _agent))
    .limit(_limit)
)
_given = (
    func.unnest(
        bindparam("agent_keys", type_=ARRAY(BigInteger)),
        bindparam("scope_ids", type_=ARRAY(BigInteger)),
        bindparam("seqs", type_=ARRAY(Integer)),
        bindparam("vectors", type_=ARRAY(Text)),
    )
    .table_valued("agent_key", "scope_id", "seq", "vector", name="given")
    .render_derived()
)
# A row that is locked is about to go, or to be marked: the next sweep sees what has become of it.
_there = (
    select(ObservationRow.agent_key, ObservationRow.scope_id, ObservationRow.seq, _given.c.vector)
    .join(
        _given,
        and_(
            _given.c.agent_key == ObservationRow.agent_key,
            _given.c.scope_id == ObservationRow.scope_id,
            _given.c.seq == ObservationRow.seq,
        ),
    )
    .with_for_update(key_share=True, read=True, of=ObservationRow, skip_locked=True)
    .cte("there")
)
_SAVE = (
    upsert(_vectors)
    .from_select(
        ["agent_key", "scope_id", "seq", "model", "embedding"],
        select(
            _there.c.agent_key,
            _there.c.scope_id,
            _there.c.seq,
            cast(_model, Text),
            cast(_there.c.vector, ARRAY(REAL)),
        ),
    )
    .on_conflict_do_nothing()
    .returning(_vectors.c.seq)
)
_FILLED = (
    select(func.count())
    .select_from(_vectors)
    .where(_vectors.c.agent_key == bindparam("agent_key", type_=BigInteger), _vectors.c.model == _model)
)
