"""The engines that are kept between tests: a connection keeps what it has learnt and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from sqlalchemy import event, text

from memory_sql.db.engine import Database
from memory_sql.db.urls import asyncpg_url
from tests.recycling import connect
from tests.warm import AT_MOST

pytestmark = [pytest.mark.direct, pytest.mark.open]

STATE = """
SELECT current_user <> session_user, current_setting('work_mem'), current_setting('search_path'),
       (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
       (SELECT count(*) FROM pg_listening_channels()), to_regclass('pg_temp.own') IS NULL, pg_backend_pid()
"""
CHANGES = [
    "SET ROLE pg_monitor",
    "SET work_mem = '1MB'",
    "SET search_path = memory",
    "SELECT pg_advisory_lock(7)",
    "LISTEN own",
    "CREATE TEMPORARY TABLE own (id int)",
]


async def ask(database: Database, *statements: str) -> tuple[Any, ...]:
    async with database.transaction() as session:
        for statement in statements:
            await session.execute(text(statement))
        return tuple((await session.execute(text(STATE))).one())


async def test_next_database_gets_the_same_connection_as_if_it_were_new(database_url: str) -> None:
    first = Database(database_url)
    before = await ask(first)
    await ask(first, *CHANGES)
    changed = await ask(first)
    assert all(now != then for now, then in zip(changed[:-1], before, strict=False))
    await first.close()
    others = [Database(database_url) for _ in range(AT_MOST)]  # earlier tests may have left engines, too
    second = next(one for one in others if one.engine is first.engine)
    assert await ask(second) == before
    await asyncio.gather(*(one.close() for one in others))


async def test_two_at_once_have_an_engine_each(database_url: str) -> None:
    first, second, other = Database(database_url), Database(database_url), Database(database_url, pool_size=1)
    assert len({id(database.engine) for database in (first, second, other)}) == 3
    await other.close()  # while there is room for it
    others = [Database(database_url, pool_size=1) for _ in range(AT_MOST)]  # earlier tests may have left engines, too
    assert other.engine in {one.engine for one in others}
    await asyncio.gather(*(one.close() for one in (first, second, *others)))


async def test_connection_that_is_not_given_back_is_not_kept(database_url: str) -> None:
    database = Database(database_url)
    async with database.transaction() as session:
        await session.execute(text("SELECT 1"))
        await database.close()
    again = Database(database_url)
    assert again.engine is not database.engine
    await again.close()


async def test_engine_with_a_listener_is_not_kept(database_url: str) -> None:
    database = Database(database_url)
    event.listen(database.engine.sync_engine, "before_cursor_execute", lambda *_: None)
    await ask(database)
    await database.close()
    again = Database(database_url)
    assert again.engine is not database.engine
    await again.close()


async def test_connection_that_was_cut_is_replaced(database_url: str) -> None:
    database, other = Database(database_url), Database(database_url)
    pid = (await ask(database))[-1]
    await ask(other, f"SELECT pg_terminate_backend({pid}, 5000)")
    await database.close()
    again = Database(database_url)
    assert (await ask(again))[-1] != pid
    await asyncio.gather(again.close(), other.close())


async def test_connection_that_is_cut_while_nobody_has_it_is_given_to_nobody(database_url: str) -> None:
    database, other = Database(database_url), Database(database_url)
    pid = (await ask(database))[-1]
    await database.close()
    cut = await connect(database_url)
    assert await cut.fetchval("SELECT pg_terminate_backend($1, 5000)", pid)
    again = Database(database_url)
    assert again.engine is not database.engine
    assert (await ask(again))[-1] != pid
    await asyncio.gather(again.close(), other.close(), cut.close())


def test_loop_of_its_own_gets_an_engine_of_its_own(database_url: str) -> None:
    async def close() -> bool:
        database = Database(database_url)
        await ask(database)
        await database.close()
        again = Database(database_url)
        await again.close()
        return again.engine is database.engine

    assert not asyncio.run(close())


async def test_database_that_is_not_recycled_keeps_no_engine(empty_database: str) -> None:
    first, second = Database(empty_database), Database(asyncpg_url(empty_database))
    await first.close()
    assert second.engine is not first.engine
    await second.close()
