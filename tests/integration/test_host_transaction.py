"""Memory in a transaction of the application."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from typing import Any

import pytest
from sqlalchemy import event, text
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from memory_sql.config import ScopeSettings, Settings
from memory_sql.db import migrate
from memory_sql.db.principals import SERVICE, enter
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.errors import (
    ConfigurationError,
    DatabaseError,
    InputError,
    LockTimeoutError,
    NotFoundError,
    PoolFullError,
    SchemaError,
    VersionError,
)
from memory_sql.memory import Memory
from tests.database import are_waiting, owners_url, rows, serving, statements
from tests.factories import conversation
from tests.fakes import Scripted
from tests.recycling import administer, copy, named

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ASKING = "SELECT memory.incarnation()"


@pytest.fixture
async def host(database_url: str):  # type: ignore[no-untyped-def]
    engine = create_async_engine(asyncpg_url(database_url))
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def create_orders(memory: Memory) -> None:
    await rows(memory, "CREATE TABLE public.orders (id int)")
    await rows(memory, "GRANT ALL ON public.orders TO PUBLIC")


async def test_memory_stands_and_falls_with_the_host(memory: Memory, host: AsyncSession) -> None:
    await create_orders(memory)
    for commit in (False, True):
        await host.execute(text("INSERT INTO public.orders VALUES (1)"))
        await memory.add(conversation(2), **MIA, conversation_id="s", session=host)
        await memory.observe("The gate has bay 4711.", **MIA, session=host)
        assert "4711" in str(await memory.context(**MIA, session=host))
        assert len((await memory.search("gate", **MIA, session=host)).results) == 1
        assert await memory.observations.list(**MIA) == []
        await (host.commit() if commit else host.rollback())
    assert len(await memory.observations.list(**MIA)) == 1
    assert await rows(
        memory, "SELECT (SELECT count(*) FROM public.orders), (SELECT count(*) FROM memory.messages)"
    ) == [(1, 2)]


async def test_waiting_for_the_model_within_the_hosts_transaction_is_refused(
    memory: Memory, host: AsyncSession
) -> None:
    with pytest.raises(InputError, match="wait=True"):
        await memory.add(conversation(9), **MIA, conversation_id="s", session=host, wait=True)


async def test_database_without_the_schema_is_named(empty_database: str, llm: Scripted) -> None:
    with pytest.raises(SchemaError, match="memory-sql db upgrade"):
        await Memory(empty_database, llm).open()


async def test_database_of_another_release_is_refused(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm) as memory:
        await rows(memory, "UPDATE memory.alembic_version SET version_num = 'f00'")
    with pytest.raises(SchemaError, match="f00"):
        await Memory(database_url, llm).open()


async def test_database_that_is_not_there_is_named_without_its_password(llm: Scripted) -> None:
    with pytest.raises(DatabaseError) as caught:
        await Memory("postgresql://mia:hunter2@127.0.0.1:9/none", llm).open()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("url", ["", "nonsense", "mysql://root@localhost/x", "sqlite://"])
async def test_url_that_is_no_postgres_is_refused(url: str, llm: Scripted) -> None:
    with pytest.raises(ConfigurationError):
        asyncpg_url(url)


async def test_memory_that_is_not_open_says_so(llm: Scripted) -> None:
    with pytest.raises(InputError, match="not open"):
        await Memory("postgresql://localhost/x", llm).admin.stats(agent_id="ada")


@pytest.mark.direct
async def test_connection_that_the_server_closed_is_replaced_without_an_error(
    memory: Memory, database_url: str
) -> None:
    await memory.observe("Tea.", **MIA)
    engine = create_async_engine(asyncpg_url(owners_url(database_url)))
    async with engine.begin() as other:
        killed = await other.execute(
            text(
                "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
                " WHERE application_name = 'memory_sql' AND datname = current_database()"
            )
        )
        assert killed.rowcount >= 1
    await engine.dispose()
    assert len(await memory.observations.list(**MIA)) == 1


async def test_reads_see_what_the_host_has_not_committed(memory: Memory, host: AsyncSession) -> None:
    observation = await memory.observe("The gate has bay 4711.", **MIA, session=host)
    assert (await memory.observations.get(observation.id, **MIA, session=host)).content == observation.content
    assert [o.id for o in await memory.observations.list(**MIA, session=host)] == [observation.id]
    assert [s.pending for s in await memory.scopes.list(**MIA, session=host)] == [1]
    await enter(host, SERVICE)
    await host.execute(
        text(
            "INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)"
            " SELECT agent_key, scope_id, 1, 0, 0, 0, 'Gates.', 1, 'import' FROM memory.scopes"
        )
    )
    assert [v.content for v in await memory.scopes.history(**MIA, session=host)] == ["Gates."]
    assert await memory.scopes.list(**MIA) == []
    assert await memory.scopes.history(**MIA) == []
    with pytest.raises(NotFoundError):
        await memory.observations.get(observation.id, **MIA)
    await host.rollback()


async def lock_timeout(host: AsyncSession) -> str:
    return str(await host.scalar(text("SELECT current_setting('lock_timeout')")))


@pytest.mark.parametrize("before", ["0", "200ms", "1min"])
async def test_hosts_limit_on_waiting_for_locks_is_as_before(memory: Memory, host: AsyncSession, before: str) -> None:
    await host.execute(text(f"SET LOCAL lock_timeout = '{before}'"))
    await memory.add(conversation(1), **MIA, conversation_id="s", session=host)
    await memory.observe("Tea.", **MIA, session=host)
    await memory.add(
        [{"role": "user", "content": "one"}], **MIA, conversation_id="s", session=host, idempotency_key="k"
    )
    with pytest.raises(InputError):
        await memory.add(
            [{"role": "user", "content": "two"}], **MIA, conversation_id="s", session=host, idempotency_key="k"
        )
    (scope,) = await memory.scopes.list(**MIA, session=host)
    await memory.scopes.set(scope.ref.id, ScopeSettings(is_active=False), agent_id="ada", session=host)
    with pytest.raises(InputError, match="inactive"):
        await memory.observe("Boats.", **MIA, session=host)
    assert await lock_timeout(host) == before
    await host.rollback()
    assert await lock_timeout(host) == "0"


@pytest.mark.slow
@pytest.mark.parametrize("before", ["0", "100ms"])
async def test_blocked_call_ends_and_the_host_goes_on_from_its_savepoint(
    database_url: str, llm: Scripted, host: AsyncSession, before: str
) -> None:
    """By its own limit, or by the host's where that is shorter."""
    settings = Settings(llm="offline", lock_timeout_seconds=0.3 if before == "0" else 60)
    limit = "lock_timeout_seconds" if before == "0" else "the lock_timeout of this transaction"
    async with Memory(database_url, llm, settings) as memory:
        await memory.observe("Tea.", **MIA)
        await memory.add(conversation(1), **MIA, conversation_id="s")
        await create_orders(memory)
        await host.execute(text(f"SET LOCAL lock_timeout = '{before}'"))
        await host.execute(text("INSERT INTO public.orders VALUES (1)"))
        async with serving(memory) as other:
            await other.execute(text("SELECT FROM memory.scopes FOR UPDATE"))
            await other.execute(text("SELECT FROM memory.conversations FOR UPDATE"))
            for blocked in (
                lambda: memory.observe("Boats.", **MIA, session=host),
                lambda: memory.add(conversation(2), **MIA, conversation_id="s", session=host),
            ):
                savepoint = await host.begin_nested()
                with pytest.raises(LockTimeoutError, match=f"than {limit}; .* savepoint"):
                    async with asyncio.timeout(10):
                        await blocked()
                await savepoint.rollback()
                assert await lock_timeout(host) == before
        await memory.observe("Boats.", **MIA, session=host)
        await host.commit()
        assert len(await memory.observations.list(**MIA)) == 2
        assert await rows(memory, "SELECT count(*) FROM public.orders") == [(1,)]


