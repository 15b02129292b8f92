"""`Memory(engine=…)`: everything runs on the host's own pool, and nothing of ours stays in it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, StaticPool, create_engine, event, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from memory_sql.config import Settings
from memory_sql.db import hosted as on_engine
from memory_sql.db.principals import service
from memory_sql.db.roles import Roles
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, DatabaseError, InputError, LockTimeoutError, PoolFullError
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.conftest import as_login
from tests.database import rows, serving, statements
from tests.factories import conversation, message
from tests.fakes import Scripted, extracted
from tests.pooler import Pooler

PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
OFFLINE = Settings(llm="offline")
OF_SESSION = r"""
SELECT name, setting FROM pg_settings WHERE source = 'session' AND setting IS DISTINCT FROM reset_val
  AND name NOT LIKE 'transaction\_%'
UNION ALL SELECT 'lock', locktype FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory'
UNION ALL SELECT 'table', relname FROM pg_class WHERE relpersistence = 't'
UNION ALL SELECT 'listens', pg_listening_channels()
"""


@asynccontextmanager
async def engine_on(url: str, **options: Any) -> AsyncIterator[AsyncEngine]:
    engine = create_async_engine(asyncpg_url(url), **options)
    yield engine
    await engine.dispose()


@pytest.fixture
async def engine(database_url: str) -> AsyncIterator[AsyncEngine]:
    async with engine_on(database_url) as made:
        yield made


@pytest.fixture
async def hosted(engine: AsyncEngine, llm: Scripted, settings: Settings) -> AsyncIterator[Memory]:
    async with Memory(llm=llm, settings=settings, engine=engine) as opened:
        yield opened


async def settled(memory: Memory, sql: str, count: int, **parameters: Any) -> None:
    """Until the query counts so many; asks again and again, since nobody tells."""
    async with asyncio.timeout(20):
        while (await rows(memory, sql, **parameters))[0][0] != count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@asynccontextmanager
async def opened_on(url: str, llm: Scripted, **options: Any) -> AsyncIterator[tuple[Memory, AsyncEngine]]:
    async with engine_on(url, **options) as engine, Memory(llm=llm, settings=OFFLINE, engine=engine) as memory:
        yield memory, engine


async def remembers(memory: Memory, llm: Scripted) -> None:
    """All ways to a connection: the driver's, a statement's, a transaction's, the host's."""
    llm.then(extracted(("Prefers tea.", "individual")))
    added = await memory.add([message("I prefer tea.")], **MIA, conversation_id="s", wait=True)
    assert [one.content for one in added.observations] == ["Prefers tea."]
    told = await memory.observe("Has bay 4711.", **MIA, fact_key="bay", metadata={"share": 0.5, "word": "é"})
    assert told.metadata == {"share": 0.5, "word": "é"}
    assert (await memory.observations.get(told.id, **MIA)).metadata == told.metadata
    assert "4711" in str(await memory.context(**MIA, message="Which bay do I have?"))
    assert [hit.observation.id for hit in (await memory.search("bay", **MIA)).results] == [told.id]
    assert len([line async for line in memory.people.export(**MIA)]) > 2
    assert (await memory.admin.stats(agent_id="ada")).observations == 2
    assert list(await memory.admin.verify()) == []
    await memory.forget(Selection(user_id="mia"), agent_id="ada")
    assert await memory.observations.list(**MIA) == []


# It works, and the engine is as it was


@pytest.mark.slow
async def test_everything_works_on_the_engine_of_a_host(hosted: Memory, llm: Scripted, engine: AsyncEngine) -> None:
    await remembers(hosted, llm)
    assert hosted.database.engine is engine


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"poolclass": NullPool},
        {"pool_size": 1, "max_overflow": 0, "pool_timeout": 5, "pool_use_lifo": True},
        {"pool_size": 0},
        {"pool_pre_ping": True, "pool_recycle": 1},
        {"isolation_level": "AUTOCOMMIT"},
        {"isolation_level": "SERIALIZABLE"},
        {"execution_options": {"schema_translate_map": {"memory": "elsewhere", None: "tenant"}}},
        {"execution_options": {"stream_results": True}},
        {"json_serializer": partial(json.dumps, separators=(",", ":"), ensure_ascii=False)},
        {"echo": "debug", "echo_pool": "debug"},
        {"connect_args": {"server_settings": {"timezone": "Asia/Kathmandu", "search_path": "nowhere"}}},
        {"connect_args": {"server_settings": {"default_transaction_isolation": "serializable"}}},
        {"connect_args": {"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}},
        {"connect_args": {"prepared_statement_cache_size": 0}},
    ],
    ids=lambda options: "-".join(options),
)
@pytest.mark.direct
async def test_hosts_own_options_change_nothing(options: dict[str, Any], database_url: str, llm: Scripted) -> None:
    async with opened_on(database_url, llm, **options) as (memory, _):
        await remembers(memory, llm)


def listeners(engine: AsyncEngine) -> dict[str, int]:
    """How many of each kind the engine, its dialect and its pool have."""
    counts = {}
    targets: tuple[Any, ...] = (engine.sync_engine, engine.sync_engine.pool, engine.dialect)
    for target in targets:
        for name in target.dispatch._event_names:
            counts[f"{type(target).__name__}.{name}"] = len(getattr(target.dispatch, name))
    return counts


@pytest.mark.slow
@pytest.mark.direct
async def test_nothing_of_ours_stays_in_the_engine_or_in_a_session_of_the_host(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    async with engine_on(database_url, pool_size=1, max_overflow=0, isolation_level="REPEATABLE READ") as engine:
        async with engine.connect() as connection:  # the first one sets up the dialect
            levels = await connection.get_isolation_level(), await connection.scalar(text("SHOW timezone"))
            pid = await connection.scalar(text("SELECT pg_backend_pid()"))
        before, options = listeners(engine), dict(engine.get_execution_options())
        async with Memory(llm=llm, settings=settings, engine=engine) as memory:
            await remembers(memory, llm)
            assert listeners(engine) == before
        assert listeners(engine) == before
        assert dict(engine.get_execution_options()) == options
        async with engine.connect() as connection:  # still open, the same one
            assert await connection.scalar(text("SELECT pg_backend_pid()")) == pid
            assert (await connection.execute(text(OF_SESSION))).all() == []
            assert (await connection.get_isolation_level(), await connection.scalar(text("SHOW timezone"))) == levels
            assert await connection.scalar(text("SHOW transaction_isolation")) == "repeatable read"


@pytest.mark.open
@pytest.mark.direct
async def test_hot_calls_take_one_round_trip_and_a_transaction_one_more_than_on_an_own_engine(
    hosted: Memory, memory: Memory
) -> None:
    said = [{"role": "user", "content": "Tea."}]
    calls: list[Callable[[Memory], Any]] = [
        lambda m: m.add(said, **MIA, conversation_id="s"),
        lambda m: m.observe("Tea.", **MIA),
        lambda m: m.context(**MIA, message="What?"),
        lambda m: m.digest(**MIA),
        lambda m: m.search("tea", **MIA),
        lambda m: m.observations.list(**MIA),
    ]
    for call in calls:
        with statements(hosted) as seen:
            await call(hosted)
        assert len(seen) == 1
    with statements(memory) as own:
        await memory.observe("Tea.", **MIA, fact_key="drink")
    with statements(hosted) as seen:
        await hosted.observe("Milk.", **MIA, fact_key="breakfast")
    limits = [one for one in seen if one.startswith("SELECT set_config") and "enter" not in one]
    assert len(limits) == 1
    assert len(seen) == len(own) + len(limits)


@pytest.mark.slow
async def test_limit_on_waiting_for_locks_holds_for_single_statements_and_in_transactions(
    database_url: str, engine: AsyncEngine, llm: Scripted
) -> None:
    async with Memory(llm=llm, settings=Settings(llm="offline", lock_timeout_seconds=0.2), engine=engine) as memory:
        await memory.add(conversation(1), **MIA, conversation_id="s")
        await memory.observe("Tea.", **MIA)
        async with AsyncSession(engine) as other:
            await memory.add(conversation(1, first=2), **MIA, conversation_id="s", session=other)
            await memory.observe("Boats.", **MIA, session=other)
            with pytest.raises(LockTimeoutError):
                await memory.add(conversation(1, first=3), **MIA, conversation_id="s")
            with pytest.raises(LockTimeoutError):
                await memory.observe("Gates.", **MIA)
            with pytest.raises(LockTimeoutError):
                await memory.observe("Gates.", **MIA, fact_key="g")
            async with asyncio.timeout(5):
                assert len(await memory.observations.list(**MIA)) == 1  # who reads waits for nobody


@pytest.mark.direct
async def test_transaction_that_stands_still_is_ended(engine: AsyncEngine, llm: Scripted) -> None:
    async with Memory(llm=llm, settings=Settings(llm="offline", idle_timeout_seconds=7), engine=engine) as memory:
        shown = "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('plan_cache_mode')"
        async with serving(memory) as unit:
            assert (await unit.execute(text(shown))).one() == ("7s", "force_generic_plan")
        async with memory.database.transaction(principal=service(None), snapshot=True) as unit:
            assert await unit.scalar(text("SHOW lock_timeout")) == "5s"


async def test_one_transaction_holds_the_hosts_rows_and_the_memory(hosted: Memory, engine: AsyncEngine) -> None:
    async with AsyncSession(engine) as session:
        await hosted.observe("Tea.", **MIA, session=session)
        assert await hosted.observations.list(**MIA) == []
        await session.rollback()
    assert await hosted.observations.list(**MIA) == []


async def test_full_pool_is_a_named_error(database_url: str, llm: Scripted, settings: Settings) -> None:
    async with engine_on(database_url, pool_size=1, max_overflow=0, pool_timeout=0.1) as engine:
        async with Memory(llm=llm, settings=settings, engine=engine) as memory, engine.connect():
            for call in (memory.context(**MIA), memory.observe("Tea.", **MIA), memory.admin.stats(agent_id="ada")):
                with pytest.raises(PoolFullError):
                    await call
        assert engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.direct
async def test_connections_that_the_server_closed_are_replaced(hosted: Memory, engine: AsyncEngine) -> None:
    own = text("SELECT pg_backend_pid()")
    kill = text("SELECT pg_terminate_backend(pid, 5000) FROM unnest(CAST(:pids AS int[])) pid")

    async def cut() -> None:
        async with engine.connect() as first, engine.connect() as second:
            pids = [await one.scalar(own) for one in (first, second)]
        async with engine_on(engine.url.render_as_string(hide_password=False)) as elsewhere, elsewhere.begin() as other:
            await other.execute(kill, {"pids": pids})

    await cut()
    assert (await hosted.observe("Tea.", **MIA)).content == "Tea."  # past SQLAlchemy
    await cut()
    assert (await hosted.admin.stats(agent_id="ada")).observations == 1  # by it
    await cut()
    assert (await hosted.observe("Milk.", **MIA, fact_key="drink")).content == "Milk."


async def test_what_a_listener_of_the_host_sets_on_checkout_counts_and_takes_nothing_back(
    hosted: Memory, engine: AsyncEngine
) -> None:
    """It leaves a transaction open: what is done in that would go when the connection goes back."""

    def tag(connection: Any, _record: Any, _proxy: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("SET application_name = 'tenant'")
        cursor.close()

    event.listen(engine.sync_engine, "checkout", tag)
    async with serving(hosted) as unit:
        assert await unit.scalar(text("SHOW application_name")) == "tenant"
    await hosted.add(conversation(1), **MIA, conversation_id="s")
    await hosted.observe("Tea.", **MIA)
    event.remove(engine.sync_engine, "checkout", tag)
    assert len(await hosted.observations.list(**MIA)) == 1
    assert await rows(hosted, "SELECT count(*) FROM memory.messages") == [(1,)]


async def test_cancelled_calls_give_their_connections_back_unused(database_url: str, llm: Scripted) -> None:
    async with opened_on(database_url, llm, pool_size=1, max_overflow=0, pool_timeout=10) as (memory, engine):
        for delay in (0, 0.001, 0.002, 0.004, 0.008):
            for call in (memory.observe(f"Tea {delay}.", **MIA), memory.admin.stats(agent_id="ada")):
                asked = asyncio.create_task(call)
                await asyncio.sleep(delay)
                asked.cancel()
                await asyncio.wait({asked})
        async with engine.begin() as connection:
            assert await connection.scalar(text("SELECT 1")) == 1
        await memory.observe("Boats.", **MIA)


async def test_call_that_is_cancelled_while_its_connection_is_looked_at_gives_it_back(
    database_url: str, llm: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something unread, as a call that was cancelled before leaves it, is waited for."""
    async with opened_on(database_url, llm, pool_size=1, max_overflow=0, pool_timeout=10) as (memory, engine):
        pool: Any = engine.pool
        monkeypatch.setattr(on_engine, "has_unread", lambda _driver: True)
        for call in (memory.observe("Tea.", **MIA), memory.admin.stats(agent_id="ada"), memory.search("tea", **MIA)):
            asked = asyncio.create_task(call)
            while not pool.checkedout():  # noqa: ASYNC110  (nothing tells of it)
                await asyncio.sleep(0)
            asked.cancel()
            await asyncio.wait({asked})
            assert (asked.cancelled(), pool.checkedout()) == (True, 0)


