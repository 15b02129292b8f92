"""Requirements that no other test shows. `tests/requirements.md` lists the tests of each requirement."""

import asyncio
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.consolidation.answers import ConsolidatedText
from memory_sql.errors import DatabaseError
from memory_sql.llm import prompts
from memory_sql.llm.answers import strict_schema
from memory_sql.memory import Memory
from memory_sql.retrieval.asking import read
from tests.database import rows
from tests.factories import MONDAY, conversation, message
from tests.fakes import Scripted, extracted, offered
from tests.scoping import set_scopes

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
GROUP: dict[str, Any] = {"agent_id": "ada", "group_id": "harbor"}
ALL: dict[str, Any] = {"agent_id": "ada", "collective": True}
MIGRATIONS = Path(__file__).parents[2] / "migrations"


async def scope_kinds(memory: Memory) -> list[str]:
    return [kind for (kind,) in await rows(memory, "SELECT kind FROM memory.scopes ORDER BY kind")]


# Scopes


@pytest.mark.parametrize(
    ("kind", "owner"),
    [
        ("individual", "u:mia"),
        ("team", "u:jonas"),
        ("individual", "u:"),
        ("individual", "g:harbor"),
        ("group", "g:"),
        ("group", "u:jonas"),
        ("group", "c"),
        ("collective", "c:harbor"),
        ("collective", "u:jonas"),
    ],
    ids=[
        "a second one", "other kind", "nobody", "a group's", "no group", "a user's", "everybody's",
        "with a group", "with a user",
    ],
)  # fmt: skip
async def test_scope_is_of_one_kind_and_has_the_owner_that_belongs_to_it(memory: Memory, kind: str, owner: str) -> None:
    """R044–R049."""
    await memory.observe("Tea.", **MIA)
    insert = (
        "INSERT INTO memory.scopes (agent_key, kind, owner) SELECT coalesce(:agent, agent_key), :kind, :owner"
        " FROM memory.agents"
    )
    for good in (("individual", "u:elin"), ("group", "g:harbor"), ("collective", "c")):
        await rows(memory, insert, agent=None, kind=good[0], owner=good[1])
    with pytest.raises(DatabaseError, match="SQLSTATE 23"):
        await rows(memory, insert, agent=None, kind=kind, owner=owner)


async def test_scope_and_observation_belong_to_an_agent_and_have_content(memory: Memory) -> None:
    """R045, R059."""
    scope_id = (await memory.observe("Tea.", **MIA)).scope.key
    scope = "INSERT INTO memory.scopes (agent_key, kind, owner) VALUES (:agent, 'collective', 'c')"
    row = (
        "INSERT INTO memory.observations (agent_key, scope_id, seq, content, observed_at, source_kind, hash_version)"
        " SELECT agent_key, :scope, :seq, :content, now(), 'observe', 1 FROM memory.agents"
    )
    await rows(memory, row, scope=scope_id, seq=2, content="Boats.")
    for agent in (None, 999):
        with pytest.raises(DatabaseError, match="SQLSTATE 23"):
            await rows(memory, scope, agent=agent)
    for wrong in ({"scope": None}, {"scope": scope_id + 1}, {"content": None}, {"content": " \n"}, {"seq": 2}):
        with pytest.raises(DatabaseError, match="SQLSTATE 23"):
            await rows(memory, row, **{"scope": scope_id, "seq": 3, "content": "Boats.", **wrong})


async def test_scope_knows_its_times_and_so_does_an_observation(
    database_url: str, llm: Scripted, settings: Settings
) -> None:
    """R052, R053, R057, R060."""
    now = MONDAY

    def clock() -> datetime:
        return now

    async with Memory(database_url, llm, settings, clock=clock) as memory:
        observation = await memory.observe("Tea.", **MIA, observed_at=MONDAY - timedelta(days=9))
        assert (observation.observed_at, observation.created_at) == (MONDAY - timedelta(days=9), MONDAY)
        (scope,) = await memory.scopes.list(**MIA)
        assert (scope.created_at, scope.last_activity_at, scope.consolidated_at) == (MONDAY, MONDAY, None)
        assert (scope.consolidation, scope.version, scope.is_active) == (None, 0, True)
        second, third = (MONDAY + timedelta(days=n) for n in (1, 2))
        now = second
        await memory.observe("Boats.", **MIA)
        now = third
        llm.then("Tea and boats.")
        await memory.scopes.consolidate(agent_id="ada", scope_id=scope.ref.id)
        (scope,) = await memory.scopes.list(**MIA)
        assert (scope.created_at, scope.last_activity_at, scope.consolidated_at) == (MONDAY, second, third)
        assert scope.consolidation == "Tea and boats."


