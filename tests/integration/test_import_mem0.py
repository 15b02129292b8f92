"""Importing the memory of mem0: completely, once, and without what was forgotten here."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_sql.db.other_store import OtherStore
from memory_sql.domain.results import ImportReport, Progress
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, DatabaseError, InputError, NotFoundError, SourceError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.legacy.stored import state
from tests.mem0_store import WRITTEN, numbered, payload, write
from tests.recycling import administer, named
from tests.unit.test_pages import blocks

KEY = b"k" * 32
OF_SCOPES = """
    SELECT agent_id, owner, content, conversation_id FROM memory.observations JOIN memory.agents USING (agent_key)
    JOIN memory.scopes USING (agent_key, scope_id) ORDER BY agent_id, owner, seq
"""
REJECTS = "SELECT legacy_id, outcome, reason FROM memory.import_rejects ORDER BY import_id, number"


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


@pytest.fixture(scope="module")
async def mem0_database(server_url: str) -> AsyncIterator[str]:
    name = f"memory_sql_mem0_{os.getpid()}"
    await administer(server_url, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
    yield named(server_url, name)
    await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
async def mem0(mem0_database: str) -> str:
    """The URL of a database without tables."""
    await administer(mem0_database, "DROP SCHEMA public CASCADE", "CREATE SCHEMA public")
    return mem0_database


async def bring(memory: Memory, url: str, **options: Any) -> ImportReport:
    return await memory.imports.mem0(**{"mem0_url": url, "key": KEY, "agent_id": "assistant", **options})


@pytest.mark.slow
async def test_what_mem0_wrote_comes_with_its_user_agent_run_time_and_metadata(memory: Memory, mem0: str) -> None:
    await write(mem0, WRITTEN)
    report = await bring(memory, mem0)
    assert report.collections == {"mem0": {"source": 8, "migrated": 8, "merged": 0, "skipped": 0, "rejected": 0}}
    assert (report.unaccounted, report.reasons, report.anomalies) == ((), {}, {"no_agent": 6})
    assert await rows(memory, OF_SCOPES) == [
        ("assistant", "u:alice", "Alice prefers green tea to coffee.", None),
        ("assistant", "u:alice", "Alice moved to Lisbon.", None),
        ("assistant", "u:alice", "Was updated.", None),
        ("assistant", "u:bob", "Ship on Fridays.", None),
        ("assistant", "u:bob", "I will.", None),
        ("assistant", "u:run trip-2", "run note", "trip-2 / run trip-2"),
        ("travel", "u:agent travel", "The agent books refundable fares.", None),
        ("travel", "u:bob", "Bob wants aisle seats.", "trip-1 / bob"),
    ]
    (found,) = (await memory.search("updated", agent_id="assistant", user_id="alice")).results
    one = found.observation
    key = "f57de1a9-7a5d-427c-9cd7-0442910882e6"
    assert one.observed_at.isoformat() == WRITTEN[key]["created_at"]
    assert one.metadata == {
        "category": "work",
        "mem0": {
            "id": key,
            "hash": "b29a713501e0f9b9e18920ea981bcb80",
            "updated_at": "2026-11-28T07:42:36.918543+00:00",
            "user_id": "alice",
            "role": "user",
        },
    }
    assert (one.status, one.pending, one.verification, one.source.kind) == ("active", True, "unverified", "import")


@pytest.mark.slow
async def test_each_user_sees_only_their_own(memory: Memory, mem0: str) -> None:
    await write(mem0, WRITTEN)
    await bring(memory, mem0)
    seen = {
        user: {one.content for one in await memory.observations.list(agent_id="assistant", user_id=user)}
        for user in ("alice", "bob", "carol")
    }
    assert [len(found) for found in seen.values()] == [3, 2, 0]


@pytest.mark.slow
async def test_dry_run_says_the_same_and_writes_nothing(memory: Memory, mem0: str) -> None:
    await write(mem0, [*WRITTEN.values(), payload(" "), payload("Old.", expiration_date="2026-01-01")])
    planned = await bring(memory, mem0, dry_run=True)
    assert (planned.run, await state(memory)) == (None, [])
    assert (await bring(memory, mem0)).model_copy(update={"run": None}) == planned


@pytest.mark.slow
async def test_second_run_brings_only_what_is_new(memory: Memory, mem0: str) -> None:
    await write(mem0, WRITTEN)
    await bring(memory, mem0)
    before = await state(memory)
    again = await bring(memory, mem0)
    assert await state(memory) == before
    assert again.reasons == {"mem0: skipped, known": 8}
    await write(mem0, {numbered(9): payload("Alice plays chess.")})
    later = await bring(memory, mem0)
    assert later.collections["mem0"] == {"source": 9, "migrated": 1, "merged": 0, "skipped": 8, "rejected": 0}


@pytest.mark.slow
async def test_rollback_leaves_what_was_there_before(memory: Memory, mem0: str) -> None:
    await memory.observe("Plays chess.", agent_id="assistant", user_id="alice")
    before = await state(memory)
    await write(mem0, WRITTEN)
    run = (await bring(memory, mem0)).run or 0
    planned = await memory.imports.rollback(run, dry_run=True)
    done = await memory.imports.rollback(run)
    assert done == planned.model_copy(update={"dry_run": False})
    assert (done.observations, await state(memory)) == (8, before)
    with pytest.raises(NotFoundError):
        await memory.imports.rollback(run)
    assert (await bring(memory, mem0)).collections["mem0"]["migrated"] == 8


@pytest.mark.slow
async def test_what_was_forgotten_does_not_come_again(memory: Memory, mem0: str) -> None:
    await write(mem0, WRITTEN)
    await bring(memory, mem0)
    (hit,) = (await memory.search("Lisbon", agent_id="assistant", user_id="alice")).results
    await memory.forget(hit.observation.id, agent_id="assistant")
    await memory.forget(Selection(user_id="bob"), agent_id="assistant")
    before = await state(memory)
    again = await bring(memory, mem0)
    assert await state(memory) == before
    assert again.reasons == {"mem0: skipped, forgotten": 3, "mem0: skipped, known": 5}


@pytest.mark.slow
async def test_user_forgotten_before_the_import_does_not_come(memory: Memory, mem0: str) -> None:
    await memory.observe("Plays chess.", agent_id="assistant", user_id="bob")
    await memory.forget(Selection(user_id="bob"), agent_id="assistant")
    await write(mem0, [payload("Bob likes tea.", user_id="bob"), payload("Alice likes tea.")])
    assert (await bring(memory, mem0)).reasons == {"mem0: skipped, forgotten": 1}
    assert [row[2] for row in await rows(memory, OF_SCOPES)] == ["Alice likes tea."]


@pytest.mark.slow
async def test_renamed_user_keeps_what_comes_later(memory: Memory, mem0: str) -> None:
    await write(mem0, [payload("Alice likes tea.")])
    await bring(memory, mem0)
    await memory.people.rename(agent_id="assistant", kind="user", old="alice", new="a.smith")
    await write(mem0, {numbered(2): payload("Alice plays chess.")})
    await bring(memory, mem0)
    assert [(owner, text) for _, owner, text, _ in await rows(memory, OF_SCOPES)] == [
        ("u:a.smith", "Alice likes tea."),
        ("u:a.smith", "Alice plays chess."),
    ]


@pytest.mark.slow
async def test_differences_from_the_source_are_named(memory: Memory, mem0: str) -> None:
    await write(mem0, [payload("Alice likes tea.")])
    run = (await bring(memory, mem0)).run or 0
    assert (await memory.imports.verify(run)).compared is None
    same = await memory.imports.verify(run, mem0_url=mem0)
    assert (same.compared, same.changed_here, same.changed_there, same.missing) == (1, (), (), ())
    await write(mem0, {numbered(2): payload("Alice plays chess.")})
    assert (await memory.imports.verify(run, mem0_url=mem0)).missing == (f"mem0:{numbered(2)}",)
    await rows(memory, "UPDATE memory.imported SET source_hash = ''")
    assert (await memory.imports.verify(run, mem0_url=mem0)).changed_there == (f"mem0:{numbered(1)}",)


@pytest.mark.slow
async def test_verify_refuses_a_source_of_another_kind(memory: Memory, mem0: str, tmp_path: Path) -> None:
    await write(mem0, [payload()])
    run = (await bring(memory, mem0)).run or 0
    with pytest.raises(InputError, match="another kind"):
        await memory.imports.verify(run, dump=tmp_path)


# What isn't imported is counted, and named by its id


LEFT_OUT: tuple[tuple[Any, str, str], ...] = (
    (payload(user_id=None), "rejected", "no_user"),
    (payload(user_id=" "), "rejected", "no_user"),
    (payload(user_id=["alice"]), "rejected", "bad_id"),
    (payload(user_id="a" * 256), "rejected", "bad_id"),
    (payload(user_id="agent travel"), "rejected", "bad_id"),
    (payload(agent_id="a\u200bb"), "rejected", "bad_id"),
    (payload(""), "rejected", "empty"),
    (payload(" \n"), "rejected", "empty"),
    (payload(None), "rejected", "empty"),
    (None, "rejected", "empty"),
    (payload(7), "rejected", "bad_type"),
    ([1], "rejected", "bad_type"),
    (payload("x" * 8001), "rejected", "too_long"),
    (payload("Old.", expiration_date="2026-02-28"), "skipped", "expired"),
)


@pytest.mark.slow
async def test_row_that_cannot_be_memory_is_counted_and_named(memory: Memory, mem0: str) -> None:
    await write(mem0, [*(row for row, _, _ in LEFT_OUT), payload("Likes chess.")])
    report = await bring(memory, mem0)
    told = [(numbered(n), outcome, reason) for n, (_, outcome, reason) in enumerate(LEFT_OUT, start=1)]
    assert await rows(memory, REJECTS) == told
    counts = Counter(f"mem0: {outcome}, {reason}" for _, outcome, reason in LEFT_OUT)
    assert report.reasons == dict(sorted(counts.items()))
    assert report.collections["mem0"] == {"source": 15, "migrated": 1, "merged": 0, "skipped": 1, "rejected": 13}
    assert [row[2] for row in await rows(memory, OF_SCOPES)] == ["Likes chess."]


@pytest.mark.slow
async def test_longest_text_and_whole_number_ids_come(memory: Memory, mem0: str) -> None:
    await write(mem0, [payload("x" * 8000, user_id=7, agent_id=12, run_id=3)])
    await bring(memory, mem0)
    assert await rows(memory, OF_SCOPES) == [("12", "u:7", "x" * 8000, "3 / 7")]


@pytest.mark.slow
async def test_same_text_of_a_user_is_one_row_and_of_another_another(memory: Memory, mem0: str) -> None:
    later = {"created_at": "2026-03-03T09:00:00+00:00"}
    await write(mem0, [payload("Likes tea."), payload("likes tea", **later), payload("Likes tea.", user_id="bob")])
    report = await bring(memory, mem0)
    assert report.reasons == {"mem0: merged, duplicate_text": 1}
    assert [(owner, text) for _, owner, text, _ in await rows(memory, OF_SCOPES)] == [
        ("u:alice", "likes tea"),
        ("u:bob", "Likes tea."),
    ]
    assert await rows(memory, REJECTS) == [(numbered(1), "merged", "duplicate_text")]
    assert (await bring(memory, mem0)).collections["mem0"]["migrated"] == 0


@pytest.mark.slow
async def test_characters_that_no_text_may_hold_are_replaced(memory: Memory, mem0: str) -> None:
    """jsonb holds no NUL and no lone surrogate; a table that was made by hand, of json, may."""
    await write(mem0, [payload("Likes\x00 tea\ud800.", note="a\x00b")], kind="json")
    report = await bring(memory, mem0)
    assert report.anomalies["A29"] == 1
    (one,) = await memory.observations.list(agent_id="assistant", user_id="alice")
    assert (one.content, one.metadata["note"]) == ("Likes\ufffd tea\ufffd.", "a\ufffdb")


@pytest.mark.slow
async def test_secrets_are_masked_in_text_and_metadata(memory: Memory, mem0: str) -> None:
    await write(mem0, [payload("My password is Tr0ub4dor&3.", login="password: hunter2!x")])
    report = await bring(memory, mem0)
    assert report.anomalies["masked"] == 1
    (one,) = await memory.observations.list(agent_id="assistant", user_id="alice")
    assert "Tr0ub4dor" not in one.content
    assert "hunter2" not in str(one.metadata)


@pytest.mark.slow
async def test_row_without_a_time_has_that_of_the_import(memory: Memory, mem0: str) -> None:
    times = (None, "yesterday", "0000-01-01", 7)
    await write(mem0, (payload(f"At {at}.", created_at=at) for at in times))
    report = await bring(memory, mem0)
    assert report.anomalies["no_time"] == len(times)
    found = await memory.observations.list(agent_id="assistant", user_id="alice")
    assert all(abs((one.observed_at - memory.now()).total_seconds()) < 60 for one in found)


@pytest.mark.slow
async def test_too_much_metadata_is_left_out_and_the_memory_comes(memory: Memory, mem0: str) -> None:
    await write(mem0, [payload(blob="x" * 20_000)])
    report = await bring(memory, mem0)
    assert report.anomalies["metadata_left_out"] == 1
    (one,) = await memory.observations.list(agent_id="assistant", user_id="alice")
    assert one.metadata == {"mem0": {"id": numbered(1)}}


@pytest.mark.slow
async def test_metadata_of_the_host_under_our_name_is_kept_beside_it(memory: Memory, mem0: str) -> None:
    await write(mem0, [payload(mem0={"mine": 1})])
    await bring(memory, mem0)
    (one,) = await memory.observations.list(agent_id="assistant", user_id="alice")
    assert one.metadata == {"mem0": {"id": numbered(1), "user_id": "alice", "metadata": {"mine": 1}}}


# The source


@pytest.mark.slow
async def test_source_is_read_in_pages_and_never_written(memory: Memory, mem0: str) -> None:
    await write(mem0, (payload(f"Fact {n}.", user_id=f"u{n % 7}") for n in range(2500)))
    told = list[Progress]()
    report = await bring(memory, mem0, progress=told.append)
    assert report.collections["mem0"]["migrated"] == 2500
    read = [(now.count, now.total) for now in told if now.step == "reading"]
    assert read == [(1000, 2500), (2000, 2500), (2500, 2500)]
    store = OtherStore(mem0, "mem0", at_once=999)
    try:
        pages = [len(page) async for page in store.pages()]
        with pytest.raises(SourceError):
            await store._all(store._rows.insert().values(id=numbered(9999)))  # type: ignore[arg-type]
        assert await store.count() == 2500
    finally:
        await store.close()
    assert pages == [999, 999, 502]


@pytest.mark.parametrize("table", ["", "(id uuid)", "(id, payload) AS SELECT 'a', '{}'"])
async def test_what_is_no_table_of_mem0_is_said_so(memory: Memory, mem0: str, table: str) -> None:
    if table:
        await administer(mem0, f'CREATE TABLE "memories; --" {table}')
    with pytest.raises(SourceError, match=r"no such table|no columns id and payload|ids aren't UUIDs"):
        await bring(memory, mem0, collection="memories; --")
    assert await state(memory) == []


async def test_database_that_is_not_there_is_said_so(memory: Memory) -> None:
    with pytest.raises((SourceError, DatabaseError), match="can't be reached"):
        await bring(memory, "postgresql://nobody:secret@127.0.0.1:1/mem0")
    with pytest.raises(ConfigurationError):
        await bring(memory, "mysql://mem0")


async def test_key_of_an_earlier_import_is_asked_for(memory: Memory, mem0: str) -> None:
    await write(mem0, WRITTEN)
    await bring(memory, mem0)
    with pytest.raises(InputError, match="another key"):
        await bring(memory, mem0, key=b"o" * 32)


@pytest.mark.slow
async def test_python_of_the_page_brings_it_over(memory: Memory, mem0: str) -> None:
    await write(mem0, WRITTEN)
    page: dict[str, Any] = {}
    exec(next(block.text for block in blocks("docs/mem0.md") if block.language == "python"), page)
    assert (await page["bring_over"](memory, mem0, KEY)).collections["mem0"]["migrated"] == 8


@pytest.fixture
async def written(mem0: str) -> str:
    await write(mem0, WRITTEN, collection="of the command")
    return mem0


@pytest.mark.slow
def test_command_imports_lists_verifies_and_rolls_back(
    database_url: str, written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    source = ("--mem0-url", written)
    named_so = ("--collection", "of the command", "--agent", "assistant", "--key-file", tmp_path / "key")
    assert "dry run: nothing was written" in memory_sql("import", "mem0", *source, *named_so, "--dry-run").out
    done = memory_sql("import", "mem0", *source, *named_so)
    assert "import 1" in done.out
    assert "6  no_agent: a memory that names no agent" in done.out
    assert "mem0 of the command  8 documents" in memory_sql("import", "list").out
    assert memory_sql("import", "verify", 1, *source).out == "no differences (8 rows compared)\n"
    assert "8 observations and 5 scopes removed" in memory_sql("import", "rollback", 1, "--yes").out
