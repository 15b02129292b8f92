"""Before the planner has statistics, what a call reads doesn't grow with the square of what there is about one user."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from benchmarks.server import plain_url
from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.fakes import Parrot
from tests.integration.test_rows_read import ADA, FREEZE_STATISTICS, MIA, flushed

# 800 of Mia, all from one conversation; what the crew has of it, and everybody of that. Every fifth is superseded.
# She has 40 more ids, and has left 400 groups and come back.
OF_ONE = """
    INSERT INTO memory.agents (agent_key, agent_id) VALUES (1, 'ada');
    INSERT INTO memory.conversations
        (agent_key, conversation_id, user_id, participants, group_ids, last_number, formed_number)
    VALUES (1, 'a', 'mia', '{mia}', '{crew}', 800, 800);
    INSERT INTO memory.messages
        (agent_key, conversation_id, number, message_id, role, weight, said_at, owner, user_id, content)
    SELECT 1, 'a', n, 'm' || n, 'user', 1, now(), 'u:mia', 'mia', 'Tea ' || n FROM generate_series(1, 800) n;
    CREATE TEMPORARY TABLE places AS
    SELECT * FROM (VALUES
        (1000, 'individual', 'u:mia', 'formation', 800), (2000, 'group', 'g:crew', 'propagation', 400),
        (3000, 'collective', 'c', 'propagation', 200)
    ) v (scope_id, kind, owner, source, many);
    INSERT INTO memory.scopes (agent_key, scope_id, kind, owner, last_seq)
    SELECT 1, scope_id, kind, owner, many FROM places;
    INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version,
        content_hash, tags, conversation_id, message_ids)
    SELECT 1, scope_id, n, 'Tea ' || n, now(), source, 1, sha256(n::text::bytea),
        CASE WHEN n % 4 = 0 THEN ARRAY['hot'] ELSE '{}' END, 'a', ARRAY['m' || n]
    FROM places, generate_series(1, many) n;
    INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number, user_id)
    SELECT 1, 1000, n, 'a', n, 'mia' FROM generate_series(1, 800) n;
    INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq)
    SELECT 1, scope_id, n, scope_id - 1000, n FROM places, generate_series(1, many) n WHERE scope_id > 1000;
    INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, seq)
    SELECT 1, source_scope_id, source_seq, scope_id, 'propagated', '', seq FROM memory.lineage;
    INSERT INTO memory.observation_states (agent_key, scope_id, seq, status, superseded_by)
    SELECT 1, 1000, 5 * n, 'superseded', 5 * n + 1 FROM generate_series(1, 159) n;
    INSERT INTO memory.events (agent_key, kind, scope_id, seq, detail)
    SELECT 1, 'status', scope_id, seq, jsonb_build_object('from', 'active', 'to', status)
    FROM memory.observation_states;
    INSERT INTO memory.scopes (agent_key, scope_id, kind, owner)
    SELECT 1, 5000 + n, 'group', 'g:' || n FROM generate_series(1, 400) n;
    INSERT INTO memory.members (agent_key, scope_id, user_id, joined_at, left_at)
    SELECT 1, 5000 + n, 'mia', now() - day * interval '2 days', CASE day WHEN 2 THEN now() - interval '3 days' END
    FROM generate_series(1, 400) n, (VALUES (2), (1)) v (day);
    INSERT INTO memory.user_aliases (agent_key, user_id, into_user_id)
    SELECT 1, 'mia' || n, 'mia' FROM generate_series(1, 40) n;
"""
MOST = 120 * 800  # rows of any table; one read for each row of another would be 800 * 800
FEWER = {"digest": 3_000}  # it begins with the newest of each scope
# Few enough that any index would do, and another than that of the key may be taken.
ALIKE = {"export": {"messages"}, "propagate hers": {"members"}}  # besides scopes


async def exported(memory: Memory) -> int:
    return len([line async for line in memory.people.export(**MIA)])


BY: dict[str, Any] = {**ADA, "actor": "legal", "reason": "told to"}
CALLS: dict[str, Callable[[Memory], Awaitable[object]]] = {
    "messages": lambda memory: memory.conversations.messages(**MIA),
    "context": lambda memory: memory.context(**MIA, message="Tea 7?"),
    "context of the past": lambda memory: memory.context(**MIA, message="Tea 7?", as_of=memory.now()),
    "digest": lambda memory: memory.digest(**MIA),
    "digest of the past": lambda memory: memory.digest(**MIA, as_of=memory.now()),
    "list of the past": lambda memory: memory.observations.list(**MIA, as_of=memory.now()),
    "export": lambda memory: exported(memory),
    "propagate hers": lambda memory: memory.scopes.propagate(**ADA, scope_id="s1000"),
    "propagate the crew's": lambda memory: memory.scopes.propagate(**ADA, scope_id="s2000"),
    "mark": lambda memory: memory.observations.mark("o1000-7", **BY, user_id="mia", sensitivity="sensitive"),
    "forget what superseded": lambda memory: memory.forget("o1000-6", **BY, wait=False),
    "quarantine many": lambda memory: memory.observations.quarantine(Selection(tag="hot"), **BY),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
async def test_no_table_is_read_for_each_row_of_another(database_url: str, name: str) -> None:
    direct = await asyncpg.connect(plain_url(database_url))
    await direct.execute(FREEZE_STATISTICS)
    await direct.execute(OF_ONE)
    await direct.close()
    async with Memory(database_url, Parrot(), Settings(llm="offline", pool_size=1)) as memory:
        before = dict(await flushed(memory))
        await CALLS[name](memory)
        read = {table: count - before[table] for table, count in await flushed(memory)}
    assert {
        table: count
        for table, count in read.items()
        if count > FEWER.get(name, MOST) and table not in {"scopes", *ALIKE.get(name, ())}
    } == {}
