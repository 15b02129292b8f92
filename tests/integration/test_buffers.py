"""The buffer lane: the newest observations of a scope, kept beside its text and never part of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql.config import ScopeSettings
from memory_sql.domain.selection import Selection
from memory_sql.errors import DatabaseError, InputError
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import conversation
from tests.fakes import Scripted, extracted, offered

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


async def lanes(memory: Memory, lanes: str, **settings: Any) -> str:
    """The id of mia's scope, which has these lanes."""
    settings = {"lanes": lanes, "buffer_max": 3, **settings}
    made = await memory.scopes.create("individual", **ADA, owner_id="mia", settings=ScopeSettings(**settings))
    return made.ref.id


async def active(memory: Memory) -> list[str]:
    return [o.content for o in reversed(await memory.observations.list(**MIA))]


async def test_newest_stay_and_the_oldest_go_first(memory: Memory) -> None:
    """R311, R318, R327."""
    await lanes(memory, "buffer")
    kept = [await memory.observe(f"fact {n}", **MIA) for n in range(5)]
    assert {o.lane for o in kept} == {"buffer"}
    assert await active(memory) == ["fact 2", "fact 3", "fact 4"]
    assert await rows(memory, "SELECT seq, detail FROM memory.events WHERE kind = 'status' ORDER BY seq") == [
        (1, {"from": "active", "to": "evicted", "why": "buffer"}),
        (2, {"from": "active", "to": "evicted", "why": "buffer"}),
    ]
    assert (await memory.search("fact", **MIA, top_k=10)).results[0].observation.content.startswith("fact")
    assert len((await memory.search("fact", **MIA, top_k=10)).results) == 3


async def test_buffer_is_never_consolidated(memory: Memory, llm: Scripted) -> None:
    """C3: the watermark passes over it."""
    scope = await lanes(memory, "both", consolidation_threshold=2)
    for n in range(3):
        await memory.observe(f"fact {n}", **MIA, lane="buffer")
    await memory.observe("Tea.", **MIA)
    assert (await memory.run_due()).consolidated == ()
    await memory.observe("Boats.", **MIA)
    llm.then("Mia likes tea and boats.")
    (done,) = (await memory.run_due()).consolidated
    assert (done.absorbed, done.scope.id) == (2, scope)
    assert "fact" not in llm.requests[0].prompt
    await memory.observe("fact 3", **MIA, lane="buffer")
    await memory.scopes.undo(**ADA, scope_id=scope)
    assert await active(memory) == ["fact 1", "fact 2", "Tea.", "Boats.", "fact 3"]


async def test_shorter_buffer_and_what_comes_back_evict_as_well(memory: Memory) -> None:
    scope = await lanes(memory, "buffer")
    kept = [await memory.observe(f"fact {n}", **MIA) for n in range(3)]
    await memory.observations.quarantine(kept[0].id, **MIA)
    await memory.observe("fact 3", **MIA)
    await memory.observations.unquarantine(kept[0].id, **MIA)
    assert await active(memory) == ["fact 1", "fact 2", "fact 3"]
    await memory.scopes.set(scope, ScopeSettings(buffer_max=1), **ADA)
    assert await active(memory) == ["fact 3"]
    await memory.scopes.set(scope, ScopeSettings(buffer_max=None), **ADA)
    assert await active(memory) == ["fact 3"]


@pytest.mark.parametrize(("has", "wanted", "got"), [
    ("absorb", None, "absorb"), ("absorb", "absorb", "absorb"), ("absorb", "buffer", None), ("buffer", None, "buffer"),
    ("buffer", "absorb", None),
    ("both", None, "absorb"), ("both", "buffer", "buffer"), ("both", "left", None),
])  # fmt: skip
async def test_observation_goes_into_a_lane_that_there_is(memory: Memory, has: str, wanted: Any, got: Any) -> None:
    await lanes(memory, has)
    if got is None:
        with pytest.raises(InputError):
            await memory.observe("Tea.", **MIA, lane=wanted)
    else:
        assert (await memory.observe("Tea.", **MIA, lane=wanted)).lane == got


async def test_same_words_in_two_lanes_are_two_observations(memory: Memory) -> None:
    await lanes(memory, "both")
    first = await memory.observe("Tea.", **MIA)
    second = await memory.observe("Tea.", **MIA, lane="buffer")
    assert first.id != second.id
    assert (await memory.observe("Tea.", **MIA, lane="buffer")).id == second.id


async def test_correction_stays_in_its_lane(memory: Memory) -> None:
    await lanes(memory, "both")
    old = await memory.observe("The boat lies at berth 12.", **MIA, lane="buffer")
    new = await memory.observations.update(old.id, text="The boat lies at berth 14.", **MIA)
    assert new.lane == "buffer"
    assert await active(memory) == ["The boat lies at berth 14."]


@pytest.mark.parametrize("length", [1, 2])
async def test_fact_gives_way_to_a_newer_one_before_anything_is_evicted(memory: Memory, length: int) -> None:
    await lanes(memory, "buffer", buffer_max=length)
    await memory.observe("Tea.", **MIA)
    old = await memory.observe("The boat lies at berth 12.", **MIA, fact_key="berth")
    new = await memory.observe("The boat lies at berth 14.", **MIA, fact_key="berth")
    assert await active(memory) == ["Tea.", "The boat lies at berth 14."][-length:]
    gone = await memory.observations.get(old.id, **MIA)
    assert (gone.status, gone.superseded_by) == ("superseded", new.id)