async def test_inactive_scope_is_neither_read_nor_offered(memory: Memory, llm: Scripted) -> None:
    """R052."""
    await memory.add(conversation(4), **HERE, group_ids=["harbor"])
    await memory.observe("The gate mark is 4711.", **GROUP)
    assert "4711" in str(await memory.context(**MIA, message="Do you remember the gate?"))
    await set_scopes(memory, "g:%", is_active=False)
    assert str(await memory.context(**MIA, message="Do you remember the gate?")) == "<MemoryContext/>"
    assert (await memory.search("gate", **MIA)).results == ()
    assert await memory.observations.list(**MIA) == []
    llm.then(extracted(("The gate is shut.", "group_1")))
    formed = await memory.conversations.form(**SESSION)
    assert offered(llm.requests[0]) == ["individual", "collective"]
    assert "4711" not in llm.requests[0].prompt
    assert (formed.observations, formed.refused) == ((), {"inactive_scope": 1})


async def test_every_kind_of_scope_is_kept_and_consolidated_in_the_same_way(database_url: str, llm: Scripted) -> None:
    """R024, R038–R041, R073, R118, R298: one path, three owners."""
    async with Memory(database_url, llm, Settings(consolidation_threshold=2)) as memory:
        await memory.add(conversation(1), **HERE, group_ids=["harbor"])
        for owner in (ALL, GROUP, MIA):
            await memory.observe("one", **owner)
            await memory.observe("two", **owner)
        llm.replies = [lambda request: f"One and two, {request.material.kind}."] * 3  # type: ignore[attr-defined]
        done = (await memory.run_due()).consolidated
        assert [(str(r.scope), r.version, r.absorbed) for r in done] == [
            ("collective", 1, 2), ("group:harbor", 1, 2), ("individual:mia", 1, 2),
        ]  # fmt: skip
        await memory.observe("three", **MIA)
        assert [part.element for part in (await memory.context(**MIA)).parts] == [
            "CollectiveMemory", "GroupMemory", "UserMemory",
        ]  # fmt: skip
        for text in ("One and two, collective.", "One and two, group.", "One and two, individual.", "- three ("):
            assert text in str(await memory.context(**MIA))


# Formation


async def test_conversation_by_itself_is_no_memory(memory: Memory, llm: Scripted) -> None:
    """R032, R042, C4: messages are read, never shown; no session has a scope of its own unasked."""
    await memory.add([message("The gate mark is 4711."), *conversation(4, first=2)], **HERE)
    assert str(await memory.context(**HERE, message="Do you remember the gate mark?")) == "<MemoryContext/>"
    assert await memory.observations.list(**MIA) == []
    assert await scope_kinds(memory) == []
    llm.then(extracted(("The gate mark is 4711.", "individual")))
    await memory.conversations.form(**SESSION)
    assert await scope_kinds(memory) == ["individual"]
    assert offered(llm.requests[0]) == ["individual", "collective"]
    assert "4711" in str(await memory.context(**HERE))


