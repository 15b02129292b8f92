"""Shards that are read from a replica each."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from sqlalchemy import make_url

from memory_sql.config import Settings
from memory_sql.db import migrate, replica
from memory_sql.errors import ConfigurationError, InputError
from memory_sql.memory import Memory
from memory_sql.shards import moving, places
from tests import recycling
from tests.asgi import lived
from tests.integration.test_replica import caught_up, is_answered_by_replica, pause, said, until
from tests.recycling import administer, named
from tests.sharding import asked, joined
from tests.standby import Server, programs, servers

pytestmark = [
    pytest.mark.slow,
    pytest.mark.direct,
    pytest.mark.skipif(programs() is None, reason="no Postgres programs are installed that could make a standby"),
]
TEMPLATE = "migrated"
PATIENT = Settings(llm="offline", read_max_lag_seconds=3600.0)
ADA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
BOB: dict[str, Any] = {"agent_id": "bob", "user_id": "mia"}


@pytest.fixture(scope="module")
def pair() -> Iterator[tuple[Server, Server]]:
    with servers() as made:
        primary = made.primary()
        yield primary, made.standby(primary)


@pytest.fixture(scope="module")
def template(pair: tuple[Server, Server]) -> str:
    asyncio.run(administer(pair[0].url, f"CREATE DATABASE {TEMPLATE}"))
    migrate.upgrade(named(pair[0].url, TEMPLATE), schema=recycling.SCHEMA)
    return TEMPLATE


@pytest.fixture
async def shards(
    pair: tuple[Server, Server], template: str, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[dict[str, str]]:
    monkeypatch.setattr(replica, "RETRY_SECONDS", 0.0)
    monkeypatch.setattr(replica, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(places, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(moving, "LATE_SECONDS", 0.0)
    primary, standby = pair
    async with joined(primary.url, template, "a", "b") as urls:
        try:
            yield urls
        finally:
            await said(standby, "SELECT pg_wal_replay_resume()")


def behind(pair: tuple[Server, Server], shards: dict[str, str]) -> dict[str, str]:
    """The URLs of the shards on the standby."""
    return {name: named(pair[1].url, str(make_url(url).database)) for name, url in shards.items()}


@asynccontextmanager
async def opened(pair: tuple[Server, Server], shards: dict[str, str]) -> AsyncIterator[Memory]:
    """Once the standby has the shards."""
    await caught_up(*pair)
    async with Memory(shards=shards, read_url=behind(pair, shards), settings=PATIENT) as memory:
        yield memory


async def told(memory: Memory, **who: Any) -> str:
    return str(await memory.context(**who))


async def answering(memory: Memory, name: str) -> bool:
    return await is_answered_by_replica(memory._spread.shards[name].memory)


async def test_each_agent_is_read_from_the_replica_of_its_shard(
    pair: tuple[Server, Server], shards: dict[str, str]
) -> None:
    async with opened(pair, shards) as memory:
        await memory.observe("Mia's boat is called Petrel.", **ADA)
        await memory.observe("Mia's boat is called Gannet.", **BOB)
        await caught_up(*pair)
        assert [await answering(memory, name) for name in shards] == [True, True]
        await pause(*pair)
        await memory.observe("Mia's boat leaks.", **BOB)
        assert "Petrel" in await told(memory, **ADA)
        assert "leaks" in await told(memory, **BOB)
        assert [await answering(memory, name) for name in shards] == [True, False]


async def test_an_agent_that_has_moved_is_read_where_it_is(pair: tuple[Server, Server], shards: dict[str, str]) -> None:
    """By who moved it, by who knew where it was, and by who never heard of it: the replica hasn't heard either."""
    async with opened(pair, shards) as memory, opened(pair, shards) as other, opened(pair, shards) as third:
        await memory.observe("Mia's boat is called Petrel.", **ADA)
        await caught_up(*pair)
        for one in (memory, other):
            assert "Petrel" in await told(one, **ADA)
        assert [await answering(third, name) for name in shards] == [True, True]
        await pause(*pair)
        await memory.admin.move(agent_id="ada", to="b")
        for one in (memory, other, third):
            assert "Petrel" in await told(one, **ADA)
            assert (await one.search("petrel", **ADA)).results


