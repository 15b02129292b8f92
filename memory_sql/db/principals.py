"""On whose behalf a transaction works: what row-level policies check (`sql/visibility/principal.sql`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import lru_cache
from typing import Any

from sqlalchemy import Boolean, Select, Text, bindparam, cast, func, or_, select
from sqlalchemy.dialects.postgresql import OID, REGCLASS, pg_catalog
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.naming import of_schema, quoted

# agent_id, user_id and conversation_id of a user, who reads; with service=True the library's own work, for that agent, or
# for all agents (None).
Principal = Mapping[str, Any]


def service(agent_id: str | None) -> Principal:
    """The library's own work for one agent; None: for all agents."""
    return {"agent_id": agent_id, "user_id": None, "conversation_id": None, "service": True}


SERVICE = service(None)


def serves(principal: Principal | None) -> bool:
    """Whether it is the library's own work."""
    return principal is not None and bool(principal.get("service"))


def entering(principal: Principal, schema: str = DEFAULT_SCHEMA) -> str:
    """What `enter` does for the library's own work, to be sent with BEGIN: without parameters, so an id goes as hex."""
    agent_id = principal["agent_id"]
    agent = "NULL" if agent_id is None else f"convert_from(decode('{agent_id.encode().hex()}', 'hex'), 'UTF8')"
    return f"SELECT {quoted(schema)}.enter({agent}, NULL, NULL, true);"


@lru_cache(maxsize=256)
def serving(statement: Select[Any]) -> Select[Any]:
    """The same statement, which first does what `enter` does for the library's own work, for the agent `serves`.

    Nothing in the condition depends on a row, so it is checked before any row is read, and policies are evaluated later.
    """
    agent_id = bindparam("serves", type_=Text)
    named = select(func.memory.enter(agent_id, None, None, True).is_(None)).scalar_subquery()
    return statement.where(named.is_not(None))


_tables = pg_catalog.pg_class

_ENTER = select(
    func.memory.enter(
        *(bindparam(name, type_=Text) for name in ("agent_id", "user_id", "conversation_id")),
        bindparam("service", type_=Boolean),
    )
)
_LEAVE = select(func.memory.leave(bindparam("before", type_=Text)))
_observations = cast(of_schema("observations"), REGCLASS)
_LOOK = select(
    or_(func.row_security_active(_observations), _tables.c.relforcerowsecurity),
    func.pg_relation_size(cast(of_schema("observation_vectors"), REGCLASS)) > 0,
).where(_tables.c.oid == cast(_observations, OID))


async def enter(session: AsyncSession, principal: Principal) -> str | None:
    """Names the principal until the transaction ends; returns the previous setting."""
    before: str | None = await session.scalar(_ENTER, {"service": False, **principal})
    return before


@asynccontextmanager
async def named(session: AsyncSession, principal: Principal, *, ends: bool) -> AsyncIterator[None]:
    """Works with that principal; `ends`: the transaction ends with it, so there is nothing to restore."""
    before = {"before": await enter(session, principal)}
    if ends:
        yield
        return
    try:
        yield
    except BaseException:
        with suppress(SQLAlchemyError):  # rolling back a failed transaction restores the setting
            await session.execute(_LEAVE, before)
        raise
    await session.execute(_LEAVE, before)


async def looked_at(session: AsyncSession) -> tuple[bool, bool]:
    """Whether policies apply to the current role, or to that of the functions that erase, even if not to this one.

    They apply to all our tables alike; `verify` checks that. And whether anything has a vector, which they don't hide: none
    has where the table has no page.
    """
    walls, vectors = (await session.execute(_LOOK)).one()
    return bool(walls), bool(vectors)
