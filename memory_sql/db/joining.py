"""Makes databases shards of one home: they share its key, and each gives its agents keys of a range of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Literal

from sqlalchemy import BigInteger, LargeBinary, Text, Uuid, bindparam, column, func, select, table, text
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.config.kinds import DEFAULT_SCHEMA
from memory_sql.db.contents import ENTER
from memory_sql.db.engine import connect_once
from memory_sql.db.failures import named_errors
from memory_sql.db.models import SCHEMA
from memory_sql.db.repositories.prices import list_prices, set_price
from memory_sql.db.repositories.shards import Self, add_shard, has_agents, self_of, take_in_agents
from memory_sql.errors import ConfigurationError

JOIN_KEY = 0x736861726473  # "shards"; those who join take turns
_JOIN = select(
    func.memory.join_shards(
        bindparam("shard", type_=Text),
        bindparam("number", type_=BigInteger),
        bindparam("shards", type_=Uuid(as_uuid=False)),
        bindparam("key", type_=LargeBinary),
    )
)
_KEY = select(column("key", LargeBinary)).select_from(table("installation", schema=SCHEMA))
Joined = Literal["home", "shard"]


async def join(urls: Mapping[str, str], schema: str = DEFAULT_SCHEMA) -> dict[str, Joined]:
    """What each is now. Repeating it changes nothing; only the owner of the databases may.

    The home is the one that is it already, else the first. A database that has agents can only become the home. Raises
    `ConfigurationError`, naming the shard that can't join; then none has.
    """
    with named_errors():
        known = {name: await _self(url, schema) for name, url in urls.items()}
    home = home_of(known) or next(iter(urls))
    for name, url in urls.items():
        with named_errors():
            if name != home and not await _may_join(known[name], known[home], name, url, schema):
                raise ConfigurationError(_REFUSED.format(name))
    done: dict[str, Joined] = {}
    for name in (home, *(name for name in urls if name != home)):
        with named_errors():
            await _join(name, urls[name], home, urls[home], schema)
        done[name] = "home" if name == home else "shard"
    return {name: done[name] for name in urls}


def home_of(known: Mapping[str, Self]) -> str | None:
    """The shard that keeps the map; None: none does. Raises `ConfigurationError` if two do."""
    homes = [name for name, found in known.items() if found.is_home]
    if len(homes) > 1:
        raise ConfigurationError(
            f"shards: {' and '.join(homes)} each keep a map; they are the homes of different shards, or the same database"
        )
    return homes[0] if homes else None


async def _self(url: str, schema: str) -> Self:
    async with _session(url, schema) as session:
        return await self_of(session)


async def _may_join(known: Self, home: Self, name: str, url: str, schema: str) -> bool:
    """Asked before the home learns of it: a shard that the map names must be there from then on."""
    if known.shards is not None:
        return (known.shards, known.shard) == (home.shards, name)
    async with _session(url, schema) as session:
        return not await has_agents(session)


async def _join(name: str, url: str, home: str, home_url: str, schema: str) -> None:
    """First the home learns the number, then the shard joins: what stops in between is done by the next call."""
    async with _session(home_url, schema) as session:
        await session.execute(select(func.pg_advisory_xact_lock(JOIN_KEY)))
        number = await add_shard(session, name)
        if name == home:
            if not await _joined(session, name, number, None, None):
                raise ConfigurationError(_REFUSED.format(name))
            await take_in_agents(session, name)
            return
        shards, key, prices = (await self_of(session)).shards, await session.scalar(_KEY), await list_prices(session)
    async with _session(url, schema) as session:
        has_joined = await _joined(session, name, number, shards, key)
        for price in prices if has_joined else ():
            await set_price(session, price)
    if not has_joined:  # it has an agent since it was asked
        raise ConfigurationError(_REFUSED.format(name))


async def _joined(session: AsyncSession, name: str, number: int, shards: str | None, key: Any) -> bool:
    return bool(await session.scalar(_JOIN, {"shard": name, "number": number, "shards": shards, "key": key}))


@asynccontextmanager
async def _session(url: str, schema: str) -> AsyncIterator[AsyncSession]:
    """One transaction of the owner, which sees every row."""
    async with connect_once(url, schema) as connection:
        await connection.execute(text(ENTER))
        async with AsyncSession(bind=connection) as session:  # what it does is committed with the connection's
            yield session


_REFUSED = (
    "shards: the database of {0} can't join. It has agents already, whose ids and hashes are under a key of its own, or it is"
    " a shard of another home or under another name. Only a database without agents joins; one with agents can be the home of"
    " new shards: name it first"
)
