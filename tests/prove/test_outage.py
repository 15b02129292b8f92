"""The model's provider fails for 66 seconds, and one conversation can't be formed at all: everything else is only delayed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

import pytest
from aiohttp import web

from memory_sql.config import Settings
from memory_sql.llm.openai import OpenAI
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.database import rows
from tests.factories import MONDAY, message
from tests.loopback import Loopback, Received, Reply, good, loopback, status
from tests.prove.models import Copying, answer, wants_facts

OUTAGE_SECONDS, STEP_SECONDS = 66, 3
SETTINGS = Settings(llm="openai", consolidation_threshold=5)
BEFORE, MEANWHILE = [f"s{n}" for n in range(5)], [f"s{n}" for n in range(5, 10)]


class Provider:
    """Copies, but is down for a while; about what is poisoned it always answers nonsense."""

    def __init__(self) -> None:
        self.is_down = True
        self.refused = 0

    async def respond(self, request: web.Request, received: Received) -> web.StreamResponse:
        if self.is_down:
            self.refused += 1
            return await status(503).respond(request, received)
        poisoned = wants_facts(received) and "poisoned" in received.prompt
        return await good("nonsense" if poisoned else answer(received)).respond(request, received)


@asynccontextmanager
async def provider() -> AsyncIterator[tuple[Provider, Loopback]]:
    away = Provider()
    async with loopback(Reply(away.respond)) as server:
        yield away, server


async def say(memory: Memory, *conversations: str) -> None:
    for name in conversations:
        said = [message(f"Actually, I prefer tea. {name}")]
        await memory.add(said, agent_id="ada", user_id="mia", conversation_id=name)


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Asks again and again, since nobody tells."""
    async with asyncio.timeout(seconds):
        while True:
            if await condition():
                return
            await asyncio.sleep(0.01)


async def idle(memory: Memory, by: datetime) -> bool:
    """Nothing is due by then, and nobody is at anything."""
    ((left,),) = await rows(
        memory,
        "SELECT (SELECT count(*) FROM memory.conversations WHERE due_at <= :by OR lease_until IS NOT NULL)"
        " + (SELECT count(*) FROM memory.scopes WHERE due_at <= :by OR lease_until IS NOT NULL)",
        by=by,
    )
    return not left


async def everything_came_but_the_poisoned(memory: Memory) -> None:
    """Each once, in memory and in the text, and nobody had to do anything."""
    facts = Counter(o.content for o in await memory.observations.list(agent_id="ada", user_id="mia", limit=1000))
    assert facts == Counter(f"fact Actually, I prefer tea. {name}" for name in (*BEFORE, *MEANWHILE))
    (scope,) = await memory.scopes.list(agent_id="ada", user_id="mia")
    assert scope.consolidation is not None
    assert max(Counter(scope.consolidation.splitlines()).values()) == 1
    assert [(run.conversation_id, run.error_code) for run in await memory.work.dead()] == [("poisoned", "not_json")]
    assert await rows(memory, "SELECT DISTINCT error_code FROM memory.runs WHERE state = 'failed' ORDER BY 1") == [
        ("not_json",), ("server_error",),
    ]  # fmt: skip
    assert await memory.admin.verify() == []


async def is_drained(memory: Memory) -> bool:
    backlog = await memory.work.backlog()
    return backlog.dead == 1 and not (backlog.due_conversations or backlog.due_scopes or backlog.retrying)


@pytest.mark.slow
async def test_backlog_of_an_outage_drains_by_itself(database_url: str) -> None:
    """Two workers, and a clock that the test moves by 3 seconds whenever they have nothing left to do."""
    now = MONDAY

    async def pass_seconds(seconds: int) -> None:
        nonlocal now
        for _ in range(seconds // STEP_SECONDS):
            await until(partial(idle, memory, now), seconds=30)
            now += timedelta(seconds=STEP_SECONDS)

    async with provider() as (away, server), AsyncExitStack() as stack:
        stop = asyncio.Event()
        for _ in range(2):
            model = OpenAI(base_url=server.base_url, api_key="none", max_retries=0)
            stack.push_async_callback(model.close)
            memory = await stack.enter_async_context(Memory(database_url, model, SETTINGS, clock=lambda: now))
            working = asyncio.create_task(Worker(memory, poll_seconds=0.01).run(stop))
            stack.push_async_callback(asyncio.wait, [working])
            stack.callback(stop.set)
        await say(memory, "poisoned", *BEFORE)
        await pass_seconds(OUTAGE_SECONDS // 2)
        await say(memory, *MEANWHILE)
        await pass_seconds(OUTAGE_SECONDS - OUTAGE_SECONDS // 2)
        assert await memory.observations.list(agent_id="ada", user_id="mia") == []
        assert away.refused == 6 * 4 + 5 * 3  # at once, then 5, 15, 35 and 75 seconds later
        away.is_down = False
        await pass_seconds(2 * OUTAGE_SECONDS)
        assert await is_drained(memory)
        await everything_came_but_the_poisoned(memory)


@pytest.mark.prove
async def test_backlog_of_66_real_seconds_drains_by_itself(database_url: str) -> None:
    """Two processes of `memory-sql worker`, with the pauses that users have."""
    async with (
        provider() as (away, server),
        Memory(database_url, Copying(), SETTINGS) as memory,
        processes(2, database_url, server.base_url) as workers,
    ):
        await say(memory, "poisoned", *BEFORE)
        await asyncio.sleep(OUTAGE_SECONDS / 2)
        await say(memory, *MEANWHILE)
        await asyncio.sleep(OUTAGE_SECONDS / 2)
        assert await memory.observations.list(agent_id="ada", user_id="mia") == []
        away.is_down = False
        await until(partial(is_drained, memory), seconds=3 * OUTAGE_SECONDS)
        await everything_came_but_the_poisoned(memory)
        assert [worker.returncode for worker in workers] == [None, None]


@asynccontextmanager
async def processes(count: int, url: str, model: str) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    environ = {"MEMORY_SQL_LLM": "openai", "OPENAI_API_KEY": "none", "OPENAI_BASE_URL": model}
    environ |= {"MEMORY_SQL_CONSOLIDATION_THRESHOLD": str(SETTINGS.consolidation_threshold)}
    command = [sys.executable, "-m", "memory_sql.cli", "worker", "--url", url]
    started = [
        await asyncio.create_subprocess_exec(
            *command,
            env=os.environ | environ,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        for _ in range(count)
    ]
    try:
        yield started
    finally:
        for process in started:
            if process.returncode is None:
                process.kill()
            await process.wait()