# Walls, pooler, worker, import


@pytest.mark.slow
async def test_walls_stand_on_the_engine_of_a_host(
    walled_database: str, roles: Roles, llm: Scripted, settings: Settings
) -> None:
    async with engine_on(as_login(walled_database, roles)) as engine:
        async with Memory(llm=llm, settings=settings, engine=engine) as memory:
            assert memory.database.walled
            await remembers(memory, llm)
            await memory.observe("Tea.", **MIA)
            assert await memory.observations.list(agent_id="ada", user_id="jonas") == []
        async with engine.connect() as connection:  # it names nobody, nor does what we left
            assert await connection.scalar(text("SELECT count(*) FROM memory.observations")) == 0


@pytest.mark.slow
async def test_engine_behind_a_pooler_is_known_by_its_connections(
    walled_database: str, pooler: Pooler, llm: Scripted
) -> None:
    unnamed = {"statement_cache_size": 0, "prepared_statement_name_func": lambda: ""}
    url = asyncpg_url(pooler.url(walled_database)).set(query={})
    async with opened_on(url.render_as_string(hide_password=False), llm, connect_args=unnamed) as (memory, _):
        assert memory.database.pooled
        await remembers(memory, llm)


@pytest.mark.slow
async def test_recipe_of_the_page_works_behind_a_pooler_in_many_processes(
    walled_database: str, many_pooled: Pooler, llm: Scripted
) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (recipe,) = (block for block in blocks if "prepared_statement_name_func" in block)
    url = asyncpg_url(many_pooled.url(walled_database)).render_as_string(hide_password=False)
    written = re.sub(r'"postgresql\+asyncpg://.*"', repr(url), recipe)
    assert written != recipe
    async with AsyncExitStack() as stack:
        memories = []
        for _ in range(3):
            names: dict[str, Any] = {"create_async_engine": create_async_engine}
            exec(written, names)
            stack.push_async_callback(names["engine"].dispose)
            memories.append(await stack.enter_async_context(Memory(llm=llm, settings=OFFLINE, engine=names["engine"])))
        for n in range(20):
            await asyncio.gather(*(memory.observe(f"Tea {n}.", **MIA) for memory in memories))
        assert len(await memories[0].observations.list(**MIA, limit=100)) == 20


