"""Scopes beside the main ones, which learn from conversations by their settings alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql.config import ScopeSettings
from memory_sql.domain.selection import Selection
from memory_sql.errors import StaleError
from memory_sql.formation.task import ExtractionTask
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows
from tests.factories import conversation, message
from tests.fakes import Scripted, extracted, offered

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
TOGETHER = [message("The crane is broken.", n=1), message("So it is.", n=2, user_id="jonas")]


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


async def boat(memory: Memory, user: str = "mia", **settings: Any) -> str:
    made = await memory.scopes.create(
        "individual",
        **ADA,
        owner_id=user,
        name="boat",
        display_name="the boat Petrel",
        settings=ScopeSettings(**settings),
    )
    return made.ref.id


async def form(memory: Memory, conversation_id: str = "s") -> list[tuple[str, str]]:
    formed = await memory.conversations.form(**ADA, conversation_id=conversation_id)
    return [(str(o.scope), o.content) for o in formed.observations]


async def test_named_scope_of_a_user_learns_from_what_they_say(memory: Memory, llm: Scripted) -> None:
    """R302, R306."""
    scope = await boat(memory)
    await memory.prompts.set(scope, "extraction", "Repairs and trips.", **ADA)
    await memory.observe("The hull is blue.", **MIA, scope="boat")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("Mia drinks tea.", "individual"), ("The mast was replaced.", "named_1")))
    assert await form(memory) == [
        ("individual:mia", "Mia drinks tea."), ("individual:mia:boat", "The mast was replaced.")
    ]  # fmt: skip
    (request,) = llm.requests
    assert offered(request) == ["individual", "collective", "named_1"]
    assert (
        '- named_1: of what concerns P1, the user, alone, all that belongs to "the boat Petrel": it stands here alone.'
        " What to look for: Repairs and trips."
    ) in request.prompt
    assert "The hull is blue." in request.prompt


async def test_only_whose_it_is_writes_there_and_nobody_else_sees_it(memory: Memory, llm: Scripted) -> None:
    for user in ("mia", "jonas", "lena"):
        await boat(memory, user)
        await memory.observe(f"The secret of {user}.", **ADA, user_id=user, scope="boat")
    await memory.add(TOGETHER, **HERE)
    llm.then(
        extracted(
            ("Mia's crane.", "named_1", [1]), ("Jonas's crane.", "named_2", [2]), ("Said by Jonas.", "named_1", [2])
        )
    )
    assert await form(memory) == [
        ("individual:mia:boat", "Mia's crane."), ("individual:jonas:boat", "Jonas's crane."),
        ("individual:jonas", "Said by Jonas."),
    ]  # fmt: skip
    assert offered(llm.requests[0]) == ["individual_P1", "individual_P2", "collective", "named_1", "named_2"]
    assert "secret" not in llm.requests[0].prompt
    assert "Mia's crane" not in str(await memory.context(**JONAS))
    assert (await memory.search("crane", **ADA, user_id="lena")).results == ()


async def test_named_scope_of_a_group_takes_what_its_members_hear(memory: Memory, llm: Scripted) -> None:
    await memory.add(TOGETHER, **HERE, group_ids=["harbor"])
    tools = await memory.scopes.create("group", **ADA, owner_id="harbor", name="tools")
    llm.then(extracted(("The crane is broken.", "named_1", [1, 2])))
    assert await form(memory) == [("group:harbor:tools", "The crane is broken.")]
    assert 'of the shared work of the group "harbor", all that belongs to "tools"' in llm.requests[0].prompt
    assert "crane" in str(await memory.context(**JONAS))
    assert tools.ref.name == "tools"


@pytest.mark.parametrize("how", ["alone", "another group", "left"])
async def test_named_scope_of_a_group_is_not_offered_elsewhere(memory: Memory, llm: Scripted, how: str) -> None:
    await memory.groups.create("harbor", **ADA)
    for user in ("mia", "jonas"):
        await memory.groups.add_member("harbor", user, **ADA)
    await memory.scopes.create("group", **ADA, owner_id="harbor", name="tools")
    if how == "left":
        for user in ("mia", "jonas"):
            await memory.groups.remove_member("harbor", user, **ADA)
    said = conversation(4) if how == "alone" else TOGETHER
    await memory.add(said, **HERE, group_ids=["quay"] if how == "another group" else ["harbor"])
    llm.then(extracted())
    await form(memory)
    assert "named_1" not in offered(llm.requests[0])


async def test_who_leaves_while_the_model_thinks_stores_nothing_in_a_groups_named_scope(
    memory: Memory, llm: Scripted
) -> None:
    await memory.add(TOGETHER, **HERE, group_ids=["harbor"])
    await memory.scopes.create("group", **ADA, owner_id="harbor", name="tools")
    await memory.groups.add_member("harbor", "lena", **ADA)

    async def leave(_: Any) -> str:
        await memory.groups.remove_member("harbor", "jonas", **ADA)
        return extracted(("The crane is broken.", "named_1", [2]))

    llm.then(leave)
    with pytest.raises(StaleError):
        await form(memory)
    assert await rows(memory, "SELECT 1 FROM memory.observations") == []


async def test_scope_of_everybody_learns_only_where_that_is_stored_at_once(memory: Memory, llm: Scripted) -> None:
    await memory.scopes.create("collective", **ADA, name="boats")
    await memory.add(conversation(4, saying="Hulls are checked."), **HERE)
    llm.then(extracted(), extracted(("Hulls are checked in spring.", "named_1")))
    assert await form(memory) == []
    await memory.configure(**ADA, collective="direct")
    await memory.add(conversation(4, first=5, saying="Hulls are checked."), **HERE)
    assert await form(memory) == [("collective:boats", "Hulls are checked in spring.")]
    assert [offered(request) for request in llm.requests] == [
        ["individual", "collective"],
        ["individual", "collective", "named_1"],
    ]


async def test_inactive_or_eleventh_named_scope_is_not_offered(memory: Memory, llm: Scripted) -> None:
    for n in range(12):
        made = await memory.scopes.create("individual", **ADA, owner_id="mia", name=f"part {n}")
        if n == 0:
            await memory.scopes.set(made.ref.id, ScopeSettings(is_active=False), **ADA)
    await memory.add(conversation(4), **HERE)
    llm.then(extracted())
    await form(memory)
    assert offered(llm.requests[0])[2:] == [f"named_{n}" for n in range(1, 11)]
    assert '"part 0"' not in llm.requests[0].prompt


@pytest.mark.slow
async def test_ten_named_scopes_show_no_more_than_one(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, scope_text_max_characters=1000)
    for n in range(10):
        await memory.scopes.create("individual", **ADA, owner_id="mia", name=f"part {n}")
        for m in range(9):
            await memory.observe(f"{n}.{m} {'boat ' * 8}", **MIA, scope=f"part {n}")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted())
    await form(memory)
    assert isinstance(llm.requests[0].material, ExtractionTask)
    shown = [sum(map(len, scope.knows)) for scope in llm.requests[0].material.scopes if scope.name]
    assert len(shown) == 10
    assert 0 < max(shown) <= 100


async def test_stored_answer_goes_to_the_scopes_that_were_asked_about(memory: Memory, llm: Scripted) -> None:
    """Whatever has been created since."""
    second = await memory.scopes.create(
        "individual", **ADA, owner_id="mia", name="b", settings=ScopeSettings(lanes="both")
    )
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("One.", "named_1"), ("Two.", "named_1_latest")))
    await rows(memory, "CREATE RULE refuse AS ON INSERT TO memory.observations DO INSTEAD SELECT 1/0")
    with pytest.raises(Exception, match="23503"):
        await form(memory)
    await rows(memory, "DROP RULE refuse ON memory.observations")
    await memory.scopes.create("individual", **ADA, owner_id="mia", name="a")
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    assert [(o.scope.id, o.lane, o.content) for o in formed.observations] == [
        (second.ref.id, "absorb", "One."), (second.ref.id, "buffer", "Two.")
    ]  # fmt: skip
    assert len(llm.requests) == 1


async def test_consolidation_of_a_named_scope_says_whose_it_is(memory: Memory, llm: Scripted) -> None:
    made = await memory.scopes.create("individual", **ADA, owner_id="mia", name="boat")
    await memory.observe("The hull is blue.", **MIA, scope="boat")
    llm.then("The hull is blue.")
    await memory.scopes.consolidate(**ADA, scope_id=made.ref.id)
    assert 'whose "mia: boat"' in llm.requests[0].prompt
    assert '<UserMemory user="mia" name="boat">' in str(await memory.context(**MIA))


# Kinds of memory, by settings alone


SHARD = {
    **{"lanes": "both", "buffer_max": 100, "buffer_max_words": 30, "buffer_max_items": 5},
    **{"consolidation_threshold": 16, "consolidation_max_words": 1000, "observation_max_words": 35},
}


@pytest.mark.slow
async def test_legacy_shard_is_a_named_scope_of_everybody(memory: Memory, llm: Scripted) -> None:
    """R325: facts first in, first out; suggestions into a text of 1,000 words, 16 at a time."""
    await memory.configure(**ADA, collective="direct")
    shard = await memory.scopes.create("collective", **ADA, name="boats", settings=ScopeSettings(**SHARD))
    await memory.prompts.set(shard.ref.id, "extraction", "What helps with boats.", **ADA)
    await memory.add(conversation(4), **HERE)
    llm.then(
        extracted(
            *((f"Suggestion {n}.", "named_1") for n in range(12)), *((f"Fact {n}.", "named_1_latest") for n in range(7))
        )
    )
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    assert formed.refused == {"over_limit": 2}
    assert (await memory.run_due()).consolidated == ()
    for n in range(12, 16):
        await memory.observe(f"Suggestion {n}.", **ADA, collective=True, scope="boats")
    for n in range(5, 101):
        await memory.observe(f"Fact {n}.", **ADA, collective=True, scope="boats", lane="buffer")
    llm.then("Sixteen suggestions.")
    (done,) = (await memory.run_due()).consolidated
    assert (done.absorbed, done.scope.name) == (16, "boats")
    assert "At most 1000 words of text" in llm.requests[-1].prompt
    kept = await rows(memory, "SELECT count(*) FROM memory.v_observations WHERE lane = 'buffer' AND status = 'active'")
    assert kept == [(100,)]


@pytest.mark.slow
async def test_legacy_facts_are_a_buffer_of_a_hundred(memory: Memory, llm: Scripted) -> None:
    """R011, R012: of at most 30 words, first in, first out, and no text."""
    await memory.configure(**ADA, collective="direct")
    settings = ScopeSettings(lanes="buffer", buffer_max=100, buffer_max_words=30)
    await memory.scopes.create("collective", **ADA, name="facts", settings=settings)
    for n in range(100):
        await memory.observe(f"Fact {n}.", **ADA, collective=True, scope="facts")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("The quay is new.", "named_1")))
    assert await form(memory) == [("collective:facts", "The quay is new.")]
    assert "at most 30 words each" in llm.requests[0].prompt
    contents = [o.content for o in await memory.observations.list(**MIA, limit=200)]
    assert (len(contents), contents[0], contents[-1]) == (100, "The quay is new.", "Fact 1.")
    assert (await memory.run_due()).consolidated == ()


async def test_legacy_suggestions_are_absorbed_sixteen_at_a_time(memory: Memory, llm: Scripted) -> None:
    """R011, R012: of at most 35 words."""
    await memory.configure(**ADA, collective="direct")
    settings = ScopeSettings(consolidation_threshold=16, observation_max_words=35)
    await memory.scopes.create("collective", **ADA, name="suggestions", settings=settings)
    for n in range(15):
        await memory.observe(f"Suggestion {n}.", **ADA, collective=True, scope="suggestions")
    assert (await memory.run_due()).consolidated == ()
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("A sixteenth.", "named_1")), "Sixteen suggestions.")
    await form(memory)
    assert "at most 35 words each" in llm.requests[0].prompt
    (done,) = (await memory.run_due()).consolidated
    assert done.absorbed == 16


async def test_legacy_directives_are_the_users_main_scope(memory: Memory, llm: Scripted) -> None:
    """R324: 25 words, a text of 400 words, five at a time."""
    settings = ScopeSettings(consolidation_threshold=5, consolidation_max_words=400, observation_max_words=25)
    await memory.scopes.create("individual", **ADA, owner_id="mia", settings=settings)
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(*((f"Directive {n}.", "individual") for n in range(5))), "Five directives.")
    await memory.run_due(limit=1)
    await memory.conversations.form(**ADA, conversation_id="s")
    (done,) = (await memory.run_due()).consolidated
    assert done.absorbed == 5
    assert "at most 25 words each" in llm.requests[0].prompt
    assert "At most 400 words" in llm.requests[1].prompt


@pytest.mark.slow
def test_fifth_kind_needs_no_code(database_url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """R302, R306: created by command, it learns from a conversation, is shown, consolidated, forgotten."""
    monkeypatch.setenv("MEMORY_SQL_URL", database_url)
    made = memory_sql(
        *"scope create individual --owner mia --name travel --agent ada --set consolidation_threshold=1 --json".split()
    )
    scope = made.value["ref"]["id"]
    memory_sql("prompt", "set", scope, "extraction", "--agent", "ada", "--text", "Trips.")
    memory_sql("observe", "Mia was in Porto.", *"--agent ada --user mia --scope travel".split())
    assert "Porto" in memory_sql(*"context --agent ada --user mia".split()).out
    assert "Porto" in memory_sql("scope", "consolidate", scope, "--agent", "ada").out
    assert "Porto" in memory_sql(*"context --agent ada --user mia".split()).out
    memory_sql(*"forget --agent ada --user mia --yes".split())
    assert "Porto" not in memory_sql(*"context --agent ada --user mia".split()).out
    assert memory_sql(*"prompt list --agent ada".split()).out == "no scope has a prompt of its own\n"


async def test_fifth_kind_learns_and_is_forgotten_with_the_conversation(memory: Memory, llm: Scripted) -> None:
    await memory.scopes.create("individual", **ADA, owner_id="mia", name="travel")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("Mia was in Porto.", "named_1")), "Mia was in Porto.")
    ((_, _),) = await form(memory)
    (scope,) = [one.ref.id for one in await memory.scopes.list(**MIA) if one.ref.name == "travel"]
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    assert "Porto" in str(await memory.context(**MIA))
    await memory.forget(Selection(conversation_id="s"), **ADA)
    assert str(await memory.context(**MIA)) == "<MemoryContext/>"


async def test_what_was_told_twice_is_marked_in_both_scopes(memory: Memory, llm: Scripted) -> None:
    """Else what had been made of the other would stay with others."""
    made = await boat(memory, extraction_mode="isolated")
    await memory.add(conversation(4), **HERE)
    llm.then(extracted(("The gate is 4711.", "individual")), extracted(("The gate is 4711.", "named_1")))
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    (main,) = [o for o in formed.observations if o.scope.id != made]
    await memory.observations.mark(main.id, **MIA, private=True)
    assert [o.no_propagate for o in await memory.observations.list(**MIA)] == [True, True]
