"""What was replaced stands again when what replaced it goes: the receipt names it, and whoever wants it gone says so."""

from __future__ import annotations

from typing import Any

import pytest

from memory_sql.domain.observations import Observation
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError, NotFoundError
from memory_sql.memory import Memory
from memory_sql.tools import MemoryTools, Policy
from tests.database import rows
from tests.factories import message

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
BO: dict[str, Any] = {"agent_id": "ada", "user_id": "bo"}


async def moved_twice(memory: Memory) -> list[Observation]:
    lines: list[Observation] = [await memory.observe("Mia lives in Lyon.", **MIA)]
    for town in ("Oslo", "Bergen"):
        lines.append(await memory.observations.update(lines[-1].id, **MIA, text=f"Mia lives in {town}."))
    return lines


async def texts(memory: Memory, **who: Any) -> list[str]:
    return sorted(one.content for one in await memory.observations.list(**who or MIA))


async def together(memory: Memory, text: str) -> Observation:
    """What both have said in their group."""
    for user in ("mia", "bo"):
        said = [message("Hello.")]
        await memory.add(said, agent_id="ada", user_id=user, conversation_id=f"s-{user}", group_ids=["crew"])
    await memory.observe(text, **MIA, group_id="crew")
    return await memory.observe(text, **BO, group_id="crew")


@pytest.mark.parametrize("dry_run", [True, False])
async def test_a_receipt_names_what_stands_again(memory: Memory, dry_run: bool) -> None:
    _, oslo, bergen = await moved_twice(memory)
    receipt = await memory.forget(bergen.id, agent_id="ada", dry_run=dry_run)
    assert (receipt.observations, receipt.standing) == ((bergen.id,), (oslo.id,))
    assert await texts(memory) == ["Mia lives in Bergen." if dry_run else "Mia lives in Oslo."]


@pytest.mark.parametrize("who", [{}, {"user_id": "mia"}])
async def test_what_was_replaced_goes_along(memory: Memory, who: dict[str, Any]) -> None:
    lyon, oslo, bergen = await moved_twice(memory)
    chosen = Selection(observation_id=bergen.id, replaced=True, **who)
    receipt = await memory.forget(chosen, agent_id="ada")
    assert (receipt.observations, receipt.standing) == ((lyon.id, oslo.id, bergen.id), ())
    assert await texts(memory) == []
    assert not await rows(memory, "SELECT 1 FROM memory.observations")


async def test_replaced_begins_where_the_selection_does(memory: Memory) -> None:
    lyon, oslo, _ = await moved_twice(memory)
    receipt = await memory.forget(Selection(observation_id=oslo.id, replaced=True), agent_id="ada")
    assert receipt.observations == (lyon.id, oslo.id)
    assert await texts(memory) == ["Mia lives in Bergen."]


@pytest.mark.slow
async def test_a_quarantine_names_what_stands_again_or_takes_it_along(memory: Memory) -> None:
    lyon, oslo, bergen = await moved_twice(memory)
    one, line = (Selection(user_id="mia", observation_id=bergen.id, replaced=whole) for whole in (False, True))
    done = await memory.observations.quarantine(one, agent_id="ada")
    assert (done.observations, done.standing) == ((bergen.id,), (oslo.id,))
    await memory.observations.unquarantine(one, agent_id="ada")
    assert await texts(memory) == ["Mia lives in Bergen."]
    done = await memory.observations.quarantine(line, agent_id="ada", request="forget where I live")
    assert (done.observations, done.standing) == ((lyon.id, oslo.id, bergen.id), ())
    assert await texts(memory) == []
    review = (await memory.work.reviews(agent_id="ada"))[0]
    await memory.work.decide(review.id, agent_id="ada", accept=False)
    assert await texts(memory) == ["Mia lives in Bergen."]
    assert (await memory.observations.get(oslo.id, **MIA)).superseded_by == bergen.id


async def test_what_others_said_is_not_taken_along(memory: Memory) -> None:
    old = await together(memory, "The ship sails in May.")
    new = await memory.observe("The ship sails in June.", **MIA, group_id="crew")
    await memory.observations.supersede(old.id, new.id, **MIA)
    chosen = Selection(user_id="mia", observation_id=new.id, replaced=True)
    receipt = await memory.forget(chosen, agent_id="ada")
    assert (receipt.observations, receipt.standing) == ((new.id,), (old.id,))
    assert await texts(memory, **BO) == ["The ship sails in May."]


@pytest.mark.parametrize("policy", ["hide", "erase"])
async def test_the_tool_forgets_what_was_corrected_as_well(memory: Memory, policy: Any) -> None:
    lyon, oslo, bergen = await moved_twice(memory)
    bound = MemoryTools(memory, **MIA, policy=Policy(forget=policy))
    shown = await bound.call("forget", {"observation_ids": [bergen.id]})
    assert {one["id"] for one in shown.data["shown"][0]["with_it"]} == {lyon.id, oslo.id}
    assert (await bound.call("forget", {"observation_ids": [bergen.id], "confirmed": True})).data["forgotten"]
    assert await texts(memory) == []
    assert "lives" not in str(await memory.context(**MIA, message="Where does Mia live?"))


async def test_the_tool_says_what_others_words_make_true_again(memory: Memory) -> None:
    old = await together(memory, "The ship sails in May.")
    new = await memory.observe("The ship sails in June.", **MIA, group_id="crew")
    await memory.observations.supersede(old.id, new.id, **MIA)
    shown = await MemoryTools(memory, **MIA).call("forget", {"observation_ids": [new.id]})
    assert shown.data["shown"][0]["true_again"][0]["id"] == old.id
    assert f"taken to be true again: {old.id}" in shown.text


async def test_a_user_narrows_to_what_they_alone_have_said(memory: Memory) -> None:
    both = await together(memory, "The ship sails in May.")
    alone = await memory.observe("The ship sails with Mia.", **MIA, group_id="crew")
    with pytest.raises(NotFoundError):
        await memory.forget(Selection(user_id="mia", observation_id=both.id), agent_id="ada")
    with pytest.raises(NotFoundError):
        await memory.observations.quarantine(Selection(user_id="mia", observation_id=both.id), agent_id="ada")
    receipt = await memory.forget(Selection(user_id="mia", query="ship"), agent_id="ada", dry_run=True)
    assert receipt.observations == (alone.id,)
    assert [(one.observation, one.reason, one.users) for one in receipt.kept] == [(both.id, "another", ("bo",))]
    done = await memory.observations.quarantine(Selection(user_id="mia", query="ship"), agent_id="ada")
    assert done.observations == (alone.id,)
    assert await texts(memory, **BO) == ["The ship sails in May."]


async def test_two_ids_of_one_person_are_no_two_people(memory: Memory) -> None:
    both = await together(memory, "The ship sails in May.")
    await memory.people.merge(user_id="bo", into_user_id="mia", agent_id="ada")
    receipt = await memory.forget(Selection(user_id="mia", observation_id=both.id), agent_id="ada")
    assert receipt.observations == (both.id,)


def test_replaced_goes_with_observations() -> None:
    with pytest.raises(InputError, match="replaced"):
        Selection(user_id="mia", replaced=True)