@pytest.mark.slow
async def test_half_of_the_recipe_is_named_when_it_opens_and_when_it_fails(
    walled_database: str,
    many_pooled: Pooler,
    llm: Scripted,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url, whole = (
        many_pooled.url(walled_database),
        'connect_args={"statement_cache_size": 0, "prepared_statement_name_func"',
    )
    failed: list[Exception] = []

    async def observe(memory: Memory, n: int) -> None:
        try:
            await memory.observe(f"Tea {n}.", **MIA)
        except DatabaseError as error:
            failed.append(error)

    async with AsyncExitStack() as stack:
        try:
            for _ in range(3):
                monkeypatch.setattr("asyncpg.connection._uid", 0)  # as in a process of its own
                memory, _ = await stack.enter_async_context(opened_on(url, llm))
                assert whole in caplog.text
                await asyncio.gather(*(observe(memory, n) for n in range(10)))
        except DatabaseError as error:
            failed.append(error)
    assert failed
    assert all(re.search("42P05|26000|08P01", str(error)) and whole in str(error) for error in failed), failed


@pytest.mark.direct
async def test_worker_listens_beside_the_pool_and_takes_its_connection_away(
    hosted: Memory, engine: AsyncEngine, llm: Scripted
) -> None:
    llm.then(extracted(("Prefers tea.", "individual")))
    listening = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query ILIKE 'listen%'"
    stop = asyncio.Event()
    worker = asyncio.create_task(Worker(hosted, poll_seconds=60).run(stop))
    await settled(hosted, listening, 1)
    await hosted.add([message("I prefer tea.")], **MIA, conversation_id="s")
    await settled(hosted, "SELECT count(*) FROM memory.observations", 1)
    stop.set()
    assert (await worker).formed == 1
    await settled(hosted, listening, 0)
    async with engine.connect() as connection:
        assert (await connection.execute(text(OF_SESSION))).all() == []


@pytest.mark.direct
async def test_connections_apart_are_opened_as_the_hosts_and_closed(database_url: str, llm: Scripted) -> None:
    named = {"server_settings": {"application_name": "harbour"}}
    async with opened_on(database_url, llm, poolclass=NullPool, connect_args=named) as (memory, _):
        async with memory.database.apart(2) as own, own.transaction(principal=service(None)) as unit:
            await unit.execute(text("CREATE TEMPORARY TABLE staged (id int)"))
            pid = await unit.scalar(text("SELECT pg_backend_pid()"))
            assert await unit.scalar(text("SHOW application_name")) == "harbour"
        await settled(memory, "SELECT count(*) FROM pg_stat_activity WHERE pid = :pid", 0, pid=pid)


# What is refused


def elsewhere(call: Callable[[], Any]) -> None:
    async def run() -> None:
        await call()

    asyncio.run(run())


def test_engine_of_another_kind_is_refused_by_name(database_url: str) -> None:
    url = asyncpg_url(database_url)
    sync, psycopg = (
        url.set(drivername="postgresql+psycopg"),
        create_async_engine(url.set(drivername="postgresql+psycopg")),
    )
    for given, named in (
        (create_engine(sync), "AsyncEngine, not Engine"),
        (database_url, "AsyncEngine, not str"),
        (psycopg, "on asyncpg, not psycopg"),
        (create_async_engine(url, poolclass=StaticPool), "not StaticPool"),
    ):
        with pytest.raises(InputError, match=named):
            Memory(engine=given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="not both"):
        Memory(database_url, engine=create_async_engine(url))


async def test_json_that_is_read_otherwise_is_refused(database_url: str, llm: Scripted) -> None:
    for options in (
        {"json_deserializer": partial(json.loads, parse_float=Decimal)},
        {"json_serializer": lambda value: json.dumps({"wrapped": value})},
    ):
        async with engine_on(database_url, **options) as engine:
            with pytest.raises(ConfigurationError, match="json_serializer"):
                await Memory(llm=llm, engine=engine).open()


async def test_session_of_another_kind_is_refused_by_name(hosted: Memory, engine: AsyncEngine) -> None:
    psycopg = create_async_engine(engine.url.set(drivername="postgresql+psycopg"))
    alone = engine.execution_options(isolation_level="AUTOCOMMIT")
    async with engine.connect() as connection:
        given: list[tuple[Any, str]] = [
            (connection, "not AsyncConnection"),
            (Session(engine.sync_engine), "AsyncSession, not Session"),
            (AsyncSession(psycopg), "not psycopg"),
            (AsyncSession(), "bound to an engine"),
            (AsyncSession(alone), "AUTOCOMMIT"),
        ]
        for session, named in given:
            with pytest.raises(InputError, match=named):
                await hosted.observe("Tea.", **MIA, session=session)
            with pytest.raises(InputError, match=named):
                await hosted.context(**MIA, session=session)
            if isinstance(session, AsyncSession):
                await session.close()
    assert await hosted.observations.list(**MIA) == []


async def test_engine_that_was_disposed_of_is_named(engine: AsyncEngine, llm: Scripted, settings: Settings) -> None:
    memory = await Memory(llm=llm, settings=settings, engine=engine).open()
    await engine.dispose()
    for call in (memory.observe("Tea.", **MIA), memory.context(**MIA), memory.admin.stats(agent_id="ada")):
        with pytest.raises(InputError, match="disposed"):
            await call
    await memory.close()
    assert engine.pool.checkedin() == 0  # type: ignore[attr-defined]
    async with memory:  # it is the host's to begin again
        await memory.observe("Tea.", **MIA)


async def test_another_event_loop_is_named(
    database_url: str, hosted: Memory, memory: Memory, engine: AsyncEngine, llm: Scripted
) -> None:
    calls: list[Callable[[], Any]] = []
    for opened in (hosted, memory):
        calls += [partial(opened.observe, "Tea.", **MIA), partial(opened.context, **MIA)]
        calls += [partial(opened.admin.stats, agent_id="ada"), opened.close]
    for call in calls:
        with pytest.raises(InputError, match="another event loop"):
            await asyncio.to_thread(elsewhere, call)
    await memory.observe("Tea.", **MIA)  # it is open yet
    async with engine_on(database_url, pool_pre_ping=True) as pinging:
        for used in (engine, pinging):
            async with used.connect():
                pass
            for _ in range(20):  # its pool holds connections of this loop: to use one there can end the process
                with pytest.raises(InputError, match="another event loop"):
                    await asyncio.to_thread(elsewhere, Memory(llm=llm, engine=used).open)
            async with used.connect() as still:
                assert await still.scalar(text("SELECT 1")) == 1


TWO_LOOPS = """
import asyncio, sys
from sqlalchemy import NullPool, text
from sqlalchemy.ext.asyncio import create_async_engine
from memory_sql import InputError, Memory, Settings
from memory_sql.db.urls import asyncpg_url

url, whose = sys.argv[1:]
given = {"url": url} if whose == "own" else {"engine": create_async_engine(asyncpg_url(url), poolclass=NullPool)}
memory, mia = Memory(**given, settings=Settings(llm="offline", embedding="off")), {"agent_id": "ada", "user_id": "mia"}

async def scalar(sql):
    async with memory.database.statement() as unit:
        return await unit.scalar(text(sql))

async def first():
    await memory.open()
    await memory.observe("Tea.", **mia)
    await asyncio.gather(*(memory.search("tea", **mia) for _ in range(3)))
    return await scalar("SELECT pg_backend_pid()")

async def second(pid):
    for call in (memory.observe("Cake.", **mia), memory.context(**mia)):
        try:
            await call
        except InputError as error:
            print(error)
    for _ in range(2):
        await memory.close()
    async with memory, asyncio.timeout(20):
        while await scalar(f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}"):
            await asyncio.sleep(0.01)
        print([hit.observation.content for hit in (await memory.search("tea", **mia)).results])

asyncio.run(second(asyncio.run(first())))
"""


@pytest.mark.direct  # behind a pooler the server's connection stays
@pytest.mark.parametrize("whose", ["own", "hosts"])
def test_memory_of_an_event_loop_that_has_ended_is_closed_and_opened_again(database_url: str, whose: str) -> None:
    """As after a second `asyncio.run`. The server doesn't keep the connections of the first."""
    ran = subprocess.run(
        [sys.executable, "-c", TWO_LOOPS, database_url, whose], capture_output=True, text=True, timeout=100, check=True
    )
    *refused, found = ran.stdout.splitlines()
    assert len(refused) == 2
    assert all("has ended since" in one and "close() it here and open it again" in one for one in refused)
    assert (found, ran.stderr) == ("['Tea.']", "")


async def test_database_that_cannot_be_reached_is_named_without_its_password(llm: Scripted) -> None:
    async with engine_on("postgresql://mia:hunter2@127.0.0.1:9/none") as engine:
        with pytest.raises(DatabaseError) as caught:
            await Memory(llm=llm, engine=engine).open()
    assert "hunter2" not in str(caught.value)
