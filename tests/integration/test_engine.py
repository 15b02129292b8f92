"""`Database.reading`: hot paths fetch through the driver itself, with the pool, errors, walls and sessions of any read."""

import asyncio
import logging
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import REAL, BigInteger, Integer, Select, Text, bindparam, cast, column, func, literal, select
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.exc import ProgrammingError
from sqlalchemy.ext.asyncio import async_sessionmaker

from memory_sql.config import Settings
from memory_sql.db import Session
from memory_sql.db.engine import OVERFLOW, Database
from memory_sql.db.principals import service
from memory_sql.db.savepoints import taken_back
from memory_sql.db.urls import CACHE_SIZE, asyncpg_url
from memory_sql.errors import DatabaseError
from memory_sql.memory import Memory
from tests.database import rows, statements
from tests.fakes import Scripted

ECHO = select(
    bindparam("n", type_=BigInteger).label("n"),
    func.jsonb_build_object("a", bindparam("word", type_=Text), type_=JSONB).label("pair"),
    cast(0.5, REAL).label("share"),
    bindparam("word", type_=Text).in_(["tea", "milk"]).label("known"),
    func.array_length(func.string_to_array("x y", " "), 1, type_=Integer).label("words"),
)
SLEEP = select(func.pg_sleep(bindparam("seconds", type_=Integer)))
NOWHERE: Select[Any] = select(column("word")).select_from(func.memory.nowhere(bindparam("word", type_=Text)))


async def test_rows_are_the_same_past_sqlalchemy_and_in_a_session(memory: Memory) -> None:
    given = {"n": 7, "word": "tea"}
    async with memory.database.reading() as reader:
        direct = [tuple(row) for row in await reader.execute(ECHO, given)]
        named = [(row.n, row.pair, row.share, row.known, row.words) for row in await reader.execute(ECHO, given)]
    async with memory.database.transaction() as session, memory.database.reading(session) as reader:
        assert reader is session
        joined = [tuple(row) for row in await reader.execute(ECHO, given)]
    assert direct == named == joined == [(7, {"a": "tea"}, 0.5, True, 2)]


@pytest.mark.direct
async def test_statement_is_one_round_trip_without_a_transaction(memory: Memory) -> None:
    began = select(func.now().label("at"))
    with statements(memory) as seen:
        async with memory.database.reading() as reader:
            [first] = await reader.execute(began, {})
            [second] = await reader.execute(began, {})
    assert first.at < second.at
    assert len(seen) == 2


async def test_connection_that_is_closed_is_told_as_any_pool_of_sqlalchemy_tells_it(
    memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """And not among what memory has to say, where a worker or a host that logs at `INFO` would print it."""
    for name in ("memory_sql", "sqlalchemy"):
        caplog.set_level(logging.INFO, name)
    async with memory.database.engine.connect() as connection:
        await connection.invalidate()
    told = {record.name.split(".")[0] for record in caplog.records if "Invalidate" in record.getMessage()}
    assert told == {"sqlalchemy"}


async def test_refusal_is_a_named_error_without_the_value(memory: Memory) -> None:
    for statement, value in ((NOWHERE, "my secret"), (ECHO, object())):
        with pytest.raises(DatabaseError) as caught:
            async with memory.database.reading() as reader:
                await reader.execute(statement, {"word": value, "n": 1})
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None
    async with memory.database.reading() as reader:  # the connection can be used again
        assert len(list(await reader.execute(ECHO, {"n": 1, "word": "tea"}))) == 1


@pytest.mark.direct
async def test_parameter_that_is_missing_is_an_error(memory: Memory) -> None:
    with pytest.raises(KeyError):
        async with memory.database.reading() as reader:
            await reader.execute(ECHO, {"n": 1})


async def test_in_the_hosts_session_errors_are_the_hosts(memory: Memory) -> None:
    async with async_sessionmaker(memory.database.engine)() as session:
        with pytest.raises(ProgrammingError):
            async with memory.database.reading(session) as reader:
                await reader.execute(NOWHERE, {"word": "x"})


async def test_cancelled_read_gives_its_connection_back(database_url: str) -> None:
    database = Database(database_url, pool_size=1)

    async def sleep() -> None:
        async with database.reading() as reader:
            await reader.execute(SLEEP, {"seconds": 60})

    asked = asyncio.create_task(sleep())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asked, 0.2)
    async with asyncio.timeout(20), database.reading() as reader:
        assert [row.n for row in await reader.execute(ECHO, {"n": 1, "word": "tea"})] == [1]
    await database.close()


@pytest.mark.direct
async def test_connection_that_the_server_closed_is_not_used_again(database_url: str) -> None:
    database, other = Database(database_url, pool_size=1), Database(database_url)
    own = select(func.pg_backend_pid().label("pid"))
    async with database.reading() as reader:
        [first] = await reader.execute(own, {})
        driver = reader.connection  # type: ignore[attr-defined]
    async with other.reading() as reader:
        await reader.execute(select(func.pg_terminate_backend(bindparam("pid", type_=Integer))), {"pid": first.pid})
    async with asyncio.timeout(20):
        while not driver.is_closed():  # noqa: ASYNC110 (no event tells us)
            await asyncio.sleep(0)
    async with database.reading() as reader:
        [second] = await reader.execute(own, {})
    assert second.pid != first.pid
    await database.close()
    await other.close()


