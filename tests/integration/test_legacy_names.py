"""The calls of the legacy system, answered by this memory."""

from __future__ import annotations

import inspect
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from memory_sql import backends
from memory_sql.backends import MemoryService, SqlBackend, memory_service
from memory_sql.config import Settings
from memory_sql.errors import (
    AnswerError,
    ConfigurationError,
    InputError,
    InvalidMessageError,
    NotFoundError,
    TooLargeError,
)
from memory_sql.memory import Memory
from tests.factories import MONDAY, message
from tests.fakes import HOPELESS, Scripted, extracted
from tests.hosts import AGENT, JONAS, MIA, HostScope, Legacy, Person, Session

ADA = Person(AGENT)
MIAS: dict[str, Any] = {"agent_id": AGENT, "user_id": MIA}
TEXT = "Mia: I keep bees. The boat house is closed. Ada: How nice."
BEES = ("Mia keeps bees.", "individual")


@pytest.fixture
def service(memory: Memory) -> MemoryService:
    return MemoryService(SqlBackend(memory, agent_id=AGENT))


def parameters(call: Any) -> list[str]:
    return [name for name in inspect.signature(call).parameters if name not in ("self", "more")]


def test_names_and_parameters_are_those_of_the_system_before() -> None:
    named = {
        "maybe_form_memories": "agent_id session agent",
        "form_memories": "agent_id session agent conversation_text char_counts",
        "assemble_memory_context": "session agent user force_refresh reason skip_save instrumentation",
        "extract_observations": "conversation_text user groups existing_consolidations",
        "save_observations": "observations",
        "maybe_consolidate": "scope",
        "consolidate_scope": "scope",
        "maybe_propagate_to_group": "individual_scope observations",
        "maybe_propagate_to_collective": "group_scope observations",
        "retrieve_observations": "user_message scope_ids limit",
    }
    for name, expected in named.items():
        for owner in (MemoryService, SqlBackend, backends.RoutingBackend):
            found = parameters(getattr(owner, name))
            assert found[: len(expected.split())] == expected.split(), (owner, name)
    assert isinstance(memory_service, MemoryService)
    assert not [name for name in backends.__all__ if "graphiti" in name.lower()]


async def test_service_without_a_backend_says_so_and_with_one_of_a_turn_what_is_missing() -> None:
    service = MemoryService()
    with pytest.raises(ConfigurationError, match="no backend"):
        await service.maybe_form_memories(AGENT, Session(), ADA)
    service.backend = Legacy("<MemoryContext>old</MemoryContext>")
    assert (
        await service.assemble_memory_context(Session(), ADA, Person(MIA), True, "turn", True)
        == service.backend.context
    )
    assert await service.form_memories(AGENT, Session(), ADA, "text", {"user": 4})
    assert service.backend.given[-1][3:] == ("text", {"user": 4})
    with pytest.raises(ConfigurationError, match="Legacy has no extract_observations, save_observations"):
        await service.extract_observations(TEXT, Person(MIA))


@pytest.mark.parametrize(("count", "text", "formed"), [(44, "", False), (45, "", True), (4, "word " * 1000, True)])
async def test_both_triggers_are_those_of_before(
    memory: Memory, llm: Scripted, service: MemoryService, count: int, text: str, formed: bool
) -> None:
    session = Session()
    session.say(count - 1)
    session.messages.append(message(f"The last of them. {text}", n=count))
    if formed:
        llm.then(extracted(BEES))
    assert await service.maybe_form_memories(AGENT, session, ADA) is formed
    assert [o.content for o in await memory.observations.list(**MIAS)] == ([BEES[0]] if formed else [])
    assert await service.maybe_form_memories(AGENT, session, ADA) is False  # each message is stored once


