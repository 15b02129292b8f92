"""The questions of docs/analytics.md, and look-ups by key, at two sizes: no large table is scanned as a whole."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import Table
from sqlalchemy.dialects import postgresql

from benchmarks.server import plain_url
from memory_sql.db.models import Base, ObservationRow
from tests.conftest import administer, named
from tests.integration.test_analytics import QUESTIONS, fill

pytestmark = pytest.mark.slow
SIZES = (60, 120)  # agents beside, and users of each agent
AGENT = 1000  # added to the key of each agent beside
SCOPES = {"scope_id", "source_scope_id", "target_scope_id"}
BY_ORM = ObservationRow.observation_id.compile(dialect=postgresql.dialect())  # type: ignore[no-untyped-call]
LOOK_UPS = {
    "an id": "SELECT * FROM memory.v_observations WHERE observation_id = 'o1-1'",
    "an id, of an agent": "SELECT * FROM memory.v_observations WHERE agent_id = 'ada' AND observation_id = 'o1-1'",
    "ids": "SELECT * FROM memory.v_observations WHERE observation_id IN ('o1-1', 'o1-2', 'o2-1')",
    "an id, of a mapped class": f"SELECT * FROM memory.observations WHERE {BY_ORM} = 'o1-1'",  # noqa: S608 (computed)
    "a user of an agent": "SELECT * FROM memory.v_observations WHERE agent_id = 'ada' AND owner_id = 'mia'",
    "a user's texts": "SELECT * FROM memory.v_scope_timeline WHERE agent_id = 'ada' AND owner_id = 'mia'",
    "an observation's retrievals": "SELECT * FROM memory.v_retrieved WHERE agent_id = 'ada' AND scope_id = 1 AND seq = 1",
    "an observation's feedback": "SELECT * FROM memory.v_feedback WHERE agent_id = 'ada' AND scope_id = 1 AND seq = 1",
    "a user's feedback": "SELECT * FROM memory.v_feedback WHERE agent_id = 'ada' AND owner_id = 'mia'",
    "a user's retrievals": "SELECT * FROM memory.v_retrieved WHERE agent_id = 'ada' AND owner_id = 'mia'",
    "what waits of a user": "SELECT * FROM memory.v_pending WHERE agent_id = 'ada' AND owner_id = 'mia'",
}
ASKED_OF_AN_AGENT = {name: sql.rstrip().rstrip(";") for name, sql in QUESTIONS.items() if "'ada'" in sql}


class Grown:
    """The agent of the page among others like it, each with more users each time."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.size = 0
        self.large = set[str]()

    async def grow(self, size: int) -> None:
        connection = await asyncpg.connect(plain_url(self.url))
        own = await connection.fetchval("SELECT agent_key FROM memory.agents WHERE agent_id = 'ada'")
        await connection.execute(_AGENTS, AGENT, self.size + 1, size)
        for sql in map(_beside, _tables()):
            await connection.execute(sql, own, self.size + 1, size)
        for sql in _USERS:
            await connection.execute(sql, self.size + 1, size)
        await connection.execute("ANALYZE")
        self.large = {row["relname"] for row in await connection.fetch(_LARGE)}
        await connection.close()
        self.size = size

    async def plan(self, sql: str) -> Any:
        connection = await asyncpg.connect(plain_url(self.url))
        told = await connection.fetchval(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT json) {sql}")
        await connection.close()
        return json.loads(told)[0]["Plan"]


def _tables() -> list[Table]:
    return [table for table in Base.metadata.sorted_tables if "agent_key" in table.c and table.name != "agents"]


def _beside(table: Table) -> str:
    """Each row of the agent's, for another agent."""
    names = [column.name for column in table.c if column.computed is None]
    values = [_shifted(name) for name in names]
    return f"""
        INSERT INTO memory.{table.name} ({", ".join(names)}) SELECT {", ".join(values)}
        FROM memory.{table.name} CROSS JOIN generate_series($2::int, $3) n
        WHERE agent_key = $1 AND {"coalesce(scope_id, 0) < 1000" if "scope_id" in names else "true"}
    """  # noqa: S608 (names)


