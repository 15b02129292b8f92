"""The map of the shards in their home, and what a shard says of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Text,
    cast,
    column,
    exists,
    func,
    insert,
    literal,
    or_,
    select,
    table,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession

from memory_sql.db.models import AgentRow, AgentShardRow, ConversationRow, MovedAgentRow, ScopeRow, ShardRow
from memory_sql.errors import BusyError, ConfigurationError


@dataclass(frozen=True, slots=True)
class Self:
    """What a database says of itself: its name as a shard, its number, the id of the shards, and a hash of its key.

    None: it hasn't joined any.
    """

    shard: str | None
    number: int | None
    shards: str | None
    key_hash: bytes

    @property
    def is_home(self) -> bool:
        return self.number == 0


async def self_of(session: AsyncSession) -> Self:
    found = func.memory.shard().table_valued("shard", "number", "shards", "key_hash")
    row = (await session.execute(select(found))).one()
    return Self(row.shard, row.number, None if row.shards is None else str(row.shards), bytes(row.key_hash))


async def list_shards(session: AsyncSession) -> list[str]:
    """The names, the home first."""
    return list(await session.scalars(select(ShardRow.shard).order_by(ShardRow.number)))


async def add_shard(session: AsyncSession, name: str) -> int:
    """The number of that shard, which is added where it isn't known. The caller lets nobody else add one meanwhile."""
    known: int | None = await session.scalar(select(ShardRow.number).where(ShardRow.shard == name))
    if known is not None:
        return known
    following = select(func.coalesce(func.max(ShardRow.number) + 1, 0)).scalar_subquery()
    made = insert(ShardRow).values(shard=name, number=following, version=await map_version(session) + 1)
    return (await session.execute(made.returning(ShardRow.number))).scalar_one()


async def has_agents(session: AsyncSession) -> bool:
    return bool(await session.scalar(select(exists().select_from(AgentRow))))


async def take_in_agents(session: AsyncSession, name: str) -> None:
    """Puts the agents of the home itself into the map."""
    version = await map_version(session)
    held = select(AgentRow.agent_id, literal(name), literal(version, BigInteger))
    columns = [AgentShardRow.agent_id, AgentShardRow.shard, AgentShardRow.version]
    await session.execute(upsert(AgentShardRow).from_select(columns, held).on_conflict_do_nothing())
    held_here = select(func.count()).select_from(AgentShardRow).where(AgentShardRow.shard == name).scalar_subquery()
    await session.execute(update(ShardRow).where(ShardRow.shard == name).values(agents=held_here))


async def map_version(session: AsyncSession) -> int:
    """What it was when the map last changed for an agent that it knew; 0: there is no map."""
    return (await session.execute(select(func.coalesce(func.max(ShardRow.version), 0)))).scalar_one()


@dataclass(frozen=True, slots=True)
class Placed:
    """Where an agent is by the map, and to which shard it is moving."""

    shard: str
    moving_to: str | None


async def placed(session: AsyncSession, agent_id: str) -> Placed | None:
    found = await session.execute(_of(select(AgentShardRow.shard, AgentShardRow.moving_to), agent_id))
    row = found.one_or_none()
    return None if row is None else Placed(row.shard, row.moving_to)


async def announce(session: AsyncSession, agent_id: str, source: str, target: str) -> None:
    """Every process that looks at the map from now on knows that it moves. Raises `BusyError` if it does already."""
    a = AgentShardRow
    moves = _of(update(a), agent_id).where(a.shard == source, a.moving_to.is_(None))
    if await session.scalar(moves.values(moving_to=target).returning(a.agent_id)) is None:
        raise BusyError("the move of agent", agent_id)
    await _raise_version(session, target)


async def switch(session: AsyncSession, agent_id: str, target: str) -> None:
    """It is where it was moving to; who comes later changes nothing. Raises `BusyError` if it was moving elsewhere."""
    a, s, before = AgentShardRow, ShardRow, await placed(session, agent_id)
    if before == Placed(target, None):
        return
    version = await map_version(session) + 1
    moved = _of(update(a), agent_id).where(a.moving_to == target)
    done = moved.values(shard=target, moving_to=None, version=version, placed_at=func.now()).returning(a.agent_id)
    if before is None or await session.scalar(done) is None:
        raise BusyError("the move of agent", agent_id)
    for name, more in ((before.shard, -1), (target, 1)):
        await session.execute(update(s).where(s.shard == name).values(agents=func.greatest(s.agents + more, 0)))
    await _raise_version(session, target)


