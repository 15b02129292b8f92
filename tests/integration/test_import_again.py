"""Importing legacy memory once more, after changes here or in the source."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from memory_sql.domain.results import ImportReport
from memory_sql.domain.selection import Selection
from memory_sql.importers.mongo.options import ImportOptions
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted
from tests.legacy.formats import Document, dump
from tests.legacy.generator import Legacy
from tests.legacy.homes import Home, at

KEY = b"k" * 32
SMALL = Legacy(agents=1, cases=())
HOME = Home(("again",))
MIA: dict[str, Any] = {"agent_id": str(HOME.agent), "user_id": str(HOME.user)}
JONAS: dict[str, Any] = MIA | {"user_id": str(HOME.other)}
TOLD = "SELECT content FROM memory.observations ORDER BY content"
Bring = Callable[..., Any]


@pytest.fixture
def bring(memory: Memory, tmp_path: Path) -> Bring:
    """Imports these collections from a dump of their own."""
    folders = iter(range(100))

    async def bring(
        collections: Iterable[tuple[str, Iterable[Document]]],
        *,
        dry_run: bool = False,
        pause: float = 0,
        **options: Any,
    ) -> ImportReport:
        folder = tmp_path / str(next(folders))
        folder.mkdir()
        dump(folder, collections)
        return await memory.imports.mongo(
            dump=folder, key=KEY, options=ImportOptions(**options), dry_run=dry_run, pause=pause
        )

    return bring


@pytest.fixture(autouse=True)
async def holds(memory: Memory) -> Any:
    yield
    assert await memory.admin.verify() == []


def changed(
    legacy: Legacy, collection: str, change: Callable[[int, dict[str, Any]], dict[str, Any]]
) -> Iterator[tuple[str, Iterable[Document]]]:
    """With each document of that collection as `change` makes it, by its number."""
    for name, documents in legacy.collections():
        yield name, (change(n, dict(d)) if name == collection else d for n, d in enumerate(documents))


async def one_user(memory: Memory) -> tuple[str, str]:
    (agent, owner), *_ = await rows(
        memory,
        "SELECT agent_id, owner FROM memory.scopes JOIN memory.agents USING (agent_key) WHERE owner LIKE 'u:%' ORDER BY 2",
    )
    return agent, owner[2:]


async def who_talked(bring: Bring, said: Document) -> dict[str, list[Document]]:
    """Imports a user who said that, with a sentence and a record; returns what the source has beside it."""
    docs: dict[str, list[Document]] = {
        "users3": [HOME.person(HOME.user), HOME.agent_document()],
        "sessions": [HOME.session_document()],
        "memory_user": [HOME.blob(content="Mia sails.")],
        "memory_sessions": [HOME.directive(content="Answer in Dutch.")],
    }
    await bring((docs | {"messages": [said]}).items(), messages=True)
    return docs


async def scopes(memory: Memory) -> list[str]:
    return [owner for (owner,) in await rows(memory, "SELECT owner FROM memory.scopes ORDER BY 1")]


@pytest.mark.slow
async def test_who_was_renamed_here_gets_nothing_twice(memory: Memory, bring: Bring) -> None:
    await bring(SMALL.collections())
    agent, user = await one_user(memory)
    await memory.people.rename(agent_id=agent, kind="user", old=user, new="mia")
    await memory.people.rename(agent_id=agent, kind="group", old="default", new="crew")
    before = await rows(memory, TOLD), await scopes(memory)
    again = await bring(SMALL.collections())
    assert (await rows(memory, TOLD), await scopes(memory)) == before
    assert again.unaccounted == ()
    assert {counts["migrated"] for counts in again.collections.values()} == {0}


@pytest.mark.slow
async def test_who_was_linked_to_another_id_gets_nothing_twice(memory: Memory, bring: Bring) -> None:
    await bring(SMALL.collections())
    before = await rows(memory, TOLD), await scopes(memory)
    people = [d["_id"] for name, documents in SMALL.collections() if name == "users3" for d in documents]

    def link(n: int, document: dict[str, Any]) -> dict[str, Any]:
        return {**document, "eden_user_id": people[-1]} if n == len(people) - 2 else document

    await bring(changed(SMALL, "users3", link))
    assert (await rows(memory, TOLD), await scopes(memory)) == before


@pytest.mark.slow
async def test_shards_that_were_merged_do_not_come_by_name_as_well(memory: Memory, bring: Bring) -> None:
    await bring(SMALL.collections())
    before = await rows(memory, TOLD), await scopes(memory)
    await bring(SMALL.collections(), keep_shards="named")
    assert (await rows(memory, TOLD), await scopes(memory)) == before


@pytest.mark.slow
@pytest.mark.parametrize("text", ["", "It is so. "])
async def test_of_a_text_that_has_changed_what_is_new_comes_and_waits(memory: Memory, bring: Bring, text: str) -> None:
    """Also where it was empty before."""
    await bring(changed(SMALL, "memory_user", lambda _, d: {**d, "content": text}))
    report = await bring(
        changed(SMALL, "memory_user", lambda n, d: {**d, "content": f"{text}User {n} has moved to Malmö."})
    )
    waiting = (
        "SELECT content FROM memory.observations JOIN memory.scopes USING (agent_key, scope_id) WHERE seq > done_seq"
    )
    new = await rows(memory, f"{waiting} AND content LIKE '%Malmö%' ORDER BY 1")
    assert new == [(f"User {n} has moved to Malmö.",) for n in range(3)]
    assert report.collections["memory_user"]["migrated"] == 3
    assert report.unaccounted == ()


@pytest.mark.slow
async def test_forgotten_sentence_stays_away_wherever_it_stands(memory: Memory, llm: Scripted, bring: Bring) -> None:
    said = "Keeps a calendar. Has a cat named Ivo. Rows on Sundays."
    report = await bring(changed(SMALL, "memory_user", lambda _, d: {**d, "content": said}))
    agent, user = await one_user(memory)
    who: dict[str, Any] = {"agent_id": agent, "user_id": user}
    (cat,) = [o for o in await memory.observations.list(**who, limit=1000) if "Ivo" in o.content]
    llm.then("Keeps a calendar. Rows on Sundays.")
    await memory.forget(Selection(observation_id=cat.id), agent_id=agent)
    await memory.imports.rollback(report.run or 0)
    await bring(changed(SMALL, "memory_user", lambda _, d: {**d, "content": f"Is tall. Sings. {said}"}))
    told = {o.content for o in await memory.observations.list(**who, limit=1000)}
    assert {"Is tall.", "Sings.", "Keeps a calendar.", "Rows on Sundays."} <= told
    assert not any("Ivo" in content for content in told)
    assert "Ivo" not in str(await memory.context(**who))


@pytest.mark.slow
async def test_record_that_says_what_was_forgotten_of_a_text_stays_away(
    memory: Memory, llm: Scripted, bring: Bring
) -> None:
    """Its sentence gets no row of its own then, since the record says it."""
    blobs = {"memory_user": [HOME.blob(content="Keeps a calendar. Has a cat named Ivo.")]}
    report = await bring(blobs.items())
    (cat,) = [o for o in await memory.observations.list(**MIA) if "Ivo" in o.content]
    llm.then("Keeps a calendar.")
    await memory.forget(Selection(observation_id=cat.id), agent_id=MIA["agent_id"])
    await memory.imports.rollback(report.run or 0)
    more = blobs | {"memory_sessions": [HOME.directive(content="Has a cat named Ivo.")]}
    planned, done = [await bring(more.items(), dry_run=dry_run) for dry_run in (True, False)]
    assert done.reasons["memory_sessions: skipped, forgotten"] == 1
    assert done.model_copy(update={"run": None}) == planned
    assert [o.content for o in await memory.observations.list(**MIA)] == ["Keeps a calendar."]
    assert "Ivo" not in str(await memory.context(**MIA))


@pytest.mark.slow
async def test_document_comes_by_itself_where_the_other_that_says_it_is_not(memory: Memory, bring: Bring) -> None:
    """The other named Jonas too, but came while Jonas had no memory, and is not imported again."""
    both = HOME.directive(content="Answer in Dutch.", related_users=[HOME.user, HOME.other])
    await bring({"memory_user": [HOME.blob()], "memory_sessions": [both]}.items())
    again = [
        HOME.directive(n, content="Answer in Dutch.", related_users=[HOME.other], createdAt=at(n)) for n in (10, 20)
    ]
    grown = {
        "memory_user": [HOME.blob(), HOME.blob(HOME.other, content="Jonas rows.")],
        "memory_sessions": [both, *again],
    }
    planned, done, twice = [await bring(grown.items(), dry_run=dry_run) for dry_run in (True, False, False)]
    assert sorted(o.content for o in await memory.observations.list(**JONAS)) == ["Answer in Dutch.", "Jonas rows."]
    assert [o.content for o in await memory.observations.list(**MIA)].count("Answer in Dutch.") == 1
    assert done.collections["memory_sessions"] == {
        "source": 3, "migrated": 1, "merged": 1, "skipped": 1, "rejected": 0
    }  # fmt: skip
    assert done.model_copy(update={"run": None}) == planned
    assert twice.collections["memory_sessions"]["migrated"] == 0
    named = "SELECT count(*) FROM memory.import_rejects WHERE import_id = :run AND reason = 'duplicate_text'"
    assert await rows(memory, named, run=done.run) == [(1,)]
    assert (await memory.imports.rollback(done.run or 0)).observations == 2


@pytest.mark.slow
async def test_new_repetition_makes_no_second_scope_of_who_was_renamed(memory: Memory, bring: Bring) -> None:
    said = HOME.directive(content="Answer in Dutch.")
    await bring({"memory_user": [HOME.blob()], "memory_sessions": [said]}.items())
    await memory.people.rename(agent_id=MIA["agent_id"], kind="user", old=MIA["user_id"], new="mia")
    before = await rows(memory, TOLD), await scopes(memory)
    again = HOME.directive(10, content="Answer in Dutch.", createdAt=at(10))
    report = await bring({"memory_user": [HOME.blob()], "memory_sessions": [said, again]}.items())
    assert report.reasons["memory_sessions: merged, duplicate_text"] == 1
    assert (await rows(memory, TOLD), await scopes(memory)) == before


@pytest.mark.slow
async def test_repetition_comes_to_another_although_who_has_the_first_was_renamed(memory: Memory, bring: Bring) -> None:
    """Of the new id the source knows nothing, but it isn't the other's."""
    both = HOME.directive(content="Answer in Dutch.", related_users=[HOME.user, HOME.other])
    await bring({"memory_user": [HOME.blob()], "memory_sessions": [both]}.items())
    await memory.people.rename(agent_id=MIA["agent_id"], kind="user", old=MIA["user_id"], new="mia")
    again = HOME.directive(10, content="Answer in Dutch.", related_users=[HOME.other], createdAt=at(10))
    blobs = [HOME.blob(), HOME.blob(HOME.other, content="Jonas rows.")]
    report = await bring({"memory_user": blobs, "memory_sessions": [both, again]}.items())
    assert sorted(o.content for o in await memory.observations.list(**JONAS)) == ["Answer in Dutch.", "Jonas rows."]
    assert report.collections["memory_sessions"]["migrated"] == 1


@pytest.mark.slow
async def test_new_repetition_makes_no_second_scope_of_who_was_linked(memory: Memory, bring: Bring) -> None:
    said = HOME.directive(content="Answer in Dutch.")
    people = [HOME.person(HOME.user), HOME.person(HOME.other, "jonas")]
    await bring({"users3": people, "memory_user": [HOME.blob()], "memory_sessions": [said]}.items())
    before = await rows(memory, TOLD), await scopes(memory)
    people[0] = HOME.person(HOME.user, eden_user_id=HOME.other)
    again = HOME.directive(10, content="Answer in Dutch.", createdAt=at(10))
    await bring({"users3": people, "memory_user": [HOME.blob()], "memory_sessions": [said, again]}.items())
    assert (await rows(memory, TOLD), await scopes(memory)) == before


@pytest.mark.slow
async def test_what_is_new_of_who_was_renamed_here_is_theirs(memory: Memory, bring: Bring) -> None:
    """The source still has the former id, twice replaced: its sentences, records, members and messages are of the newest."""
    said = HOME.message(1, content="Ahoy.")
    docs = await who_talked(bring, said)
    for old, new in ((MIA["user_id"], "mara"), ("mara", "mia")):
        await memory.people.rename(agent_id=MIA["agent_id"], kind="user", old=old, new=new)
    before = await scopes(memory)
    more = docs | {
        "memory_user": [HOME.blob(content="Mia sails. She rows.")],
        "memory_sessions": [*docs["memory_sessions"], HOME.directive(7, content="Answer in rhyme.")],
        "messages": [said, HOME.message(2, content="Ahoy again.", createdAt=at(30))],
    }
    for migrated in (1, 0):
        report = await bring(more.items(), messages=True)
        assert report.collections["memory_user"]["migrated"] == migrated
        assert report.collections["memory_sessions"]["migrated"] == migrated
        assert report.unaccounted == ()
    assert await scopes(memory) == before
    mia = {**MIA, "user_id": "mia"}
    told = sorted(o.content for o in await memory.observations.list(**mia))
    assert told == ["Answer in Dutch.", "Answer in rhyme.", "Mia sails.", "She rows."]
    for named in (
        "SELECT user_id FROM memory.evidence WHERE user_id IS NOT NULL",
        "SELECT unnest(related_users) FROM memory.observations",
        "SELECT user_id FROM memory.members",
        "SELECT user_id FROM memory.messages",
        "SELECT unnest(participants) FROM memory.conversations",
    ):
        assert set(await rows(memory, named)) == {("mia",)}


@pytest.mark.slow
async def test_what_is_new_of_a_conversation_that_was_renamed_here_is_its_own(memory: Memory, bring: Bring) -> None:
    """The source still has the former id, twice replaced: what it says since, and records of it, are of the newest."""
    said = HOME.message(1, content="Ahoy.")
    docs = await who_talked(bring, said)
    for old, new in ((str(HOME.session), "s1"), ("s1", "monday")):
        await memory.people.rename(agent_id=MIA["agent_id"], kind="conversation", old=old, new=new)
    more = docs | {
        "memory_sessions": [
            *docs["memory_sessions"],
            HOME.directive(7, content="Answer in rhyme.", source_message_ids=[HOME.key("message", 2)]),
        ],
        "messages": [said, HOME.message(2, content="Ahoy again.", createdAt=at(30))],
    }
    for migrated in (1, 0):
        report = await bring(more.items(), messages=True)
        assert (report.collections["memory_sessions"]["migrated"], report.unaccounted) == (migrated, ())
    told = sorted(o.content for o in await memory.observations.list(**MIA))
    assert told == ["Answer in Dutch.", "Answer in rhyme.", "Mia sails."]
    assert await rows(memory, "SELECT content FROM memory.messages ORDER BY number") == [("Ahoy.",), ("Ahoy again.",)]
    for named in (
        "SELECT conversation_id FROM memory.conversations",
        "SELECT conversation_id FROM memory.messages",
        "SELECT conversation_id FROM memory.evidence WHERE conversation_id IS NOT NULL",
        "SELECT conversation_id FROM memory.observations WHERE conversation_id IS NOT NULL",
    ):
        assert set(await rows(memory, named)) == {("monday",)}, named


@pytest.mark.slow
async def test_sentence_comes_by_itself_where_the_record_that_says_it_is_not(memory: Memory, bring: Bring) -> None:
    both = HOME.directive(content="Answer in Dutch.", related_users=[HOME.user, HOME.other])
    await bring({"memory_user": [HOME.blob()], "memory_sessions": [both]}.items())
    blobs = [HOME.blob(), HOME.blob(HOME.other, content="Jonas rows. Answer in Dutch.")]
    for migrated in (1, 0):
        report = await bring({"memory_user": blobs, "memory_sessions": [both]}.items())
        assert report.collections["memory_user"]["migrated"] == migrated
        told = sorted(o.content for o in await memory.observations.list(**JONAS))
        assert told == ["Answer in Dutch.", "Jonas rows."]


@pytest.mark.slow
async def test_dump_that_grew_by_a_repetition_alone_can_be_imported(memory: Memory, bring: Bring) -> None:
    """The new document makes no scope and no row: it is evidence of the row that says the same."""
    said = HOME.directive(content="Answer in Dutch.")
    docs = {"memory_user": [HOME.blob()], "memory_sessions": [said]}
    await bring(docs.items())
    before = await rows(memory, TOLD), await scopes(memory)
    grown = docs | {"memory_sessions": [said, HOME.directive("again", content="Answer in Dutch.", createdAt=at(9))]}
    for _ in range(2):
        report = await bring(grown.items())
        assert report.reasons["memory_sessions: merged, duplicate_text"] == 1
        assert (await rows(memory, TOLD), await scopes(memory)) == before
    assert await rows(memory, "SELECT count(*) FROM memory.imported WHERE legacy_ref LIKE 'memory_sessions:%'") == [
        (2,)
    ]


@pytest.mark.slow
async def test_what_waits_here_and_says_the_same_is_one(memory: Memory, bring: Bring) -> None:
    await bring(changed(SMALL, "memory_sessions", lambda _, d: {**d, "memory_type": "episode"}))
    agent, user = await one_user(memory)
    (text,) = [d["content"] for name, documents in SMALL.collections() if name == "memory_sessions"
               for d in documents if user in map(str, d.get("related_users", ())) and "number 5" in d["content"]]  # fmt: skip
    here = await memory.observe(text, agent_id=agent, user_id=user)
    report = await bring(SMALL.collections())
    told = "SELECT count(*) FROM memory.observations WHERE content = :text"
    assert await rows(memory, told, text=text) == [(1,)]
    assert report.reasons["memory_sessions: merged, here"] == 1
    assert report.unaccounted == ()
    await memory.imports.rollback(report.run or 0)
    assert (await memory.observations.get(here.id, agent_id=agent, user_id=user)).content == text


@pytest.mark.slow
async def test_what_is_set_aside_here_does_not_come_by_another_document(memory: Memory, bring: Bring) -> None:
    blobs = {"memory_user": [HOME.blob(content="Rows.")]}
    await bring(blobs.items())
    here = await memory.observe("Send the money to Ivo.", **MIA)
    await memory.observations.quarantine(here.id, **MIA)
    more = [HOME.directive(n, content="Send the money to Ivo.", createdAt=at(n)) for n in (2, 900_000)]
    report = await bring((blobs | {"memory_sessions": more}).items())
    assert report.reasons["memory_sessions: merged, here"] == 1
    assert report.reasons["memory_sessions: merged, duplicate_text"] == 1
    assert "Ivo" not in str(await memory.context(**MIA))
    assert [o.content for o in await memory.observations.list(**MIA)] == ["Rows."]
    await memory.imports.rollback(report.run or 0)
    assert await rows(memory, "SELECT content FROM memory.observations WHERE content LIKE '%Ivo%'") == [(here.content,)]


@pytest.mark.slow
async def test_text_goes_with_its_import_though_all_of_it_was_said_again(
    memory: Memory, llm: Scripted, bring: Bring
) -> None:
    report = await bring(SMALL.collections())
    agent, user = await one_user(memory)
    who: dict[str, Any] = {"agent_id": agent, "user_id": user}
    for told in await memory.observations.list(**who, limit=1000):
        await memory.observations.confirm(told.id, **who)
        await rows(
            memory,
            "INSERT INTO memory.evidence (agent_key, scope_id, seq, user_id) SELECT agent_key, scope_id, seq, :user"
            " FROM memory.observations WHERE scope_id = :scope AND seq = :seq",
            user=user, scope=int(told.scope.id[1:]), seq=int(told.id.rpartition("-")[2]),
        )  # fmt: skip
    text = str(await memory.context(**who))
    assert "<UserMemory" in text
    done = await memory.imports.rollback(report.run or 0)
    assert len(done.withheld) == 2  # the user's, and that of all
    assert await rows(memory, "SELECT count(*) FROM memory.consolidations") == [(0,)]
    assert len(await memory.observations.list(**who, limit=1000)) > 3


@pytest.mark.slow
async def test_dry_run_knows_what_is_here(memory: Memory, bring: Bring) -> None:
    await bring(SMALL.collections())
    agent, user = await one_user(memory)
    await memory.forget(Selection(user_id=user), agent_id=agent)
    planned = await bring(SMALL.collections(), dry_run=True)
    done = await bring(SMALL.collections())
    assert any(reason.endswith("skipped, forgotten") for reason in done.reasons)
    assert done.model_copy(update={"run": None}) == planned


@pytest.mark.slow
async def test_each_document_that_did_not_come_is_named(memory: Memory, bring: Bring) -> None:
    """By its id; of what was forgotten only that there was one."""
    legacy = Legacy(agents=1)
    for _ in range(2):
        report = await bring(legacy.collections())
        named = Counter(
            {
                (collection, outcome): count
                for collection, outcome, count in await rows(
                    memory,
                    "SELECT collection, outcome, count(*) FROM memory.import_rejects WHERE import_id = :run GROUP BY 1, 2",
                    run=report.run,
                )
            }
        )
        assert named == +Counter(
            {
                (name, outcome): counts[outcome]
                for name, counts in report.collections.items()
                for outcome in ("merged", "skipped", "rejected")
            }
        )
        agent, user = await one_user(memory)
        await memory.forget(Selection(user_id=user), agent_id=agent)
    ids = "SELECT DISTINCT legacy_id FROM memory.import_rejects WHERE reason = 'forgotten'"
    assert await rows(memory, ids) == [(None,)]


async def test_what_becomes_due_is_spread_over_all_agents(memory: Memory, bring: Bring) -> None:
    await bring(Legacy(agents=3, cases=(), waiting=6).collections(), pause=60)
    due = [at for (at,) in await rows(memory, "SELECT due_at FROM memory.scopes WHERE due_at IS NOT NULL ORDER BY 1")]
    assert len(due) > 3
    assert {later - earlier for earlier, later in pairwise(due)} == {timedelta(seconds=60)}