async def test_a_position_names_each_shard(pair: tuple[Server, Server], shards: dict[str, str]) -> None:
    async with opened(pair, shards) as memory, opened(pair, shards) as other:
        await memory.observe("Mia likes tea.", **ADA)
        await memory.observe("Mia likes rum.", **BOB)
        await caught_up(*pair)
        assert "tea" in await told(other, **ADA)
        assert "rum" in await told(other, **BOB)
        await pause(*pair)
        await memory.observe("Mia likes gin.", **ADA)
        assert "gin" not in await told(other, **ADA)
        position = await memory.admin.position()
        assert [part.partition("=")[0] for part in position.split()] == ["a", "b"]
        assert "gin" in await told(other, **ADA, after=position)
        assert "rum" in await told(other, **BOB, after=position)
        for wrong in ("1f3", "a=", "a=x", "=1", "a=1 b", 3):
            with pytest.raises(InputError, match=r"after must be what admin\.position returned"):
                await told(other, **ADA, after=wrong)


async def test_a_shard_without_a_replica_is_read_itself(pair: tuple[Server, Server], shards: dict[str, str]) -> None:
    await caught_up(*pair)
    text = f"b={behind(pair, shards)['b']}"
    async with Memory(shards=shards, settings=PATIENT.model_copy(update={"read_url": text})) as memory:
        await memory.observe("Mia likes tea.", **ADA)
        await caught_up(*pair)
        assert [await answering(memory, name) for name in shards] == [False, True]
        assert "tea" in await told(memory, **ADA)


async def test_forgetting_waits_for_the_replicas(pair: tuple[Server, Server], shards: dict[str, str]) -> None:
    async with opened(pair, shards) as memory, opened(pair, shards) as other:
        await memory.observe("Mia likes tea.", **ADA)
        await memory.observe("Mia likes rum.", **BOB)
        await caught_up(*pair)
        for who in (ADA, BOB):
            assert "likes" in await told(other, **who)
        await pause(*pair)
        forgetting = asyncio.create_task(memory.people.forget("mia"))
        for url in shards.values():
            await until(partial(_is_empty, url))
        for who in (ADA, BOB):
            assert "likes" in await told(other, **who)
        assert not forgetting.done()
        await said(pair[1], "SELECT pg_wal_replay_resume()")
        await forgetting
        for who in (ADA, BOB):
            assert "likes" not in await told(other, **who)


async def _is_empty(url: str) -> bool:
    return await asked(url, "SELECT count(*) FROM memory.observations") == [(0,)]


async def test_the_server_tells_where_each_shard_is(pair: tuple[Server, Server], shards: dict[str, str]) -> None:
    create_app = pytest.importorskip("memory_sql.server").create_app
    await caught_up(*pair)
    only = {"b": behind(pair, shards)["b"]}
    async with Memory(shards=shards, read_url=only, settings=PATIENT) as memory:
        key = await memory.keys.create("chat", rights=["read", "write"], agents=["ada", "bob"])
        async with lived(create_app(memory, mcp=False)) as nobody:
            host = nobody.with_key(key.secret)
            made = await host("POST", "/v1/agents/ada/observations", {"user_id": "mia", "text": "Mia likes tea."})
            position = made.headers["memory-position"]
            assert [part.partition("=")[0] for part in position.split()] == ["a", "b"]
            body = {"user_id": "mia", "after": position}
            assert "tea" in (await host("POST", "/v1/agents/ada/context", body)).text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"read_url": "postgresql://nowhere/none"}, "with shards read_url names a replica by shard: a=URL b=URL"),
        ({"read_url": {"c": "postgresql://nowhere/none"}}, "read_url names c, which is no shard"),
        ({"read_url": {"a": ""}}, "a needs a URL"),
    ],
)
def test_wrong_replicas_are_refused(given: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Memory(shards={"a": "postgresql://nowhere/none"}, **given)


def test_one_database_has_one_replica() -> None:
    with pytest.raises(ConfigurationError, match="read_url names replicas by shard, and there are no shards"):
        Memory("postgresql://nowhere/none", read_url={"a": "postgresql://nowhere/none"})
