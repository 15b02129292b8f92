"""A memory whose clock is far from the database's, as a replay's is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.config.kinds import MOST_DAYS, MOST_MINUTES
from memory_sql.db import Database
from memory_sql.domain.ids import EARLIEST, LATEST
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, StaleError
from memory_sql.memory import Memory
from memory_sql.resources import clock
from tests.factories import conversation
from tests.fakes import Parrot

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
AHEAD, BEHIND = (datetime.now(UTC) + timedelta(days=days) for days in (3000, -3000))


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture(params=[AHEAD, BEHIND], ids=["ahead", "behind"])
async def memory(request: pytest.FixtureRequest, database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    settings = Settings(llm="offline", consolidation_threshold=2)
    async with Memory(database_url, parrot, settings, clock=lambda: request.param) as opened:
        yield opened
        assert await opened.admin.verify() == []


async def test_stats_count_what_is_due_by_the_same_clock_as_the_backlog(memory: Memory) -> None:
    for text in ("The quay is closed.", "The crane is red."):
        await memory.observe(text, **MIA)
    await memory.add(conversation(5), **MIA, conversation_id="later")  # due after a silence
    stats, backlog = await memory.admin.stats(**ADA), await memory.work.backlog(**ADA)
    assert (stats.due_scopes, stats.due_conversations) == (1, 0)
    assert (backlog.due_scopes, backlog.due_conversations) == (1, 0)


async def test_run_that_a_rename_ends_does_not_end_before_it_began(memory: Memory, parrot: Parrot) -> None:
    await memory.groups.create("harbor", **ADA)
    await memory.groups.add_member("harbor", "mia", **ADA)
    await memory.add(conversation(2), **MIA, conversation_id="s", group_ids=["harbor"])

    async def rename() -> None:
        await memory.people.rename(**ADA, kind="group", old="harbor", new="port")

    parrot.meanwhile = rename
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="s")


@pytest.mark.parametrize("now", [EARLIEST, LATEST - timedelta(seconds=1)], ids=["earliest", "latest"])
async def test_at_the_first_and_the_last_moment_all_works(database_url: str, parrot: Parrot, now: datetime) -> None:
    """What lies before or after what can be stored counts as that moment; the longest spans that settings allow."""
    spans = Settings(
        llm="offline",
        consolidation_threshold=1,
        count_days=36_500,
        backup_days=36_500,
        message_retention_days=MOST_DAYS,
        maintenance_minutes=MOST_MINUTES,
        retention="budget",
    )
    async with Memory(database_url, parrot, spans, clock=lambda: now) as memory:
        await memory.add([{"role": "user", "content": "I sailed yesterday."}], **MIA, conversation_id="s")
        await memory.conversations.form(**ADA, conversation_id="s")
        told = await memory.observe("She likes tea since last year.", **MIA)
        assert (await memory.run_due()).failed == {}
        assert (await memory.search("tea last year", **MIA, as_of=now)).results
        assert str(await memory.context(**MIA, message="What did I do yesterday?", assembly="both"))
        assert (await memory.admin.stats(**ADA)).observations == 2
        assert (await memory.work.maintain()).complete
        hold = await memory.holds.place(**ADA, observation_id=told.id)
        await memory.holds.release(hold.hold_id, **ADA)
        receipt = await memory.forget(Selection(user_id="mia"), **ADA)
        assert receipt.physical is not None
        assert EARLIEST < receipt.physical.backups_until <= LATEST
        assert await memory.admin.verify() == []


async def test_when_the_servers_clock_is_set_who_is_open_follows(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Database.time
    ahead = timedelta()

    async def time(database: Database) -> datetime:
        return await read(database) + ahead

    monkeypatch.setattr(Database, "time", time)
    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        ahead = timedelta(hours=2)
        assert memory.now() < datetime.now(UTC) + timedelta(hours=1)  # not asked within a minute
        monkeypatch.setattr(clock, "COMPARE_SECONDS", 0.0)
        memory.now()
        await asyncio.sleep(0)  # the task begins
        for _ in range(100):
            if memory.now() > datetime.now(UTC) + timedelta(hours=1):
                break
            await memory.admin.agents()
        assert memory.now() > datetime.now(UTC) + timedelta(hours=1)
        told = await memory.observe("Mia likes tea.", **MIA)
        assert (await memory.observations.get(told.id, **MIA)).created_at > datetime.now(UTC) + timedelta(hours=1)


async def test_a_clock_that_cannot_be_read_goes_on_as_before_and_is_asked_again(
    database_url: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def time(_: Database) -> datetime:
        raise DatabaseError("it is away")

    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        monkeypatch.setattr(Database, "time", time)
        monkeypatch.setattr(clock, "COMPARE_SECONDS", 0.0)
        before = memory.now()
        with caplog.at_level("DEBUG", "memory_sql"):
            for _ in range(2):
                assert before <= memory.now() < before + timedelta(minutes=1)
                await asyncio.sleep(0)
        assert caplog.text.count("the clock of the database can't be read: it is away") == 2
