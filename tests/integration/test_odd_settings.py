"""A host may have set anything for its role, its database or its server: the library does and returns the same.

Except `default_transaction_read_only`, under which it only reads, and, behind walls, `row_security` off, which fails it all.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine

from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.ddl import VIEWS
from memory_sql.db.urls import asyncpg_url
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import MONDAY, message
from tests.fakes import Parrot
from tests.recycling import administer

ODD: dict[str, str] = {
    "standard_conforming_strings": "off",
    "backslash_quote": "off",
    "escape_string_warning": "off",
    "bytea_output": "escape",
    "xmlbinary": "hex",
    "DateStyle": "SQL, DMY",
    "IntervalStyle": "postgres_verbose",
    "TimeZone": "Asia/Kathmandu",
    "timezone_abbreviations": "India",
    "extra_float_digits": "-15",
    "search_path": "nowhere",
    "default_transaction_isolation": "serializable",
    "default_transaction_deferrable": "on",
    "default_text_search_config": "pg_catalog.german",
    "transform_null_equals": "on",
    "array_nulls": "off",
    "quote_all_identifiers": "on",
    "check_function_bodies": "off",
    "plpgsql.variable_conflict": "use_variable",
    "plpgsql.extra_errors": "all",
    "plan_cache_mode": "force_custom_plan",
    "jit": "off",  # by the costs that the last ones add each statement would be compiled
    "from_collapse_limit": "1",
    "join_collapse_limit": "1",
    "geqo_threshold": "2",
    "constraint_exclusion": "on",
    "cursor_tuple_fraction": "1",
    "work_mem": "64kB",
    "synchronous_commit": "off",
    "gin_fuzzy_search_limit": "0",
    "client_min_messages": "debug1",
    "statement_timeout": "20s",
    "lock_timeout": "20s",
    "idle_in_transaction_session_timeout": "20s",
    **{
        f"enable_{way}": "off" for way in ("seqscan", "hashjoin", "mergejoin", "material", "memoize", "sort", "hashagg")
    },
}
SAID = (
    "Dr. O'Neil keeps \\new\\ maps in C:\\temp, 7?",
    'She said "moor at noon" and \\x41.',
    "We sail \N{FULLWIDTH QUESTION MARK}",
)
QUERIES = (
    "O'Neil",
    "C:\\temp",
    '"moor at noon"',
    "maps -moor",
    "moor after:2026-01-01",
    "tag:sea",
    "from:mia maps",
    "sail?",
)

MADE = """
SELECT conname::text, pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = 'memory'::regnamespace
UNION ALL SELECT proname::text, md5(pg_get_functiondef(oid)) FROM pg_proc WHERE pronamespace = 'memory'::regnamespace
UNION ALL SELECT indexname::text, indexdef FROM pg_indexes WHERE schemaname = 'memory'
UNION ALL SELECT viewname::text, definition FROM pg_views WHERE schemaname = 'memory'
UNION ALL SELECT policyname::text, qual FROM pg_policies WHERE schemaname = 'memory' ORDER BY 1, 2
"""


@asynccontextmanager
async def on(
    url: str, settings: Settings, tmp_path: Path, odd: dict[str, str], *, hosted: bool = False
) -> AsyncIterator[Memory]:
    """With these as the defaults of its sessions, and on an empty database."""
    settings = settings.model_copy(update={"forget_journal": tmp_path / str(uuid.uuid4())})
    given: dict[str, Any] = {"llm": Parrot(), "settings": settings, "clock": lambda: MONDAY + timedelta(days=1)}
    if not hosted:
        options = " ".join(f"-c {name}={value.replace(' ', chr(92) + ' ')}" for name, value in odd.items())
        named = asyncpg_url(url).update_query_dict({"options": options} if odd else {})
        async with Memory(named.render_as_string(hide_password=False), **given) as memory:
            await _emptied(memory)
            yield memory
        return
    engine = create_async_engine(asyncpg_url(url), connect_args={"server_settings": odd})
    async with Memory(engine=engine, **given) as memory:
        await _emptied(memory)
        yield memory
    await engine.dispose()


async def _emptied(memory: Memory) -> None:
    """Nor does its journal say what it had still noted of the life before."""
    await rows(memory, "TRUNCATE memory.agents RESTART IDENTITY CASCADE")
    if memory.settings.forget_journal is not None:
        _removed(memory.settings.forget_journal)


def _removed(path: Path) -> None:
    path.unlink(missing_ok=True)


async def lived(memory: Memory) -> list[str]:
    """All that is told by a life of one agent, without ids and times that differ each time."""
    ada: dict[str, Any] = {"agent_id": "ada"}
    mia, told = {**ada, "user_id": "mia"}, list[Any]()
    said = [message(text, n=n, name="Mia") for n, text in enumerate(SAID)]
    told.append(await memory.add(said, **mia, conversation_id="s", group_ids=["crew"], wait=True))
    observed = await memory.observe(
        "Berth 'B\\4'.", **mia, fact_key="berth", tags=["sea"], metadata={"share": 0.1 + 0.2, "word": "\\é"}
    )
    told += [observed, await memory.observations.get(observed.id, **mia)]
    await memory.observe("Berth 'B\\5'.", **mia, fact_key="berth")
    await memory.add([message("I sail too.", n=9)], **ada, user_id="jonas", conversation_id="s", wait=True)
    told.append(await memory.conversations.form(**ada, conversation_id="s"))
    told += [await memory.search(query, **mia) for query in QUERIES]
    told += [await memory.search("berth", **mia, as_of=MONDAY + timedelta(days=2)), await memory.run_due(**ada)]
    for scope in await memory.scopes.list(**mia):
        told.append(await memory.scopes.consolidate(**ada, scope_id=scope.ref.id))
    told += [await memory.context(**mia, message="Where are my maps, and which berth?"), await memory.digest(**mia)]
    told += [await memory.work.maintain(**ada), await memory.admin.stats(**ada), await memory.work.backlog(**ada)]
    told += [await memory.people.merge(**ada, user_id="m", into_user_id="mia"), await memory.people.list(**ada)]
    told += [line async for line in memory.people.export(**mia)]
    for view in sorted({*VIEWS} - {"v_imports"}):
        await memory.admin.export(view, (to := BytesIO()), **ada)
        told += sorted(to.getvalue().decode().splitlines())
    await memory.holds.place(**mia)
    told.append(await memory.forget(Selection(query="maps"), **ada, dry_run=True))
    told += [hold := (await memory.holds.list(**ada))[0], await memory.holds.release(**ada, hold_id=hold.hold_id)]
    told += [await memory.people.rename(**ada, kind="user", old="mia", new="nia"), await memory.admin.verify()]
    told.append(await memory.forget(Selection(user_id="nia"), **ada))
    told += [await memory.admin.journal_status(), await memory.observations.list(**{**ada, "user_id": "jonas"})]
    return [plain(str(one)) for one in told]


TIMES = r"datetime.datetime\([^)]*\)|\d{4}-\d\d-\d\d[T ][\d:.+]*Z?|\d\d:\d\d:\d\d\.\d+|0\.\d{3,6}\b"
RANDOM = r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{64}"


def plain(text: str) -> str:
    """Without what differs each time: times, and receipts' ids."""
    return re.sub(f"{TIMES}|{RANDOM}", "·", text)


