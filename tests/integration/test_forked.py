"""A forked child: what it does with the parent's memory is refused by name, and the parent doesn't notice."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.db.urls import asyncpg_url
from memory_sql.errors import ForkedError
from memory_sql.memory import Memory

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
REFUSED, DONE, FAILED = 17, 0, 19

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning"),
    pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here"),
]


def in_a_child(does: Callable[[], object]) -> int:
    """Whether it was `DONE`, `REFUSED` with what to do, or `FAILED`."""
    child = os.fork()
    if child == 0:
        code = FAILED
        try:
            does()
            code = DONE
        except ForkedError as error:
            code = REFUSED if "open a new Memory after the fork" in str(error) else FAILED
        finally:
            os._exit(code)
    deadline = time.monotonic() + 20
    while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
        time.sleep(0.01)
    return os.waitstatus_to_exitcode(ended[1])


async def read(memory: Memory) -> None:
    await memory.observations.list(**MIA)


async def search(memory: Memory) -> None:
    await memory.search("tea", **MIA)


async def add(memory: Memory) -> None:
    await memory.add([{"role": "user", "content": "I like tea."}], **MIA, conversation_id="1")


async def observe(memory: Memory) -> None:
    await memory.observe("Likes tea.", **MIA)


async def maintain(memory: Memory) -> None:
    await memory.work.maintain()


async def open_again(memory: Memory) -> None:
    await memory.open()


async def join(memory: Memory) -> None:
    async with AsyncSession(create_async_engine("postgresql+asyncpg://nowhere/none")) as session:
        await memory.observe("Likes tea.", **MIA, session=session)


@pytest.mark.parametrize("call", [read, search, add, observe, maintain, open_again, join])
def test_a_call_in_a_forked_child_says_what_to_do(database_url: str, call: Any) -> None:
    with asyncio.Runner() as runner:
        memory = runner.run(Memory(database_url).open())
        runner.run(memory.observe("Likes green tea.", **MIA))
        assert in_a_child(lambda: asyncio.run(call(memory))) == REFUSED
        assert len(runner.run(memory.observations.list(**MIA))) == 1
        runner.run(memory.close())


async def server_processes(memory: Memory) -> set[int]:
    """Of all connections that the pool keeps, at once."""
    together = asyncio.Barrier(5)

    async def one() -> int:
        async with memory.database.transaction() as unit:
            number = await unit.scalar(select(func.pg_backend_pid()))
            await together.wait()
            return int(number or 0)

    return set(await asyncio.gather(*(one() for _ in range(5))))


@pytest.mark.slow
@pytest.mark.parametrize(("hosted", "ends"), [(False, "closed"), (True, "closed"), (False, "lost")])
def test_what_a_forked_child_closes_or_loses_the_parent_keeps(database_url: str, hosted: bool, ends: str) -> None:
    with asyncio.Runner() as runner:
        engine = create_async_engine(asyncpg_url(database_url)) if hosted else None
        memory = runner.run(Memory(None if hosted else database_url, engine=engine).open())
        before = runner.run(server_processes(memory))

        def end() -> None:
            nonlocal memory
            if ends == "closed":
                asyncio.run(memory.close())
            del memory
            gc.collect()

        assert in_a_child(end) == DONE
        assert runner.run(server_processes(memory)) == before
        runner.run(memory.close())
        if engine is not None:
            runner.run(engine.dispose())


@pytest.mark.slow
def test_a_blocking_memory_is_refused_in_a_forked_child_and_goes_on_in_the_parent(database_url: str) -> None:
    with sync.Memory(database_url, settings=Settings(llm="offline")) as memory:
        told = memory.observe("Likes green tea.", **MIA)

        def lose() -> None:
            nonlocal memory
            memory.close()
            del memory
            gc.collect()

        assert in_a_child(lambda: memory.context(**MIA)) == REFUSED
        assert in_a_child(memory.open) == REFUSED
        assert in_a_child(lose) == DONE
        assert memory.observations.get(told.id, **MIA) == told


def test_a_child_opens_its_own(database_url: str) -> None:
    with sync.Memory(database_url, settings=Settings(llm="offline")) as memory:
        memory.observe("Likes green tea.", **MIA)

        def work() -> None:
            with sync.Memory(database_url, settings=Settings(llm="offline")) as own:
                assert len(own.observations.list(**MIA)) == 1

        assert in_a_child(work) == DONE
        assert len(memory.observations.list(**MIA)) == 1
