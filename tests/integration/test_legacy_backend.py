"""The context of the legacy system, assembled from its own collections on a server that speaks their protocol."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, cast

import pytest
from bson import ObjectId

from memory_sql.backends import HostSession, LegacyMongoBackend, LegacyReader, RoutingBackend, SqlBackend
from memory_sql.errors import ConfigurationError, SourceError
from memory_sql.memory import Memory
from tests.fakes import Scripted, extracted
from tests.hosts import examples
from tests.legacy.formats import load
from tests.legacy.homes import Document, Home, at, key
from tests.legacy.server import stand_in

NOW = datetime(2025, 9, 11, 9, 5, tzinfo=UTC)
HOME = Home(("home",))
MIA, OTHER, OLD_ID = HOME.user, HOME.other, HOME.key("old id")
AGENT, SESSION = str(HOME.agent), str(HOME.session)

CONTEXT = """<MemoryContext description="Your complete memory context for this conversation">
  <CollectiveMemory description="Shared memory across all your conversations">
    <MemoryShard name="festival">
      ## Shard facts:
      - Doors open at six &amp; seven. (age: 10 days ago)
      - The stage is 8 m wide. (age: 9 days ago)

      ## Current consolidated shard memory:
      VERSION: 2
      The festival is in June.

      -- Total word count: 5

      ## Recent shard suggestions:
      - Book more boats.
    </MemoryShard>
  </CollectiveMemory>

  <UserMemory description="Memory and context specific to this user">
    -- User Memory for mia --
    ## Consolidated user memory:
    Mia plans the harbour festival. She prefers short answers.
    ## Recent user directives:
    - Answer in German. (age: 10 days ago)
  </UserMemory>

  <CurrentConversationContext description="Recent exchanges from this conversation">
    - Episode 3.
    - Episode 4.
    - Episode 5.
    - Episode 6.
    - Episode 7.
    - Episode 8.
    - Episode 9.
  </CurrentConversationContext>
