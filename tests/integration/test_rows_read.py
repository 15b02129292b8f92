"""What a call reads doesn't grow with what the agent knows about others."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from benchmarks.server import plain_url
from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Parrot

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
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
    "INSERT INTO memory.events (agent_key, kind, scope_id, reason, detail) SELECT agent_key, 'membership', 100000 + n, 'why',"
    " jsonb_build_object('user_id', 'x' || n)",
    "INSERT INTO memory.events (agent_key, kind, reason, detail) SELECT agent_key, 'alias', 'why',"
    " jsonb_build_object('user_id', 'x' || n, 'into_user_id', 'y' || n)",
    "INSERT INTO memory.imported (agent_key, scope_id, seq, import_id, legacy_ref, ref_hash, stored_hash, source_hash)"
    " SELECT agent_key, 1000 + n, 1, 1, 'x' || n, '', '', ''",
    "INSERT INTO memory.user_aliases (agent_key, user_id, into_user_id, created_at, ended_at)"
    " SELECT agent_key, 'y' || n, 'x' || n, now(), CASE WHEN n % 2 = 0 THEN now() END",
    "INSERT INTO memory.imported_messages SELECT agent_key, 'x' || n, 1, 1, 'a', 'b', 'c'",
)
WHOLE = {
    "form again": {"observations"},  # no index knows the run
    "forget a person": {"messages"},  # nor who spoke
    "forget a group": {"conversations", "evidence", "observations", "scopes"},  # nor of which group a conversation is
}
READ = "SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE schemaname = 'memory'"


@pytest.fixture
async def memory(database_url: str) -> Any:
    async with Memory(database_url, Parrot(), Settings(llm="offline", pool_size=1)) as opened:
        for conversation_id in ("a", "b", "c"):
            said = [message(f"I own a {word}, {conversation_id}.", n=n) for n, word in enumerate(("ruby", "opal"))]
            await opened.add(said, **MIA, conversation_id=conversation_id)
            await opened.conversations.form(**ADA, conversation_id=conversation_id)
        held = (await opened.observations.list(**MIA, limit=1))[0].id
        await opened.holds.place(**ADA, observation_id=held, actor="legal")  # all the while
        apart = await asyncpg.connect(plain_url(database_url))  # where no foreign key was looked up while all was small
        for sql in BESIDE:
            await apart.execute(f"{sql} FROM memory.agents CROSS JOIN generate_series(1, {OTHERS}) n")
        await apart.execute("ANALYZE")
        await apart.close()
        yield opened


async def read_by(memory: Memory, call: Awaitable[object]) -> dict[str, int]:
    """Of which tables it reads more than a few rows, by indexes or not, and how many."""
    before = dict(await flushed(memory))
    await call
    read = {str(table): count - before[table] for table, count in await flushed(memory)}
    return {table: count for table, count in read.items() if count > MOST}


async def flushed(memory: Memory) -> list[tuple[Any, ...]]:
    """What the one connection has read up to now: it is told to say so."""
    await rows(memory, "SELECT pg_stat_force_next_flush()")
    return await rows(memory, READ)


@pytest.mark.slow
async def test_it_reads_what_it_changes(memory: Memory) -> None:
    formed = {one.content: one for one in await memory.observations.list(**MIA)}
    stated = [await memory.observe(f"Mia found a {word}.", **MIA) for word in ("topaz", "pearl", "garnet")]
    topaz, pearl, garnet = (one.id for one in stated)
    ruby, scope = formed["I own a ruby, a."], stated[0].scope.id
    at_last: dict[str, Any] = {**ADA, "wait": False}
    change = memory.observations
    steps: dict[str, Callable[[], Awaitable[object]]] = {
        "observe": lambda: memory.observe("Mia lost a topaz.", **MIA),
        "get": lambda: change.get(topaz, **MIA),
        "list": lambda: change.list(**MIA),
        "search": lambda: memory.search("topaz", **MIA),
        "context": lambda: memory.context(**MIA, message="Where is the topaz?"),
        "digest": lambda: memory.digest(**MIA),
        "update": lambda: change.update(topaz, **MIA, text="Mia found two topazes."),
        "reinstate": lambda: change.reinstate(topaz, **MIA),
        "confirm": lambda: change.confirm(topaz, **MIA),
        "mark": lambda: change.mark(pearl, **MIA, private=True),
        "quarantine": lambda: change.quarantine(garnet, **MIA),
        "unquarantine": lambda: change.unquarantine(garnet, **MIA),
        "consolidate": lambda: memory.scopes.consolidate(**ADA, scope_id=scope),
        "undo": lambda: memory.scopes.undo(**ADA, scope_id=scope),
        "consolidate again": lambda: memory.scopes.consolidate(**ADA, scope_id=scope),
        "propagate": lambda: memory.scopes.propagate(**ADA, scope_id=scope),
        "add": lambda: memory.add([message("I own a beryl.")], **MIA, conversation_id="d", group_ids=["crew"]),
        "form": lambda: memory.conversations.form(**ADA, conversation_id="d"),
        "form again": lambda: memory.conversations.form(**ADA, conversation_id="d", again=True),
        "leave a group": lambda: memory.groups.remove_member(**ADA, group_id="crew", user_id="mia"),
        "forget what is stated": lambda: memory.forget(pearl, **at_last),
        "forget what is formed": lambda: memory.forget(ruby.id, **at_last),
        "forget a message": lambda: memory.forget(Selection(conversation_id="c", message_id="m1"), **at_last),
        "forget a conversation": lambda: memory.forget(Selection(conversation_id="b"), **at_last),
        "forget a group": lambda: memory.forget(Selection(group_id="crew"), **at_last),
        "forget a person": lambda: memory.forget(Selection(user_id="mia"), **at_last),
    }
    found = {name: whole for name, call in steps.items() if (whole := await read_by(memory, call()))}
    assert {name: {*whole} for name, whole in found.items()} == WHOLE, found
