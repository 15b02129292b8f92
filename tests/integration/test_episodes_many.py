"""What was said long ago costs a context nothing, in however many conversations."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import Clock
from tests.fakes import Scripted
from tests.integration.test_dead_rows import cleaned, read
from tests.integration.test_episodes import KITCHEN, MIA, ON, told

pytestmark = pytest.mark.direct
FEW, MANY = 500, 5_000
_CONVERSATIONS = """
    INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants, created_at, last_activity_at)
    SELECT agent_key, 'old' || n, user_id, participants, created_at, last_activity_at - interval '9 days'
    FROM memory.conversations
    CROSS JOIN generate_series(CAST(:first AS integer), CAST(:last AS integer)) n
    WHERE conversation_id = 's'
"""
_EPISODES = """
    INSERT INTO memory.episodes (agent_key, conversation_id, opened_at, last_at, sealed_at, seal_reason, trace_id)
    SELECT e.agent_key, c.conversation_id, l.at, l.at, l.at, 'time_gap', 1
    FROM memory.conversations c
    JOIN memory.episodes e ON e.agent_key = c.agent_key AND e.conversation_id = 's'
    CROSS JOIN (SELECT opened_at - interval '9 days' AS at FROM memory.episodes WHERE conversation_id = 's') l
    WHERE c.conversation_id LIKE 'old%' AND substr(c.conversation_id, 4)::integer >= CAST(:first AS integer)
"""
_MEMBERS = """
    WITH o AS (
        INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version, lane)
        SELECT s.agent_key, s.scope_id, s.last_seq + row_number() OVER (), 'Tea.', e.last_at, 'observe', 1, 'absorb'
        FROM memory.scopes s JOIN memory.episodes e USING (agent_key)
        WHERE s.owner = 'u:mia' AND NOT EXISTS (
            SELECT FROM memory.observation_episodes n WHERE n.episode_id = e.episode_id
        )
        RETURNING agent_key, scope_id, seq
    ), n AS (
        INSERT INTO memory.observation_episodes (agent_key, scope_id, seq, episode_id, topics)
        SELECT o.agent_key, o.scope_id, o.seq, e.episode_id, '{tea}'
        FROM (SELECT o.*, row_number() OVER (ORDER BY o.seq) AS n FROM o) o
        JOIN (
            SELECT e.episode_id, row_number() OVER (ORDER BY e.episode_id) AS n
            FROM memory.episodes e
            WHERE NOT EXISTS (SELECT FROM memory.observation_episodes m WHERE m.episode_id = e.episode_id)
        ) e USING (n)
    ), e AS (
        INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id) SELECT agent_key, scope_id, seq, 'mia' FROM o
    )
    UPDATE memory.scopes s SET last_seq = (SELECT max(seq) FROM o) WHERE s.owner = 'u:mia'
"""
_SHOWN = """
    SELECT s.episode_id
    FROM memory.episodes_seen(
        'ada', 'mia', NULL, NULL, CAST(:since AS timestamptz), NULL, NULL, NULL, 5, 30, CAST(:now AS timestamptz)
    ) s
"""


async def test_conversations_of_long_ago_are_not_read(database_url: str, llm: Scripted, clock: Clock) -> None:
    settings = ON.model_copy(update={"pool_size": 1})
    found: list[int] = []
    async with Memory(database_url, llm, settings, clock=clock) as memory:
        await told(memory, llm, clock, ("Mia has a kitchen.", KITCHEN))
    for first, last in ((1, FEW), (FEW + 1, MANY)):
        async with Memory(database_url, llm, settings, clock=clock) as memory:
            await rows(memory, _CONVERSATIONS, first=first, last=last)
            await rows(memory, _EPISODES, first=first)
            await rows(memory, _MEMBERS)
            async with cleaned(database_url):
                given: dict[str, Any] = {"since": clock.now - timedelta(days=3), "now": clock.now}
                for _ in range(7):  # with its plans at hand, also those for any value
                    assert await rows(memory, _SHOWN, **given) == [(1,)]
                found.append(await read(memory, rows(memory, _SHOWN, **given)))
            assert "kitchen" in (await memory.context(**MIA, message="hello")).xml
    few, many = found
    assert many <= few + 10, found
