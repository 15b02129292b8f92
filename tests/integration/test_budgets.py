"""Retention by budget: what exceeds a scope's budget is evicted."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.db.naming import in_schema
from memory_sql.db.repositories.agents import agent_key_of
from memory_sql.domain.results import MaintainResult, Trimmed
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError
from memory_sql.lifecycle import eviction
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests import recycling
from tests.commands import memory_sql
from tests.database import rows, serving, statements
from tests.factories import MONDAY, Clock, conversation
from tests.fakes import Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
MIA: dict[str, Any] = {**ADA, "user_id": "mia"}
JONAS: dict[str, Any] = {**ADA, "user_id": "jonas"}


async def notes(memory: Memory, count: int, **whose: Any) -> list[str]:
    """Their ids, oldest first."""
    observed = [
        await memory.observe(f"Boat {n}.", **(whose or MIA), observed_at=MONDAY + timedelta(hours=n))
        for n in range(count)
    ]
    return [each.id for each in observed]


async def active(memory: Memory, **whose: Any) -> set[str]:
    return {each.id for each in await memory.observations.list(**(whose or MIA))}


async def test_without_a_budget_nothing_goes(memory: Memory) -> None:
    await notes(memory, 3)
    await memory.configure(**ADA, store_items=1)
    assert await memory.work.trim(**ADA) == Trimmed()
    with pytest.raises(NotFoundError):
        await memory.work.trim(agent_id="bob")


async def test_each_scope_keeps_as_much_as_the_agents_budget(memory: Memory) -> None:
    mine, theirs = await notes(memory, 5), await notes(memory, 3, **JONAS)
    elsewhere = await notes(memory, 5, agent_id="bob", user_id="mia")
    facts = [await memory.observe(f"Home is {n}.", **MIA, fact_key=f"home{n}") for n in range(2)]
    await memory.configure(**ADA, retention="budget", store_note_items=3, store_items=4)
    would = await memory.work.trim(**ADA, dry_run=True)
    assert await active(memory) == {*mine, *(fact.id for fact in facts)}
    assert would == Trimmed(evicted={"note": 3}, scopes=(1,), dry_run=True)
    assert await memory.work.trim(**ADA) == would.model_copy(update={"dry_run": False})
    assert await active(memory) == {*mine[3:], *(fact.id for fact in facts)}
    assert await active(memory, **JONAS) == set(theirs)
    assert await active(memory, agent_id="bob", user_id="mia") == set(elsewhere)
    assert await memory.work.trim(**ADA) == Trimmed()
    assert await memory.admin.verify() == []


async def test_what_is_evicted_is_kept_but_not_shown(memory: Memory) -> None:
    gone, _, _ = await notes(memory, 3)
    await memory.configure(**ADA, retention="budget", store_items=2)
    await memory.work.trim(**ADA)
    assert (await memory.observations.get(gone, **MIA)).status == "evicted"
    assert gone not in (await memory.context(**MIA)).sources
    retrieved = await memory.context(**MIA, message="Do you remember the boat?", retrieve=True)
    assert gone not in retrieved.sources
    for now in (None, memory.now()):
        found = await memory.search("boat", **MIA, as_of=now)
        assert gone not in {hit.observation.id for hit in found.results}
        assert len(found.results) == 2
        for query in (None, "boat"):
            assert len((await memory.digest(**MIA, query=query, as_of=now)).included) == 2
    assert await rows(memory, "SELECT scope_id, seq, kind, actor, detail FROM memory.events") == [
        (1, 1, "status", None, {"from": "active", "to": "evicted", "why": "budget"})
    ]
    assert len(await memory.observations.list(**MIA, as_of=memory.now())) == 2
    again = await memory.observe("Boat 0.", **MIA)
    assert again.id != gone


async def test_what_is_pinned_disputed_or_held_stays(memory: Memory) -> None:
    await memory.configure(**ADA, retention="budget", store_items=0, digest_fact_keys=["home"], digest_tags=["keep"])
    pinned = await memory.observe("Lives in Oslo.", **MIA, fact_key="home")
    tagged = await memory.observe("Rows.", **MIA, tags=["keep", "x"])
    disputed = await memory.observe("Eats meat.", **MIA)
    held = await memory.observe("Owes 300.", **MIA)
    plain = await memory.observe("Likes tea.", **MIA)
    await memory.observations.dispute(disputed.id, **MIA)
    hold = await memory.holds.place(**ADA, observation_id=held.id)
    stays = {pinned.id, tagged.id, disputed.id}
    assert await memory.work.trim(**ADA) == Trimmed(evicted={"note": 1}, scopes=(1,), over=(1,))
    assert await active(memory) == {*stays, held.id}
    await memory.holds.release(hold.hold_id, **ADA)
    assert (await memory.work.trim(**ADA)).evicted == {"note": 1}
    assert await active(memory) == stays
    assert (await memory.observations.get(plain.id, **MIA)).status == "evicted"


async def test_holds_of_every_kind_protect(memory: Memory) -> None:
    await memory.configure(**ADA, retention="budget", store_items=0)
    await memory.add(conversation(1), **JONAS, conversation_id="j", group_ids=["harbor"])
    of_group = await memory.observe("The crane is old.", **ADA, group_id="harbor")
    said = await memory.observe("Jonas said so of all.", **JONAS, collective=True)
    in_conversation = await memory.observe("In a conversation.", **MIA, conversation_id="court")
    of_alias = await memory.observe("A visitor's.", **ADA, user_id="visitor")
    nobodys = await memory.observe("Nobody's.", **ADA, user_id="kim")
    await memory.people.merge(**ADA, user_id="visitor", into_user_id="jonas")
    await memory.holds.place(**ADA, group_id="harbor")
    await memory.holds.place(**ADA, user_id="jonas")
    await memory.holds.place(**ADA, conversation_id="court")
    trimmed = await memory.work.trim(**ADA)
    assert trimmed.evicted == {"note": 1}
    assert len(trimmed.over) == 4
    evicted = await rows(memory, "SELECT observation_id FROM memory.v_observations WHERE status <> 'active'")
    assert evicted == [(nobodys.id,)]
    assert nobodys.id not in {each.id for each in (of_group, said, in_conversation, of_alias)}


async def test_what_waits_and_goes_is_passed_over_and_due_is_counted_anew(database_url: str, llm: Scripted) -> None:
    """Rules 3 and 11 of the watermark."""
    async with Memory(
        database_url, llm, Settings(consolidation_threshold=3, retention="budget", store_items=2)
    ) as memory:
        first = await notes(memory, 3)
        scope_id = 1
        assert (await memory.admin.stats(**ADA)).due_scopes == 1
        await memory.work.trim(**ADA)
        assert (await memory.admin.stats(**ADA)).due_scopes == 0
        assert (await memory.admin.stats(**ADA)).pending == 2
        llm.then("Mia has two boats.")
        assert (await memory.scopes.consolidate(**ADA, scope_id=f"s{scope_id}")).absorbed == 2
        assert await rows(memory, "SELECT seq, repend FROM memory.observation_states") == [(1, True)]
        await memory.observe("Boat 9.", **MIA)
        await memory.work.trim(**ADA)  # of what the text holds
        assert await active(memory) == {first[2], "o1-4"}
        assert "Mia has two boats." in str(await memory.context(**MIA))
        assert await memory.admin.verify() == []


async def test_eviction_during_a_consolidation_changes_nothing_of_what_that_reads(
    memory: Memory, llm: Scripted
) -> None:
    await notes(memory, 3)
    await memory.configure(**ADA, retention="budget", store_items=1)

    async def meanwhile() -> str:
        await memory.work.trim(**ADA)
        return "Mia has boats."

    llm.then(lambda _request: meanwhile())
    assert (await memory.scopes.consolidate(**ADA, scope_id=f"s{1}")).absorbed == 3
    assert len(await active(memory)) == 1
    assert await memory.admin.verify() == []


async def test_many_go_in_bounded_transactions(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(retention="budget", store_items=1, trim_batch=2)) as memory:
        await notes(memory, 6)
        with statements(memory) as seen:
            trimmed = await memory.work.trim(**ADA)
        assert trimmed == Trimmed(evicted={"note": 5}, scopes=(1,))
        assert sum("FOR NO KEY UPDATE" in statement for statement in seen) == 3
        assert len(await active(memory)) == 1


async def test_what_is_protected_or_said_again_after_the_plan_stays(memory: Memory, clock: Clock) -> None:
    ids = await notes(memory, 6)
    settings = Settings(llm="offline", retention="budget", store_items=1)
    async with serving(memory) as unit:
        agent_key = await agent_key_of(unit, "ada")
        assert agent_key is not None
        plan = await eviction.planned(unit, agent_key, 1, settings)
    assert [(one.seq, one.kind) for one in plan.going] == [(n, "note") for n in (1, 2, 3, 4, 5)]
    await memory.observations.dispute(ids[0], **MIA)
    await memory.holds.place(**ADA, observation_id=ids[1])
    clock.goes_on(days=1)
    await memory.observe((await memory.observations.get(ids[3], **MIA)).content, **MIA)
    await memory.forget(Selection(observation_id=ids[2]), **ADA)
    async with serving(memory) as unit:
        trimmed = await eviction.trim(unit, agent_key, plan, plan.going, settings, MONDAY)
    assert trimmed == Trimmed(evicted={"note": 1}, scopes=(1,))
    assert await active(memory) == {ids[0], ids[1], ids[3], ids[5]}


async def test_maintenance_trims_those_whose_retention_is_by_budget(database_url: str, llm: Scripted) -> None:
    async with Memory(database_url, llm, Settings(llm="offline", store_items=1, trim_batch=2)) as memory:
        agents = [{"agent_id": agent, "user_id": "mia"} for agent in ("ada", "bob", "eve", "kim")]
        for whose in agents:
            await notes(memory, 4, **whose)
        for agent in ("ada", "eve", "kim"):
            await memory.configure(agent_id=agent, retention="budget")
        assert await memory.work.maintain(agent_id="bob") == MaintainResult(messages=0, complete=True)
        assert await memory.work.maintain(agent_id="kim") == MaintainResult(messages=0, evicted=3, complete=True)
        assert await memory.work.maintain(limit=5) == MaintainResult(messages=0, evicted=5, complete=False)
        assert [len(await active(memory, **whose)) for whose in agents] == [1, 4, 2, 1]
        assert await memory.work.maintain() == MaintainResult(messages=0, evicted=1, complete=True)
        assert await memory.work.maintain() == MaintainResult(messages=0, complete=True)
        assert await memory.admin.verify() == []


async def test_agents_without_budgets_cost_maintenance_one_look(database_url: str, llm: Scripted) -> None:
    """By the process's setting, which an agent's own goes before."""
    async with Memory(database_url, llm, Settings(llm="offline", retention="budget", store_items=1)) as memory:
        await notes(memory, 3)
        await memory.configure(**ADA, retention="none")
        with statements(memory) as sent:
            assert (await memory.work.maintain()).evicted == 0
        agents, observations = (in_schema(f"memory.{name}", recycling.SCHEMA) for name in ("agents", "observations"))
        assert len([one for one in sent if one.startswith(f"SELECT {agents}.agent_id")]) == 1
        assert not [one for one in sent if observations in one and "classified_by" not in one]
        await memory.configure(**ADA, retention=None)
        worked = Worker(memory)
        await worked.run_once()
        assert len(await active(memory)) == 1


@pytest.mark.slow
def test_command(database_url: str) -> None:
    def run(*args: object, **options: Any) -> Any:
        return memory_sql(*args, "--agent", "ada", "--url", database_url, **options)

    for n in range(3):
        run("observe", f"Boat {n}.", "--user", "mia")
    assert run("work", "trim").out == "nothing to evict\n"
    run("configure", "--set", "retention=budget", "--set", "store_note_items=1")
    assert run("work", "trim", "--dry-run").out == "would evict 2 notes from 1 scope\n"
    assert run("work", "trim", "--json").value == {
        "evicted": {"note": 2},
        "scopes": ["s1"],
        "over": [],
        "dry_run": False,
    }
    run("observe", "Boat 4.", "--user", "mia")
    assert run("work", "maintain").out == "0 messages lost their texts, 1 observation evicted\n"
    run("hold", "place", "--observation", "o1-4")
    run("configure", "--set", "store_note_items=0")
    assert (
        run("work", "trim", code=1).err == "memory-sql: scope s1 exceeds its budget because of protected observations\n"
    )