@pytest.mark.direct
async def test_connections_beyond_those_that_the_pool_keeps_are_closed(database_url: str) -> None:
    database = Database(database_url, pool_size=1)
    own = select(func.pg_backend_pid().label("pid"))
    async with AsyncExitStack() as held:
        readers = [await held.enter_async_context(database.reading()) for _ in range(3)]
        drivers = [reader.connection for reader in readers]  # type: ignore[attr-defined]
        pids = {row.pid for reader in readers for row in await reader.execute(own, {})}
    assert len(pids) == 3
    assert [driver.is_closed() for driver in drivers].count(False) == 1
    async with database.reading() as reader:
        [kept] = await reader.execute(own, {})
    assert kept.pid in pids
    await database.close()


@pytest.mark.direct
async def are_queued(database: Database, count: int) -> list[asyncio.Future[Any]]:
    """Waits until so many wait for a connection."""
    queue: Any = database.engine.pool._pool  # type: ignore[attr-defined]
    while len(queue._waiting) < count:  # noqa: ASYNC110 (asyncio runs them in between)
        await asyncio.sleep(0)
    return [*queue._waiting]


async def test_connections_are_lent_in_the_order_in_which_they_are_asked_for(database_url: str) -> None:
    """Whoever gives one back and at once asks again comes last; who gave up is left out."""
    database, served = Database(database_url, pool_size=1), list[str]()

    async def read(name: str) -> None:
        async with database.reading():
            served.append(name)

    async def write(name: str) -> None:
        async with database.transaction() as session:
            await session.execute(select(1))
            served.append(name)

    try:
        async with AsyncExitStack() as all_but_one:
            last = AsyncExitStack()
            await last.enter_async_context(database.reading())
            for _ in range(OVERFLOW):
                await all_but_one.enter_async_context(database.reading())
            asked = [read("first"), write("second"), read("gone"), write("third")]
            waiting = [asyncio.create_task(one) for one in asked]
            await are_queued(database, len(waiting))
            waiting[2].cancel()
            await last.aclose()
            await read("again")
            await asyncio.gather(*waiting, return_exceptions=True)
        assert served == ["first", "second", "third", "again"]
        assert database.engine.pool.status().endswith("connections: 0")
    finally:
        await database.close()


async def test_connection_that_was_handed_to_who_gives_up_goes_on(database_url: str) -> None:
    database = Database(database_url, pool_size=1)
    pool = database.engine.pool

    async def read() -> None:
        async with database.reading():
            pass

    try:
        async with AsyncExitStack() as held:
            for _ in range(1 + OVERFLOW):
                await held.enter_async_context(database.reading())
            first, second = asyncio.create_task(read()), asyncio.create_task(read())
            (handed, _) = await are_queued(database, 2)
            handed.add_done_callback(lambda _: first.cancel())
        await second
        with pytest.raises(asyncio.CancelledError):
            await first
        assert pool.status().endswith("connections: 0")
        await read()
    finally:
        await database.close()


async def test_full_pool_is_a_named_error(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(database_url, pool_size=1)
    pool: Any = database.engine.sync_engine.pool
    monkeypatch.setattr(pool, "_max_overflow", 0)
    monkeypatch.setattr(pool, "_timeout", 0.05)
    async with database.reading() as first:
        await first.execute(select(literal(1).label("one")), {})  # behind a pooler only a statement takes a connection
        with pytest.raises(DatabaseError, match="MEMORY_SQL_POOL_SIZE"):
            async with database.reading() as second:
                await second.execute(select(literal(1).label("one")), {})
    await database.close()


@pytest.mark.direct
async def test_database_that_is_not_there_is_a_named_error(database_url: str) -> None:
    database = Database(asyncpg_url(database_url).set(database="nowhere_to_be_found"))
    with pytest.raises(DatabaseError, match="refuses this database"):
        async with database.reading():
            pass
    await database.close()


async def test_principal_is_named_where_walls_stand_and_a_pooler_gets_a_transaction(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    url = asyncpg_url(database_url).update_query_dict({CACHE_SIZE: "0"}).render_as_string(hide_password=False)
    async with Memory(url, llm, settings) as pooled:
        await pooled.observe("Tea.", agent_id="ada", user_id="mia")
        async with pooled.database.reading() as reader:
            assert [row.n for row in await reader.execute(ECHO, {"n": 1, "word": "tea"})] == [1]
        assert "Tea." in str(await pooled.context(agent_id="ada", user_id="mia"))
        pooled.database.walled = True
        named = select(func.memory.principal(type_=JSONB).label("who"))
        async with pooled.database.reading(principal=service("ada")) as reader:
            assert [row.who for row in await reader.execute(named, {})] == [{"serves": "ada"}]
        assert await rows(pooled, "SELECT memory.principal()") == [({"serves_all": True},)]


GONE = select(func.pg_terminate_backend(func.pg_backend_pid()))


@pytest.mark.direct
@pytest.mark.parametrize("locks", [True, False], ids=["first savepoint", "another"])
async def test_connection_that_is_lost_in_what_is_taken_back_is_named(database_url: str, locks: bool) -> None:
    database = Database(database_url)

    async def look(unit: Session) -> None:
        async with taken_back(unit):
            await unit.execute(GONE)

    with pytest.raises(DatabaseError, match=r"closed the connection|shutting down"):
        await database.write(look, locks=locks)
    await database.close()


async def test_connection_that_the_driver_knows_to_be_closed_is_named(database_url: str) -> None:
    """Then it sends nothing, and its error has no code."""
    database = Database(database_url)

    async def end(unit: Session) -> None:
        driver: Any = (await (await unit.connection()).get_raw_connection()).driver_connection
        driver.terminate()
        await unit.execute(select(1))

    with pytest.raises(DatabaseError, match=r"^the database closed the connection$"):
        await database.write(end)
    await database.close()
