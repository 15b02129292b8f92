"""The round trips of forming and observing, including BEGIN and COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.wire import Wire, counted
from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.factories import message

pytestmark = [  # behind a pooler each statement is a transaction, and says again what it is
    pytest.mark.direct,
    pytest.mark.open,
]
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
WARM_UP = 2  # a statement is prepared once on each connection


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[tuple[Memory, Wire]]:
    """A memory on one connection, and what goes over it."""
    async with (
        counted(url) as wire,
        Memory(wire.url, Offline(), Settings(llm="offline", pool_size=1, formation_messages=2)) as memory,
    ):
        yield memory, wire


async def trips(wire: Wire, call: Callable[[int], Awaitable[object]]) -> int:
    """Of a call once its statements are prepared; it is told which time it is."""
    for time in range(WARM_UP):
        await call(time)
    wire.types.clear()
    await call(WARM_UP)
    return wire.round_trips


async def said(memory: Memory, *group_ids: str) -> None:
    for n in range(WARM_UP + 1):
        talk = [message(f"I moved to pier {n}.", n=2 * n), message(f"I drink tea number {n}.", n=2 * n + 1)]
        await memory.add(talk, **MIA, conversation_id=f"s{n}", group_ids=group_ids)


async def observing(memory: Memory, wire: Wire) -> tuple[int, ...]:
    await memory.add(
        [message("Hello.", n=1)], agent_id="zoned", user_id="mia", conversation_id="s", time_zone="Asia/Tokyo"
    )
    zoned: dict[str, Any] = {"agent_id": "zoned", "user_id": "mia", "conversation_id": "s"}
    return (
        await trips(wire, lambda n: memory.observe(f"The ferry leaves pier {n}.", **MIA)),
        await trips(wire, lambda n: memory.observe(f"The ferry leaves pier {n}.", **zoned)),
        await trips(wire, lambda _: memory.observe("The ferry leaves at nine.", **MIA)),
        await trips(wire, lambda n: memory.observe(f"For pier {n} the password: hunter2xZ!", **MIA)),
    )


async def forming(memory: Memory, wire: Wire) -> int:
    await said(memory)
    return await trips(wire, lambda n: memory.conversations.form(agent_id="ada", conversation_id=f"s{n}"))


async def working(memory: Memory, wire: Wire) -> tuple[int, int]:
    """A worker's claim, and what it claimed."""
    await said(memory)
    for _ in range(WARM_UP):
        work = await memory.work.claim("formation")
        assert work is not None
        await work()
    wire.types.clear()
    work = await memory.work.claim("formation")
    assert work is not None
    claimed = wire.round_trips
    assert len((await work()).formed) == 1
    return claimed, wire.round_trips - claimed


async def test_an_observation_is_stored_in_one(database_url: str) -> None:
    """In another where the agent or the conversation is special, or a secret was said; one that is known is read as well."""
    async with wired(database_url) as (memory, wire):
        assert await observing(memory, wire) == (1, 2, 2, 2)


async def test_a_conversation_is_formed_in_five(database_url: str) -> None:
    async with wired(database_url) as (memory, wire):
        assert await forming(memory, wire) == 5


async def test_a_conversation_of_a_group_is_formed_in_seven(database_url: str) -> None:
    async with wired(database_url) as (memory, wire):
        await said(memory, "team")
        formed = await trips(wire, lambda n: memory.conversations.form(agent_id="ada", conversation_id=f"s{n}"))
        assert formed == 7


async def test_a_worker_takes_and_forms_in_six(database_url: str) -> None:
    async with wired(database_url) as (memory, wire):
        assert await working(memory, wire) == (1, 5)


async def test_behind_walls_as_many_are_taken_save_where_a_user_reads(walled_database: str, roles: Roles) -> None:
    async with wired(as_login(walled_database, roles)) as (memory, wire):
        assert await observing(memory, wire) == (1, 2, 4, 2)
        assert await forming(memory, wire) == 5
        assert (await memory.conversations.form(agent_id="ada", conversation_id="s0")).messages == 0
