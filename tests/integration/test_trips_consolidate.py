"""The round trips of background work and of a forgetting, including BEGIN and COMMIT."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from benchmarks.wire import Wire, counted
from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.selection import Selection
from memory_sql.llm.offline import Offline
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.factories import message

pytestmark = [  # behind a pooler each statement is a transaction, and says again what it is
    pytest.mark.direct,
    pytest.mark.open,
]
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ADA = {"agent_id": "ada"}
WARM_UP = 2  # a statement is prepared once on each connection
SETTINGS = Settings(llm="offline", pool_size=1, consolidation_threshold=3)


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[tuple[Memory, Wire]]:
    """A memory on one connection, and what goes over it."""
    async with counted(url) as wire, Memory(wire.url, Offline(), SETTINGS) as memory:
        yield memory, wire


async def trips(wire: Wire, before: Callable[[int], Awaitable[object]], call: Callable[[], Awaitable[object]]) -> int:
    """Of a call once its statements are prepared, each time after `before`."""
    for time in range(WARM_UP + 1):
        await before(time)
        wire.types.clear()
        await call()
    return wire.round_trips


@pytest.fixture(params=["open", "walled"])
def url(request: pytest.FixtureRequest, roles: Roles) -> str:
    """Row-level policies cost no round trip."""
    if request.param == "open":
        return str(request.getfixturevalue("database_url"))
    return as_login(request.getfixturevalue("walled_database"), roles)


async def test_text_is_written_in_six(url: str) -> None:
    async with wired(url) as (memory, wire):
        scope_id = (await memory.observe("The ferry leaves at nine.", **MIA)).scope.id

        async def told(time: int) -> None:
            for n in range(2):
                await memory.observe(f"Boat {time}.{n} leaves at nine.", **MIA)

        assert await trips(wire, told, lambda: memory.scopes.consolidate(**ADA, scope_id=scope_id)) == 6


async def test_who_asks_what_is_due_where_nothing_is_asks_once(url: str) -> None:
    async with wired(url) as (memory, wire):
        await memory.observe("The ferry leaves at nine.", **MIA)
        assert await trips(wire, lambda _: memory.context(**MIA), memory.run_due) == 1


async def test_one_due_text_takes_eleven(url: str) -> None:
    """Also where it is looked at once more for what it may share, and there is nobody to share it with."""
    async with wired(url) as (memory, wire):

        async def due(time: int) -> None:
            for n in range(SETTINGS.consolidation_threshold):
                await memory.observe(f"Boat {time}.{n} leaves at nine.", agent_id="ada", user_id=f"u{time}")

        assert await trips(wire, due, memory.run_due) == 11


async def test_one_observation_is_forgotten_in_one(url: str) -> None:
    async with wired(url) as (memory, wire):
        ids = list[str]()

        async def said(time: int) -> None:
            ids.append((await memory.observe(f"Boat {time} leaves at nine.", **MIA)).id)

        assert await trips(wire, said, lambda: memory.forget(ids[-1], agent_id="ada")) == 1


async def test_one_observation_is_updated_in_one(url: str) -> None:
    async with wired(url) as (memory, wire):
        ids = list[str]()

        async def said(time: int) -> None:
            ids.append((await memory.observe(f"Boat {time} leaves at nine.", **MIA)).id)

        said_anew = await trips(
            wire, said, lambda: memory.observations.update(ids[-1], **MIA, text=f"{ids[-1]} leaves at ten.")
        )
        assert said_anew == 1


async def test_conversation_is_forgotten_in_six(url: str) -> None:
    async with wired(url) as (memory, wire):
        names = list[str]()

        async def said(time: int) -> None:
            names.append(f"s{time}")
            await memory.add([message(f"Boat {time} leaves at nine.", n=time)], **MIA, conversation_id=names[-1])

        forgotten = await trips(wire, said, lambda: memory.forget(Selection(conversation_id=names[-1]), agent_id="ada"))
        assert forgotten == 6
