"""Moves an agent, whole, to another shard, while it lives.

Its rows are copied in one transaction of the target, which nobody sees before it is committed. For the last of them nobody
may change the agent where it was; then everything is compared. The commit at the target decides: until then the agent is
where it was, from then on where it goes. What a killed move leaves, a fence or a second copy, says for itself in which of the
two ways it has to end; `settle` ends it so. Advisory locks say whether somebody still works on it.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from memory_sql.db import AsyncEngine, Session
from memory_sql.db.engine import engine_once
from memory_sql.db.failures import named_errors
from memory_sql.db.installation import Place, placed_here
from memory_sql.db.moving import End, Moving, delete_all, forget_move, owner
from memory_sql.db.principals import SERVICE
from memory_sql.db.repositories import shards as map_of
from memory_sql.domain.results import AgentMove
from memory_sql.errors import (
    BusyError,
    ConfigurationError,
    DatabaseError,
    DividedAgentError,
    InputError,
    LockTimeoutError,
    MemorySQLError,
    NotFoundError,
    ShardError,
)
from memory_sql.lifecycle import journal, restoring
from memory_sql.shards import places
from memory_sql.shards.spread import Shard, Spread, naming

log = logging.getLogger("memory_sql")

FEW_ROWS = 1_000  # changed since the last copy: so many may be copied while nobody may change the agent
MOST_COPIES = 6  # before that
WAIT_SECONDS, MOST_WAIT_SECONDS = 0.3, 3.0  # for locks on tables: who writes to any agent of that shard waits behind
LOCK_SECONDS = 10.0  # for who still holds rows of the agent
TRY_SECONDS, PAUSE_SECONDS = 60.0, 0.5
LATE_SECONDS = 20.0  # so long its rows stay where they were, for who was reading there

_TRY = "SELECT pg_try_advisory_xact_lock(hashtextextended('memory.move ' || :agent, 0))"
_KEY = "SELECT agent_key FROM memory.agents WHERE agent_id = :agent"
_GONE_TO = "SELECT shard, moved_key FROM memory.moved_agents WHERE agent_id = :agent"
_FENCED_KEY = "SELECT moved_key FROM memory.moved_agents WHERE agent_id = :agent"
_IS_LATE = (
    "SELECT moved_at <= clock_timestamp() - make_interval(secs => :seconds)"
    " FROM memory.moved_agents WHERE agent_id = :agent"
)
_RECORD = (
    "INSERT INTO memory.events (agent_key, kind, created_at, detail)"
    " VALUES (:agent_key, 'move', clock_timestamp(), CAST(:detail AS jsonb))"
)
_LAST_MOVE = (
    "SELECT e.detail::text FROM memory.events e JOIN memory.agents a USING (agent_key)"
    " WHERE a.agent_id = :agent AND e.kind = 'move' ORDER BY e.created_at DESC LIMIT 1"
)
_WAIT = "SELECT set_config(:name, :milliseconds, true)"
CANCELLED = "57014"


async def move(spread: Spread, agent_id: str, to: str) -> AgentMove:
    """As `Admin.move`."""
    if to not in spread.shards:
        raise InputError(f"there is no shard {to!r}; there are {', '.join(spread.shards)}")
    began, move = time.monotonic(), Move(spread, agent_id)
    await spread.take_in(agent_id)
    await move.settle()
    source, target = spread.shards[(await move.where()).shard], spread.shards[to]
    if source is target:
        await move.tell_journal(target)
        return AgentMove(agent_id=agent_id, source=to, target=to)
    try:
        rows, held = await move.carry_out(source, target)
    except BaseException:
        await move.end_after_failure()
        raise
    seconds = time.monotonic() - began
    return AgentMove(agent_id=agent_id, source=source.name, target=to, rows=rows, seconds=seconds, held_seconds=held)


async def settle_all(spread: Spread, told: set[str]) -> None:
    """Ends the moves that were killed. Who may not, or can't reach a shard, leaves them to others, and says so once for each.

    `told`: of which agents it has said so.
    """
    async with spread.home_database.statement(principal=SERVICE) as unit:
        agents = {*await map_of.moving(unit)}
    for shard in spread.shards.values():
        try:
            memory = await spread.memory_of(shard)
            async with memory.database.statement(principal=SERVICE) as unit:
                agents |= {*await map_of.left_here(unit)}
        except ShardError:
            continue
    told &= agents
    for agent_id in sorted(agents):
        try:
            await Move(spread, agent_id).settle()
        except BusyError:
            continue
        except MemorySQLError as error:
            if agent_id not in told:
                log.warning(
                    "agent %s: a move of it has stopped: %s; run `memory-sql agent move` again", agent_id, error
                )
            told.add(agent_id)


@dataclass(frozen=True, slots=True)
class Move:
    """The moves of one agent, over the shards of an open memory."""

    _spread: Spread
    _agent_id: str

    async def where(self) -> map_of.Placed:
        """By the map. Raises `NotFoundError`."""
        async with self._spread.home_database.statement(principal=SERVICE) as unit:
            found = await map_of.placed(unit, self._agent_id)
        if found is None:
            raise NotFoundError("agent", self._agent_id)
        return found

    async def carry_out(self, source: Shard, target: Shard) -> tuple[dict[str, int], float]:
        """The number of rows by table, and for how many seconds the agent couldn't be changed."""
        for shard in (source, target):
            await self._check_owner(shard)
        await self._drop_old_fence(target)
        async with self._locked(target) as end:
            if await end.value(_KEY, agent=self._agent_id) is not None:
                if await end.value(_FENCED_KEY, agent=self._agent_id) is not None:  # it has left just now
                    raise BusyError("the move of agent", self._agent_id)
                raise DividedAgentError(self._agent_id, [source.name, target.name])
            await self._change(map_of.announce, source.name, target.name)
            leaving = await self._leaving(source, target)
            known_at = time.monotonic() + places.LOOK_SECONDS + PAUSE_SECONDS  # by every process
            moving = await self._begun(source, end)
            seen = await self._copy(source, moving)
            while (left := known_at - time.monotonic()) > 0:
                await asyncio.sleep(left)
                seen = (await self._pass(source, moving, seen))[1]
            await self._patiently(source, _fence(target.name))
            fenced = time.monotonic()
            rows = await self._last(source, moving, seen)
            if leaving is not None:
                await end.run(
                    _RECORD, agent_key=moving.agent_key, detail=leaving.model_dump_json(exclude_defaults=True)
                )
        await self.tell_journal(target)
        await self._change(map_of.switch, target.name)
        held = time.monotonic() - fenced
        await asyncio.sleep(LATE_SECONDS)
        try:
            await self._clear(source)
        except (BusyError, DatabaseError) as error:  # it is where it belongs; the rest is left to whoever settles
            log.info("agent %s has moved; its rows in %s are still there: %s", self._agent_id, source.name, error)
        return rows, held

    async def end_after_failure(self) -> None:
        """Goes on by itself where whoever waits for it gives up."""
        await asyncio.shield(self._try_to_settle())

    async def _try_to_settle(self) -> None:
        try:
            await self.settle()
        except MemorySQLError as error:
            log.warning("agent %s: its move has stopped: %s; run it again", self._agent_id, error)

    async def settle(self) -> None:
        """Ends what a killed move has left: the agent stays if it hasn't come to the target, else it is there.

        Raises `BusyError` while somebody moves the agent.
        """
        placed = await self.where()
        if placed.moving_to is not None:
            await self._decide(placed, placed.moving_to)
        elif (gone_to := await self._gone_to(self._shard(placed.shard))) is not None:
            await self._change(map_of.correct, placed.shard, gone_to)
        placed = await self.where()
        for shard in self._spread.shards.values():
            if shard.name != placed.shard:
                with suppress(ShardError):  # what is left there waits until it is back
                    await self._clear(shard)

    async def _decide(self, placed: map_of.Placed, moving_to: str) -> None:
        source, target = self._shard(placed.shard), self._shard(moving_to)
        async with self._locked(target) as end:
            if await self.where() != placed:  # who has moved it meanwhile has ended that himself
                raise BusyError("the move of agent", self._agent_id)
            if await self._has_come(source, end):
                await self.tell_journal(target)
                await self._change(map_of.switch, target.name)
            else:
                await self._lift(source)
                await self._change(map_of.stay, target.name)

    async def _leaving(self, source: Shard, target: Shard) -> journal.Entry | None:
        """What the journal is to say of this move; an event of the agent keeps it. None: no journal is kept."""
        if self._spread.home.memory.settings.forget_journal is None:
            return None
        left, into = await self._place(source), await self._place(target)
        return journal.Entry(
            id=str(uuid.uuid4()),
            at=self._spread.home.memory.now(),
            agent_id=self._agent_id,
            database=left.database,
            incarnation=left.incarnation,
            moved_to=target.name,
            into=(into.database, into.incarnation),
        )

    async def _place(self, shard: Shard) -> Place:
        memory = await self._spread.memory_of(shard)
        async with memory.database.transaction(principal=SERVICE) as unit:
            return await placed_here(unit)

    async def tell_journal(self, target: Shard) -> None:
        """A backup of the target may have the agent as it was before others forgot something of it.

        And one of where it was has it as if it were there.
        """
        settings = self._spread.home.memory.settings
        if settings.forget_journal is None:
            return
        memory = await self._spread.memory_of(target)
        try:
            async with memory.database.transaction(principal=SERVICE) as unit:
                here = await placed_here(unit)
                await restoring.catch_up(unit, settings.forget_journal, memory.now())  # what came with the agent
            async with self._at(target) as end:
                told = await end.value(_LAST_MOVE, agent=self._agent_id)
            move = None if told is None else journal.Entry.model_validate_json(told)
            place = here.database, here.incarnation
            await asyncio.to_thread(journal.carry, settings.forget_journal, self._agent_id, *place, move)
        except ConfigurationError as error:
            log.warning(
                "agent %s: an older backup of %s, or of where it was, may bring back what is forgotten of it: %s; move it"
                " again",
                *(self._agent_id, target.name, error),
            )

    def _shard(self, name: str) -> Shard:
        found = self._spread.shards.get(name)
        if found is None:
            raise ConfigurationError(f"shards: the map also has {name}, which isn't named; name all of them")
        return found

    async def _check_owner(self, shard: Shard) -> None:
        async with self._at(shard) as end:
            if not await end.value("SELECT memory.is_copying()"):
                raise ConfigurationError(
                    f"only the owner of the tables moves an agent; name it in the URL of {shard.name}"
                )

    async def _lift(self, source: Shard) -> None:
        await self._drop_fence(source)
        async with self._at(source) as end:
            await forget_move(end, self._agent_id)

    async def _drop_fence(self, shard: Shard) -> None:
        async with engine_once(shard.url, shard.schema) as engine:  # some fifty transactions
            while await self._patiently(shard, _drop_next, engine):
                pass

    async def _drop_old_fence(self, target: Shard) -> None:
        """Of an earlier move away from there: it would keep the agent as it is when it has come."""
        async with self._locked(target):  # a transaction that reads no table, which would be in the way
            async with self._at(target) as end:
                known = await end.value(_KEY, agent=self._agent_id), await end.value(_FENCED_KEY, agent=self._agent_id)
            if known[0] is None and known[1] is not None:
                await self._drop_fence(target)

    async def _gone_to(self, shard: Shard) -> str | None:
        """The shard where the agent is that has left this one, though a map from an older backup says that it is here."""
        name, key, seen = shard.name, None, set[str]()
        while name in self._spread.shards and name not in seen:
            seen.add(name)
            async with self._at(self._spread.shards[name]) as end:
                row = (await end.run(_GONE_TO, agent=self._agent_id)).one_or_none()
                if row is None:
                    here = await end.value(_KEY, agent=self._agent_id)
                    return name if key is not None and here == key else None
            name, key = row.shard, row.moved_key
        return None

    async def _has_come(self, source: Shard, end: End) -> bool:
        """Whether the target has the copy: the agent of the same key, which nobody but the mover could have made there.

        It was committed after the fence.
        """
        async with self._at(source) as there:
            key = await there.value(_FENCED_KEY, agent=self._agent_id)
        is_fenced = await end.value(_FENCED_KEY, agent=self._agent_id) is not None  # left by a move away from there
        return key is not None and not is_fenced and key == await end.value(_KEY, agent=self._agent_id)

    async def _clear(self, shard: Shard) -> None:
        """What is left of the agent where it moved away from, if it is where the map says. Raises `BusyError`.

        Everything is asked again under the lock: while nobody knew, it may have come back.
        """
        async with self._at(shard) as end:
            if await end.value(_FENCED_KEY, agent=self._agent_id) is None:
                return
        async with self._locked(shard) as end:
            placed, key = await self.where(), await end.value(_FENCED_KEY, agent=self._agent_id)
            is_late = await end.value(_IS_LATE, agent=self._agent_id, seconds=LATE_SECONDS)
            if key is None or shard.name in (placed.shard, placed.moving_to) or not is_late:
                return
            async with self._at(self._shard(placed.shard)) as there:
                is_there = key == await there.value(_KEY, agent=self._agent_id)
                is_fenced = await there.value(_FENCED_KEY, agent=self._agent_id) is not None
            if await end.value(_KEY, agent=self._agent_id) is not None:
                if not is_there or is_fenced:
                    return
                await end.run(_WAIT, name="lock_timeout", milliseconds=str(int(LOCK_SECONDS * 1000)))
                await end.lock(key)
                await delete_all(end, key)
        await self._drop_fence(shard)

    async def _begun(self, source: Shard, end: End) -> Moving:
        async with self._at(source, snapshot=True) as there:
            agent_key = await there.value(_KEY, agent=self._agent_id)
        if agent_key is None:
            raise NotFoundError("agent", self._agent_id)
        await forget_move(end, self._agent_id)
        moving = Moving(end, int(agent_key))
        await moving.begin()
        return moving

    async def _copy(self, source: Shard, moving: Moving) -> int:
        """All, then what has changed, until that is little; which snapshot was the last."""
        _, seen = await self._pass(source, moving, None)
        for _ in range(MOST_COPIES):
            count, seen = await self._pass(source, moving, seen)
            if count <= FEW_ROWS:
                break
        return seen

    async def _pass(self, source: Shard, moving: Moving, seen: int | None) -> tuple[int, int]:
        async with self._at(source, snapshot=True) as there:
            return await moving.copy(there, seen)

    async def _last(self, source: Shard, moving: Moving, seen: int) -> dict[str, int]:
        """What has changed until nobody could any more."""
        async with self._at(source, snapshot=True) as there:
            await moving.copy(there, seen)
            rows = await moving.compare(there)
            await moving.arrive()
            return rows

    async def _change(self, step: Callable[..., Awaitable[None]], *given: str) -> None:
        """Of the map."""

        async def act(unit: Session) -> None:
            await step(unit, self._agent_id, *given)

        await self._spread.home_database.write(act, principal=SERVICE)

    async def _patiently(
        self, shard: Shard, step: Callable[[End, str], Awaitable[Any]], engine: AsyncEngine | None = None
    ) -> Any:
        """What locks tables, tried again and again, each time for longer. Raises `LockTimeoutError`.

        From a second on, Postgres ends a vacuum that is in the way.
        """
        until, wait = time.monotonic() + TRY_SECONDS, WAIT_SECONDS
        while True:
            try:
                async with self._at(shard, engine=engine) as end:
                    for name in ("lock_timeout", "statement_timeout"):  # of one table, and of all
                        await end.run(_WAIT, name=name, milliseconds=str(int(wait * 1000)))
                    return await step(end, self._agent_id)
            except DatabaseError as error:
                if not (isinstance(error, LockTimeoutError) or CANCELLED in str(error)):
                    raise
                if time.monotonic() > until:
                    raise LockTimeoutError(
                        "somebody keeps a transaction open that writes, or reads all of it"
                    ) from None
            wait = min(wait * 1.5, MOST_WAIT_SECONDS)
            await asyncio.sleep(PAUSE_SECONDS)

    @asynccontextmanager
    async def _locked(self, shard: Shard) -> AsyncIterator[End]:
        """Nobody else moves the agent to there or from there meanwhile. Raises `BusyError`."""
        async with self._at(shard) as end:
            if not await end.value(_TRY, agent=self._agent_id):
                raise BusyError("the move of agent", self._agent_id)
            yield end

    @asynccontextmanager
    async def _at(
        self, shard: Shard, *, snapshot: bool = False, engine: AsyncEngine | None = None
    ) -> AsyncIterator[End]:
        with naming(shard), named_errors():
            async with owner(shard.url, shard.schema, snapshot=snapshot, engine=engine) as end:
                yield end


def _fence(to: str) -> Callable[[End, str], Awaitable[Any]]:
    async def step(end: End, agent_id: str) -> None:
        await end.run("SELECT memory.fence_agent(:agent, :shard)", agent=agent_id, shard=to)

    return step


async def _drop_next(end: End, agent_id: str) -> bool:
    return bool(await end.value("SELECT memory.drop_fence(:agent)", agent=agent_id))