@pytest.mark.parametrize("error", [NotFoundError, VersionError])
async def test_hosts_limit_is_as_before_also_after_our_refusal(
    memory: Memory, host: AsyncSession, error: type[Exception]
) -> None:
    tea = await memory.observe("Tea.", **MIA)
    known = tea.id if error is VersionError else "o1-99"
    with pytest.raises(error):
        await memory.observations.update(known, **MIA, text="Coffee.", if_version=99, session=host)
    assert await lock_timeout(host) == "0"
    await host.rollback()


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError])
async def test_hosts_limit_is_as_before_also_after_what_is_not_ours(
    memory: Memory, host: AsyncSession, error: type[BaseException]
) -> None:
    async def fails(_unit: AsyncSession) -> None:
        raise error

    with pytest.raises(error):
        await memory.database.write(fails, host)
    assert await lock_timeout(host) == "0"


async def test_call_that_is_cancelled_while_it_waits_says_so(memory: Memory, host: AsyncSession) -> None:
    await memory.observe("Tea.", **MIA)
    async with serving(memory) as other:
        await other.execute(text("SELECT FROM memory.scopes FOR UPDATE"))
        waiting = asyncio.ensure_future(memory.observe("Boats.", **MIA, session=host))
        await are_waiting(memory, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await host.rollback()
    assert len(await memory.observations.list(**MIA, session=host)) == 1


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("dry_run", [True, False])
async def test_forgetting_that_is_cancelled_while_it_waits_says_so(
    memory: Memory, host: AsyncSession, joins: bool, dry_run: bool
) -> None:
    """Also what takes back what it does: with the connection that is gone already."""
    await memory.observe("Tea.", **MIA)
    async with serving(memory) as other:
        await other.execute(text("SELECT FROM memory.scopes FOR UPDATE"))
        whose = host if joins else None
        waiting = asyncio.ensure_future(
            memory.forget(Selection(user_id="mia"), agent_id="ada", dry_run=dry_run, session=whose)
        )
        await are_waiting(memory, 1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    await host.rollback()
    assert len(await memory.observations.list(**MIA, session=host)) == 1


LIMITS = "SELECT current_setting('lock_timeout'), current_setting('idle_in_transaction_session_timeout')"


@pytest.mark.direct
async def test_own_transactions_are_limited_and_that_costs_no_statement(database_url: str, llm: Scripted) -> None:
    settings = Settings(llm="offline", lock_timeout_seconds=7, idle_timeout_seconds=90)
    async with Memory(database_url, llm, settings) as memory:
        with statements(memory) as seen:
            await memory.add(conversation(1), **MIA, conversation_id="s")
            assert len(seen) == 1
            async with serving(memory) as unit:
                assert (await unit.execute(text(LIMITS))).one() == ("7s", "90s")
        assert len(seen) == 2
        async with (
            memory.database.statement() as alone
        ):  # what has no BEGIN waits no longer, and stands still for nobody
            assert (await alone.execute(text(LIMITS))).one() == ("7s", "0")


async def test_of_the_hosts_limits_none_but_that_for_locks_is_touched(memory: Memory, host: AsyncSession) -> None:
    found = list[tuple[str, str]]()

    async def look(unit: AsyncSession) -> None:
        found.append(tuple((await unit.execute(text(LIMITS))).one()))

    await memory.database.write(look, host)
    await look(host)
    assert found == [("5s", "0"), ("0", "0")]


@pytest.mark.slow
async def test_own_calls_wait_no_longer_for_a_lock_than_they_may(
    database_url: str, llm: Scripted, host: AsyncSession
) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", lock_timeout_seconds=0.1)) as memory:
        tea = await memory.observe("Tea.", **MIA)
        await memory.add(conversation(1), **MIA, conversation_id="s")
        await enter(host, SERVICE)
        for table in ("agents", "conversations", "scopes"):
            await host.execute(text(f"SELECT FROM memory.{table} FOR UPDATE"))
        for blocked in (
            lambda: memory.add(conversation(2), **MIA, conversation_id="s"),
            lambda: memory.observe("Boats.", **MIA),
            lambda: memory.observations.confirm(tea.id, **MIA),
            lambda: memory.holds.place(**MIA),
            lambda: memory.forget(tea.id, agent_id="ada"),
            lambda: memory.scopes.consolidate(agent_id="ada", scope_id=tea.scope.id),
        ):
            with pytest.raises(LockTimeoutError, match="lock_timeout_seconds"):
                async with asyncio.timeout(20):
                    await blocked()
        await host.rollback()
        assert await memory.holds.list(agent_id="ada") == []


@pytest.mark.slow
async def test_writes_that_wait_leave_connections_to_reads(
    database_url: str, llm: Scripted, host: AsyncSession
) -> None:
    settings = Settings(llm="offline", pool_size=1, lock_timeout_seconds=3, pool_timeout_seconds=1)
    async with Memory(database_url, llm, settings) as memory:
        await memory.observe("Tea.", **MIA)
        await memory.add(conversation(1), **MIA, conversation_id="s")
        await host.execute(text("SELECT FROM memory.conversations FOR UPDATE"))
        adding = [asyncio.ensure_future(memory.add(conversation(2), **MIA, conversation_id="s")) for _ in range(30)]
        await are_waiting(memory, 5)
        assert "Tea." in str(await memory.context(**MIA))
        assert len((await memory.search("tea", **MIA)).results) == 1
        assert len(await memory.observations.list(**MIA)) == 1
        assert not any(one.done() and one.exception() is None for one in adding)
        ended = await asyncio.gather(*adding, return_exceptions=True)
        assert {type(one) for one in ended} == {LockTimeoutError, PoolFullError}
        await host.rollback()
        assert (await memory.add(conversation(2), **MIA, conversation_id="s")).accepted == 1


@pytest.mark.direct
async def test_full_pool_is_an_answer_to_who_reads(database_url: str, llm: Scripted) -> None:
    settings = Settings(llm="offline", pool_size=1, pool_timeout_seconds=0.2)
    async with Memory(database_url, llm, settings) as memory, AsyncExitStack() as taken:
        for _ in range(11):
            unit = await taken.enter_async_context(memory.database.transaction())
            await unit.execute(text("SELECT 1"))
        with pytest.raises(PoolFullError, match="POOL_SIZE"):
            await memory.context(**MIA)


@pytest.mark.slow
async def test_transaction_that_stands_still_ends_with_its_locks(database_url: str, llm: Scripted) -> None:
    """As that of a process that is frozen."""
    settings = Settings(llm="offline", idle_timeout_seconds=1, lock_timeout_seconds=30)
    async with Memory(database_url, llm, settings) as frozen, Memory(database_url, llm, settings) as memory:
        await memory.observe("Tea.", **MIA)

        async def freeze(unit: AsyncSession) -> None:
            await unit.execute(text("SELECT FROM memory.scopes FOR UPDATE"))
            await memory.observe("Boats.", **MIA)
            await unit.execute(text("SELECT 1"))

        with pytest.raises(DatabaseError):
            await frozen.database.write(freeze, principal=SERVICE)
        assert len(await frozen.observations.list(**MIA)) == 2


@pytest.mark.direct
async def test_export_may_be_read_slowly(database_url: str, llm: Scripted) -> None:
    """It holds no row, and whoever reads it may be slow."""
    async with (
        Memory(database_url, llm, Settings(llm="offline")) as memory,
        memory.database.transaction(snapshot=True) as unit,
    ):
        assert (await unit.execute(text(LIMITS))).one() == ("5s", "0")


@pytest.fixture
async def others(database_url: str, server_url: str) -> AsyncIterator[dict[str, str]]:
    """A database without our schema, one with it, and a copy of ours: their URLs."""
    names = {kind: f"memory_sql_other_{kind}_{os.getpid()}" for kind in ("bare", "own", "copy")}
    ours = asyncpg_url(database_url).database
    drop = [f"DROP DATABASE IF EXISTS {name} WITH (FORCE)" for name in names.values()]
    await administer(server_url, *drop, f"CREATE DATABASE {names['bare']}", f"CREATE DATABASE {names['own']}")
    async with Memory(database_url):
        """So that the copy is known as one."""
    await copy(server_url, str(ours), names["copy"])
    await asyncio.to_thread(migrate.upgrade, named(server_url, names["own"]))
    yield {kind: named(server_url, name) for kind, name in names.items()}
    await administer(server_url, *drop)


@pytest.mark.open
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bare", "own", "copy"])
async def test_a_transaction_of_another_database_is_refused_by_name(
    others: dict[str, str], memory: Memory, kind: str
) -> None:
    engine = create_async_engine(asyncpg_url(others[kind]))
    name, ours = asyncpg_url(others[kind]).database, memory.database.url.database
    calls: list[Callable[[AsyncSession], Awaitable[object]]] = [
        lambda host: memory.observe("Likes tea.", **MIA, session=host),
        lambda host: memory.add(conversation(2), **MIA, conversation_id="s", session=host),
        lambda host: memory.context(**MIA, session=host),
        lambda host: memory.search("tea", **MIA, session=host),
        lambda host: memory.work.reviews(agent_id="ada", session=host),
    ]
    async with AsyncSession(engine) as host:
        for call in calls:
            with pytest.raises(InputError, match=f"{name}.*this Memory of {ours}"):
                await call(host)
            assert await host.scalar(text("SELECT 1")) == 1  # the host's transaction goes on
    await engine.dispose()


async def test_another_way_to_the_same_database_is_asked_once(memory: Memory, database_url: str) -> None:
    url = asyncpg_url(database_url)
    engine = create_async_engine(url.set(host="localhost" if url.host == "127.0.0.1" else url.host))
    for asked in (1, 0, 0):
        async with AsyncSession(engine) as host:
            with sent_by(engine) as statements:
                await memory.observe("Likes tea.", **MIA, session=host)
            assert len([one for one in statements if one.startswith(ASKING)]) == asked
            await host.commit()
    async with AsyncSession(memory.database.engine) as host:
        with sent_by(memory.database.engine) as statements:
            await memory.observe("Likes tea.", **MIA, session=host)
        assert not [one for one in statements if one.startswith(ASKING)]
        await host.commit()
    await engine.dispose()


@contextmanager
def sent_by(engine: AsyncEngine) -> Iterator[list[str]]:
    seen: list[str] = []

    def note(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        seen.append(statement)

    event.listen(engine.sync_engine, "before_cursor_execute", note)
    yield seen
    event.remove(engine.sync_engine, "before_cursor_execute", note)
