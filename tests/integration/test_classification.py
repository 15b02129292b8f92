"""What kind of memory each observation is: by the host, else by the model, else by rules, and again where these change."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import date
from typing import Any

import pytest
from sqlalchemy import text

from memory_sql.config import Settings
from memory_sql.db.repositories.sweeps import BEGINNING
from memory_sql.domain.classification import RULES
from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.lifecycle import classify
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import rows, serving
from tests.factories import message
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
FISH, HOME = "Mia never eats fish.", "Mia lives in Bergen."
NEVER_FISH = ("note", 0.62, RULES)  # never: a word of notes, and .12


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", formation_min_messages=1)


@pytest.fixture
async def memory(memory: Memory) -> AsyncIterator[Memory]:
    yield memory
    assert await memory.admin.verify() == []


def classes(one: Observation) -> tuple[Any, ...]:
    return one.kind, one.importance, one.classified_by


async def formed(memory: Memory, llm: Scripted, talk: str = "talk", **fields: Any) -> Observation:
    await memory.add([message("I never eat fish.")], **MIA, conversation_id=talk)
    llm.then(json.dumps({"observations": [{"scope": "individual", "content": FISH, "sources": [1]} | fields]}))
    (one,) = (await memory.conversations.form(**ADA, conversation_id=talk)).observations
    assert await memory.observations.get(one.id, **MIA) == one  # as it was returned, so it was stored
    return one


async def test_the_host_comes_first_and_rules_add_what_it_leaves_out(memory: Memory) -> None:
    plain = await memory.observe(FISH, **MIA)
    assert classes(plain) == NEVER_FISH
    assert (plain.category, plain.confidence, plain.until) == (None, None, None)
    assert classes(await memory.observations.get(plain.id, **MIA)) == NEVER_FISH
    assert classes(await memory.observe(HOME, **MIA)) == (None, 0.5, RULES)  # nothing says of what kind it is
    assert classes(await memory.observe("Tea is best.", **MIA, category="preference")) == ("note", 0.6, RULES)
    assert classes(await memory.observe("Two dogs bark.", **MIA, kind="procedure")) == ("procedure", 0.5, None)
    assert classes(await memory.observe("Three cats purr.", **MIA, importance=0.9)) == (None, 0.9, None)
    assert classes(await memory.observe("Mia moved in.", **MIA, fact_key="home")) == ("fact", 0.5, RULES)


async def test_off_classifies_nothing_of_an_agent(memory: Memory) -> None:
    await memory.configure(**ADA, classification="off")
    assert classes(await memory.observe(FISH, **MIA)) == (None, None, None)
    assert classes(await memory.observe(FISH, agent_id="bob", user_id="mia")) == NEVER_FISH
    with pytest.raises(InputError, match="classification"):
        await memory.configure(**ADA, classification="guess")  # type: ignore[arg-type]


@pytest.mark.slow
async def test_what_the_model_says_is_stored(memory: Memory, llm: Scripted) -> None:
    one = await formed(memory, llm, label="said preference until 2026-12-24")
    assert (one.category, one.confidence, one.until) == ("preference", 0.95, date(2026, 12, 24))
    assert classes(one) == ("note", 0.72, RULES)
    assert "then fact, preference" in llm.requests[0].instructions
    viewed = "SELECT category, confidence, until, kind, importance, classified_by FROM memory.v_observations"
    assert await rows(memory, viewed) == [("preference", 0.95, date(2026, 12, 24), "note", 0.72, RULES)]
    exported: Any
    (exported,) = [line async for line in memory.people.export(**MIA) if line.type == "observation"]
    assert (exported.category, exported.until, exported.classified_by) == ("preference", one.until, RULES)


@pytest.mark.parametrize(
    ("sure", "confidence"), [("said", 0.95), ("implied", 0.8), ("guessed", 0.5), ("certain", None), (None, None)]
)
async def test_how_sure_the_model_is_becomes_confidence(
    memory: Memory, llm: Scripted, sure: str | None, confidence: float | None
) -> None:
    assert (await formed(memory, llm, sure=sure)).confidence == confidence


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"category": "gossip", "sure": 0.9, "until": "soon"},
        {"category": "rule"},  # only where the setting allows it
        {"until": "2019-01-01"},  # over before it was said
    ],
)
async def test_what_is_absent_or_wrong_is_not_known(memory: Memory, llm: Scripted, fields: dict[str, Any]) -> None:
    one = await formed(memory, llm, **fields)
    assert (one.category, one.confidence, one.until) == (None, None, None)
    assert classes(one) == NEVER_FISH


async def test_an_agent_may_allow_more_categories(memory: Memory, llm: Scripted) -> None:
    await memory.configure(**ADA, categories=["rule", "procedure"])
    assert (await formed(memory, llm, category="rule")).category == "rule"
    assert "skill, rule or procedure, then" in llm.requests[0].instructions


@pytest.mark.parametrize(("setting", "kinds"), [("rules", NEVER_FISH), ("off", (None, None, None))])
async def test_without_the_model_it_is_neither_asked_nor_heard(
    memory: Memory, llm: Scripted, setting: Any, kinds: tuple[Any, ...]
) -> None:
    await memory.configure(**ADA, classification=setting)
    one = await formed(memory, llm, category="preference", sure="said", until="2026-12-24")
    assert (one.category, one.confidence, one.until) == (None, None, None)
    assert classes(one) == kinds
    assert "label" not in llm.requests[0].instructions


async def test_what_is_said_again_changes_nothing(memory: Memory) -> None:
    one = await memory.observe(FISH, **MIA, category="preference")
    again = await memory.observe(FISH, **MIA, category="fact", importance=0.1)
    assert (again.id, again.category, *classes(again)) == (one.id, "preference", *classes(one))


async def test_a_plan_with_another_day_is_another(memory: Memory, llm: Scripted) -> None:
    first = await formed(memory, llm, category="commitment", until="2026-12-24")
    later = await formed(memory, llm, "again", category="commitment", until="2027-01-31")
    assert (later.content, later.id != first.id) == (first.content, True)
    llm.then(json.dumps({"observations": [{"scope": "individual", "content": FISH, "sources": [1]}]}))
    await memory.add([message("I never eat fish.")], **MIA, conversation_id="third")
    assert (await memory.conversations.form(**ADA, conversation_id="third")).duplicates == 1


async def test_a_correction_is_classified_by_its_own_text(memory: Memory) -> None:
    """Until then it counts as what it takes the place of; what the host has given stays."""
    old = await memory.observe(FISH, **MIA, category="preference")
    new = await memory.observations.update(old.id, text="Mia eats herring.", **MIA)
    assert (new.category, new.until, *classes(new)) == ("preference", None, "note", 0.72, 0)
    given = await memory.observe("Mia walks.", **MIA, kind="fact", importance=0.3)
    assert classes(await memory.observations.update(given.id, text="Mia runs.", **MIA)) == ("fact", 0.3, None)
    assert (await memory.work.maintain()).classified == 1
    assert classes(await memory.observations.get(new.id, **MIA)) == ("note", 0.6, RULES)


OLDER = "UPDATE memory.observations SET kind = 'procedure', importance = 0.01, classified_by = 0"


async def test_maintenance_classifies_what_older_rules_have(memory: Memory) -> None:
    one = await memory.observe(FISH, **MIA)
    given = await memory.observe(HOME, **MIA, kind="fact")
    version = (await memory.observations.get(one.id, **MIA)).version
    await rows(memory, f"{OLDER} WHERE seq = 1")
    done = await memory.work.maintain()
    assert (done.classified, done.complete) == (1, True)
    renewed = await memory.observations.get(one.id, **MIA)
    assert (renewed.version, *classes(renewed)) == (version, *NEVER_FISH)
    assert classes(await memory.observations.get(given.id, **MIA)) == ("fact", 0.5, None)
    assert (await memory.work.maintain()).classified == 0


async def test_what_changes_while_it_is_classified_waits_for_the_next_time(memory: Memory, settings: Settings) -> None:
    for said in (FISH, HOME, "Mia rows."):
        await memory.observe(said, **MIA)
    await rows(memory, OLDER)
    async with serving(memory) as unit:
        read = await classify.outdated(unit, "ada", BEGINNING, 10, settings)
    assert len(read) == 3
    await rows(memory, "UPDATE memory.observations SET category = 'preference' WHERE seq = 1")
    async with serving(memory) as other, serving(memory) as unit:
        await other.execute(text("SELECT 1 FROM memory.observations WHERE seq = 2 FOR UPDATE"))
        assert await classify.store(unit, read, classify.classified(read)) == 1
    assert await rows(memory, "SELECT seq FROM memory.observations WHERE classified_by = 0 ORDER BY seq") == [
        (1,),
        (2,),
    ]
    assert (await memory.work.maintain()).classified == 2


async def test_maintenance_goes_on_where_the_limit_ended_it(database_url: str) -> None:
    async with Memory(database_url, None, Settings(llm="offline", maintenance_batch=2)) as memory:
        for n in range(5):
            await memory.observe(f"Mia never eats fish number {n}.", **MIA)
        await rows(memory, OLDER)
        assert (await memory.work.maintain(agent_id="nobody")).classified == 0
        done = [await memory.work.maintain(limit=limit) for limit in (3, 100)]
        assert [(one.classified, one.complete) for one in done] == [(3, False), (2, True)]


async def test_maintenance_leaves_what_is_held_or_set_aside_and_agents_that_are_off(memory: Memory) -> None:
    held = await memory.observe("Mia never eats crab.", **MIA)
    await memory.observe("Mia never eats clams.", **MIA)
    await memory.observe(FISH, agent_id="bob", user_id="mia")
    hold = await memory.holds.place(**ADA, observation_id=held.id, reason="a case")
    await memory.observations.quarantine(Selection(query="clams"), **ADA)
    await memory.configure(agent_id="bob", classification="off")
    await rows(memory, OLDER)
    assert (await memory.work.maintain()).classified == 0
    await memory.holds.release(hold.hold_id, **ADA, reason="closed")
    assert (await memory.work.maintain()).classified == 1


def test_commands_show_it(database_url: str) -> None:
    at: tuple[object, ...] = ("--url", database_url)
    stored = memory_sql("observe", FISH, "--agent", "ada", "--user", "mia", "--json", *at).value
    shown = memory_sql("observation", "get", stored["id"], "--agent", "ada", "--user", "mia", *at).out
    assert "kind          note" in shown
    assert (stored["classified_by"], stored["until"]) == (RULES, None)