async def test_model_is_asked_for_text_scope_and_sources_and_for_no_type(memory: Memory, llm: Scripted) -> None:
    """R022, R030, R036, R066, C3."""
    await memory.configure(agent_id="ada", classification="rules")
    await memory.add(conversation(4), **HERE)
    typed = '"type": "directive", "category": "zebra", "kind": "zebra", "lane": "buffer"'
    llm.then(f'{{"observations": [{{"content": "Tea.", "scope": "individual", "sources": [1], {typed}}}]}}')
    (kept,) = (await memory.conversations.form(**SESSION)).observations
    assert (kept.content, kept.pending) == ("Tea.", True)
    assert "zebra" not in (kept.category, kept.kind)
    assert await rows(memory, "SELECT lane FROM memory.observations") == [("absorb",)]
    schema = strict_schema(llm.requests[0].output)
    assert list(schema["properties"]) == ["individual", "collective", "requests"]
    assert schema["properties"]["individual"] == {"type": "array", "items": {"$ref": "#/$defs/Finding"}}
    assert schema["$defs"].keys() == {"Finding", "Asking"}
    assert {"Finding": schema["$defs"]["Finding"]} == {
        "Finding": {
            "type": "object",
            "properties": {
                "content": {"type": "string"},
                "sources": {"type": "array", "items": {"type": "integer"}},
                "about": {"type": "array", "items": {"type": "string"}},
                "private": {"anyOf": [{"enum": ["no", "confidence", "personal"], "type": "string"}, {"type": "null"}]},
                "terms": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["content", "sources", "about", "private", "terms"],
            "additionalProperties": False,
        }
    }


async def test_extraction_prompt_names_speakers_and_groups_and_shows_what_each_scope_holds(
    memory: Memory, llm: Scripted
) -> None:
    """R087, R091, R108."""
    await memory.add([message("I moor at berth 12.", name="Mia")], **HERE, group_ids=["harbor"])
    scope_id = (await memory.observe("The team ships in April.", **GROUP)).scope.key
    llm.then("The harbor team ships in April.", extracted())
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.observe("Split large exports.", **ALL)
    await memory.conversations.form(**SESSION)
    prompt = llm.requests[1].prompt
    assert offered(llm.requests[1]) == ["individual", "group_1", "collective"]
    for shown in (
        '- group_1: the shared work of the group "harbor".', "The harbor team ships in April.", "Split large exports.",
        'P1 is "Mia"',
        "1 P1 09:01 I moor at berth 12.",
    ):  # fmt: skip
        assert shown in prompt


async def test_scope_may_say_what_to_extract_for_it_and_how_much(memory: Memory, llm: Scripted) -> None:
    """R050, R284, R312–R315, C24, C27."""
    known = await memory.observe("Tea.", **MIA)
    await set_scopes(memory, observation_max_items=1, observation_max_words=12)
    await memory.prompts.set(known.scope.id, "extraction", "Look for boats above all.", agent_id="ada")
    await memory.configure(agent_id="ada", collective="direct")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("A blue boat.", "individual"), ("A red boat.", "individual"), ("Split.", "collective")))
    result = await memory.conversations.form(**SESSION)
    assert "- individual: " in llm.requests[0].prompt
    assert llm.requests[0].prompt.count("(at most 1 observations, at most 12 words each)") == 1
    assert llm.requests[0].prompt.count("Look for boats above all.") == 1
    assert [o.content for o in result.observations] == ["A blue boat.", "Split."]
    assert result.refused == {"over_limit": 1}


async def test_observation_with_too_many_words_is_kept_whole_and_counted(memory: Memory, llm: Scripted) -> None:
    """R088: the model is told the limit; what it says beyond is still worth more than nothing."""
    await memory.add(conversation(4), **HERE)
    long, longest = ("boat " * 51).strip(), ("quay " * 50).strip()
    llm.then(extracted((long, "individual"), (longest, "individual")))
    result = await memory.conversations.form(**SESSION)
    assert [o.content for o in result.observations] == [long, longest]
    assert result.refused == {"long_but_kept": 1}
    assert "at most 30 observations each (30 in a group's), of at most\n50 words" in llm.requests[0].prompt


async def test_observation_leads_back_to_conversation_messages_and_users(memory: Memory, llm: Scripted) -> None:
    """R061: the users who said it, each once, the agent not among them."""
    said = [
        message("I like tea."), message("So do I.", n=2, user_id="jonas"), message("Tea, then.", n=3, role="assistant"),
        message("Tea!", n=4),
    ]  # fmt: skip
    await memory.configure(agent_id="ada", collective="direct")
    await memory.add(said, **HERE)
    llm.then(extracted(("Mia and Jonas like tea.", "collective", [1, 2, 3, 4])))
    await memory.conversations.form(**SESSION)
    assert await rows(memory, "SELECT conversation_id, message_ids, related_users FROM memory.observations") == [
        ("s", ["m1", "m2", "m3", "m4"], ["mia", "jonas"])
    ]


async def test_concurrent_observations_are_all_numbered_and_all_pending(memory: Memory) -> None:
    """R067, R348."""
    await asyncio.gather(*(memory.observe(f"fact {n}", **MIA) for n in range(24)))
    assert await rows(memory, "SELECT array_agg(seq ORDER BY seq) FROM memory.observations") == [(list(range(1, 25)),)]
    (scope,) = await memory.scopes.list(**MIA)
    assert (scope.observations, scope.pending) == (24, 24)
    assert await rows(memory, "SELECT due_at IS NOT NULL FROM memory.scopes") == [(True,)]


async def test_what_one_conversation_teaches_is_known_in_another_at_once(memory: Memory, llm: Scripted) -> None:
    """R282: nothing is cached, so nothing has to be brought up to date."""
    assert str(await memory.context(**MIA, conversation_id="t")) == "<MemoryContext/>"
    await memory.add(conversation(4, saying="I moor at a berth."), **HERE)
    llm.then(extracted(("Mia moors at berth 12.", "individual")))
    await memory.conversations.form(**SESSION)
    assert "berth 12" in str(await memory.context(**MIA, conversation_id="t"))


# Consolidation


