"""A conversation is formed again by another model: at any time each message is covered by one run, and nothing is doubled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError, UnavailableError
from memory_sql.formation import again
from memory_sql.memory import Memory
from tests.commands import memory_sql
from tests.database import TOLD, rows, serving
from tests.factories import conversation, message
from tests.fakes import Parrot, Scripted, extracted

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
STATES = """
    SELECT o.content, coalesce(t.status, 'active') FROM memory.observations o
    LEFT JOIN memory.observation_states t USING (agent_key, scope_id, seq) ORDER BY o.scope_id, o.seq
"""
RUNS = "SELECT state, from_number, to_number FROM memory.runs WHERE kind = 'formation' ORDER BY run_id"


async def sound(memory: Memory) -> None:
    assert list(await memory.admin.verify()) == []


async def stated(memory: Memory) -> dict[str, str]:
    return dict(await rows(memory, STATES))


async def formed(memory: Memory, llm: Scripted, *items: Any, said: int = 4) -> None:
    await memory.add(conversation(said), **HERE)
    llm.then(extracted(*items))
    await memory.conversations.form(**SESSION)


async def form_again(memory: Memory, llm: Scripted, *items: Any) -> Any:
    llm.then(extracted(*items))
    return await memory.conversations.form(**SESSION, again=True)


async def test_new_observations_take_the_place_of_the_old(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia said: boats.", "individual", [1]), ("Mia likes tea.", "individual", [3]))
    result = await form_again(
        memory, llm, ("Mia keeps two boats.", "individual", [1]), ("Mia likes tea.", "individual", [3])
    )
    assert ([o.content for o in result.observations], result.duplicates, result.superseded) == (
        ["Mia keeps two boats."], 1, 1
    )  # fmt: skip
    assert await stated(memory) == {
        "Mia said: boats.": "superseded", "Mia likes tea.": "active", "Mia keeps two boats.": "active"
    }  # fmt: skip
    assert await rows(memory, RUNS) == [("retired", 0, 4), ("succeeded", 0, 4)]
    await sound(memory)


async def test_prompt_shows_nothing_of_what_came_of_these_messages(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia likes tea.", "individual", [1]))
    await form_again(memory, llm)
    assert "Mia likes tea." not in llm.requests[-1].prompt
    assert await rows(memory, RUNS) == [("retired", 0, 4), ("empty", 0, 4)]
    await sound(memory)


async def test_it_is_brought_back(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia said: boats.", "individual", [1]))
    await form_again(memory, llm, ("Mia keeps boats.", "individual", [1]))
    back = await memory.observations.reinstate("o1-1", agent_id="ada", user_id="mia")
    assert back.status == "active"
    await sound(memory)
    result = await form_again(memory, llm, ("Mia owns boats.", "individual", [1]))
    assert result.refused == {"settled": 1}  # a person has had a say in what this message says
    assert await stated(memory) == {"Mia said: boats.": "active", "Mia keeps boats.": "active"}
    await sound(memory)


@pytest.mark.slow
async def test_texts_go_back_and_are_written_anew(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia said: boats.", "individual", [1]), ("Mia likes tea.", "individual", [3]))
    llm.then("Mia said something of boats and likes tea.")
    await memory.scopes.consolidate(agent_id="ada", scope_id="s1")
    await form_again(memory, llm, ("Mia keeps boats.", "individual", [1]), ("Mia likes tea.", "individual", [3]))
    text = str(await memory.context(agent_id="ada", user_id="mia"))
    assert "said something of boats" not in text
    assert ("Mia keeps boats." in text, "Mia likes tea." in text) == (True, True)
    assert (await memory.work.backlog()).due_scopes == 1
    await sound(memory)
    llm.then("Mia keeps boats and likes tea.")
    await memory.run_due()
    assert "Mia keeps boats and likes tea." in str(await memory.context(agent_id="ada", user_id="mia"))
    await sound(memory)


async def test_what_a_person_has_said_of_it_stays(memory: Memory, llm: Scripted) -> None:
    asks: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
    await formed(
        memory, llm, ("Mia has a boat.", "individual", [1]), ("Mia likes tea.", "individual", [3]),
        ("Mia sails.", "individual", [5]), ("Mia rows.", "individual", [7]), said=8,
    )  # fmt: skip
    await memory.observations.confirm("o1-1", **asks)
    await memory.observations.update("o1-2", text="Mia likes coffee.", **asks)
    await memory.holds.place(agent_id="ada", observation_id="o1-3")
    result = await form_again(
        memory, llm, ("Mia owns a boat.", "individual", [1]), ("Mia loves tea.", "individual", [3]),
        ("Mia sails a lot.", "individual", [5]), ("Mia rows a lot.", "individual", [7]),
    )  # fmt: skip
    assert result.refused == {"settled": 3}
    assert await stated(memory) == {
        "Mia has a boat.": "active", "Mia likes tea.": "superseded", "Mia likes coffee.": "active",
        "Mia sails.": "active", "Mia rows.": "superseded", "Mia rows a lot.": "active",
    }  # fmt: skip
    await sound(memory)


async def test_quarantined_is_not_formed_again(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia has a boat.", "individual", [1]))
    await memory.observations.quarantine("o1-1", agent_id="ada", user_id="mia")
    assert (await form_again(memory, llm, ("Mia owns a boat.", "individual", [1]))).refused == {"settled": 1}
    assert await stated(memory) == {"Mia has a boat.": "quarantined"}
    await sound(memory)


async def test_what_was_overtaken_stays_so_when_it_is_said_again(memory: Memory, llm: Scripted) -> None:
    """Nothing is learnt twice of one message, nor does what gave way to something newer come back so."""
    await memory.add(conversation(4, saying="Tern ships on 24 April."), **HERE)
    llm.then(extracted(("Tern ships on 24 April.", "individual", [1]), ("Mia sails.", "individual", [3])))
    await memory.conversations.form(**SESSION)
    newer = await memory.observe("Tern ships on 8 May.", agent_id="ada", user_id="mia")
    gives_way = {"newer": "n3", "older": "n1", "was": "24 April", "now": "8 May"}
    llm.then(json.dumps({"text": "Tern ships on 8 May. Mia sails.", "contradictions": [gives_way]}))
    await memory.scopes.consolidate(agent_id="ada", scope_id="s1")
    assert (await stated(memory))["Tern ships on 24 April."] == "superseded"
    result = await form_again(
        memory, llm, ("Tern ships on 24 April.", "individual", [1]), ("Mia sails.", "individual", [3])
    )
    assert (result.observations, result.duplicates, result.superseded) == ((), 2, 0)
    assert await rows(memory, STATES) == [
        ("Tern ships on 24 April.", "superseded"), ("Mia sails.", "active"), (newer.content, "active")
    ]  # fmt: skip
    await sound(memory)


async def test_what_gave_way_to_another_model_may_be_said_anew(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia has a boat.", "individual", [1]))
    await form_again(memory, llm, ("Mia owns a boat.", "individual", [1]))
    result = await form_again(memory, llm, ("Mia has a boat.", "individual", [1]))
    assert ([one.content for one in result.observations], result.superseded) == (["Mia has a boat."], 1)
    assert await rows(memory, STATES) == [
        ("Mia has a boat.", "superseded"), ("Mia owns a boat.", "superseded"), ("Mia has a boat.", "active")
    ]  # fmt: skip
    await sound(memory)


async def test_refused_where_texts_are_gone(memory: Memory, llm: Scripted) -> None:
    await formed(memory, llm, ("Mia has a boat.", "individual", [1]))
    await memory.forget(Selection(message_id="m3", conversation_id="s"), agent_id="ada")
    with pytest.raises(InputError, match="the texts of 2 of its messages have been deleted"):
        await memory.conversations.form(**SESSION, again=True)
    assert await stated(memory) == {"Mia has a boat.": "active"}
    await sound(memory)
    with pytest.raises(NotFoundError):
        await memory.conversations.form(agent_id="ada", conversation_id="other", again=True)


FREEZE = "Deployments are frozen until 4 May 2026."
WE = "We prefer asynchronous communication over meetings."


@pytest.fixture
async def parroted(database_url: str) -> AsyncIterator[tuple[Memory, Parrot]]:
    parrot = Parrot()
    async with Memory(database_url, parrot, Settings(llm="offline", propagation_new_user_days=0.0)) as memory:
        yield memory, parrot
        await sound(memory)


async def spread(memory: Memory) -> None:
    """All that waits goes into the texts, and on to groups and to everybody."""
    for _ in range(3):
        found = await rows(memory, "SELECT 's' || scope_id, kind FROM memory.scopes ORDER BY scope_id")
        for scope_id, kind in found:
            await memory.scopes.consolidate(agent_id="ada", scope_id=scope_id)
            if kind != "collective":
                await memory.scopes.propagate(agent_id="ada", scope_id=scope_id)


async def shown(memory: Memory, user: str) -> str:
    """All that the user is told."""
    who: dict[str, Any] = {"agent_id": "ada", "user_id": user}
    listed = " ".join(one.content for one in await memory.observations.list(**who))
    scopes = " ".join(scope.consolidation or "" for scope in await memory.scopes.list(**who))
    found = await memory.search("frozen asynchronous", **who)
    return " ".join(
        (str(await memory.context(**who)), listed, scopes, *(hit.observation.content for hit in found.results))
    )


async def again_with_nothing(memory: Memory, parrot: Parrot, conversation: str) -> None:
    parrot.extracted = [("They said hello.", "individual", [1])]
    await memory.conversations.form(agent_id="ada", conversation_id=conversation, again=True)


@pytest.mark.slow
async def test_what_was_propagated_goes_with_it_and_comes_back(parroted: tuple[Memory, Parrot]) -> None:
    """Out of both texts at once, before anything is written anew."""
    memory, parrot = parroted
    for user in ("mia", "ben"):
        where: dict[str, Any] = {"user_id": user, "conversation_id": f"{user}-in-crew", "group_ids": ["crew"]}
        await memory.add([message("Hello.")], agent_id="ada", **where)
    await memory.add([message(FREEZE)], **HERE)
    await memory.conversations.form(**SESSION)
    await spread(memory)
    texts = f"SELECT count(*) FROM {TOLD} WHERE content LIKE '%frozen%'"  # noqa: S608
    assert ("frozen" in await shown(memory, "ben"), await rows(memory, texts)) == (True, [(2,)])
    await again_with_nothing(memory, parrot, "s")
    for user in ("mia", "ben"):
        assert "frozen" not in await shown(memory, user)
    await sound(memory)
    await spread(memory)
    for user in ("mia", "ben"):
        assert "frozen" not in await shown(memory, user)
    old = "SELECT 'o' || scope_id || '-' || seq FROM memory.observations WHERE source_kind = 'formation' AND content = :said"
    ((retired,),) = await rows(memory, old, said=FREEZE)
    await memory.observations.reinstate(retired, agent_id="ada", user_id="mia")
    await sound(memory)
    await spread(memory)
    for user in ("mia", "ben"):
        assert "frozen" in await shown(memory, user)


@pytest.mark.slow
async def test_what_was_merged_goes_with_the_last_that_said_it(parroted: tuple[Memory, Parrot]) -> None:
    memory, parrot = parroted
    for group, users in (("eden", ("gene", "mia")), ("atlas", ("jo", "tim"))):
        said = [message(WE, n=n, user_id=user, name=user) for n, user in enumerate(users, 1)]
        await memory.add(said, agent_id="ada", user_id=users[0], conversation_id=group, group_ids=[group])
        await memory.conversations.form(agent_id="ada", conversation_id=group)
    await spread(memory)
    assert "asynchronous" in await shown(memory, "nobody")
    await again_with_nothing(memory, parrot, "eden")
    assert ("asynchronous" in await shown(memory, "mia"), "asynchronous" in await shown(memory, "nobody")) == (
        True,
        True,
    )
    await again_with_nothing(memory, parrot, "atlas")
    for user in ("gene", "mia", "jo", "nobody"):
        assert "asynchronous" not in await shown(memory, user)
    await sound(memory)
    old = "SELECT 'o' || scope_id || '-' || seq FROM memory.observations WHERE source_kind = 'formation' AND content = :said"
    (first, *_) = [one for (one,) in await rows(memory, old + " ORDER BY scope_id", said=WE)]
    await memory.observations.reinstate(first, agent_id="ada", user_id="gene")
    await sound(memory)
    assert "asynchronous" in await shown(memory, "nobody")


@pytest.fixture
def small(database_url: str, llm: Scripted) -> Memory:
    return Memory(database_url, llm, Settings(llm="offline", formation_window_messages=2, retry_first_seconds=0.001))


@pytest.mark.slow
async def test_what_fails_stands_as_it_was(small: Memory, llm: Scripted) -> None:
    """Stretch by stretch: the first is formed anew, the second stands, and the rest waits; once more does the rest."""
    async with small as memory:
        await memory.add(conversation(4), **HERE)
        llm.then(extracted(("One.", "individual", [1])), extracted(("Three.", "individual", [1])))
        await memory.conversations.form(**SESSION)
        await memory.add(conversation(2, first=5), **HERE)
        llm.then(extracted(("First.", "individual", [1])), UnavailableError("scripted", "away"))
        with pytest.raises(UnavailableError):
            await memory.conversations.form(**SESSION, again=True)
        assert await stated(memory) == {"One.": "superseded", "Three.": "active", "First.": "active"}
        await sound(memory)
        llm.then(extracted(("First.", "individual", [1])), extracted(("Third.", "individual", [1])))
        await memory.conversations.form(**SESSION, again=True)
        assert await stated(memory) == {
            "One.": "superseded", "Three.": "superseded", "First.": "active", "Third.": "active"
        }  # fmt: skip
        assert await memory.conversations.unformed(agent_id="ada") == ["s"]
        await sound(memory)


@pytest.mark.slow
@pytest.mark.parametrize("dies", ["after_load", "in_call", "before_commit"])
async def test_death_at_any_point_leaves_each_message_formed_once(
    database_url: str, llm: Scripted, dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(llm="offline", lease_seconds=0.1)
    async with Memory(database_url, llm, settings) as memory:
        await formed(memory, llm, ("Mia has a boat.", "individual", [1]))
        if dies == "after_load":
            now = memory.now()
            async with serving(memory) as unit:
                await again.load(unit, "ada", "s", settings, now, 0)
        else:
            if dies == "before_commit":
                monkeypatch.setattr(again, "store", _dying)
                llm.then(extracted(("Mia owns a boat.", "individual", [1])))
            else:
                llm.then(asyncio.CancelledError())
            with pytest.raises(asyncio.CancelledError):
                await memory.conversations.form(**SESSION, again=True)
            monkeypatch.undo()
        assert await stated(memory) == {"Mia has a boat.": "active"}
        await asyncio.sleep(0.2)
        assert [v for v in await memory.admin.verify() if v.invariant != "leases_end_soon"] == []
        await form_again(memory, llm, ("Mia owns a boat.", "individual", [1]))
        assert await stated(memory) == {"Mia has a boat.": "superseded", "Mia owns a boat.": "active"}
        await sound(memory)


async def _dying(*_args: object, **_more: object) -> None:
    raise asyncio.CancelledError


def test_command_forms_again(database_url: str) -> None:
    said = b'{"role": "user", "content": "From now on I work in Lisbon."}'
    memory_sql("add", "-", "--agent", "ada", "--user", "mia", "--conversation", "s", "--url", database_url, stdin=said)
    told = memory_sql("conversation", "form", "--agent", "ada", "--again", "s", "--url", database_url).out
    assert told.startswith("s: 1 message → 0 observations, 1 known already (offline-rules-1)")
    refused = memory_sql(
        "conversation", "form", "--agent", "ada", "--again", "s", "--conversation", "s", "--url", database_url, code=1
    )
    assert "use either --conversation or --again" in refused.err