async def test_session_that_never_had_memory_is_taken_whole_and_formed_when_it_is_silent(
    database_url: str, settings: Settings
) -> None:
    now, llm = [MONDAY + timedelta(minutes=10)], Scripted()
    async with Memory(database_url, llm, settings, clock=lambda: now[0]) as memory:
        session = Session()
        session.say(6)
        assert not await MemoryService(SqlBackend(memory)).maybe_form_memories(AGENT, session, ADA)
        assert (await memory.run_due()).formed == ()
        now[0] += timedelta(minutes=10)
        llm.then(extracted(BEES))
        (formed,) = (await memory.run_due()).formed
        assert (formed.conversation_id, formed.messages) == ("42", 6)


async def test_forming_now_needs_no_trigger_and_takes_what_is_new(llm: Scripted, service: MemoryService) -> None:
    session = Session()
    session.say(2)
    llm.then(extracted(BEES), extracted())
    assert await service.form_memories(AGENT, session, ADA, TEXT, {"user": 20})
    assert not await service.form_memories(AGENT, session, ADA)
    session.say(1)
    assert await service.form_memories(AGENT, session, ADA)
    assert llm.windows[0] == 2


async def test_model_that_fails_loses_no_message(memory: Memory, llm: Scripted, service: MemoryService) -> None:
    session = Session()
    session.say(2)
    llm.then(*HOPELESS)
    with pytest.raises(AnswerError):
        await service.form_memories(AGENT, session, ADA)
    llm.then(extracted(BEES))
    assert await service.form_memories(AGENT, session, ADA)
    assert [o.content for o in await memory.observations.list(**MIAS)] == [BEES[0]]


async def test_session_without_messages_forms_nothing_and_a_text_alone_is_refused(service: MemoryService) -> None:
    assert not await service.maybe_form_memories(AGENT, Session(), ADA)
    assert not await service.form_memories(AGENT, Session(), ADA)
    with pytest.raises(InputError, match="extract_observations"):
        await service.form_memories(AGENT, Session(), ADA, TEXT)


async def test_excluded_session_is_never_formed(memory: Memory, service: MemoryService) -> None:
    session = Session(extras={"incognito": True})
    session.say(50)
    assert not await service.maybe_form_memories(AGENT, session, ADA)
    assert await memory.observations.list(**MIAS) == []


async def test_exclusion_by_somebody_else_stays_where_the_session_says_nothing(
    memory: Memory, service: MemoryService
) -> None:
    session = Session()
    session.say(2)
    await service.maybe_form_memories(AGENT, session, ADA)
    await memory.conversations.exclude(agent_id=AGENT, conversation_id="42")
    session.say(50)
    assert not await service.maybe_form_memories(AGENT, session, ADA)
    assert await memory.observations.list(**MIAS) == []


async def test_message_without_an_id_is_refused_since_it_would_come_again(service: MemoryService) -> None:
    session = Session(messages=[message(), {"role": "user", "content": "I keep bees."}])
    with pytest.raises(InvalidMessageError, match="message 1: has no id"):
        await service.maybe_form_memories(AGENT, session, ADA)


async def test_context_has_the_layout_of_before_and_says_what_is_known_now(
    memory: Memory, service: MemoryService
) -> None:
    await memory.observe("Mia keeps bees.", **MIAS)
    await memory.observe("The harbour opens at seven.", agent_id=AGENT, collective=True)
    xml = await service.assemble_memory_context(Session(), ADA, Person("m1", eden_user_id=MIA), True, "turn")
    assert '<MemoryContext description="Your complete memory context' in xml
    assert "## Recent user directives:\n    - Mia keeps bees. (age: 0 days ago)" in xml
    assert '<MemoryShard name="collective">' in xml
    plain = SqlBackend(memory, format=None)
    assert "<UserMemory" in await plain.assemble_memory_context(None, ADA, MIA)