</MemoryContext>"""


def record(kind: str, name: str, content: str, minutes: float = 2) -> Document:
    return HOME.record(kind, name, content=content, createdAt=at(minutes))


def said(number: int, sender: ObjectId, role: str = "user", **changed: Any) -> Document:
    return {
        "_id": HOME.key("message", number),
        "session": HOME.session,
        "role": role,
        "sender": sender,
        "content": f"Message {number} about the boats.",
        "createdAt": at(number),
        "tool_calls": None,
    } | changed


def collections() -> dict[str, list[Document]]:
    facts = [
        record("fact", "doors", "Doors open at six & seven.", 2),
        record("fact", "stage", "The stage is 8 m wide.", 1500),
    ]
    boats = record("suggestion", "boats", "Book more boats.")
    german = record("directive", "german", "Answer in German.", 5)
    shard = HOME.shard(
        content="VERSION: 2\nThe festival is in June.\n\n-- Total word count: 5",
        facts=[HOME.key("fact", "doors"), HOME.key("fact", "stage"), HOME.key("fact", "gone")],
        unabsorbed_memory_ids=[boats["_id"]],
    )
    return {
        "users3": [HOME.person(MIA), HOME.person(OLD_ID, "mia2", eden_user_id=MIA), HOME.person(OTHER, "jonas")],
        "sessions": [HOME.session_document(owner=OLD_ID)],
        "memory_user": [
            HOME.blob(MIA, "older", content="An older text.", last_updated_at=at(1)),
            HOME.blob(MIA, unabsorbed_memory_ids=[german["_id"]]),
        ],
        "memory_agent": [
            shard,
            HOME.shard("off", shard_name="off", is_active=False),
            HOME.shard("bad", facts="no list"),
        ],
        "session_memories": [german],
        "memory_sessions": [
            *facts,
            boats,
            record("episode", "blank", "  ", 1000),  # one of the newest eight, which says nothing
            *(record("episode", str(n), f"Episode {n}.", n) for n in range(1, 10)),
        ],
        "messages": [
            said(1, OLD_ID, session=[HOME.session]),
            said(2, HOME.agent, "eden", tool_calls=[{"id": "c", "tool": "draw", "args": {}, "status": "done"}]),
            said(3, MIA, content=None),
        ],
    }


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with stand_in() as url:
        yield url


@pytest.fixture(scope="module")
async def database(server: str) -> str:
    await load(server, "legacy", collections().items())
    return server


@pytest.fixture
async def legacy(database: str) -> AsyncIterator[LegacyMongoBackend]:
    async with LegacyMongoBackend.at(database, database="legacy") as backend:
        backend._now = lambda: NOW
        yield backend


async def test_context_is_the_one_of_before(legacy: LegacyMongoBackend) -> None:
    found = await legacy.assemble_memory_context(SESSION, AGENT, {"_id": MIA})
    assert found == CONTEXT


async def test_without_a_session_there_is_no_conversation_and_of_strangers_nothing(legacy: LegacyMongoBackend) -> None:
    alone = await legacy.assemble_memory_context(None, AGENT, str(MIA))
    assert "UserMemory" in alone
    assert "CurrentConversationContext" not in alone
    assert await legacy.assemble_memory_context("42", str(key("nobody")), "mia") == "<MemoryContext/>"


async def test_it_forms_nothing(legacy: LegacyMongoBackend) -> None:
    assert await legacy.maybe_form_memories(AGENT, SESSION, AGENT) is False
    assert await legacy.form_memories(AGENT, SESSION, AGENT) is False


async def test_session_is_read_with_its_messages_and_the_ids_that_count(legacy: LegacyMongoBackend) -> None:
    found = await legacy.read_session({"_id": HOME.session})
    assert (found.conversation_id, found.user_id, found.excluded) == (SESSION, str(MIA), None)
    first, answer, last = cast("list[dict[str, Any]]", found.messages)
    assert (first["role"], first["user_id"], first["id"]) == ("user", str(MIA), str(HOME.key("message", 1)))
    assert first["created_at"] == at(1).replace(tzinfo=UTC)
    assert answer["role"] == "assistant"
    assert answer["tool_calls"] == [{"function": {"name": "draw"}}]
    assert "user_id" not in answer
    assert last["content"] == ""  # it had none
    unknown = await legacy.read_session({"_id": "42", "owner": "mia"})
    assert unknown == HostSession("42", "mia", [])


async def test_shadow_can_be_tried_without_the_hosts_code(
    memory: Memory, llm: Scripted, legacy: LegacyMongoBackend
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    mine: dict[str, Any] = {"agent_id": AGENT, "user_id": str(MIA)}
    for text in ("Mia plans the harbour festival.", "She prefers short answers.", "Answer in German."):
        await memory.observe(text, **mine)
    for text in (
        "Doors open at six & seven.",
        "The stage is 8 m wide.",
        "The festival is in June.",
        "Book more boats.",
    ):
        await memory.observe(text, agent_id=AGENT, collective=True)
    async with RoutingBackend(memory, legacy, sql=SqlBackend(memory, read_session=legacy.read_session)) as routing:
        told = await routing.assemble_memory_context(None, AGENT, str(MIA))
        assert "VERSION: 2" in told
        llm.then(extracted(("Mia likes boats.", "individual")))
        assert await routing.form_memories(AGENT, SESSION, AGENT) is False
    counts = routing.counts(AGENT)
    assert (counts.calls, counts.contexts, counts.differing, counts.common, dict(counts.failed)) == (2, 1, 0, 7, {})
    assert "Mia likes boats." in [o.content for o in await memory.observations.list(**mine)]


async def test_example_of_the_page_compares_without_the_hosts_code(memory: Memory, server: str) -> None:
    home = Home(("page",))
    documents = {"users3": [home.person(home.user)], "memory_user": [home.blob()]}
    await load(server, "old", documents.items())
    compare = examples()["compare"]
    counts = await compare(memory, server, "old", [str(home.session)], str(home.agent), str(home.user))
    assert (counts.contexts, counts.only_legacy, counts.only_sql, counts.failed) == (1, 2, 0, {})


@pytest.mark.slow
async def test_server_that_isnt_there_is_an_error_without_its_address() -> None:
    with pytest.raises(ConfigurationError, match="names no database"):
        LegacyMongoBackend.at("mongodb://ada:secret@nowhere.invalid")
    url = "mongodb://ada:secret@nowhere.invalid/legacy"
    async with LegacyMongoBackend.at(url, patience_seconds=0.05) as backend:
        with pytest.raises(SourceError) as raised:
            await backend.assemble_memory_context(None, AGENT, str(MIA))
    assert "secret" not in str(raised.value)


def test_missing_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "memory_sql.importers.mongo.sources.legacy_reader", raising=False)
    monkeypatch.setitem(sys.modules, "pymongo", None)
    with pytest.raises(ConfigurationError, match=r"memory-sql\[mongo\]"):
        LegacyMongoBackend.at("mongodb://127.0.0.1/legacy")


# Several people


class People:
    """A session with so many people, each with a text."""

    def __init__(self, count: int) -> None:
        self.count = count

    async def person(self, user_id: str) -> Mapping[str, Any] | None:
        return None

    async def session(self, session_id: str) -> Mapping[str, Any] | None:
        return None

    async def senders(self, session_id: str) -> list[str]:
        return [str(key(number)) for number in range(self.count)]

    async def user_memory(self, agent_id: str, user_id: str) -> list[Mapping[str, Any]]:
        return [{"_id": user_id, "agent_id": agent_id, "user_id": user_id, "content": f"About {user_id}."}]

    async def shards(self, agent_id: str) -> list[Mapping[str, Any]]:
        return []

    async def records(self, record_ids: object) -> list[Mapping[str, Any]]:
        return []

    async def episodes(self, session_id: str, limit: int) -> list[Mapping[str, Any]]:
        return []

    async def messages(self, session_id: str) -> list[Mapping[str, Any]]:
        return []

    async def close(self) -> None:
        return None


@pytest.mark.slow
@pytest.mark.parametrize(("count", "told"), [(1, 1), (4, 4), (5, 0)])
async def test_memory_of_up_to_four_people_is_told(count: int, told: int) -> None:
    reader: LegacyReader = People(count)
    context = await LegacyMongoBackend(reader).assemble_memory_context("42", AGENT, str(key(0)))
    assert context.count("About ") == told
