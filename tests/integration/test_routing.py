"""Two backends behind one, chosen by the agent's engine; what the shadow does beside the host's answer; the way back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql.backends import MemoryService, RoutingBackend, ShadowCounts, SqlBackend
from memory_sql.config import Settings
from memory_sql.errors import ConfigurationError, DatabaseError, InputError
from memory_sql.memory import Memory
from tests.fakes import Scripted, extracted
from tests.hosts import AGENT, MIA, HostScope, Legacy, Person, Session, Stepwise

OLD = """<MemoryContext description="Your complete memory context for this conversation">
  <UserMemory description="Memory and context specific to this user">
    -- User Memory for mia --
    ## Consolidated user memory:
    VERSION: 3
    Mia keeps bees. She sails.

    -- Total word count: 5
    ## Recent user directives:
    - Answer in short. (age: 3 days ago)
  </UserMemory>
</MemoryContext>"""
ADA = Person(AGENT)
MIAS: dict[str, Any] = {"agent_id": AGENT, "user_id": MIA}
BEES = ("Mia keeps bees.", "individual")


@pytest.fixture
def legacy() -> Stepwise:
    return Stepwise(OLD)


@pytest.fixture
async def routing(memory: Memory, legacy: Stepwise) -> AsyncIterator[RoutingBackend]:
    async with RoutingBackend(memory, legacy, agent_id=AGENT, refresh_seconds=0, patience_seconds=30) as backend:
        yield backend


@pytest.fixture
def service(routing: RoutingBackend) -> MemoryService:
    return MemoryService(routing)


def session(count: int = 3) -> Session:
    made = Session()
    made.say(count)
    return made


async def context(service: MemoryService, agent: Person = ADA) -> str:
    return await service.assemble_memory_context(session(), agent, Person(MIA))


async def contents(memory: Memory) -> list[str]:
    return [o.content for o in await memory.observations.list(**MIAS)]


# By engine


async def test_engine_says_who_answers_and_holds_for_one_agent(
    memory: Memory, legacy: Stepwise, service: MemoryService
) -> None:
    await memory.observe("Mia keeps bees.", **MIAS)
    assert "bees" in await context(service)  # sql, unless it is said
    await memory.configure(agent_id=AGENT, engine="legacy")
    assert await context(service) == OLD
    assert await context(service, Person("bob")) != OLD
    await memory.configure(agent_id=AGENT, engine="sql")
    assert "- Mia keeps bees." in await context(service)
    assert legacy.asked == ["assemble_memory_context"]


async def test_engine_of_the_process_counts_where_an_agent_has_none(
    database_url: str, llm: Scripted, legacy: Stepwise
) -> None:
    async with Memory(database_url, llm, Settings(engine="legacy")) as memory:
        service = MemoryService(RoutingBackend(memory, legacy, refresh_seconds=0))
        assert await context(service) == OLD
        await memory.configure(agent_id=AGENT, engine="sql")
        assert await context(service) == "<MemoryContext/>"


async def test_engine_is_asked_for_again_after_a_while(memory: Memory, legacy: Stepwise) -> None:
    service = MemoryService(RoutingBackend(memory, legacy, refresh_seconds=60))
    await memory.configure(agent_id=AGENT, engine="legacy")
    assert await context(service) == OLD
    await memory.configure(agent_id=AGENT, engine="sql")
    assert await context(service) == OLD


async def test_engine_that_cant_be_asked_for_stays_as_it_was(
    memory: Memory, legacy: Stepwise, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def down(**_: object) -> dict[str, Any]:
        raise DatabaseError("no connection")

    async def hangs(**_: object) -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    routing = RoutingBackend(memory, legacy, refresh_seconds=0, patience_seconds=0.3)
    service = MemoryService(routing)
    await memory.configure(agent_id=AGENT, engine="legacy")
    assert await context(service) == OLD
    with monkeypatch.context() as patched:
        for broken in (hangs, down):
            patched.setattr(memory.admin, "settings", broken)
            assert await context(service) == OLD
        assert await context(service, Person("bob")) == "<MemoryContext/>"  # never asked for: that of the settings
        await routing.settle()
    await memory.configure(agent_id=AGENT, engine="sql")
    assert await context(service) == OLD  # asked for behind this call
    await routing.settle()
    assert await context(service) == "<MemoryContext/>"
    assert "engine of agent ada can't be read (TimeoutError): legacy" in caplog.text
    assert "engine of agent ada can't be read (DatabaseError): legacy" in caplog.text


async def test_single_steps_go_where_the_engine_says(
    memory: Memory, llm: Scripted, legacy: Stepwise, service: MemoryService
) -> None:
    await memory.configure(agent_id=AGENT, engine="legacy")
    scope = HostScope(AGENT, "collective")
    assert await service.extract_observations("text", Person(MIA), [], {"collective": ""}) == ["one"]
    assert await service.save_observations(["one"]) == ["one"]
    await service.maybe_consolidate(scope)
    await service.consolidate_scope(scope)
    await service.maybe_propagate_to_group(scope, ["one"])
    await service.maybe_propagate_to_collective(scope, ["one"])
    assert await service.retrieve_observations("bees", ["64f1"], 3) == ["one"]
    assert len(legacy.asked) == 7
    assert legacy.given[-1] == ("bees", ["64f1"], 3)  # nothing that it doesn't know
    await memory.configure(agent_id=AGENT, engine="sql")
    llm.then(extracted(BEES))
    (found,) = await service.extract_observations("I keep bees.", Person(MIA))
    assert await service.save_observations([found]) == [found]
    assert await service.retrieve_observations("bees", [found.scope]) == [found]
    assert len(legacy.asked) == 7


async def test_backend_of_a_turn_has_no_steps(memory: Memory) -> None:
    await memory.configure(agent_id=AGENT, engine="legacy")
    service = MemoryService(RoutingBackend(memory, Legacy(), agent_id=AGENT))
    with pytest.raises(ConfigurationError, match="Legacy has no"):
        await service.maybe_consolidate(HostScope(AGENT, "collective"))


# In shadow mode


async def test_shadow_answers_from_legacy_and_does_the_same_beside_it(
    memory: Memory, llm: Scripted, legacy: Stepwise, routing: RoutingBackend
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    llm.then(extracted(BEES))
    assert await routing.form_memories(AGENT, session(), ADA, "text", {"user": 4}) is True
    assert await contents(memory) == []  # not yet: the host has its answer
    await routing.settle()
    assert await contents(memory) == ["Mia keeps bees."]
    assert legacy.asked == ["form_memories"]
    assert routing.counts(AGENT) == ShadowCounts(calls=1)


async def test_shadow_compares_contexts_and_counts_what_differs(
    memory: Memory, routing: RoutingBackend, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    service = MemoryService(routing)
    for text in ("Mia keeps bees.", "Answer in short."):
        await memory.observe(text, **MIAS)
    with caplog.at_level(logging.INFO, "memory_sql"):
        assert await context(service) == OLD
        await routing.settle()
        await memory.observe("She sails.", **MIAS)
        assert await context(service) == OLD
        await routing.settle()
    counts = routing.counts(AGENT)
    assert (counts.contexts, counts.differing, counts.common, counts.only_legacy, counts.only_sql) == (2, 1, 5, 1, 0)
    assert counts.difference_rate == 0.5
    assert counts.statement_rate == pytest.approx(1 / 6)
    (line,) = [record.getMessage() for record in caplog.records if "differ" in record.getMessage()]
    assert "2 statements in both, 1 in legacy alone" in line
    assert "sails" not in caplog.text


async def test_shadow_that_fails_is_logged_and_never_raised(
    memory: Memory, llm: Scripted, legacy: Stepwise, routing: RoutingBackend, caplog: pytest.LogCaptureFixture
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    llm.then(RuntimeError("the model read: Mia keeps bees"))
    assert await routing.form_memories(AGENT, session(), ADA) is True
    await routing.consolidate_scope({"agent_id": AGENT, "scope_type": "team"})
    await routing.settle()
    assert routing.counts(AGENT) == ShadowCounts(calls=2, failed={"LanguageModelError": 1, "InputError": 1})
    assert "failed at form_memories (LanguageModelError" in caplog.text
    assert "bees" not in caplog.text
    assert len(legacy.asked) == 2


async def test_host_meets_what_its_own_memory_fails_at_and_the_shadow_goes_on(
    memory: Memory, llm: Scripted, legacy: Stepwise, routing: RoutingBackend
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    legacy.failing = RuntimeError("down")
    llm.then(extracted(BEES))
    with pytest.raises(RuntimeError, match="down"):
        await routing.form_memories(AGENT, session(), ADA)
    with pytest.raises(RuntimeError, match="down"):
        await routing.assemble_memory_context(session(), ADA, Person(MIA))
    await routing.settle()
    assert await contents(memory) == ["Mia keeps bees."]
    assert routing.counts(AGENT) == ShadowCounts(calls=1)


async def test_shadow_holds_up_no_answer(memory: Memory, llm: Scripted, legacy: Stepwise) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    gate = asyncio.Event()

    async def slow(_request: object) -> str:
        await gate.wait()
        return extracted(BEES)

    llm.then(slow)
    async with RoutingBackend(memory, legacy, most_shadows=1) as routing:
        assert await routing.form_memories(AGENT, session(), ADA) is True
        assert await routing.assemble_memory_context(session(), ADA, Person(MIA)) == OLD
        assert routing.counts(AGENT) == ShadowCounts(calls=1, dropped=1)
        gate.set()
    assert await contents(memory) == ["Mia keeps bees."]


async def test_shadow_saves_and_retrieves_nothing_of_the_other_engine(
    memory: Memory, llm: Scripted, service: MemoryService, routing: RoutingBackend
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow")
    llm.then(extracted(BEES))
    assert await service.extract_observations("I keep bees.", Person(MIA)) == ["one"]
    assert await service.save_observations(["one"]) == ["one"]
    assert await service.retrieve_observations("bees", ["64f1"]) == ["one"]
    await routing.settle()
    assert await contents(memory) == ["Mia keeps bees."]
    assert routing.counts(AGENT) == ShadowCounts(calls=1)


async def test_every_call_has_a_shadow_that_needs_one(
    memory: Memory, llm: Scripted, legacy: Stepwise, service: MemoryService, routing: RoutingBackend
) -> None:
    await memory.configure(agent_id=AGENT, engine="shadow", consolidation_threshold=1)
    await memory.groups.create("harbor", agent_id=AGENT)
    await memory.observe("Mia keeps bees.", **MIAS)
    mine, ours = HostScope(AGENT, "individual", user_id=MIA), HostScope(AGENT, "group", group_id="harbor")
    llm.then("Mia keeps bees.")
    await service.maybe_consolidate(mine)
    await routing.settle()
    await service.consolidate_scope(mine)
    await service.maybe_propagate_to_group(mine, [])
    await service.maybe_propagate_to_collective(ours, [])
    assert await service.maybe_form_memories(AGENT, session(), ADA)
    await routing.settle()
    assert routing.counts(AGENT) == ShadowCounts(calls=5)
    assert len(await memory.scopes.history(**MIAS)) == 1
    assert len(legacy.asked) == 5


# The way back


async def test_rollback_keeps_what_was_observed_after_the_switch(
    memory: Memory, llm: Scripted, legacy: Stepwise, service: MemoryService
) -> None:
    said = session()
    llm.then(extracted(BEES))
    assert await service.form_memories(AGENT, said, ADA)
    await memory.configure(agent_id=AGENT, engine="legacy")
    assert await context(service) == OLD
    exported = [line async for line in memory.people.export(agent_id=AGENT, user_id=MIA)]
    assert "Mia keeps bees." in [getattr(line, "content", None) for line in exported]
    said.say(2)
    assert await service.form_memories(AGENT, said, ADA)  # by legacy: here it is unknown
    await memory.configure(agent_id=AGENT, engine="sql")
    assert "- Mia keeps bees." in await context(service)
    llm.then(extracted(("Mia sails.", "individual", [2])))
    assert await service.form_memories(AGENT, said, ADA)  # what was said meanwhile is made up for
    assert llm.windows == [3, 2]
    assert sorted(await contents(memory)) == ["Mia keeps bees.", "Mia sails."]


async def test_engine_is_one_of_three(memory: Memory) -> None:
    with pytest.raises(InputError, match="engine"):
        await memory.configure(agent_id=AGENT, engine="mongo")  # type: ignore[arg-type]
    assert await memory.configure(agent_id=AGENT, engine="shadow") == {"engine": "shadow"}
    assert await memory.configure(agent_id=AGENT, engine=None) == {}


async def test_own_sql_backend_may_be_given(memory: Memory, legacy: Stepwise) -> None:
    await memory.observe("Mia keeps bees.", **MIAS)
    routing = RoutingBackend(memory, legacy, sql=SqlBackend(memory, format="standard"))
    assert "<RecentObservations>" in await routing.assemble_memory_context(None, AGENT, MIA)