async def test_message_of_the_turn_sets_off_retrieval(memory: Memory, llm: Scripted, service: MemoryService) -> None:
    said = await memory.observe("Mia keeps bees behind the boat house.", **MIAS)
    llm.then("Mia lives by the harbour.")
    await memory.scopes.consolidate(agent_id=AGENT, scope_id=said.scope.id)
    asked = "Do you remember what I told you about the bees?"
    told = await service.assemble_memory_context(Session(), ADA, Person(MIA), user_message=asked)
    assert "behind the boat house" in told.partition("RetrievedObservations")[2]
    assert "RetrievedObservations" not in await service.assemble_memory_context(Session(), ADA, Person(MIA))
    with pytest.raises(InputError, match="user_message"):
        await service.assemble_memory_context(Session(), ADA, Person(MIA), asked)  # type: ignore[arg-type]


# The steps


async def test_what_is_extracted_is_stored_once_whatever_is_repeated(
    memory: Memory, llm: Scripted, service: MemoryService
) -> None:
    group = await memory.groups.create("harbor", agent_id=AGENT)
    llm.then(extracted(BEES, ("The boat house is closed.", "group_1")))
    given = (TEXT, Person(MIA), [{"_id": "harbor"}], {"individual": "not read"})
    found = await service.extract_observations(*given)
    assert [(o.content, o.scope.kind) for o in found] == [
        ("Mia keeps bees.", "individual"),
        ("The boat house is closed.", "individual"),
    ]
    assert [o.proposed for o in found] == [None, group.scope_id]  # the group has heard nothing: propagation decides
    assert await service.save_observations(found) == found
    again = await service.extract_observations(*given)  # a crash before the host saved them: no model is asked
    assert {o.id for o in again} == {o.id for o in found}
    assert await service.save_observations(again) == again
    assert len(await memory.observations.list(**MIAS)) == 2


async def test_extraction_that_failed_is_made_up_for(memory: Memory, llm: Scripted, service: MemoryService) -> None:
    llm.then(*HOPELESS)
    with pytest.raises(AnswerError):
        await service.extract_observations(TEXT, Person(MIA))
    llm.then(extracted(BEES))
    assert [o.content for o in await service.extract_observations(TEXT, Person(MIA))] == [BEES[0]]
    llm.then(extracted(("Jonas keeps bees.", "individual")))
    (others,) = await service.extract_observations(TEXT, Person(JONAS))  # the same text of somebody else is another
    assert others.scope.owner_id == JONAS


async def test_only_what_was_extracted_can_be_saved(service: MemoryService) -> None:
    with pytest.raises(InputError, match=r"dict isn't from an extraction"):
        await service.save_observations([{"content": "Mia keeps bees.", "scope": "individual"}])


async def test_text_that_is_too_long_is_refused(memory: Memory, service: MemoryService) -> None:
    with pytest.raises(TooLargeError, match="200,001"):
        await service.extract_observations("x" * (memory.settings.message_max_characters + 1), Person(MIA))


async def test_scope_is_consolidated_when_enough_waits_in_it(
    memory: Memory, llm: Scripted, service: MemoryService
) -> None:
    await memory.configure(agent_id=AGENT, consolidation_threshold=2)
    mine = HostScope(AGENT, "individual", user_id=MIA)
    owned: list[tuple[HostScope, dict[str, Any]]] = [
        (mine, {"user_id": MIA}),
        (HostScope(AGENT, "collective"), {"collective": True}),
    ]
    for number, (scope, owner) in enumerate(owned):
        await memory.observe(f"One of {number}.", agent_id=AGENT, **owner)
        await service.maybe_consolidate(scope)
        said = await memory.observe(f"Two of {number}.", agent_id=AGENT, **owner)
        llm.then(f"One and two of {number}.")
        await service.maybe_consolidate(scope)
        await service.maybe_consolidate(said.scope)
        (version,) = await memory.scopes.history(**MIAS, scope_id=said.scope.id)
        assert version.content == f"One and two of {number}."