async def test_scope_with_both_lanes_is_asked_about_twice_in_one_call(memory: Memory, llm: Scripted) -> None:
    """R311–R315, R326: each lane with limits of its own; a lane is never the model's to name."""
    limits = {"observation_min_items": 1, "observation_max_items": 2, "buffer_max_items": 1, "buffer_max_words": 9}
    await lanes(memory, "both", **limits)
    await memory.observe("Berth 12 was free.", **MIA, lane="buffer")
    await memory.add(conversation(4, saying="A berth is free."), **HERE)
    llm.then(
        extracted(
            ("Tea.", "individual"), ("Boats.", "individual"), ("Rum.", "individual"),
            ("Berth 14 is free.", "individual_latest"), ("Berth 15 is free.", "individual_latest"),
        )
    )  # fmt: skip
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    assert offered(llm.requests[0]) == ["individual", "individual_latest", "collective"]
    prompt = llm.requests[0].prompt
    assert "(at least 1, at most 2 observations)" in prompt
    assert "the latest is kept: what happens, not what holds (at most 1 observations, at most 9 words each)" in prompt
    assert "Berth 12 was free." in prompt
    assert [(o.lane, o.content) for o in formed.observations] == [
        ("absorb", "Tea."), ("absorb", "Boats."), ("buffer", "Berth 14 is free.")
    ]  # fmt: skip
    assert formed.refused == {"over_limit": 2}


async def test_answer_of_a_scope_with_both_lanes_is_applied_the_same_after_a_crash(
    memory: Memory, llm: Scripted
) -> None:
    await lanes(memory, "both")
    await memory.add(conversation(4, saying="A berth is free."), **HERE)
    llm.then(extracted(("Tea.", "individual"), ("Berth 14 is free.", "individual_latest")))
    refuse = "CREATE RULE refuse AS ON INSERT TO memory.observations DO INSTEAD SELECT 1/0"
    await rows(memory, refuse)
    with pytest.raises(DatabaseError, match="23503"):
        await memory.conversations.form(**ADA, conversation_id="s")
    await rows(memory, "DROP RULE refuse ON memory.observations")
    formed = await memory.conversations.form(**ADA, conversation_id="s")
    assert [(o.lane, o.content) for o in formed.observations] == [("absorb", "Tea."), ("buffer", "Berth 14 is free.")]
    assert len(llm.requests) == 1


@pytest.mark.slow
async def test_buffer_stands_in_context_digest_and_search(memory: Memory, llm: Scripted) -> None:
    scope = await lanes(memory, "both")
    await memory.observe("Mia drinks tea.", **MIA)
    llm.then("Mia drinks tea.")
    await memory.scopes.consolidate(**ADA, scope_id=scope)
    await memory.observe("Berth 14 is free.", **MIA, lane="buffer")
    await memory.observe("Mia has a dog.", **MIA)
    before = memory.now()
    xml = str(await memory.context(**MIA, message="Which berth is free?", retrieve=True))
    assert xml.index("Mia drinks tea.") < xml.index(
        '<LatestObservations scope="individual" individual="mia">\n- Berth 14'
    )
    assert xml.count("Berth 14") == 1
    assert "Berth 14" in str(await memory.digest(**MIA, query="berth"))
    assert (await memory.search("berth", **MIA)).results[0].observation.lane == "buffer"
    for n in range(3):
        await memory.observe(f"Berth {n} is free.", **MIA, lane="buffer")
    now, then = str(await memory.context(**MIA)), str(await memory.context(**MIA, as_of=before))
    assert ("Berth 14" in now, "Berth 14" in then, "Berth 2" in now, "Berth 2" in then) == (False, True, True, False)


async def test_legacy_shard_is_its_facts_then_its_text_then_suggestions(memory: Memory, llm: Scripted) -> None:
    """R273, R290."""
    await memory.configure(**ADA, context_format="legacy")
    both = ScopeSettings(lanes="both")
    shard = (await memory.scopes.create("collective", **ADA, name="boats", settings=both)).ref.id
    host: dict[str, Any] = {**ADA, "collective": True, "scope": "boats"}
    await memory.observe("Check the hull in spring.", **host)
    llm.then("Hulls are checked in spring.")
    await memory.scopes.consolidate(**ADA, scope_id=shard)
    await memory.observe("Varnish dries overnight.", **host)
    await memory.observe("Berth 14 is free.", **host, lane="buffer")
    xml = str(await memory.context(**MIA))
    parts = ["## Shard facts:\n", "Berth 14", "## Current consolidated", "Hulls are", "## Recent shard sugg", "Varnish"]
    places = [xml.index(part) for part in parts]
    assert places == sorted(places)


async def test_forgotten_conversation_leaves_nothing_in_the_buffer(memory: Memory, llm: Scripted) -> None:
    await lanes(memory, "buffer")
    await memory.add(conversation(4, saying="A berth is free."), **HERE)
    llm.then(extracted(("Berth 14 is free.", "individual")))
    await memory.conversations.form(**ADA, conversation_id="s")
    assert "Berth 14" in str(await memory.context(**MIA))
    await memory.forget(Selection(conversation_id="s"), **ADA)
    assert str(await memory.context(**MIA)) == "<MemoryContext/>"
    assert await rows(memory, "SELECT 1 FROM memory.observations") == []
