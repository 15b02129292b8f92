"""What is in the database after an import, as a user and an operator see it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import Progress
from memory_sql.domain.selection import Selection
from memory_sql.errors import LockTimeoutError
from memory_sql.importers.loading import Loader
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.database import TOLD, rows
from tests.fakes import Scripted
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.legacy.homes import WRITTEN, Document, Home, at
from tests.legacy.surveying import dumped

KEY = b"k" * 32
HOME = Home(("imported",))
AGENT, MIA = str(HOME.agent), str(HOME.user)
JOINED = "## festival\n\nThe festival is in June.\n\n## tides\n\nHigh tide is at noon."


def collections() -> Mapping[str, list[Document]]:
    """Mia's text and what waits for it; two shards, of which one has a fact and a suggestion."""
    german = HOME.directive("german", content="Answer in German.", createdAt=at(5))
    known = HOME.directive("short", content="She prefers short answers.", createdAt=at(3))
    boats = HOME.record("suggestion", "boats", content="Book more boats.")
    doors = HOME.record("fact", "doors", content="Doors open at six.")
    return {
        "users3": [HOME.person(HOME.user), HOME.person(HOME.other, "jonas"), HOME.agent_document()],
        "memory_user": [HOME.blob(unabsorbed_memory_ids=[german["_id"]]), HOME.blob(HOME.other, content="Jonas rows.")],
        "memory_agent": [
            HOME.shard(facts=[doors["_id"]], unabsorbed_memory_ids=[boats["_id"]]),
            HOME.shard("tides", shard_name="tides", content="High tide is at noon.", createdAt=at(1)),
        ],
        "memory_sessions": [german, known, boats, doors, HOME.record("episode")],
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    dump(tmp_path, collections().items())
    return tmp_path


async def bring(memory: Memory, folder: Path, **options: Any) -> None:
    report = await memory.imports.mongo(dump=folder, key=KEY, options=ImportOptions(**options))
    assert report.unaccounted == ()
    assert await memory.admin.verify() == []


@pytest.mark.slow
async def test_a_user_is_told_what_they_were_told_before(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    told = str(await memory.context(agent_id=AGENT, user_id=MIA))
    for text in (
        "Mia plans the harbour festival. She prefers short answers.",
        "Answer in German.",
        "Book more boats.",
        "Doors open at six.",
        "The festival is in June.",
        "High tide is at noon.",
    ):
        assert told.count(text) == 1, text
    assert "Jonas" not in told
    assert "episode" not in told


async def test_nobody_is_forgotten_in_the_middle_of_an_import(
    memory: Memory, database_url: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it brought later would stay: the import looks first who has been forgotten. So whoever forgets waits for it."""
    await memory.observe("Mia has a red boat.", agent_id=AGENT, user_id=MIA)
    mia, store, refused = Selection(user_id=MIA), Loader._scopes, list[LockTimeoutError]()

    async def forgotten_first(self: Loader, *given: Any) -> Any:
        if not refused:
            async with Memory(database_url, settings=Settings(llm="offline", lock_timeout_seconds=0.2)) as other:
                with pytest.raises(LockTimeoutError) as waited:
                    await other.forget(mia, agent_id=AGENT, wait=False)
            refused.append(waited.value)
        return await store(self, *given)

    monkeypatch.setattr(Loader, "_scopes", forgotten_first)
    await bring(memory, folder)
    assert len(refused) == 1
    await memory.forget(mia, agent_id=AGENT)
    assert (
        await rows(
            memory,
            "SELECT 1 FROM memory.observations JOIN memory.scopes USING (agent_key, scope_id) WHERE owner = :owner",
            owner=f"u:{MIA}",
        )
        == []
    )


@pytest.mark.slow
async def test_each_text_of_a_user_is_that_of_a_scope_word_for_word(memory: Memory, tmp_path: Path) -> None:
    legacy = Legacy(agents=2, users=3, cases=())
    dumped(tmp_path, legacy)
    await bring(memory, tmp_path)
    blobs = next(list(documents) for name, documents in legacy.collections() if name == "memory_user")
    texts = f"SELECT agent_id, owner, content, consolidated_at FROM {TOLD} JOIN memory.agents USING (agent_key)"  # noqa: S608
    found = await rows(memory, f"{texts} WHERE kind = 'individual' ORDER BY 1, 2")
    assert found == sorted(
        (str(b["agent_id"]), f"u:{b['user_id']}", b["content"], WRITTEN.replace(tzinfo=UTC)) for b in blobs
    )


@pytest.mark.slow
async def test_shards_are_one_text_of_the_agent_under_their_names(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    ((text,),) = await rows(memory, f"SELECT content FROM {TOLD} WHERE owner = 'c'")  # noqa: S608
    assert text == JOINED


@pytest.mark.slow
async def test_a_model_merges_joined_shards_and_that_can_be_undone(memory: Memory, llm: Scripted, folder: Path) -> None:
    await bring(memory, folder)
    scope: dict[str, Any] = {"agent_id": AGENT, "scope_id": await collective(memory)}
    merged = "The festival is in June, high tide is at noon. Book more boats."
    llm.then(merged)
    assert (await memory.scopes.consolidate(**scope)).content == merged
    assert "## tides" in llm.requests[-1].prompt
    undone = await memory.scopes.undo(**scope)
    assert undone.content == JOINED
    assert "Book more boats." in str(await memory.context(agent_id=AGENT, user_id=MIA))


@pytest.mark.slow
async def test_where_nothing_waits_the_joined_text_is_written_anew_of_its_sentences(
    memory: Memory, llm: Scripted, tmp_path: Path
) -> None:
    """In two steps: by itself a consolidation with nothing new asks no model. The joined text stays in the history."""
    shards = [HOME.shard(), HOME.shard("tides", shard_name="tides", content="High tide is at noon.", createdAt=at(1))]
    dump(tmp_path, {"memory_agent": shards}.items())
    await bring(memory, tmp_path)
    scope: dict[str, Any] = {"agent_id": AGENT, "scope_id": await collective(memory)}
    assert (await memory.scopes.consolidate(**scope)).version is None
    assert (await memory.scopes.undo(**scope)).content is None
    told = str(await memory.context(agent_id=AGENT, user_id=MIA))
    assert "The festival is in June." in told
    assert "High tide is at noon." in told
    llm.then("The festival is in June; high tide is at noon.")
    assert (await memory.scopes.consolidate(**scope)).absorbed == 2
    assert JOINED in [version.content for version in await memory.scopes.history(agent_id=AGENT, user_id=MIA)]


async def collective(memory: Memory) -> str:
    ((key,),) = await rows(memory, "SELECT scope_id FROM memory.scopes WHERE owner = 'c'")
    return f"s{key}"


@pytest.mark.slow
async def test_each_shard_can_be_a_scope_with_its_name(memory: Memory, folder: Path) -> None:
    await bring(memory, folder, keep_shards="named")
    found = await rows(memory, f"SELECT name, content FROM {TOLD} WHERE owner = 'c' ORDER BY 1")  # noqa: S608
    assert found == [("festival", "The festival is in June."), ("tides", "High tide is at noon.")]


@pytest.mark.slow
async def test_what_was_noted_is_what_was_said_then_and_waits_where_it_waited(memory: Memory, folder: Path) -> None:
    """C12: a directive isn't consolidated because it is one."""
    await bring(memory, folder)
    found = await rows(
        memory,
        "SELECT o.content, o.observed_at, o.seq <= s.done_seq, o.lane FROM memory.observations o"
        " JOIN memory.scopes s USING (agent_key, scope_id) WHERE o.legacy_ref LIKE 'memory_sessions:%' ORDER BY 1",
    )
    assert [(content, moment.replace(tzinfo=None), told, lane) for content, moment, told, lane in found] == [
        ("Answer in German.", at(5), False, "absorb"),
        ("Book more boats.", at(2), False, "absorb"),
        ("Doors open at six.", at(2), False, "buffer"),
        ("She prefers short answers.", at(3), True, "absorb"),
    ]


@pytest.mark.slow
async def test_all_users_of_an_agent_are_a_group_by_default(memory: Memory, folder: Path) -> None:
    await bring(memory, folder)
    members = await memory.groups.members("default", agent_id=AGENT)
    assert sorted(member.user_id for member in members) == sorted((MIA, str(HOME.other)))


@pytest.mark.slow
async def test_the_old_store_is_left_as_it_was(memory: Memory, folder: Path) -> None:
    before = bytes_of(folder)
    await bring(memory, folder)
    assert bytes_of(folder) == before


@pytest.mark.parametrize(("dry_run", "steps"), [(True, ["reading", "looking"]), (False, ["reading", "storing"])])
async def test_whoever_waits_is_told_how_far_it_is(
    memory: Memory, tmp_path: Path, dry_run: bool, steps: list[str]
) -> None:
    told: list[Progress] = []
    dumped(tmp_path, Legacy(agents=3, cases=()))
    await memory.imports.mongo(dump=tmp_path, key=KEY, dry_run=dry_run, progress=told.append)
    assert list(dict.fromkeys(now.step for now in told)) == steps
    by_agent = [now for now in told if now.step == steps[1] and now.what]
    assert len(by_agent) == 3
    assert by_agent[0].done < by_agent[1].done < by_agent[2].done == by_agent[2].total
    ((stored,),) = await rows(memory, "SELECT count(*) FROM memory.observations")
    assert by_agent[-1].count == stored


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}