@pytest.fixture
async def usual(database_url: str, settings: Settings, tmp_path: Path) -> list[str]:
    async with on(database_url, settings, tmp_path, {}) as memory:
        return await lived(memory)


@pytest.mark.direct
@pytest.mark.parametrize("hosted", [False, True], ids=["own", "hosted"])
async def test_all_odd_settings_together_change_nothing(
    database_url: str, settings: Settings, tmp_path: Path, usual: list[str], hosted: bool
) -> None:
    async with on(database_url, settings, tmp_path, ODD, hosted=hosted) as memory:
        assert await lived(memory) == usual


@pytest.mark.prove
@pytest.mark.direct
@pytest.mark.parametrize("name", ODD)
async def test_odd_setting_changes_nothing(
    database_url: str, settings: Settings, tmp_path: Path, usual: list[str], name: str
) -> None:
    for hosted in (False, True):
        async with on(database_url, settings, tmp_path, {"jit": "off", name: ODD[name]}, hosted=hosted) as memory:
            assert await lived(memory) == usual


@pytest.mark.open
@pytest.mark.direct
@pytest.mark.slow
async def test_schema_made_under_odd_settings_is_the_same(
    empty_database: str, database_url: str, settings: Settings, tmp_path: Path, usual: list[str]
) -> None:
    name = asyncpg_url(empty_database).database
    await administer(empty_database, *(f"ALTER DATABASE {name} SET {odd} TO {value!r}" for odd, value in ODD.items()))
    await asyncio.to_thread(migrate.upgrade, empty_database)
    async with on(empty_database, settings, tmp_path, {}) as odd, on(database_url, settings, tmp_path, ODD) as plain:
        assert await rows(odd, MADE) == await rows(plain, MADE)
        assert await lived(odd) == usual