async def test_consolidation_prompt_shows_the_scope_its_text_and_what_is_new(memory: Memory, llm: Scripted) -> None:
    """R094, R096."""
    scope_id = (await memory.observe("Mia drinks tea.", **MIA)).scope.key
    llm.then("Mia likes tea.", "Mia likes tea and boats.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    await memory.observe("Mia sails.", **MIA)
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    first, second = llm.requests
    assert first.output is second.output is ConsolidatedText
    for shown in ("one person", 'whose "mia"', "(nothing yet)", "Mia drinks tea.", "500 words"):
        assert shown in first.prompt
    assert "(nothing yet)" not in second.prompt
    assert "Mia likes tea." in second.prompt
    assert "Mia sails." in second.prompt
    assert "Mia drinks tea." not in second.prompt


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("extraction", "Prefer what is specific and can be acted on"),
        ("extraction", "What memory already holds isn't written again"),
        ("extraction", "individual: what concerns one person: preferences, how they want to be helped, corrections"),
        ("extraction", "When in doubt, this."),
        ("extraction", "a group's scope: what plainly belongs to the shared work of that group"),
        ("extraction", "collective: a lesson that would help anybody"),
        ("consolidation", "joined with what belongs to it and said once"),
        ("consolidation", "Where two things contradict each other, the one observed later counts"),
        ("consolidation", "Leave out what is over and done with"),
        ("consolidation", "write what will help it to answer well"),
        ("consolidation", "Plain running text in whole sentences"),
        ("consolidation", "No list, no headings, no Markdown, no JSON"),
        ("consolidation", "In the language of most of the material"),
    ],
)
def test_prompt_says_the_rule(name: str, rule: str) -> None:
    """R091, R092, R095, R096: what the model is told. Whoever changes the wording changes it here too."""
    package = {"extraction": "memory_sql.formation", "consolidation": "memory_sql.consolidation"}[name]
    assert rule in " ".join(prompts.load(package, name).instructions.split())


# Retrieval


@pytest.mark.parametrize(
    "phrase",
    [
        "remember when", "what did I say", "what did I tell you", "do you recall", "did I mention", "what was that",
        "you told me", "I told you", "we discussed",
    ],
)  # fmt: skip
def test_each_recall_phrase_fires(phrase: str) -> None:
    """R081."""
    for said in (f"{phrase} the gate", f"so, {phrase.upper()} the gate", f"{phrase.capitalize()}?"):
        assert read(said).recalls


async def test_each_question_word_with_each_sign_of_the_past_is_answered(memory: Memory) -> None:
    """R082: as whatever else is asked or said is."""
    await memory.configure(agent_id="ada", pending_max=0)
    await memory.observe("Birgitta moved the gate at the harbour.", **MIA)
    for word in ("What", "When", "Where", "Who", "Why", "How"):
        for past in ("did {} decide", "was {} told", "had {} moved", "were {} shown"):
            assert (await memory.context(**MIA, message=f"{word} {past.format('Birgitta')} at the gate")).fired


async def test_unknown_names_are_looked_for_and_shown_where_something_is_known(memory: Memory) -> None:
    """R083: a name that nobody has heard finds nothing, however many there are."""
    await memory.configure(agent_id="ada", pending_max=0)
    await memory.observe("Birgitta Holm mends nets with her sister Elin.", **MIA)
    known = await memory.context(**MIA, message="What do Birgitta Holm and Elin do together?")
    assert "mends nets" in known.xml
    assert not (await memory.context(**MIA, message="Who are Rurik Sander and Zorbla?")).fired


async def test_five_observations_are_found_and_seven_shown_unless_told_otherwise(memory: Memory, llm: Scripted) -> None:
    """R084."""
    for n in range(9):
        scope_id = (await memory.observe(f"The gate number {n} is shut.", **MIA)).scope.key
    llm.then("Gates.")
    await memory.scopes.consolidate(agent_id="ada", scope_id=f"s{scope_id}")
    assert len((await memory.search("gate", **MIA)).results) == 5
    assert len((await memory.search("gate", **MIA, top_k=7)).results) == 7
    retrieved = (await memory.context(**MIA, message="Do you remember the gate?")).parts[-1]
    assert (retrieved.element, len(retrieved.sources)) == ("RetrievedObservations", 7)


def test_schema_needs_no_extension() -> None:
    """R031, R086, R137: what every Postgres ships is enough."""
    files = [
        *MIGRATIONS.rglob("*.py"),
        *MIGRATIONS.rglob("*.sql"),
        *(MIGRATIONS.parent / "memory_sql" / "db").rglob("*.sql"),
    ]
    assert files
    assert not [path for path in files if "create extension" in path.read_text("utf-8").lower()]
