"""Propagation and concurrent events: what others said too, holds, duplicates, and races over who supports a claim."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.db.roles import Roles
from memory_sql.domain.selection import Selection
from memory_sql.memory import Memory
from tests.conftest import as_login
from tests.database import rows
from tests.fakes import Parrot
from tests.integration.test_propagation import (
    ADA,
    ASYNC,
    DEADLINE,
    Clock,
    belong,
    known,
    learn,
    learn_in_group,
    propagate,
    shown,
    tell,
    told,
)
from tests.sizes import few_in_every_run

LIKE_IT = "The team prefers asynchronous communication to meetings."
SAME = "The team prefers asynchronous communication."


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot, clock: Clock) -> AsyncIterator[Memory]:
    async with Memory(database_url, parrot, Settings(llm="offline"), clock=clock) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


# What others said too


@pytest.mark.slow
@pytest.mark.parametrize("how", ["private", "forgotten", "left"])
async def test_what_a_member_said_in_the_group_too_stays_theirs(memory: Memory, how: str) -> None:
    await belong(memory, "eden", "gene", "mia", "tim")
    own = await learn(memory, "gene", DEADLINE)
    await propagate(memory, own)
    await memory.observe(DEADLINE, **ADA, user_id="mia", group_id="eden")
    assert await known(memory, "g:eden") == [DEADLINE]
    if how == "private":
        await memory.observations.mark(own.id, **ADA, user_id="gene", private=True)
    elif how == "forgotten":
        await memory.forget(Selection(user_id="gene"), **ADA)
    else:
        await memory.groups.remove_member("eden", "gene", **ADA)
    assert await known(memory, "g:eden") == [DEADLINE]
    if how != "left":  # what he knows himself, who left, is still a source
        await memory.forget(Selection(user_id="mia"), **ADA)
        assert await known(memory, "g:eden") == []


@pytest.mark.slow
async def test_what_was_known_from_somebody_who_is_forgotten_is_judged_anew(memory: Memory) -> None:
    """Gene said it as well: his claim was only not needed while Mia's stood there."""
    await belong(memory, "eden", "gene", "mia", "tim")
    await learn_in_group(memory, "eden", "mia", DEADLINE)
    own = await learn(memory, "gene", DEADLINE)
    assert told((await propagate(memory, own)).judged) == [("eden", "propagated", "known")]
    await memory.forget(Selection(user_id="mia"), **ADA)
    assert await known(memory, "g:eden") == []
    await memory.run_due()
    assert await known(memory, "g:eden") == [DEADLINE]


@pytest.mark.slow
async def test_what_gave_way_to_what_is_taken_back_stands_again(memory: Memory) -> None:
    await belong(memory, "eden", "gene", "mia")
    other = await learn_in_group(memory, "eden", "mia", "The project deadline is 1 May 2026.")
    own = await learn(memory, "gene", DEADLINE)
    result = await propagate(memory, own)
    made = result.judged[0].observation
    assert made is not None
    await memory.observations.supersede(other.id, made, **ADA, user_id="mia")
    await memory.observations.mark(own.id, **ADA, user_id="gene", private=True)
    assert await known(memory, "g:eden") == [other.content]


@pytest.mark.slow
async def test_application_that_may_not_delete_takes_it_back(
    walled_database: str, roles: Roles, parrot: Parrot, clock: Clock
) -> None:
    """What stays for the sake of another loses its source, and what stands on that one alone goes."""
    async with Memory(as_login(walled_database, roles), parrot, Settings(llm="offline"), clock=clock) as memory:
        await belong(memory, "eden", "gene", "mia")
        one = other = ""
        for user in ("gene", "mia"):
            own = await memory.observe(DEADLINE, **ADA, user_id=user)
            await memory.scopes.consolidate(**ADA, scope_id=own.scope.id)
            assert (await propagate(memory, own)).propagated
            one, other = other, own.id
        assert (await memory.observations.mark(one, **ADA, user_id="gene", private=True)).retracted == ()
        assert len((await memory.observations.mark(other, **ADA, user_id="mia", private=True)).retracted) == 1


# Nothing doubled


@pytest.mark.slow
async def test_two_groups_at_once_tell_everybody_once(memory: Memory, parrot: Parrot) -> None:
    await belong(memory, "eden", "gene", "mia")
    await belong(memory, "atlas", "jo", "tim")
    await learn_in_group(memory, "eden", "gene", ASYNC)
    eden = await learn_in_group(memory, "eden", "mia", SAME)
    await learn_in_group(memory, "atlas", "tim", "The team prefers asynchronous communication over long meetings.")
    atlas = await learn_in_group(memory, "atlas", "jo", LIKE_IT)

    async def meanwhile() -> None:
        await propagate(memory, eden)

    parrot.meanwhile = meanwhile
    await propagate(memory, atlas)
    assert len(await known(memory, "c")) == 1


