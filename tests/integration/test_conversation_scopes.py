"""What a conversation remembers about itself: its latest moments, or also a running summary; and the agent's own kinds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from xml.etree import ElementTree

import pytest

from memory_sql.config import ScopeSettings
from memory_sql.domain.exports import ExportedObservation, ExportedVersion
from memory_sql.domain.ids import OwnedKind
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, InputError, NotFoundError
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import conversation, message
from tests.fakes import Scripted, extracted, offered

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {**ADA, "conversation_id": "s"}


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


async def said(memory: Memory, llm: Scripted, *texts: str, first: int = 1, turn: int = 1) -> list[tuple[str, str, str]]:
    """What is formed when the model says this of the next two turns, and took it from that one."""
    await memory.add(conversation(2, first=first), **HERE)
    llm.then(extracted(*[(text, "conversation", [turn]) for text in texts]))
    formed = await memory.conversations.form(**SESSION)
    return [(str(o.scope), o.lane, o.content) for o in formed.observations]


async def shown(memory: Memory, user: str = "mia", conversation_id: str | None = "s") -> ElementTree.Element | None:
    context = await memory.context(**ADA, user_id=user, conversation_id=conversation_id)
    return ElementTree.fromstring(context.xml).find("SessionMemory")


async def test_conversation_has_no_memory_of_its_own_unless_that_is_wanted(memory: Memory, llm: Scripted) -> None:
    """C4, R032."""
    await memory.add(conversation(2), **HERE)
    llm.then(extracted(("They talked about boats.", "conversation")))
    formed = await memory.conversations.form(**SESSION)
    assert (formed.observations, dict(formed.refused)) == ((), {"unknown_scope": 1})
    assert offered(llm.requests[0]) == ["individual", "collective"]


async def test_latest_moments_of_a_conversation_are_kept_and_shown_in_it_alone(memory: Memory, llm: Scripted) -> None:
    """R323, R292: eight of them, of fifty words, which no text absorbs."""
    await memory.configure(**ADA, conversation_scope="buffer")
    moments = [f"Mia asked about boat {n}." for n in range(10)]
    assert (await said(memory, llm, *moments[:5]))[0] == ("conversation:s", "buffer", moments[0])
    await said(memory, llm, *moments[5:], first=3)
    assert offered(llm.requests[0]) == ["individual", "collective", "conversation"]
    assert (
        "- conversation: how this conversation went, for whoever goes on with it: what was asked, what came of it, what is"
        " open, of which only the latest is kept: what happens, not what holds (at most 5 observations)."
    ) in llm.requests[0].prompt
    assert moments[0] in llm.requests[1].prompt
    element = await shown(memory)
    assert element is not None
    lines = str(element[0].text).strip().splitlines()
    assert [line.partition(" (")[0] for line in lines] == [f"- {moment}" for moment in moments[2:]]
    assert (element.get("conversation"), element[0].tag) == ("s", "LatestObservations")
    assert (await shown(memory, conversation_id=None), await shown(memory, conversation_id="t")) == (None, None)
    assert await shown(memory, "jonas") is None
    (details,) = await rows(
        memory, "SELECT buffer_max, buffer_max_words FROM memory.scopes WHERE kind = 'conversation'"
    )
    assert details == (8, 50)


async def test_running_summary_of_a_conversation_evolves(memory: Memory, llm: Scripted) -> None:
    """R335, R336: the text, then what it doesn't hold yet."""
    await memory.configure(**ADA, conversation_scope="summary", consolidation_threshold=2)
    await said(memory, llm, "Mia asked for a mooring.", "The agent named the quay.")
    llm.then("Mia asked for a mooring; the agent named the quay.")
    await memory.run_due()
    assert "running summary of a conversation" in llm.requests[-1].prompt
    await said(memory, llm, "Mia took the quay.", first=3)
    assert "the agent named the quay" in llm.requests[-1].prompt
    element = await shown(memory)
    assert element is not None
    assert str(element.text).strip() == "Mia asked for a mooring; the agent named the quay."
    assert [(part.tag, str(part.text).strip().partition(" (")[0]) for part in element] == [
        ("RecentObservations", "- Mia took the quay.")
    ]
    legacy = await memory.context(**HERE, format="legacy")
    assert "<CurrentConversationContext" in legacy.xml


