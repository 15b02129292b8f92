"""A provider that refuses the key or the account is asked once, not for each piece of work that is due."""

from __future__ import annotations

import asyncio
from datetime import datetime, timedelta

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import Backlog
from memory_sql.errors import UnavailableError
from memory_sql.memory import Memory
from memory_sql.worker import Worked, Worker
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import MONDAY, message
from tests.fakes import HOPELESS, Parrot, Scripted

WRONG_KEY = UnavailableError("auth", "the server answered HTTP 401 (invalid_api_key)")
SETTINGS = Settings(llm="offline", formation_min_messages=1, consolidation_threshold=1000)
CONVERSATIONS = 5


class Clock:
    def __init__(self) -> None:
        self.now = MONDAY

    def __call__(self) -> datetime:
        return self.now

    def passes(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def say(memory: Memory) -> None:
    for n in range(CONVERSATIONS):
        said = [message(f"Actually, I prefer tea number {n}.")]
        await memory.add(said, agent_id="ada", user_id="mia", conversation_id=f"c{n}")


async def failed_before(memory: Memory) -> list[int]:
    found = await rows(memory, "SELECT failures FROM memory.conversations ORDER BY failures DESC")
    return [failures for (failures,) in found]


async def is_refused(memory: Memory) -> bool:
    backlog: Backlog = await memory.work.backlog()
    return backlog.refusal is not None


@pytest.mark.parametrize("reason", ["auth", "quota"])
async def test_refused_account_is_asked_once_and_the_work_waits(database_url: str, clock: Clock, reason: str) -> None:
    model = Parrot()
    model.failing = UnavailableError(reason, "no")
    async with Memory(database_url, model, SETTINGS, clock=clock) as memory:
        await say(memory)
        assert await Worker(memory, concurrency=1).run_once() == Worked(failed=1)
        assert len(model.requests) == 1
        assert await failed_before(memory) == [1, 0, 0, 0, 0]
        backlog = await memory.work.backlog()
        assert (backlog.refusal, backlog.refused_at) == (reason, MONDAY)
        assert backlog.due_conversations == CONVERSATIONS - 1
        assert memory.work.refusal == "no; nothing else is asked before 09:00:05 UTC"


async def test_one_piece_of_work_tries_it_after_each_pause_and_an_answer_lets_all_through(
    database_url: str, clock: Clock
) -> None:
    model = Parrot()
    model.failing = WRONG_KEY
    async with Memory(database_url, model, SETTINGS, clock=clock) as memory:
        await say(memory)
        tries = []
        for _ in range(60):
            await memory.run_due()
            tries.append(len(model.requests))
            clock.passes(1)
        assert tries[0] == 1
        assert [second for second in range(1, 60) if tries[second] > tries[second - 1]] == [5, 15, 35]
        model.failing = None
        clock.passes(40)
        done = await memory.run_due()
        assert done.failed == {}
        assert len(done.formed) == CONVERSATIONS
        assert memory.work.refusal is None
        assert not await is_refused(memory)


async def test_refusal_is_one_warning_for_each_reason_and_one_line_when_it_is_over(
    database_url: str, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    model = Parrot()
    async with Memory(database_url, model, SETTINGS, clock=clock) as memory:
        await say(memory)
        with caplog.at_level("INFO", "memory_sql.jobs.breaker"):
            for failing in (WRONG_KEY, UnavailableError("quota", "no credit"), None):
                model.failing = failing
                for _ in range(3):
                    await memory.run_due(limit=1)
                    clock.passes(600)
    assert [(r.levelname, r.getMessage().partition("; ")[0]) for r in caplog.records] == [
        ("WARNING", f"the language model refuses: {WRONG_KEY}"),
        ("WARNING", "the language model refuses: no credit"),
        ("INFO", "the language model answers again"),
    ]


async def test_run_due_says_why_it_does_nothing(database_url: str, clock: Clock) -> None:
    async with Memory(database_url, Scripted(WRONG_KEY), SETTINGS, clock=clock) as memory:
        await say(memory)
        first = await memory.run_due()
        assert len(first.failed) == 2
        assert first.failed["conversation c0 of agent ada"] == str(WRONG_KEY)
        until = "nothing else is asked before 09:00:05 UTC"
        assert (await memory.run_due()).failed == {"language model": f"{WRONG_KEY}; {until}"}


async def test_what_somebody_asks_for_is_asked_all_the_same(database_url: str, clock: Clock) -> None:
    model = Parrot()
    model.failing = WRONG_KEY
    async with Memory(database_url, model, SETTINGS, clock=clock) as memory:
        await say(memory)
        await memory.run_due()
        with pytest.raises(UnavailableError):
            await memory.conversations.form(agent_id="ada", conversation_id="c3")
        model.failing = None
        await memory.conversations.form(agent_id="ada", conversation_id="c4")
        assert len((await memory.run_due()).formed) == 3  # the first waits for its own pause


async def test_other_failures_hold_nothing_else_back(database_url: str, clock: Clock) -> None:
    for failure in (UnavailableError("rate_limit", "slow down"), UnavailableError("rejected", "no such model")):
        model = Parrot()
        model.failing = failure
        async with Memory(database_url, model, SETTINGS, clock=clock) as memory:
            await say(memory)
            assert len((await memory.run_due()).failed) == len(model.requests)
            assert memory.work.refusal is None
            assert not await is_refused(memory)
        clock.passes(3600)


async def test_an_answer_that_cannot_be_used_is_an_answer(database_url: str, clock: Clock) -> None:
    async with Memory(
        database_url, Scripted(WRONG_KEY, *HOPELESS, may_run_out=True), SETTINGS, clock=clock
    ) as memory:  # fmt: skip
        await say(memory)
        await memory.run_due()
        clock.passes(5)
        await memory.run_due(limit=1)
        assert memory.work.refusal is None


async def test_backlog_of_one_agent_tells_of_its_own(database_url: str) -> None:
    async with Memory(database_url, Scripted(WRONG_KEY), SETTINGS) as memory:
        await say(memory)
        await memory.run_due()
        agent = (await memory.work.backlog(agent_id="ada")).refusal
        other = (await memory.work.backlog(agent_id="eve")).refusal
    assert (agent, other) == ("auth", None)


def test_backlog_of_the_command_line_names_the_refusal(database_url: str) -> None:
    async def refuse() -> None:
        async with Memory(database_url, Scripted(WRONG_KEY), SETTINGS) as memory:
            await say(memory)
            await memory.run_due()

    asyncio.run(refuse())
    told = memory_sql("work", "backlog", "--url", database_url).out
    assert "\nrefused      by the model's provider, the key; last at " in told
