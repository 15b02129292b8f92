"""Importing the messages of legacy conversations with what was remembered from them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from memory_sql.domain.results import ImportReport
from memory_sql.domain.selection import Selection
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted, extracted
from tests.legacy.formats import dump
from tests.legacy.generator import Legacy
from tests.legacy.homes import Home, at

KEY = b"k" * 32
SAID = "SELECT number, message_id, role, user_id, content FROM memory.messages ORDER BY conversation_id, number"
SIX = 6
FORMED = 4


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


@pytest.fixture
def home() -> Home:
    return Home((1, "talk", 0))


def talk(home: Home, *, last: int = FORMED, messages: int = SIX) -> Any:
    """A conversation of so many messages, of which memory was formed up to that one; a directive was made of the second."""
    said = [
        home.message(
            n,
            role="assistant" if n % 2 else "user",
            sender=home.agent if n % 2 else home.user,
            content=f"Sentence {n} about harbour number {n}.",
            createdAt=at(n),
        )
        for n in range(messages)
    ]
    context = {"last_memory_message_id": said[last - 1]["_id"], "messages_since_memory_formation": messages - last}
    session = home.session_document(memory_context=context)
    of = {"source_session_id": home.session, "source_message_ids": [said[min(2, messages - 1)]["_id"]]}
    return [
        ("users3", [home.person(home.user), home.agent_document()]),
        ("sessions", [session]),
        ("memory_sessions", [home.directive(content="Always name the harbour.", related_users=[home.user], **of)]),
        ("messages", said),
    ]


async def bring(
    memory: Memory, folder: Path, collections: Any, *, dry_run: bool = False, pause: float = 0
) -> ImportReport:
    await asyncio.to_thread(folder.mkdir, exist_ok=True)
    dump(folder, collections)
    return await memory.imports.mongo(
        dump=folder, key=KEY, options=ImportOptions(messages=True), dry_run=dry_run, pause=pause
    )


async def test_what_was_said_comes_in_order_and_only_what_was_not_formed_waits(
    memory: Memory, home: Home, tmp_path: Path
) -> None:
    planned = await bring(memory, tmp_path, talk(home), dry_run=True)
    report = await bring(memory, tmp_path, talk(home))
    assert report.model_copy(update={"run": None}) == planned
    assert report.unaccounted == ()
    assert report.collections["messages"]["migrated"] == SIX
    said = await rows(memory, SAID)
    assert [row[0] for row in said] == list(range(1, SIX + 1))
    assert said[2][2:] == ("user", str(home.user), "Sentence 2 about harbour number 2.")
    assert said[3][2:] == ("assistant", None, "Sentence 3 about harbour number 3.")
    (state,) = await rows(memory, "SELECT formed_number, unformed_messages, user_id FROM memory.conversations")
    assert state == (FORMED, SIX - FORMED, str(home.user))
    runs = await rows(memory, "SELECT from_number, to_number FROM memory.runs WHERE conversation_id IS NOT NULL")
    assert runs == [(0, FORMED)]
    found = await memory.imports.verify(report.run or 0, dump=tmp_path)
    assert (found.changed_here, found.changed_there, found.missing) == ((), (), ())
    assert found.compared == SIX + 1


@pytest.mark.slow
async def test_imported_observation_names_the_message_behind_it(memory: Memory, home: Home, tmp_path: Path) -> None:
    await bring(memory, tmp_path, talk(home))
    who: dict[str, Any] = {"agent_id": str(home.agent), "user_id": str(home.user)}
    (told,) = [o for o in await memory.observations.list(**who) if "harbour" in o.content]
    (source,) = await memory.observations.sources(told.id, **who)
    assert source.content == "Sentence 2 about harbour number 2."


@pytest.mark.slow
async def test_what_is_formed_of_the_rest_is_formed_here(
    memory: Memory, llm: Scripted, home: Home, tmp_path: Path
) -> None:
    await bring(memory, tmp_path, talk(home))
    here: dict[str, Any] = {"agent_id": str(home.agent), "conversation_id": str(home.session)}
    llm.then(extracted(("Harbour 4 is the best.", "individual", [5])))
    formed = await memory.conversations.form(**here)
    assert len(formed.observations) == 1
    assert await rows(memory, "SELECT formed_number FROM memory.conversations") == [(SIX,)]


@pytest.mark.slow
async def test_message_that_a_dump_holds_twice_comes_once(memory: Memory, home: Home, tmp_path: Path) -> None:
    """Also with another time or text: the first counts, as with every document."""
    *others, (_, said) = talk(home)
    report = await bring(memory, tmp_path, [*others, ("messages", [*said, said[0], said[1] | {"createdAt": at(50)}])])
    assert report.unaccounted == ()
    assert report.reasons["messages: merged, same_document"] == 2
    assert report.collections["messages"]["migrated"] == SIX
    assert [number for number, *_ in await rows(memory, SAID)] == [*range(1, SIX + 1)]


@pytest.mark.slow
async def test_second_run_adds_what_is_new_at_the_end(memory: Memory, home: Home, tmp_path: Path) -> None:
    await bring(memory, tmp_path / "a", talk(home, last=SIX))
    again = await bring(memory, tmp_path / "b", talk(home, last=SIX))
    assert again.collections["messages"]["migrated"] == 0
    assert again.reasons["messages: skipped, known"] == SIX
    more = await bring(memory, tmp_path / "c", talk(home, last=SIX + 1, messages=SIX + 2))
    assert more.collections["messages"]["migrated"] == 2
    assert len(await rows(memory, SAID)) == SIX + 2
    assert await rows(memory, "SELECT formed_number FROM memory.conversations") == [(SIX + 1,)]


@pytest.mark.slow
async def test_an_answer_alone_comes_after_what_is_here(memory: Memory, home: Home, tmp_path: Path) -> None:
    await bring(memory, tmp_path / "a", talk(home, last=1, messages=1))
    more = await bring(memory, tmp_path / "b", talk(home, last=1, messages=2))
    assert more.collections["messages"]["migrated"] == 1
    assert [(role, user) for _, _, role, user, _ in await rows(memory, SAID)] == [
        ("user", str(home.user)),
        ("assistant", None),
    ]


@pytest.mark.slow
async def test_what_comes_before_anybody_has_written_is_left_out(memory: Memory, home: Home, tmp_path: Path) -> None:
    collections = dict(talk(home))
    collections["messages"][0] |= {"role": "assistant", "sender": home.agent}
    planned = await bring(memory, tmp_path, collections.items(), dry_run=True)
    report = await bring(memory, tmp_path, collections.items())
    assert report.model_copy(update={"run": None}) == planned
    assert report.reasons["messages: skipped, nobody_yet"] == 2
    assert report.unaccounted == ()
    said = await rows(memory, SAID)
    assert len(said) == SIX - 2
    again = await bring(memory, tmp_path, collections.items())
    assert again.reasons["messages: skipped, nobody_yet"] == 2
    assert await rows(memory, SAID) == said


@pytest.mark.slow
async def test_what_is_to_be_formed_waits_its_turn(memory: Memory, home: Home, tmp_path: Path) -> None:
    due = "SELECT extract(epoch FROM due_at - created_at)::integer FROM memory.conversations"
    run = (await bring(memory, tmp_path, talk(home, messages=60))).run or 0
    ((at_once,),) = await rows(memory, due)
    await memory.imports.rollback(run)
    await bring(memory, tmp_path, talk(home, messages=60), pause=80_000)
    assert at_once < 80_000
    assert await rows(memory, due) == [(80_000,)]


@pytest.mark.slow
async def test_conversation_that_goes_on_here_is_left_alone(memory: Memory, home: Home, tmp_path: Path) -> None:
    here: dict[str, Any] = {"agent_id": str(home.agent), "conversation_id": str(home.session)}
    await memory.add([message("I am here already.")], **here, user_id=str(home.user))
    report = await bring(memory, tmp_path, talk(home))
    assert len(await rows(memory, SAID)) == 1
    assert report.reasons["messages: skipped, goes_on_here"] == SIX
    assert report.unaccounted == ()


@pytest.mark.slow
async def test_forgotten_messages_do_not_come_again(memory: Memory, llm: Scripted, home: Home, tmp_path: Path) -> None:
    """With what was made of them; also not after a rollback, whoever they are called by then."""
    run = (await bring(memory, tmp_path, talk(home))).run
    here: dict[str, Any] = {"agent_id": str(home.agent)}
    await memory.forget(Selection(user_id=str(home.user)), **here)
    assert (
        await rows(memory, "SELECT content FROM memory.messages WHERE user_id IS NOT NULL AND content IS NOT NULL")
        == []
    )
    assert await rows(memory, "SELECT content FROM memory.observations") == []
    await memory.imports.rollback(run or 0)
    report = await bring(memory, tmp_path, talk(home))
    assert await rows(memory, "SELECT content FROM memory.messages WHERE content LIKE 'Sentence 2%'") == []
    assert await rows(memory, "SELECT content FROM memory.observations") == []
    assert report.reasons["messages: skipped, forgotten"] == SIX
    assert report.unaccounted == ()


@pytest.mark.slow
async def test_forgetting_the_message_behind_it_takes_the_observation(
    memory: Memory, llm: Scripted, home: Home, tmp_path: Path
) -> None:
    await bring(memory, tmp_path, talk(home))
    here: dict[str, Any] = {"agent_id": str(home.agent)}
    await memory.forget(Selection(conversation_id=str(home.session)), **here)
    assert await rows(memory, "SELECT content FROM memory.observations") == []
    assert await rows(memory, "SELECT content FROM memory.messages WHERE content IS NOT NULL") == []


@pytest.mark.slow
async def test_rollback_takes_the_conversation_out(memory: Memory, home: Home, tmp_path: Path) -> None:
    run = (await bring(memory, tmp_path, talk(home))).run or 0
    done = await memory.imports.rollback(run)
    assert (done.observations, done.messages) == (1, SIX)
    for table in ("messages", "conversations", "imported_messages", "runs", "scopes", "evidence"):
        assert await rows(memory, f"SELECT count(*) FROM memory.{table}") == [(0,)], table  # noqa: S608
    assert (await bring(memory, tmp_path, talk(home))).collections["messages"]["migrated"] == SIX


@pytest.mark.slow
async def test_rollback_leaves_what_was_formed_here_with_its_message(
    memory: Memory, llm: Scripted, home: Home, tmp_path: Path
) -> None:
    run = (await bring(memory, tmp_path, talk(home))).run or 0
    here: dict[str, Any] = {"agent_id": str(home.agent), "conversation_id": str(home.session)}
    llm.then(extracted(("Harbour 4 is the best.", "individual", [5])))
    await memory.conversations.form(**here)
    await memory.imports.rollback(run)
    assert await rows(memory, "SELECT content FROM memory.observations") == [("Harbour 4 is the best.",)]
    texts = await rows(memory, "SELECT content FROM memory.messages WHERE content IS NOT NULL")
    assert texts == [("Sentence 4 about harbour number 4.",)]
    again = await bring(memory, tmp_path, talk(home))
    assert again.reasons["messages: skipped, goes_on_here"] == SIX


@pytest.mark.slow
async def test_rollback_leaves_the_messages_that_another_import_brought(
    memory: Memory, home: Home, tmp_path: Path
) -> None:
    said = [(name, documents) for name, documents in talk(home) if name != "memory_sessions"]
    await bring(memory, tmp_path / "said", said)
    before = await rows(memory, SAID)
    run = (await bring(memory, tmp_path / "known", talk(home))).run or 0
    assert await rows(memory, "SELECT number FROM memory.evidence") == [(3,)]
    done = await memory.imports.rollback(run)
    assert (done.observations, done.messages) == (1, 0)
    assert await rows(memory, SAID) == before


@pytest.mark.slow
async def test_restored_backup_knows_forgotten_messages(
    memory: Memory, llm: Scripted, home: Home, tmp_path: Path
) -> None:
    journal, url = tmp_path / "journal", memory.database.url.render_as_string(hide_password=False)
    settings = memory.settings.model_copy(update={"forget_journal": journal})
    async with Memory(url, llm, settings) as kept:
        await bring(kept, tmp_path / "a", talk(home))
        await kept.forget(Selection(user_id=str(home.user)), agent_id=str(home.agent))
    await rows(memory, "TRUNCATE memory.agents, memory.imports, memory.import_rejects CASCADE")
    await memory.admin.restore_check(journal)
    await bring(memory, tmp_path / "a", talk(home))
    assert await rows(memory, "SELECT content FROM memory.messages WHERE content IS NOT NULL") == []


@pytest.mark.slow
async def test_every_message_of_a_large_source_is_accounted_for(memory: Memory, tmp_path: Path) -> None:
    legacy = Legacy(agents=2, messages=True)
    report = await bring(memory, tmp_path, legacy.collections())
    assert report.unaccounted == ()
    manifest = legacy.manifest()
    wanted = sum(
        n for (name, outcome, _), n in manifest.outcomes.items() if (name, outcome) == ("messages", "migrated")
    )
    assert report.collections["messages"]["migrated"] + report.reasons.get("messages: skipped, nobody_yet", 0) == wanted
