"""Reads from a real streaming standby: own writes, what others forgot, and what happens to the standby."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import bindparam, case, func, select

from memory_sql.config import Settings
from memory_sql.db import migrate, replica
from memory_sql.db.answering import Primary
from memory_sql.db.direct import ask
from memory_sql.db.replica import Replicated
from memory_sql.errors import ConfigurationError, DatabaseError, InputError
from memory_sql.memory import Memory
from tests import recycling
from tests.factories import conversation
from tests.fakes import Scripted
from tests.pooler import PROGRAM, pooling
from tests.standby import Server, Servers, programs, servers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.direct,
    pytest.mark.skipif(programs() is None, reason="no Postgres programs are installed that could make a standby"),
]
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
_WHO = select(func.pg_is_in_recovery().label("is_replica"))


@pytest.fixture(scope="module")
def all_servers() -> Iterator[Servers]:
    with servers() as made:
        yield made


@pytest.fixture(scope="module")
def primary(all_servers: Servers) -> Server:
    made = all_servers.primary()
    migrate.upgrade(made.url, schema=recycling.SCHEMA)
    return made


@pytest.fixture(scope="module")
def shared(all_servers: Servers, primary: Server) -> Server:
    return all_servers.standby(primary)


@pytest.fixture
async def standby(shared: Server) -> AsyncIterator[Server]:
    """Replays again at the end."""
    yield shared
    await said(shared, "SELECT pg_wal_replay_resume()")


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(replica, "LOOK_SECONDS", 0.0)


async def said(server: Server, *sql: str) -> Any:
    connection = await asyncpg.connect(user="postgres", database="postgres", host=str(server.directory), port=5432)
    try:
        for one in sql:
            value = await connection.fetchval(one)
        return value
    finally:
        await connection.close()


async def until(holds: Callable[[], Awaitable[Any]]) -> None:
    """Asks again and again: nothing tells of it."""
    async with asyncio.timeout(30):
        while not await holds():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def caught_up(primary: Server, standby: Server) -> None:
    position = await said(primary, "SELECT pg_current_wal_flush_lsn()::text")
    await until(lambda: said(standby, f"SELECT pg_last_wal_replay_lsn() >= '{position}'"))


async def pause(primary: Server, standby: Server) -> None:
    """From here on the standby stands still, with all that was committed before."""
    await caught_up(primary, standby)
    await said(standby, "SELECT pg_wal_replay_pause()")
    await until(lambda: said(standby, "SELECT pg_get_wal_replay_pause_state() = 'paused'"))


@asynccontextmanager
async def opened(primary: Server, standby: Server, **settings: Any) -> AsyncIterator[Memory]:
    chosen = Settings(llm="offline", read_url=standby.url, **{"read_max_lag_seconds": 3600.0, **settings})
    async with Memory(primary.url, Scripted(), chosen) as memory:
        yield memory


async def is_answered_by_replica(memory: Memory, after: str | None = None) -> bool:
    async def who(reader: Any) -> Any:
        return (await ask(reader, _WHO, {}))[0].is_replica

    servers = memory._runtime.reads.servers
    return bool(await servers.read(who, after=None if after is None else int(after, 16)))


async def told(memory: Memory, **who: Any) -> str:
    return str(await memory.context(**MIA, **who))


async def test_own_writes_are_read_behind_a_replica_that_stands_still(primary: Server, standby: Server) -> None:
    async with opened(primary, standby) as memory:
        await pause(primary, standby)
        await memory.observe("Mia's boat is called Petrel.", **MIA)
        assert "Petrel" in await told(memory)
        assert (await memory.search("petrel", **MIA)).results
        assert "Petrel" in str(await memory.digest(**MIA, query="petrel"))
        assert not await is_answered_by_replica(memory)
        await said(standby, "SELECT pg_wal_replay_resume()")
        await caught_up(primary, standby)
        assert await is_answered_by_replica(memory)
        assert "Petrel" in await told(memory)


@pytest.mark.skipif(PROGRAM is None, reason="there is no pgbouncer")
async def test_a_pooler_may_stand_before_the_replica(primary: Server, standby: Server) -> None:
    with pooling(standby.url, {"postgres": ""}, servers=2) as pooler:
        chosen = Settings(llm="offline", read_url=pooler.url(standby.url), read_max_lag_seconds=3600.0)
        async with Memory(primary.url, Scripted(), chosen) as memory:
            assert await is_answered_by_replica(memory)
            await pause(primary, standby)
            await memory.observe("Mia's dinghy leaks.", **MIA)
            assert "dinghy" in await told(memory)
            await said(standby, "SELECT pg_wal_replay_resume()")
            await caught_up(primary, standby)
            assert await is_answered_by_replica(memory)
            assert "dinghy" in await told(memory)


async def test_nothing_forgotten_is_shown_by_anybody_once_forget_has_returned(primary: Server, standby: Server) -> None:
    async with (
        opened(primary, standby, read_max_lag_seconds=0.3) as memory,
        opened(primary, standby, read_max_lag_seconds=0.3) as other,
    ):
        seen = await memory.observe("Mia's locker has the number 4711.", **MIA)
        await caught_up(primary, standby)
        assert "4711" in await told(other)
        await pause(primary, standby)
        await memory.forget(seen.id, agent_id="ada")
        assert "4711" not in await told(memory)
        assert "4711" not in await told(other)
        assert "4711" in str(await said(standby, "SELECT string_agg(content, ' ') FROM memory.observations"))


async def test_forget_returns_as_soon_as_the_replica_has_forgotten(primary: Server, standby: Server) -> None:
    async with opened(primary, standby, read_max_lag_seconds=3600.0) as memory, opened(primary, standby) as other:
        seen = await memory.observe("Mia's bicycle is green.", **MIA)
        await caught_up(primary, standby)
        async with asyncio.timeout(30):
            await memory.forget(seen.id, agent_id="ada")
        assert "bicycle" not in await told(other)
        assert await is_answered_by_replica(other)


async def test_a_position_carries_what_was_written_to_another_process(primary: Server, standby: Server) -> None:
    async with opened(primary, standby) as memory, opened(primary, standby) as other:
        await told(other)
        await pause(primary, standby)
        await memory.observe("Mia's kite is torn.", **MIA)
        position = await memory.admin.position()
        assert "kite" not in await told(other)
        assert "kite" in await told(other, after=position)
        assert (await other.search("kite", **MIA, after=position)).results
        assert "kite" in str(await other.digest(**MIA, query="kite", after=position))
        with pytest.raises(InputError, match="after"):
            await told(other, after="0/16B3748")


async def test_what_others_wrote_is_read_after_the_lag_that_is_allowed(
    primary: Server, standby: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memory_sql")
    async with opened(primary, standby) as memory, opened(primary, standby, read_max_lag_seconds=10.0) as other:
        reads, now = other._runtime.reads.servers, 0.0
        assert isinstance(reads, Replicated)
        reads._clock = lambda: now
        reads._asked_at = float("-inf")
        await told(other)
        await pause(primary, standby)
        await memory.observe("Mia's oar is broken.", **MIA)
        assert "oar" not in await told(other)
        now = 11.0
        assert "oar" in await told(other)
        now = 22.0
        assert "oar" in await told(other)
        await told(other)
        await said(standby, "SELECT pg_wal_replay_resume()")
        await caught_up(primary, standby)
        assert await is_answered_by_replica(other)
        assert "oar" in await told(other)
    lags = [one.getMessage() for one in caplog.records if "lags" in one.getMessage() or "caught up" in one.getMessage()]
    assert lags == ["the replica lags by more than 10 s, reads go by the primary", "the replica has caught up"]


async def test_a_replica_that_has_caught_up_says_the_same(
    primary: Server, standby: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(primary, standby) as memory:
        who: dict[str, Any] = {"agent_id": "same", "user_id": "mia", "conversation_id": "monday"}
        await memory.add(conversation(30, saying="I prefer green tea."), **who, group_ids=["harbour"])
        for n in range(40):
            await memory.observe(f"Mia's boat {n} lies at berth {n * 7}.", agent_id="same", user_id="mia")
        await memory.observe("The harbour opens at seven.", agent_id="same", collective=True)
        await caught_up(primary, standby)
        now = memory.now()
        memory._runtime.now = lambda: now
        reads = memory._runtime.reads
        assert await is_answered_by_replica(memory)

        async def everything() -> list[str]:
            found = list[str]()
            for words in ("Which boat lies at berth 49?", "tea", "Do you remember the harbour?"):
                found.append(str(await memory.context(**who, message=words, assembly="both")))
                found.append((await memory.context(**who, message=words)).model_dump_json())
                found.append((await memory.digest(**who, query=words)).model_dump_json())
                found.append((await memory.search(words, **who, explain=True)).model_dump_json())
            return found

        of_replica = await everything()
        assert await is_answered_by_replica(memory)
        monkeypatch.setattr(reads, "servers", Primary(memory.database))
        assert not await is_answered_by_replica(memory)
        assert await everything() == of_replica


async def test_readers_go_on_while_the_standby_restarts(
    all_servers: Servers, primary: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memory_sql")
    standby = all_servers.standby(primary)
    async with opened(primary, standby) as memory:
        await memory.observe("Mia's anchor is heavy.", **MIA)
        await caught_up(primary, standby)
        assert await is_answered_by_replica(memory)
        standby.stop("immediate")
        for _ in range(4):
            assert "anchor" in await told(memory)
        standby.start()
        await until_answered_by_replica(memory)
        assert "anchor" in await told(memory)
    assert turns(caplog) == ["the replica can't be used", "the replica is back"]


async def test_a_standby_that_is_gone_at_the_start_is_used_when_it_comes(
    all_servers: Servers, primary: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memory_sql")
    standby = all_servers.standby(primary)
    standby.stop()
    async with opened(primary, standby) as memory:
        await memory.observe("Mia's rope is long.", **MIA)
        assert "rope" in await told(memory)
        standby.start()
        await until_answered_by_replica(memory)
    assert turns(caplog) == ["the replica can't be used", "the replica is back"]


async def test_a_standby_that_is_promoted_is_read_no_more(
    all_servers: Servers, primary: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memory_sql")
    standby = all_servers.standby(primary)
    async with opened(primary, standby) as memory:
        seen = await memory.observe("Mia's lamp is lit.", **MIA)
        await caught_up(primary, standby)
        assert await is_answered_by_replica(memory)
        standby.promote()
        await memory.forget(seen.id, agent_id="ada", wait=False)
        assert "lamp" not in await told(memory)
        assert "lamp" not in await told(memory)
    assert turns(caplog) == ["the replica can't be used"]
    async with opened(primary, standby) as memory:
        assert not await is_answered_by_replica(memory)


async def test_of_two_standbys_the_other_is_read_once_one_is_promoted(all_servers: Servers, primary: Server) -> None:
    first, second = all_servers.standby(primary), all_servers.standby(primary)
    hosts = f"host={first.directory},{second.directory}&port=5432,5432"
    either = f"postgresql://postgres@/postgres?{hosts}&target_session_attrs=standby"
    async with Memory(primary.url, Scripted(), Settings(llm="offline", read_url=either)) as memory:
        await until_answered_by_replica(memory)
        first.promote()
        await memory.observe("Mia's buoy is red.", **MIA)
        assert "buoy" in await told(memory)
        await caught_up(primary, second)
        await until_answered_by_replica(memory)
        assert "buoy" in await told(memory)


async def test_a_read_that_recovery_cancels_goes_by_the_primary(
    all_servers: Servers, primary: Server, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memory_sql")
    standby = all_servers.standby(primary)
    await said(standby, "ALTER SYSTEM SET max_standby_streaming_delay = 0", "SELECT pg_reload_conf()")
    async with opened(primary, standby) as memory:
        seen = await memory.observe("Mia's net is wet.", **MIA)
        await caught_up(primary, standby)
        slow = select(
            case((func.pg_is_in_recovery(), func.pg_sleep(bindparam("seconds")).is_(None)), else_=True).label("y")
        )

        async def step(reader: Any) -> Any:
            return await ask(reader, slow, {"seconds": 60.0})

        reading = asyncio.create_task(memory._runtime.reads.servers.read(step))
        sleeps = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND backend_xmin IS NOT NULL"
        await until(lambda: said(standby, sleeps))
        await memory.observations.mark(seen.id, **MIA, private=True)
        await said(primary, "DELETE FROM memory.observation_feedback", "UPDATE memory.agents SET settings = settings")
        await said(primary, "VACUUM memory.agents")
        async with asyncio.timeout(30):
            assert await reading
        await caught_up(primary, standby)
        assert await is_answered_by_replica(memory)
    assert turns(caplog) == ["a read on the replica goes by the primary"]


async def test_readers_go_on_without_the_primary_and_writers_are_told(
    all_servers: Servers, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "memory_sql")
    primary = all_servers.primary()
    await asyncio.to_thread(migrate.upgrade, primary.url, schema=recycling.SCHEMA)
    standby = all_servers.standby(primary)
    async with opened(primary, standby, read_max_lag_seconds=0.1) as memory:
        await memory.observe("Mia's tide table is new.", **MIA)
        await told(memory)
        await caught_up(primary, standby)
        primary.stop("immediate")
        async with asyncio.timeout(10):
            while "reads go by the replica alone" not in turns(caplog):  # not at once: it was asked just before
                assert "tide" in await told(memory)
        with pytest.raises(DatabaseError, match="can't be reached"):
            await memory.observe("Mia's tide table is old.", **MIA)
        with pytest.raises(DatabaseError, match="can't be reached"):
            await told(memory, after="ffffffffffff")
        assert "tide" in await told(memory)
        primary.start()
        await memory.observe("Mia's tide table is blue.", **MIA)
        assert "blue" in await told(memory)
        await caught_up(primary, standby)
        await until_answered_by_replica(memory)
    assert "the primary is back" in turns(caplog)


async def test_a_replica_of_another_database_is_refused(all_servers: Servers, primary: Server) -> None:
    strange = all_servers.primary()
    await asyncio.to_thread(migrate.upgrade, strange.url, schema=recycling.SCHEMA)
    with pytest.raises(ConfigurationError, match="another database"):
        async with opened(strange, all_servers.standby(primary)):
            pass


async def test_a_replica_that_has_not_heard_yet_what_it_is_of_is_read_once_it_has(
    all_servers: Servers, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The primary gets its incarnation when it is first opened, and another with `db renew`."""
    caplog.set_level(logging.INFO, "memory_sql")
    monkeypatch.setattr(replica, "RETRY_SECONDS", 0.05)
    primary = all_servers.primary()
    await asyncio.to_thread(migrate.upgrade, primary.url, schema=recycling.SCHEMA)
    standby = all_servers.standby(primary)
    await pause(primary, standby)
    await migrate.renew(primary.url, recycling.SCHEMA)
    async with opened(primary, standby, read_max_lag_seconds=0.1) as memory:
        await memory.observe("Mia's tide table is new.", **MIA)
        assert "tide" in await told(memory)
        assert turns(caplog) == ["the replica can't be used"]
        await said(standby, "SELECT pg_wal_replay_resume()")
        await until_answered_by_replica(memory)
    assert turns(caplog)[:2] == ["the replica can't be used", "the replica is back"]


async def until_answered_by_replica(memory: Memory) -> None:
    await until(lambda: is_answered_by_replica(memory))


TURNS = (
    "the replica can't be used",
    "the replica is back",
    "a read on the replica goes by the primary",
    "reads go by the replica alone",
    "the primary is back",
)


def turns(caplog: pytest.LogCaptureFixture) -> list[str]:
    said = [record.getMessage() for record in caplog.records if record.name == "memory_sql"]
    return [turn for one in said for turn in TURNS if one.startswith(turn)]