async def test_nothing_confided_or_sensitive_stands_in_a_conversations_own_memory(
    memory: Memory, llm: Scripted
) -> None:
    """Who joins later reads it; it goes to who said it."""
    await memory.configure(**ADA, conversation_scope="summary")
    await memory.add(
        [message("Between us: I am looking for another job. And I have diabetes."), *conversation(2, first=2)], **HERE
    )
    llm.then(
        extracted(("Mia is looking for another job.", "conversation", [1]), ("Mia has diabetes.", "conversation", [1]))
    )
    formed = await memory.conversations.form(**SESSION)
    assert {str(o.scope) for o in formed.observations} == {"individual:mia"}


async def test_who_takes_part_sees_it_and_who_left_its_group_does_not(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, conversation_scope="summary")
    await memory.add([message("Hello.", n=9, user_id="jonas")], **HERE, group_ids=["harbor"])
    await said(memory, llm, "They spoke of cranes.")
    assert await shown(memory, "jonas") is not None
    assert await shown(memory, "lena") is None
    await memory.groups.remove_member("harbor", "jonas", **ADA)
    assert await shown(memory, "jonas") is None


async def test_model_sees_it_only_where_nobody_else_has_spoken(memory: Memory, llm: Scripted) -> None:
    """What it holds of others an obedient model could copy into the scope of who speaks now, and has left perhaps."""
    await memory.configure(**ADA, conversation_scope="summary")
    await said(memory, llm, "They spoke of the reef.")
    await said(memory, llm, "And of cranes.", first=3)
    assert "reef" in llm.requests[-1].prompt
    await memory.add([message("Hello.", n=9, user_id="jonas")], **HERE)
    llm.then(extracted())
    await memory.conversations.form(**SESSION)
    await said(memory, llm, "And of the tide.", first=11)
    assert "reef" not in llm.requests[-2].prompt + llm.requests[-1].prompt


async def test_excluded_conversation_shows_nothing_of_itself(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, conversation_scope="summary")
    await said(memory, llm, "They spoke of the reef.")
    await memory.conversations.exclude(**SESSION)
    assert await shown(memory) is None
    await memory.conversations.exclude(**SESSION, excluded=False)
    assert await shown(memory) is not None


async def test_it_goes_with_the_conversation(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, conversation_scope="summary", consolidation_threshold=1)
    await said(memory, llm, "They spoke of cranes.")
    llm.then("They spoke of cranes.")
    await memory.run_due()
    await memory.forget(Selection(conversation_id="s"), **ADA)
    assert await rows(memory, "SELECT 1 FROM memory.consolidations") == []
    assert await rows(memory, "SELECT 1 FROM memory.observations") == []


async def test_what_is_forgotten_of_it_leaves_its_summary(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, conversation_scope="summary", consolidation_threshold=2)
    await said(memory, llm, "They spoke of cranes.")
    await said(memory, llm, "They spoke of the reef.", first=3)
    llm.then("They spoke of cranes and of the reef.", "They spoke of cranes.")
    await memory.run_due()
    assert await memory.observations.list(**MIA) == []
    reef = next(o for o in await memory.observations.list(**HERE) if "reef" in o.content)
    assert [m.number for m in await memory.observations.sources(reef.id, **HERE)] == [3]
    assert [v.content for v in await memory.scopes.history(**HERE)] == ["They spoke of cranes and of the reef."]
    with pytest.raises(NotFoundError):
        await memory.observations.dispute(reef.id, **MIA)
    assert (await memory.observations.dispute(reef.id, **HERE)).verification == "disputed"
    await memory.forget(Selection(observation_id=reef.id), **ADA)
    element = await shown(memory)
    assert element is not None
    assert str(element.text).strip() == "They spoke of cranes."
    assert "reef" not in ElementTree.tostring(element, encoding="unicode")


@pytest.mark.slow
@pytest.mark.parametrize("alone", [True, False])
async def test_summary_of_a_conversation_with_the_agent_alone_is_exported(
    memory: Memory, llm: Scripted, alone: bool
) -> None:
    """Of one that others took part in, what somebody said themselves is."""
    await memory.configure(**ADA, conversation_scope="summary", consolidation_threshold=1)
    if not alone:
        await memory.add([message("Hello.", n=9, user_id="jonas")], **HERE)
    await said(memory, llm, "They spoke of cranes.", turn=1 if alone else 2)
    llm.then("They spoke of cranes.")
    await memory.run_due()
    lines = [line async for line in memory.people.export(**MIA)]
    assert [line.scope.kind for line in lines if isinstance(line, ExportedVersion)] == ["conversation"] * alone
    assert [line.scope.kind for line in lines if isinstance(line, ExportedObservation)] == ["conversation"]