async def test_scope_of_a_group_is_consolidated_for_its_members(
    memory: Memory, llm: Scripted, service: MemoryService
) -> None:
    await memory.configure(agent_id=AGENT, consolidation_threshold=1)
    await memory.groups.create("harbor", agent_id=AGENT)
    await memory.observe("The boat house is closed.", agent_id=AGENT, group_id="harbor")
    await service.maybe_consolidate(HostScope(AGENT, "group", group_id="harbor"))  # nobody would see it
    await memory.groups.add_member("harbor", MIA, agent_id=AGENT)
    llm.then("The boat house is closed.")
    await service.maybe_consolidate(HostScope(AGENT, "group", group_id="harbor"))
    assert len(await memory.scopes.history(**MIAS)) == 1


async def test_scope_is_consolidated_on_request_and_one_that_fails_keeps_what_waits(
    memory: Memory, llm: Scripted, service: MemoryService
) -> None:
    said = await memory.observe("Mia keeps bees.", **MIAS)
    llm.then("")
    with pytest.raises(AnswerError):
        await service.consolidate_scope(said.scope.id)
    assert (await memory.scopes.list(**MIAS))[-1].pending == 1
    llm.then("Mia keeps bees.")
    await service.consolidate_scope((await memory.scopes.list(**MIAS))[-1])
    assert (await memory.scopes.list(**MIAS))[-1].pending == 0


async def test_propagation_is_one_level_up_from_the_scope_that_is_named(
    memory: Memory, llm: Scripted, service: MemoryService
) -> None:
    await memory.groups.create("harbor", agent_id=AGENT)
    await memory.groups.add_member("harbor", MIA, agent_id=AGENT)
    mine, ours = HostScope(AGENT, "individual", user_id=MIA), HostScope(AGENT, "group", group_id="harbor")
    await service.maybe_propagate_to_group(mine, [])  # nothing is absorbed: the model isn't asked
    await service.maybe_propagate_to_collective(ours, [])
    for call, scope in ((service.maybe_propagate_to_group, ours), (service.maybe_propagate_to_collective, mine)):
        with pytest.raises(InputError, match="is of kind"):
            await call(scope, [])
    with pytest.raises(NotFoundError, match="quay"):
        await service.maybe_propagate_to_collective(replace(ours, group_id="quay"))


async def test_retrieval_finds_in_the_named_scopes_what_the_user_may_see(
    memory: Memory, service: MemoryService
) -> None:
    mine = await memory.observe("The bees are behind the boat house.", **MIAS)
    theirs = await memory.observe("Bees make Jonas sneeze.", agent_id=AGENT, user_id=JONAS)
    shared = await memory.observe("Bees fly from May.", agent_id=AGENT, collective=True)
    found = await service.retrieve_observations("where are the bees?", [mine.scope, shared.scope.id])
    assert {o.id for o in found} == {mine.id, shared.id}
    assert [o.id for o in await service.retrieve_observations("bees", [shared.scope], user=Person(MIA))] == [shared.id]
    assert len(await service.retrieve_observations("bees", [mine.scope, shared.scope], 1)) == 1
    assert await service.retrieve_observations("bees", [theirs.scope], user=MIA) == []
    assert await service.retrieve_observations("bees", [], user=MIA) == []
    with pytest.raises(InputError, match="asking user"):
        await service.retrieve_observations("bees", [shared.scope])


async def test_call_that_names_no_agent_needs_one(memory: Memory) -> None:
    service = MemoryService(SqlBackend(memory))
    with pytest.raises(InputError, match="agent_id"):
        await service.extract_observations(TEXT, Person(MIA))
    said = await memory.observe("Mia keeps bees.", **MIAS)
    with pytest.raises(InputError, match="agent_id"):
        await service.consolidate_scope(said.scope)
    with pytest.raises(InputError, match="scope_type"):
        await service.consolidate_scope(Person("s12"), agent_id=AGENT)
    assert await service.retrieve_observations("bees", [said.scope], agent_id=AGENT, user=MIA) == [said]