async def test_two_claims_of_a_group_that_say_the_same_tell_everybody_once(memory: Memory) -> None:
    await belong(memory, "eden", "gene", "mia")
    await belong(memory, "atlas", "jo", "tim")
    await learn_in_group(memory, "atlas", "jo", ASYNC)
    await learn_in_group(memory, "atlas", "tim", LIKE_IT)
    await memory.observe(ASYNC, **ADA, user_id="gene", group_id="eden")
    eden = await learn_in_group(memory, "eden", "mia", SAME)
    await propagate(memory, eden)
    assert len(await known(memory, "c")) == 1


# Who stands behind it


async def in_flight(memory: Memory, change: Any, scope_id: str) -> None:
    """The change is made but not committed while the propagation is applied; both then end."""
    async with memory.database.transaction() as unit:
        await change(unit)
        running = asyncio.create_task(memory.scopes.propagate(**ADA, scope_id=scope_id))
        await asyncio.wait([running], timeout=1.5)
    await asyncio.gather(running, return_exceptions=True)


@pytest.mark.slow
@pytest.mark.parametrize("how", few_in_every_run(["private", "forgotten", "quarantined"], ["forgotten"]))
async def test_three_people_stand_behind_it_whoever_goes_meanwhile(memory: Memory, how: str) -> None:
    """Gene's word behind the group's claim goes in a transaction that ends after it was counted."""
    await belong(memory, "eden", "gene", "mia")
    await belong(memory, "atlas", "jo", "tim")
    own = await learn(memory, "gene", ASYNC)
    await propagate(memory, own)
    result = await propagate(memory, await learn(memory, "mia", ASYNC))
    assert result.propagated
    await learn_in_group(memory, "atlas", "jo", LIKE_IT)
    await tell(memory)
    scope_id = result.judged[0].target_scope_id
    assert scope_id is not None

    async def change(unit: Any) -> None:
        if how == "private":
            await memory.observations.mark(own.id, **ADA, user_id="gene", session=unit, private=True)
        elif how == "forgotten":
            await memory.forget(Selection(user_id="gene"), **ADA, wait=False, session=unit)
        else:
            await memory.observations.quarantine(own.id, **ADA, user_id="gene", session=unit)

    await in_flight(memory, change, scope_id)
    assert await known(memory, "c") == []


async def test_set_aside_word_stands_behind_nothing(memory: Memory) -> None:
    await belong(memory, "eden", "gene", "mia")
    await belong(memory, "atlas", "jo", "tim")
    own = await learn(memory, "gene", ASYNC)
    await propagate(memory, own)
    result = await propagate(memory, await learn(memory, "mia", ASYNC))
    await learn_in_group(memory, "atlas", "jo", LIKE_IT)
    await tell(memory)
    await memory.observations.quarantine(own.id, **ADA, user_id="gene")
    await tell(memory)
    scope_id = result.judged[0].target_scope_id
    assert scope_id is not None
    await memory.scopes.propagate(**ADA, scope_id=scope_id)
    assert await known(memory, "c") == []


# Holds


async def test_what_a_hold_kept_of_a_forgotten_user_goes_once_it_is_released(memory: Memory) -> None:
    await belong(memory, "eden", "gene", "mia")
    own = await learn(memory, "gene", DEADLINE)
    made = (await propagate(memory, own)).judged[0].observation
    hold = await memory.holds.place(**ADA, observation_id=made, actor="desk")
    receipt = await memory.forget(Selection(user_id="gene"), **ADA)
    assert receipt.held["observations"] == 2  # what it was made of is held with it
    assert await known(memory, "g:eden") == []
    assert list(await memory.admin.verify()) == []
    await memory.holds.release(hold.hold_id, **ADA, actor="desk")
    assert await rows(memory, "SELECT 1 FROM memory.observations") == []


# Who it is about


async def test_display_name_of_another_member_doesnt_leave(memory: Memory, parrot: Parrot) -> None:
    """A host's ids say nothing: what people are called stands in their own scopes."""
    await belong(memory, "eden", "u1", "u2")
    await memory.observe("The lamp is green.", **ADA, user_id="u2")
    await rows(memory, "UPDATE memory.scopes SET display_name = 'Tarnovik' WHERE owner = 'u:u2'")
    result = await propagate(memory, await learn(memory, "u1", "The billing service is owned by Tarnovik."))
    assert await known(memory, "g:eden") == [], result.judged


@pytest.mark.slow
async def test_unusable_answer_about_the_first_claim_for_everybody_isnt_asked_for_ever(
    memory: Memory, parrot: Parrot, clock: Clock
) -> None:
    """What can't be judged is refused, also where nobody has needed the collective scope before."""
    await belong(memory, "eden", "gene", "mia")
    await belong(memory, "atlas", "jo", "tim")
    await learn_in_group(memory, "atlas", "jo", ASYNC)
    await learn_in_group(memory, "atlas", "tim", LIKE_IT)
    await learn_in_group(memory, "eden", "gene", ASYNC)
    parrot.promote = lambda task: "no idea"
    for _ in range(60):
        await memory.run_due()
        clock.now += timedelta(hours=6)
    asked = len(shown(parrot))
    for _ in range(4):
        await memory.run_due()
        clock.now += timedelta(hours=6)
    assert len(shown(parrot)) == asked