async def test_one_conversation_may_have_other_settings(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, conversation_scope="buffer")
    with pytest.raises(NotFoundError):
        await memory.scopes.create("conversation", **ADA, owner_id="s")
    await memory.add(conversation(2), **HERE)
    made = await memory.scopes.create("conversation", **ADA, owner_id="s", settings=ScopeSettings(lanes="both"))
    assert (made.settings["lanes"].value, made.settings["buffer_max"].value) == ("both", 8)
    llm.then(extracted(("The reef is near.", "conversation"), ("They spoke.", "conversation_latest")))
    formed = await memory.conversations.form(**SESSION)
    assert [(o.lane, o.content) for o in formed.observations] == [
        ("absorb", "The reef is near."), ("buffer", "They spoke."),
    ]  # fmt: skip


async def test_stored_answer_goes_into_the_lane_of_a_conversation_that_has_no_scope_yet(
    memory: Memory, llm: Scripted
) -> None:
    await memory.configure(**ADA, conversation_scope="buffer")
    await memory.add(conversation(2), **HERE)
    llm.then(extracted(("They spoke.", "conversation")))
    await rows(memory, "CREATE RULE refuse AS ON INSERT TO memory.observations DO INSTEAD SELECT 1/0")
    with pytest.raises(DatabaseError, match="23503"):
        await memory.conversations.form(**SESSION)
    await rows(memory, "DROP RULE refuse ON memory.observations")
    formed = await memory.conversations.form(**SESSION)
    assert [(str(o.scope), o.lane) for o in formed.observations] == [("conversation:s", "buffer")]
    assert len(llm.requests) == 1


# The agent's own kinds


@pytest.mark.parametrize(
    ("kind", "element"), [("agent", "AgentMemory"), ("guideline", "Guidelines"), ("conversation", "SessionMemory")]
)
async def test_host_fills_what_no_user_owns(memory: Memory, kind: OwnedKind, element: str) -> None:
    await memory.add(conversation(1), **HERE)
    kept = await memory.observe("Answers name their source.", **SESSION, scope_kind=kind)
    assert kept.scope.kind == kind
    context = await memory.context(**HERE)
    assert "Answers name their source." in context.xml
    assert (element in context.xml) or f'scope="{kind}"' in context.xml
    others = await memory.context(**JONAS)
    assert ("Answers name" in others.xml) == (kind != "conversation")
    assert len((await memory.search("source", **JONAS)).results) == (kind != "conversation")


async def test_no_conversation_writes_into_what_all_users_see(memory: Memory, llm: Scripted) -> None:
    """Not even into named scopes of it: what was private to a user would be readable by another."""
    for kind in ("agent", "guideline"):
        await memory.observe("The agent is patient.", **ADA, scope_kind=kind)
        await memory.scopes.create(kind, **ADA, name="more")
    await memory.add(conversation(2), **HERE)
    llm.then(extracted(("Mia is impatient.", "agent"), ("Mia is slow.", "guideline"), ("Mia is.", "named_1")))
    formed = await memory.conversations.form(**SESSION)
    assert (formed.observations, offered(llm.requests[0])) == ((), ["individual", "collective"])


async def test_what_a_user_knows_of_a_thing_is_theirs(memory: Memory) -> None:
    """Profiles of entities are named scopes of their owner."""
    await memory.observe("The boat leaks.", **MIA, scope="entity/boat")
    assert '<UserMemory user="mia" name="entity/boat">' in str(await memory.context(**MIA))
    assert "leaks" not in str(await memory.context(**JONAS))


@pytest.mark.parametrize(
    "wrong",
    [
        {"scope_kind": "entity"}, {"scope_kind": "individual", "user_id": "mia"},
        {"scope_kind": "agent", "collective": True}, {"scope_kind": "agent", "group_id": "harbor"},
        {"scope_kind": "conversation"},
    ],
)  # fmt: skip
async def test_kind_that_says_nothing_is_refused(memory: Memory, wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        await memory.observe("Tea.", **ADA, **wrong)


async def test_unknown_conversation_has_no_memory(memory: Memory) -> None:
    with pytest.raises(NotFoundError):
        await memory.observe("Tea.", **SESSION, scope_kind="conversation")
    assert await rows(memory, "SELECT 1 FROM memory.scopes") == []


def test_kinds_are_filled_from_the_command_line(database_url: str) -> None:
    where = ("--url", database_url, "--agent", "ada")
    assert "guideline" in memory_sql("observe", "Answers name their source.", *where, "--scope-kind", "guideline").out
    made = memory_sql("scope", "create", "agent", *where, "--name", "tone")
    assert "agent" in made.out
