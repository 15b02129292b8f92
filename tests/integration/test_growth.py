"""Looking for work where there is none, at two sizes: it reads as little of a large database as of a small one."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from benchmarks.server import plain_url
from memory_sql.config import Settings
from memory_sql.db.engine import SERVER_SETTINGS
from memory_sql.db.roles import Roles
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.conftest import administer, as_login, named
from tests.database import Sent, sent
from tests.fakes import Scripted

pytestmark = pytest.mark.slow
SIZES = (3_000, 30_000)  # conversations, and scopes, of three agents
LARGE = {"conversations", "scopes", "observations"}
SETTINGS = Settings(llm="offline", embedding="off")
BY_BUDGET = SETTINGS.model_copy(update={"retention": "budget", "store_items": 100})

_AGENTS = "INSERT INTO memory.agents (agent_id) SELECT 'agent' || n FROM generate_series(0, 2) n"
_OWNERS = "FROM generate_series($1::int, $2) n JOIN memory.agents ON agent_id = 'agent' || n % 3"
_CONVERSATIONS = f"""
    INSERT INTO memory.conversations (
        agent_key, conversation_id, user_id, participants, last_number, formed_number, unformed_messages,
        unformed_tokens, unformed_since, text_since, waits_below
    )
    SELECT agent_key, 'c' || n, 'u' || n, ARRAY['u' || n], 3, 3 - n % 2, n % 2, n % 2,
           CASE WHEN n % 2 = 1 THEN now() END, now(), 4 {_OWNERS}
"""
_SCOPES = f"""
    INSERT INTO memory.scopes (agent_key, kind, owner, last_seq, done_seq, waits_below)
    SELECT agent_key, 'individual', 'u:u' || n, 3, 3 - n % 2, 10 {_OWNERS}
"""
_OBSERVATIONS = """
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT agent_key, scope_id, i, 'Tea.', now(), 'observe', 1 FROM memory.scopes CROSS JOIN generate_series(1, 3) i
    ON CONFLICT DO NOTHING
"""


class Grown:
    """A database in which nothing is due, however many wait for more to be said."""

    def __init__(self, url: str, asked: str) -> None:
        self.url = url
        self.asked = asked  # entered by whom the library works for
        self.size = 0

    async def grow(self, size: int) -> None:
        connection = await asyncpg.connect(plain_url(self.url))
        if not self.size:
            await connection.execute(_AGENTS)
        for sql in (_CONVERSATIONS, _SCOPES):
            await connection.execute(sql, self.size + 1, size)
        await connection.execute(_OBSERVATIONS)
        await connection.execute("VACUUM ANALYZE")
        await connection.close()
        self.size = size

    async def pages(self, sent: list[Sent]) -> int:
        """How many pages of the tables and their indexes these read, planned as the library has them planned."""
        connection = await asyncpg.connect(
            plain_url(self.asked), server_settings=SERVER_SETTINGS, statement_cache_size=0
        )
        await connection.execute("SET max_parallel_workers_per_gather = 0")  # each reads the catalogues for itself
        await connection.execute("BEGIN; SELECT memory.enter(NULL, NULL, NULL, true)")
        read = 0
        for statement, given in sent:
            await _plan(connection, statement, given)  # which reads the catalogues
            plan = await _plan(connection, statement, given)
            scans = (node for node in _nodes(plan) if node["Node Type"] == "Seq Scan" and node["Actual Loops"])
            whole = {node["Relation Name"] for node in scans}
            assert not whole & LARGE, statement
            read += plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]
        await connection.close()
        return read


async def _plan(connection: Any, statement: str, given: tuple[Any, ...]) -> Any:
    """EXPLAIN with parameters would plan for these values alone."""
    await connection.execute(f"DEALLOCATE ALL; PREPARE one AS {statement}")
    values = [await connection.fetchval("SELECT quote_nullable($1::text)", _text(value)) for value in given]
    told = await connection.fetchval(
        f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) EXECUTE one{'(' + ', '.join(values) + ')' if values else ''}"
    )
    return json.loads(told)[0]["Plan"]


def _text(value: Any) -> str | None:
    if isinstance(value, list):
        return f"{{{', '.join(map(str, value))}}}"
    return None if value is None else str(value)


def _nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from _nodes(below)


@pytest.fixture(params=["template", "walled_template"])
def copied(request: pytest.FixtureRequest) -> str:
    """The name of the database that is copied: without walls or behind them."""
    name: str = request.getfixturevalue(request.param)
    return name


@pytest.fixture
async def grown(copied: str, template: str, server_url: str, roles: Roles) -> AsyncIterator[Grown]:
    name = f"memory_sql_growth_{os.getpid()}"
    await administer(server_url, f"CREATE DATABASE {name} TEMPLATE {copied}")
    url = named(server_url, name)
    yield Grown(url, url if copied == template else as_login(url, roles))
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


def looks(memory: Memory) -> dict[str, Callable[[], Awaitable[object]]]:
    return {
        "backlog": memory.work.backlog,
        "backlog of an agent": lambda: memory.work.backlog(agent_id="agent1"),
        "run_due": memory.run_due,
        "run_due of an agent": lambda: memory.run_due(agent_id="agent1"),
        "catch_up": memory.work.catch_up,
        "claims": Worker(memory).run_once,
    }


async def test_where_nothing_is_due_nothing_is_read_however_much_there_is(grown: Grown) -> None:
    pages: dict[str, list[int]] = {}
    for size in SIZES:
        await grown.grow(size)
        async with Memory(grown.asked, Scripted(), SETTINGS) as memory:
            for name, look in looks(memory).items():
                pages.setdefault(name, []).append(await grown.pages(await _sent(memory, look)))
            assert (await memory.work.backlog()).due_conversations == 0
    for name, (small, large) in pages.items():
        assert large <= small + 30, (name, small, large)  # each index may be a level deeper


async def test_what_keeps_less_than_its_budget_is_not_read(grown: Grown) -> None:
    """`maintain` looks at how much each scope ever had, not at what; what is to be classified has an index of its own."""
    await grown.grow(SIZES[0])
    async with Memory(grown.asked, Scripted(), BY_BUDGET) as memory:
        sent = await _sent(memory, memory.work.maintain)
    assert any("memory.scopes" in statement for statement, _ in sent)
    assert not any("memory.observations" in one and "classified_by" not in one for one, _ in sent)


async def _sent(memory: Memory, look: Callable[[], Awaitable[object]]) -> list[Sent]:
    with sent(memory) as seen:
        await look()
    assert seen
    return [one for one in seen if one[0].lstrip().upper().startswith(("SELECT", "UPDATE", "WITH"))]