def _shifted(name: str) -> str:
    if name == "agent_key":
        return f"{AGENT} + n"
    return f"{name} + 1000 * n" if name in SCOPES else name


_AGENTS = """
    INSERT INTO memory.agents (agent_key, agent_id) SELECT $1 + n, 'other' || n FROM generate_series($2::int, $3) n
"""
_LARGE = """
    SELECT relname FROM pg_class WHERE relnamespace = 'memory'::regnamespace AND relkind = 'r' AND relpages > 20
"""
_SCOPE = "agent_key, 1000 * agent_key + 1000000 + n"
_EACH = "FROM memory.agents CROSS JOIN generate_series($1::int, $2) n"
_USERS = (
    f"""
    INSERT INTO memory.scopes (agent_key, scope_id, kind, owner, last_seq, done_seq, version)
    SELECT {_SCOPE}, 'individual', 'u:jonas-' || n, 4, 2, 1 {_EACH}
    """,
    f"""
    INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)
    SELECT {_SCOPE}, 1, 0, 0, 2, 'Tea.', 1, 'asked' {_EACH}
    """,
    f"""
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)
    SELECT {_SCOPE}, i, 'Tea.', now(), 'observe', 1 {_EACH} CROSS JOIN generate_series(1, 4) i
    """,
    f"""
    INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)
    SELECT {_SCOPE}, i, 'archived' {_EACH} CROSS JOIN generate_series(1, 2) i
    """,
    f"""
    INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id)
    SELECT {_SCOPE}, i, 'jonas-' || n {_EACH} CROSS JOIN generate_series(1, 4) i
    """,
    f"""
    INSERT INTO memory.observation_retrievals (agent_key, scope_id, seq, day, surface, times)
    SELECT {_SCOPE}, i, '2026-03-02', 'search', 1 {_EACH} CROSS JOIN generate_series(1, 2) i
    """,
    f"""
    INSERT INTO memory.observation_feedback (agent_key, scope_id, seq, day, total, times)
    SELECT {_SCOPE}, i, '2026-03-02', 1, 1 {_EACH} CROSS JOIN generate_series(1, 2) i
    """,
    f"""
    INSERT INTO memory.events (agent_key, scope_id, seq, kind, created_at)
    SELECT {_SCOPE}, 1, 'status', '2026-03-02' {_EACH}
    """,
)


@pytest.fixture(scope="module")
def grown(server_url: str, template: str) -> Iterator[Grown]:
    name = f"memory_sql_plans_{os.getpid()}"
    asyncio.run(administer(server_url, f"CREATE DATABASE {name} TEMPLATE {template}"))
    asyncio.run(fill(named(server_url, name)))
    yield Grown(named(server_url, name))
    asyncio.run(administer(server_url, f"DROP DATABASE {name} WITH (FORCE)"))


def nodes(plan: Any) -> Iterator[Any]:
    yield plan
    for below in plan.get("Plans", ()):
        yield from nodes(below)


async def test_no_question_reads_a_table_as_a_whole_and_look_ups_stay_as_small(grown: Grown) -> None:
    pages: dict[str, list[int]] = {}
    for size in SIZES:
        await grown.grow(size)
        for name, sql in (ASKED_OF_AN_AGENT | LOOK_UPS).items():
            plan = await grown.plan(sql)
            whole = {node["Relation Name"] for node in nodes(plan) if node["Node Type"] == "Seq Scan"}
            assert not whole & grown.large, (name, size)
            pages.setdefault(name, []).append(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
    assert grown.large >= {
        "observations",
        "observation_states",
        "evidence",
        "scopes",
        "consolidations",
        "messages",
        "runs",
        "observation_retrievals",
        "observation_feedback",
        "events",
    }
    for name in LOOK_UPS:
        small, large = pages[name]
        assert large <= 1.3 * small, (name, small, large)
