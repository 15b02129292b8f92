"""What a forgetting reads doesn't grow with what the agent knows of others."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Parrot

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
OTHERS = 20_000
MOST = 1_000  # rows of any table
BESIDE = (
    "INSERT INTO memory.scopes (agent_key, scope_id, kind, owner, last_seq)"
    " SELECT agent_key, 1000 + n, 'individual', 'u:x' || n, 1",
    "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
    " SELECT agent_key, 1000 + n, 1, 'Tea.', now(), 'observe', 1",
    "INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id) SELECT agent_key, 1000 + n, 1, 'x' || n",
    "INSERT INTO memory.consolidations (agent_key, scope_id, version, base, from_seq, to_seq, content, words, reason)"
    " SELECT agent_key, 1000 + n, 1, 0, 0, 1, 'Tea.', 1, 'asked'",
    "INSERT INTO memory.conversations (agent_key, conversation_id, user_id, participants)"
    " SELECT agent_key, 'x' || n, 'x' || n, ARRAY['x' || n]",
    "INSERT INTO memory.messages"
    " (agent_key, conversation_id, number, message_id, role, weight, said_at, owner, user_id, content)"
    " SELECT agent_key, 'x' || n, 1, 'm', 'user', 1, now(), 'u:x' || n, 'x' || n, 'Tea.'",
    "INSERT INTO memory.runs (agent_key, kind, conversation_id, from_number, to_number, fence, state, finished_at)"
    " SELECT agent_key, 'formation', 'x' || n, 0, 1, 1, 'empty', now()",
    "INSERT INTO memory.scopes (agent_key, scope_id, kind, owner, last_seq)"
    " SELECT agent_key, 100000 + n, 'group', 'g:x' || n, 1",
    "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
    " SELECT agent_key, 100000 + n, 1, 'Tea.', now(), 'propagation', 1",
    "INSERT INTO memory.lineage (agent_key, scope_id, seq, source_scope_id, source_seq, whole)"
    " SELECT agent_key, 100000 + n, 1, 1000 + n, 1, true",
    "INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, seq)"
    " SELECT agent_key, 1000 + n, 1, 100000 + n, 'propagated', '', 1",
    "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status) SELECT agent_key, 1000 + n, 1, 'archived'",
    "INSERT INTO memory.events (agent_key, kind, scope_id, seq) SELECT agent_key, 'status', 1000 + n, 1",
    "INSERT INTO memory.imported (agent_key, scope_id, seq, import_id, legacy_ref, ref_hash, stored_hash, source_hash)"
    " SELECT agent_key, 1000 + n, 1, 1, 'x' || n, '', '', ''",
    "INSERT INTO memory.imported_messages SELECT agent_key, 'x' || n, 1, 1, 'a', 'b', 'c'",
)
READ = """
    SELECT relname
    FROM pg_stat_xact_user_tables
    WHERE schemaname = 'memory' AND seq_tup_read + coalesce(idx_tup_fetch, 0) > :most
"""


@pytest.fixture
async def memory(database_url: str) -> Any:
    async with Memory(database_url, Parrot()) as opened:
        for conversation_id in ("a", "b", "c"):
            said = [message(f"I own a {word}, {conversation_id}.", n=n) for n, word in enumerate(("ruby", "opal"))]
            await opened.add(said, **MIA, conversation_id=conversation_id)
            await opened.conversations.form(agent_id="ada", conversation_id=conversation_id)
        for sql in BESIDE:
            await rows(opened, f"{sql} FROM memory.agents CROSS JOIN generate_series(1, {OTHERS}) n")
        await rows(opened, "ANALYZE")
        yield opened


@pytest.mark.slow
async def test_it_reads_what_it_takes(memory: Memory) -> None:
    """Only a person's messages are looked for among all of the agent's: no index knows who spoke."""
    stated = await memory.observe("Mia found a topaz.", **MIA)
    formed = next(one for one in await memory.observations.list(**MIA) if "ruby, a" in one.content)
    wanted: list[tuple[str | Selection, set[str]]] = [
        (stated.id, set()),
        (formed.id, set()),
        (Selection(conversation_id="b"), set()),
        (Selection(conversation_id="c", message_id="m1"), set()),
        (Selection(user_id="mia"), {"messages"}),
    ]
    for selection, whole in wanted:
        async with memory.database.transaction() as unit:
            receipt = await memory.forget(selection, agent_id="ada", session=unit)
            assert receipt.counts["observations"] > 0, selection
            read = {*await unit.scalars(text(READ), {"most": MOST})}
        assert read == whole, selection
