"""What a call reads doesn't grow with what the agent knows about others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from string import ascii_letters
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
from sqlalchemy import text

from benchmarks.server import plain_url
from memory_sql.config import Settings
from memory_sql.db.staging import ANALYZE as STAGED_ANALYZE
from memory_sql.db.staging import STAGE_ONCE, WAITING
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.conftest import Lend
from tests.database import rows, serving
from tests.factories import message
from tests.fakes import Meanings, Parrot
from tests.sizes import few_in_ci

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
FEW = 2_000
FREEZE_STATISTICS = """
    DO $$ DECLARE v_table regclass; BEGIN
        FOR v_table IN SELECT oid FROM pg_class WHERE relnamespace = 'memory'::regnamespace AND relkind = 'r' LOOP
            EXECUTE format('ALTER TABLE %s SET (autovacuum_enabled = off)', v_table);
        END LOOP;
    END $$
"""
A_THOUSAND_OF_ONE_SCOPE = (
    "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
    " SELECT agent_key, scope_id, n, 'Tea ' || n, now(), 'observe', 1"
    " FROM memory.scopes CROSS JOIN generate_series(2, 1000) n",
    "UPDATE memory.scopes SET last_seq = 1000",
)
WHOLE = {
    "form again": {"observations"},  # no index knows the run
    "forget a person": {"consolidations", "observations"},  # their name may stand in any text
    "forget a group": {"conversations", "evidence", "observations", "scopes"},  # nor of which group a conversation is
}
# Where few statistics say that any index would do, and another than that of the key is taken: in the last also by the checks
# of foreign keys.
ALIKE = {("list", "events"), ("list", "observation_states")}
BY_CHECKS = "forget a person"
READ = "SELECT relname, seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_user_tables WHERE schemaname = 'memory'"


@pytest.fixture(scope="module")
async def memory(lend: Lend) -> AsyncIterator[Memory]:
    """Of which each test changes little, and nothing that another one reads."""
    async with (
        lend() as url,
        Memory(url, Parrot(), Settings(llm="offline", pool_size=1)) as opened,
    ):
        await remember(opened, 3)
        await know_others(url, OTHERS, "ANALYZE")
        yield opened


async def remember(memory: Memory, conversations: int) -> None:
    """And a legal hold on something of it, all the while."""
    for conversation_id in ascii_letters[:conversations]:
        said = [message(f"I own a {word}, {conversation_id}.", n=n) for n, word in enumerate(("ruby", "opal"))]
        await memory.add(said, **MIA, conversation_id=conversation_id)
        await memory.conversations.form(**ADA, conversation_id=conversation_id)
    formed = await memory.observations.list(**MIA)
    await memory.holds.place(**ADA, observation_id=formed[0].id, actor="legal")


async def know_others(url: str, many: int, *more: str) -> None:
    apart = await asyncpg.connect(plain_url(url))  # where no foreign key was looked up while all was small
    for sql in BESIDE:
        await apart.execute(f"{sql} FROM memory.agents CROSS JOIN generate_series(1, {many}) n")
    for sql in more:
        await apart.execute(sql)
    await apart.close()


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


async def read_by_each(memory: Memory) -> dict[str, dict[str, int]]:
    """Of each call that reads, corrects, forgets or works."""
    formed = {one.content: one for one in await memory.observations.list(**MIA, limit=100)}
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
    return {name: whole for name, call in steps.items() if (whole := await read_by(memory, call()))}


@pytest.mark.slow
async def test_it_reads_what_it_changes(memory: Memory) -> None:
    found = await read_by_each(memory)
    assert {name: {*whole} for name, whole in found.items()} == WHOLE, found


@pytest.mark.slow
async def test_cost_of_a_few_days_reads_none_of_the_runs_before(memory: Memory) -> None:
    await rows(memory, "UPDATE memory.runs SET started_at = now() - interval '90 days' WHERE conversation_id LIKE 'x%'")
    await rows(memory, "ANALYZE memory.runs")
    await memory.work.costs(**ADA, days=7)  # what is read once, for plans
    assert await read_by(memory, memory.work.costs(**ADA, days=7)) == {}
    assert "runs" in await read_by(memory, memory.work.costs(**ADA, days=100))


CREW = "The harbour crew meets on Tuesdays at nine."
LIKE_IT = "SELECT content FROM memory.alike(1, :scope, 1, '{}', ARRAY[:peer]::bigint[], 5)"


@pytest.mark.slow
@pytest.mark.parametrize("cold", few_in_ci([False, True], [True]))
async def test_likeness_is_looked_for_in_the_scopes_that_are_named_alone(memory: Memory, cold: bool) -> None:
    said = await memory.observe(CREW, **ADA, user_id="kim")
    peer = (await memory.observe("The harbour crew meets on Tuesdays.", **ADA, user_id="jo")).scope.id
    await memory.scopes.consolidate(**ADA, scope_id=peer)
    await rows(memory, "UPDATE memory.observations SET cold = :cold WHERE content LIKE 'The harbour%'", cold=cold)
    scopes = {"scope": int(said.scope.id[1:]), "peer": int(peer[1:])}
    found = list[tuple[Any, ...]]()

    async def look() -> None:
        found.extend(await rows(memory, LIKE_IT, **scopes))

    assert await read_by(memory, look()) == {}
    assert found == [("The harbour crew meets on Tuesdays.",)]


@pytest.mark.slow
@pytest.mark.parametrize("statistics", ["of a few facts", "none"])
async def test_nothing_is_read_for_each_row_of_another_table_before_statistics_are_there(
    database_url: str, statistics: str
) -> None:
    """As after an import, until autovacuum comes."""
    settings = Settings(llm="offline", pool_size=1)
    async with Memory(database_url, Parrot(), settings) as memory:
        await rows(memory, FREEZE_STATISTICS)
        if statistics != "none":
            for n in range(300):
                await memory.observe(f"Kim has {n} boats.", **ADA, user_id="kim")
            await rows(memory, "ANALYZE")
        await remember(memory, 35)
        await know_others(database_url, FEW)
    # Another connection: it has no plans from when all was small.
    async with Memory(database_url, Parrot(), settings) as memory:
        found = await read_by_each(memory)
    often = {(name, table) for name, read in found.items() for table, count in read.items() if count > 100 * FEW}
    if statistics != "none":
        often = {(name, table) for name, table in often if name != BY_CHECKS} - ALIKE
    assert often == set()


@pytest.mark.slow
async def test_vectors_are_looked_up_one_by_one(database_url: str) -> None:
    """Also before statistics say how many there are."""
    async with Memory(database_url, Parrot(), Settings(llm="offline", pool_size=1), embeddings=Meanings()) as memory:
        await rows(memory, FREEZE_STATISTICS)
        await memory.observe("Mia lives in Oslo.", **MIA)
        for sql in A_THOUSAND_OF_ONE_SCOPE:
            await rows(memory, sql)
        await memory.work.embed()
        again = await read_by(memory, memory.work.embed())
    assert again.get("observation_vectors", 0) <= 2_000


SAID = (
    "INSERT INTO memory.messages"
    " (agent_key, conversation_id, number, message_id, role, weight, said_at, owner, user_id, content)"
    " SELECT agent_key, 'a', n, n, 'user', 1, now(), 'u:mia', 'mia', 'Tea.' FROM memory.agents, generate_series(2, 5000) n",
    "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
    " SELECT agent_key, scope_id, n, 'Tea.', now(), 'observe', 1 FROM memory.scopes, generate_series(2, 5000) n",
    "INSERT INTO memory.evidence (agent_key, scope_id, seq, conversation_id, number)"
    " SELECT agent_key, scope_id, seq, 'a', seq FROM memory.observations WHERE seq > 1",
    "INSERT INTO memory.observation_states (agent_key, scope_id, seq, status)"
    " SELECT agent_key, scope_id, seq, 'quarantined' FROM memory.observations WHERE seq % 100 = 0",
    "ANALYZE",
)


@pytest.mark.slow
async def test_what_was_made_of_messages_is_looked_up_for_a_page_of_them(database_url: str) -> None:
    async with Memory(database_url, Parrot(), Settings(llm="offline", pool_size=1)) as memory:
        await memory.observe("Mia rows.", **MIA)
        await memory.add([message("I own a ruby.")], **MIA, conversation_id="a")
        for statement in SAID:
            await rows(memory, statement)
        page: list[str] = []

        async def read() -> None:
            page.extend(one.id for one in await memory.conversations.messages(**MIA, limit=20))

        found = await read_by(memory, read())
    assert page == [str(n) for n in range(4999, 4979, -1)]
    assert found.get("evidence", 0) + found.get("observation_states", 0) < 2000


LONG_AGO = (
    "INSERT INTO memory.messages (agent_key, conversation_id, number, message_id, role, weight, said_at, owner, user_id,"
    " content) SELECT agent_key, 'a', n, n, 'user', 1, now(), 'u:mia', 'mia', 'Tea.'"
    " FROM memory.agents, generate_series(2, 1500) n",
    "UPDATE memory.conversations SET last_number = 1500, formed_number = 1500, unformed_messages = 0, unformed_tokens = 0"
    " WHERE conversation_id = 'a'",
    "ANALYZE",
)


async def test_messages_of_which_none_can_be_shown_are_not_read_for_a_context(database_url: str) -> None:
    """They were formed, or said in the running conversation."""
    async with Memory(database_url, Parrot(), Settings(llm="offline", pool_size=1)) as memory:
        for conversation_id in ("a", "b"):
            await memory.add([message("Is there tea on the boat?")], **MIA, conversation_id=conversation_id)
        for statement in LONG_AGO:
            await rows(memory, statement)
        asked: dict[str, Any] = {**MIA, "message": "Where is the boat with the tea?"}
        here = await read_by(memory, memory.context(**asked, conversation_id="b"))
        elsewhere = await memory.context(**asked)
    assert here == {}
    assert "Is there tea on the boat?" in elsewhere.xml


WAITING_CONVERSATIONS = (
    "INSERT INTO memory.conversations (agent_key, conversation_id, user_id, waits_below)"
    " SELECT agent_key, 'x' || n, 'mia', CASE WHEN n % 100 = 0 THEN 9 ELSE 0 END"
    " FROM memory.agents CROSS JOIN generate_series(1, 10000) n",
    "ANALYZE memory.conversations",
)


@pytest.mark.slow
async def test_other_conversations_are_not_read_to_judge_a_hundred(database_url: str) -> None:
    """By settings that an agent has from now on."""
    async with Memory(database_url, Parrot(), Settings(llm="offline", pool_size=1)) as memory:
        await memory.observe("Mia rows.", **MIA)
        for statement in WAITING_CONVERSATIONS:
            await rows(memory, statement)
        read = await read_by(memory, memory.configure(**ADA, formation_min_messages=2))
    assert read.get("conversations", 0) < 1000


KNOWN = (
    "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
    " SELECT agent_key, scope_id, n, 'Tea.', now(), 'observe', 1 FROM memory.scopes, generate_series(2, 30000) n",
    "UPDATE memory.scopes SET last_seq = 30000, done_seq = 30000",
    *(f"ANALYZE memory.{table}" for table in ("scopes", "observations", "observation_states")),
)
STAGED = (
    *STAGE_ONCE.split(";"),
    "INSERT INTO import_rows (place, scope_id, legacy_ref, lane, observed_at, digest)"
    " SELECT 1, scope_id, 'r:1', 'absorb', now(), sha256('') FROM memory.scopes",
    STAGED_ANALYZE,
)
OF_THIS = "SELECT seq_tup_read + idx_tup_fetch FROM pg_stat_xact_user_tables WHERE relname = 'observations'"


@pytest.mark.slow
async def test_what_a_scope_has_long_known_is_not_read_for_an_imported_document(database_url: str) -> None:
    """Only what waits, and what is set aside."""
    async with Memory(database_url, Parrot()) as memory:
        one = await memory.observe("Mia rows.", **MIA)
        for statement in KNOWN:
            await rows(memory, statement)
        async with serving(memory) as unit:
            for statement in STAGED:
                await unit.execute(text(statement))
            before = await unit.scalar(text(OF_THIS)) or 0
            await unit.execute(text(WAITING), {"agent_key": 1, "scope_ids": [one.scope.key]})
            assert await unit.scalar(text(OF_THIS)) - before < 10
