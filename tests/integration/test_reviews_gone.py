"""What waits for a person, and what became of it since: it isn't shown, counted, or accepted as if all were well."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.observations import Observation
from memory_sql.domain.results import Review
from memory_sql.domain.selection import Selection
from memory_sql.errors import GuardError, NotFoundError, StaleError
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Parrot, Scripted

ADA: dict[str, Any] = {"agent_id": "ada"}
GENE: dict[str, Any] = {**ADA, "user_id": "gene"}
DEADLINE = "The project deadline is 24 April 2026."

Change = Callable[[Memory, Observation], Awaitable[object]]


@pytest.fixture
async def memory(database_url: str) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), Settings(llm="offline", sharing="review")) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def held(memory: Memory) -> tuple[Observation, Review]:
    """What Gene said waits for a person who lets the group know it."""
    for user in ("gene", "mia"):
        await memory.add([message("Hi.", n=1)], **ADA, user_id=user, conversation_id=user, group_ids=["eden"])
    said = await memory.observe(DEADLINE, **GENE)
    await memory.scopes.consolidate(**ADA, scope_id=said.scope.id)
    await memory.scopes.propagate(**ADA, scope_id=said.scope.id)
    (review,) = await memory.work.reviews(**ADA)
    assert (review.says, await counted(memory)) == (DEADLINE, [1, 1, 1])
    return said, review


async def counted(memory: Memory) -> list[int]:
    ours, everybodys = await memory.work.backlog(**ADA), await memory.work.backlog()
    return [ours.held, everybodys.held, (await memory.admin.stats(**ADA)).held]


async def updated(memory: Memory, said: Observation) -> None:
    await memory.observations.update(said.id, **GENE, text="The project deadline is 1 May 2026.")


async def superseded(memory: Memory, said: Observation) -> None:
    newer = await memory.observe("The project has no deadline.", **GENE)
    await memory.observations.supersede(said.id, newer.id, **GENE)


async def quarantined(memory: Memory, said: Observation) -> None:
    await memory.observations.quarantine(said.id, **GENE)


async def disputed(memory: Memory, said: Observation) -> None:
    await memory.observations.dispute(said.id, **GENE)


async def private(memory: Memory, said: Observation) -> None:
    await memory.observations.mark(said.id, **GENE, private=True)


async def sensitive(memory: Memory, said: Observation) -> None:
    await memory.observations.mark(said.id, **GENE, sensitivity="sensitive")


async def withdrawn(memory: Memory, said: Observation) -> None:
    await memory.holds.place(**GENE, reason="Case 7")
    await memory.forget(said.id, **ADA)


async def forgotten(memory: Memory, said: Observation) -> None:
    await memory.forget(Selection(user_id="gene"), **ADA)


async def left(memory: Memory, said: Observation) -> None:
    await memory.groups.remove_member("eden", **ADA, user_id="gene")


async def left_alone(memory: Memory, said: Observation) -> None:
    await memory.groups.remove_member("eden", **ADA, user_id="mia")


async def excluded(memory: Memory, said: Observation) -> None:
    await memory.configure(**ADA, propagation_excluded_users=["gene"])


async def unshared(memory: Memory, said: Observation) -> None:
    await memory.configure(**ADA, sharing="off")


async def unshared_by_the_group(memory: Memory, said: Observation) -> None:
    await memory.groups.share("eden", "off", **ADA)


CHANGES: dict[Change, str] = {
    updated: "its observation is superseded",
    superseded: "its observation is superseded",
    quarantined: "its observation is quarantined",
    disputed: "its observation is disputed",
    private: "its observation was marked private",
    sensitive: "its observation is sensitive",
    left: "its scope no longer shares with s",
    left_alone: "its scope no longer shares with s",
    excluded: "its observation may no longer be shared",
    unshared: "sharing with s",
    unshared_by_the_group: "sharing with s",
}


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
async def test_claim_that_may_not_be_shared_any_more_is_not_shown_and_not_accepted(
    memory: Memory, change: Change
) -> None:
    said, review = await held(memory)
    await change(memory, said)
    assert (list(await memory.work.reviews(**ADA)), await counted(memory)) == ([], [0, 0, 0])
    with pytest.raises(StaleError, match=CHANGES[change]) as caught:
        await memory.work.decide(review.id, **ADA, accept=True)
    assert DEADLINE not in str(caught.value)
    assert await rows(memory, "SELECT outcome FROM memory.judged") == [("held",)]
    assert await rows(memory, "SELECT count(*) FROM memory.events WHERE kind = 'review'") == [(0,)]


@pytest.mark.parametrize("forget", [forgotten, withdrawn], ids=lambda change: change.__name__)
async def test_claim_that_was_forgotten_is_not_there(memory: Memory, forget: Change) -> None:
    said, review = await held(memory)
    await forget(memory, said)
    assert (list(await memory.work.reviews(**ADA)), await counted(memory)) == ([], [0, 0, 0])
    with pytest.raises(NotFoundError):
        await memory.work.decide(review.id, **ADA, accept=True)


async def test_claim_from_a_conversation_that_was_excluded_is_not_shown(memory: Memory) -> None:
    _, review = await held(memory)
    await rows(memory, "UPDATE memory.observations SET conversation_id = 'gene'")
    await memory.conversations.exclude(**ADA, conversation_id="gene")
    assert (list(await memory.work.reviews(**ADA)), await counted(memory)) == ([], [0, 0, 0])
    with pytest.raises(StaleError, match="may no longer be shared"):
        await memory.work.decide(review.id, **ADA, accept=True)


@pytest.mark.slow
async def test_claim_is_there_again_when_it_may_be_shared_again(memory: Memory) -> None:
    said, review = await held(memory)
    await memory.observations.quarantine(said.id, **GENE)
    await memory.groups.remove_member("eden", **GENE)
    await memory.observations.unquarantine(said.id, **GENE)
    assert list(await memory.work.reviews(**ADA)) == []
    await memory.groups.add_member("eden", **GENE)
    await memory.scopes.consolidate(**ADA, scope_id=said.scope.id)
    assert [one.id for one in await memory.work.reviews(**ADA)] == [review.id]
    await memory.work.decide(review.id, **ADA, accept=True)
    (judged,) = (await memory.scopes.propagate(**ADA, scope_id=said.scope.id)).judged
    assert judged.outcome == "propagated"


async def test_claim_that_may_not_be_shared_any_more_can_be_refused(memory: Memory) -> None:
    said, review = await held(memory)
    await memory.observations.quarantine(said.id, **GENE)
    await memory.work.decide(review.id, **ADA, accept=False)
    await memory.observations.unquarantine(said.id, **GENE)
    await memory.scopes.consolidate(**ADA, scope_id=said.scope.id)
    assert list(await memory.work.reviews(**ADA)) == []
    assert await rows(memory, "SELECT outcome FROM memory.judged") == [("refused",)]


async def test_host_that_is_refused_goes_on_in_its_transaction(memory: Memory) -> None:
    said, review = await held(memory)
    await memory.observations.dispute(said.id, **GENE)
    async with memory.database.transaction() as session:
        with pytest.raises(StaleError):
            await memory.work.decide(review.id, **ADA, accept=True, session=session)
        await memory.observe("Gene is here.", **GENE, session=session)
    assert "Gene is here." in {one.content for one in await memory.observations.list(**GENE)}


@pytest.mark.parametrize("change", [updated, superseded], ids=lambda change: change.__name__)
async def test_text_that_tells_what_was_overtaken_since_is_not_shown(
    database_url: str, llm: Scripted, change: Change
) -> None:
    """It can't be accepted any more."""
    async with Memory(database_url, llm, Settings(llm="offline")) as memory:
        said = await memory.observe(DEADLINE, **GENE)
        llm.then(*["The project deadline is 25 April 2026."] * 2)
        with pytest.raises(GuardError):
            await memory.scopes.consolidate(**ADA, scope_id=said.scope.id)
        (review,) = await memory.work.reviews(**ADA)
        await change(memory, said)
        assert list(await memory.work.reviews(**ADA)) == []
        with pytest.raises(NotFoundError):
            await memory.work.decide(review.id, **ADA, accept=True)
        assert list(await memory.admin.verify()) == []