async def correct(session: AsyncSession, agent_id: str, wrong: str, shard: str) -> None:
    """It isn't where a map says that was restored from a backup. Raises `BusyError` if somebody moves it."""
    await announce(session, agent_id, wrong, shard)
    await switch(session, agent_id, shard)


async def stay(session: AsyncSession, agent_id: str, target: str) -> None:
    """It isn't moving there any more."""
    a = AgentShardRow
    await session.execute(_of(update(a), agent_id).where(a.moving_to == target).values(moving_to=None))


async def moving(session: AsyncSession) -> list[str]:
    """The agents that are moving, or were when their move was killed."""
    a = AgentShardRow
    return list(await session.scalars(select(a.agent_id).where(a.moving_to.is_not(None)).order_by(a.agent_id)))


async def left_here(session: AsyncSession) -> list[str]:
    """The agents of which this database still has rows or triggers, though they are moving away or have moved."""
    m, t = MovedAgentRow, table("pg_trigger", column("tgname"), schema="pg_catalog")
    has_rows = exists().where(AgentRow.agent_id == m.agent_id)
    names = [func.format(name, m.moved_key) for name in ("a_moved_%s", "a_moved_%s_away")]
    has_triggers = exists(select(literal(1)).select_from(t).where(t.c.tgname.in_(names)))
    return list(await session.scalars(select(m.agent_id).where(or_(has_rows, has_triggers))))


async def has_moved(session: AsyncSession, agent_id: str) -> bool:
    """Whether the agent has moved from this database to another shard, or is about to."""
    return bool(await session.scalar(select(exists().where(MovedAgentRow.agent_id == agent_id))))


async def fence(session: AsyncSession, agent_id: str, shard: str) -> None:
    """The agent is in that shard: nobody changes what a backup from before its move has brought back of it here.

    Raises `ConfigurationError` unless the owner of the tables asks.
    """
    may = text("SELECT has_function_privilege('memory.fence_agent(text, text)', 'EXECUTE')")
    if not await session.scalar(may):
        raise ConfigurationError(
            f"agent {agent_id} has moved to the shard {shard} since the backup; only the owner of the tables can set it"
            " aside here: name it in the URL"
        )
    await session.execute(select(func.memory.fence_agent(agent_id, shard)))


async def _raise_version(session: AsyncSession, shard: str) -> None:
    version = await map_version(session) + 1
    await session.execute(update(ShardRow).where(ShardRow.shard == shard).values(version=version))


def _of(statement: Any, agent_id: str) -> Any:
    return statement.where(AgentShardRow.agent_id == agent_id)


async def place(session: AsyncSession, agent_id: str, shard: str | None, now: datetime) -> str:
    """Where the agent is from now on: where somebody else has placed it meanwhile, else there.

    None: on the shard with the fewest agents, of several the one that joined first.
    """
    s = ShardRow
    fewest = select(s.shard).order_by(s.agents, s.number).limit(1).scalar_subquery()
    where = fewest if shard is None else shard
    version = select(func.max(s.version)).scalar_subquery()
    made = upsert(AgentShardRow).values(agent_id=agent_id, shard=where, version=version, placed_at=now)
    new: str | None = await session.scalar(made.on_conflict_do_nothing().returning(AgentShardRow.shard))
    if new is not None:
        await session.execute(update(s).where(s.shard == new).values(agents=s.agents + 1))
        return new
    found = await placed(session, agent_id)
    assert found is not None  # what the insert has met is committed, and never deleted
    return found.shard


@dataclass(frozen=True, slots=True)
class Holding:
    """That a database knows an agent. `is_empty`: all of it was forgotten, or it never had anything."""

    is_empty: bool


async def holding(session: AsyncSession, agent_id: str) -> Holding | None:
    """None: it doesn't know the agent."""
    a = AgentRow
    has_any = or_(
        exists().where(ScopeRow.agent_key == a.agent_key),
        exists().where(ConversationRow.agent_key == a.agent_key),
        a.settings != cast({}, JSONB),
    )
    found = await session.scalar(select(has_any).where(a.agent_id == agent_id))
    return None if found is None else Holding(not found)


async def ordered(session: AsyncSession, agent_ids: Sequence[str]) -> list[str]:
    """The ids as this database sorts them."""
    each = func.unnest(cast(list(agent_ids), ARRAY(Text))).column_valued("agent_id")
    return list(await session.scalars(select(each).order_by(each)))
