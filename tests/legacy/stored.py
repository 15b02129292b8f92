"""What an import has stored, in a form that can be compared: references, texts, states and order."""

from __future__ import annotations

import hashlib
from typing import Any

from memory_sql.memory import Memory
from tests.database import rows

STATE = """
    SELECT a.agent_id, s.owner, s.name, c.content, s.is_active, o.seq, o.legacy_ref, o.content, o.lane,
           coalesce(t.status, 'active'), o.observed_at, o.seq <= s.done_seq
    FROM memory.scopes s
    JOIN memory.agents a USING (agent_key)
    LEFT JOIN memory.consolidations c USING (agent_key, scope_id, version)
    LEFT JOIN memory.observations o USING (agent_key, scope_id)
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq)
    ORDER BY a.agent_id, s.owner, s.name, o.seq
"""


async def state(memory: Memory) -> list[tuple[Any, ...]]:
    return await rows(memory, STATE)


async def fingerprint(memory: Memory) -> str:
    return hashlib.sha256(repr(await state(memory)).encode()).hexdigest()
