"""What a group was told because two of its members had spoken there, who turn out to be one person."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.people import Merged
from memory_sql.domain.selection import Selection
from memory_sql.errors import NotFoundError, StaleError
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Parrot
from tests.integration.test_propagation import ADA, ASYNC, belong, known, learn_in_group, tell
from tests.integration.test_proposals import FREEZE, form, say

MERGE: dict[str, Any] = {**ADA, "user_id": "gene2", "into_user_id": "gene"}
TWO = (("gene", "We freeze on 3 April."), ("gene2", "Good."))
SAID = f"Gene says: {FREEZE}"


@pytest.fixture
def parrot() -> Parrot:
    return Parrot()


@pytest.fixture
async def memory(database_url: str, parrot: Parrot) -> AsyncIterator[Memory]:
    async with Memory(database_url, parrot, Settings(llm="offline", propagation_new_user_days=0)) as opened:
        yield opened
        assert list(await opened.admin.verify()) == []


async def heard(memory: Memory, parrot: Parrot, *said: tuple[str, str]) -> str:
    """The group has it from a conversation in which two of its three members spoke."""
    await belong(memory, "eden", "mia")
    await say(memory, "t", *(said or TWO))
    formed = await form(memory, parrot, "t", (SAID, "group", [1]))
    await tell(memory)
    assert await known(memory, "g:eden") == [SAID]
    return str(formed.observations[0].id)


async def waiting(memory: Memory) -> list[str]:
    return [one.id for one in await memory.work.reviews(**ADA)]


async def test_merge_says_what_only_one_person_heard_and_it_waits_for_a_person(memory: Memory, parrot: Parrot) -> None:
    told = await heard(memory, parrot)
    merged = await memory.people.merge(**MERGE)
    assert (type(merged), merged.heard_by_one, merged.retracted) == (Merged, (told,), ())
    (review,) = await memory.work.reviews(**ADA)
    assert (review.kind, review.why, review.says, review.scope_id) == (
        "group",
        "heard_by_one",
        SAID,
        told[:-2].replace("o", "s"),
    )
    assert (await memory.people.merge(**MERGE)).heard_by_one == ()  # nothing is new
    assert await waiting(memory) == [review.id]
    await memory.work.decide(review.id, **ADA, accept=True, actor="desk", reason="All of Eden know it.")
    assert (await waiting(memory), await known(memory, "g:eden")) == ([], [SAID])
    decided = "SELECT actor, detail FROM memory.events WHERE kind = 'review'"
    assert await rows(memory, decided) == [("desk", {"to": "accepted"})]
    with pytest.raises(NotFoundError):
        await memory.work.decide(review.id, **ADA, accept=False)


async def test_refused_it_is_the_groups_no_more(memory: Memory, parrot: Parrot) -> None:
    await heard(memory, parrot)
    await memory.people.merge(**MERGE)
    (review,) = await waiting(memory)
    await memory.work.decide(review, **ADA, accept=False)
    assert (await waiting(memory), await known(memory, "g:eden")) == ([], [])
    assert SAID not in str(await memory.context(**ADA, user_id="mia"))


@pytest.mark.parametrize("hold", [{"user_id": "gene"}, {"conversation_id": "t"}], ids=str)
async def test_refused_while_it_is_held_it_is_the_groups_no_more(
    memory: Memory, parrot: Parrot, hold: dict[str, Any]
) -> None:
    await heard(memory, parrot)
    await memory.people.merge(**MERGE)
    await memory.holds.place(**ADA, **hold)
    (review,) = await waiting(memory)
    await memory.work.decide(review, **ADA, accept=False)
    assert (await waiting(memory), await known(memory, "g:eden")) == ([], [])


@pytest.mark.parametrize("share", ["mia spoke", "the host shares it", "all is shared", "said elsewhere too"])
async def test_what_more_than_one_person_heard_is_not_reported(memory: Memory, parrot: Parrot, share: str) -> None:
    await heard(memory, parrot, *TWO, *([("mia", "Noted.")] if share == "mia spoke" else []))
    if share == "the host shares it":
        await memory.conversations.share(**ADA, conversation_id="t")
    if share == "all is shared":
        await memory.configure(**ADA, shared_conversations=True)
    if share == "said elsewhere too":
        await say(memory, "u", ("mia", "We freeze on 3 April."), ("gene", "Good."))
        await form(memory, parrot, "u", (SAID, "group", [1]))
    assert (await memory.people.merge(**MERGE)).heard_by_one == ()
    assert await waiting(memory) == []


async def test_two_who_are_two_after_all_were_heard_by_two(memory: Memory, parrot: Parrot) -> None:
    told = await heard(memory, parrot)
    await memory.people.merge(**MERGE)
    await memory.people.unmerge(**ADA, user_id="gene2")
    assert await waiting(memory) == []
    assert (await memory.people.merge(**MERGE)).heard_by_one == (told,)
    assert len(await waiting(memory)) == 1


async def test_third_id_of_the_same_person_changes_nothing(memory: Memory, parrot: Parrot) -> None:
    told = await heard(memory, parrot, *TWO, ("gene3", "Yes."))
    assert (await memory.people.merge(**MERGE)).heard_by_one == ()
    merged = await memory.people.merge(**ADA, user_id="gene3", into_user_id="gene2")
    assert merged.heard_by_one == (told,)


@pytest.mark.parametrize("gone", ["quarantined", "forgotten", "person forgotten"])
async def test_what_is_gone_waits_for_nobody(memory: Memory, parrot: Parrot, gone: str) -> None:
    told = await heard(memory, parrot)
    await memory.people.merge(**MERGE)
    if gone == "quarantined":
        await memory.observations.quarantine(told, **ADA, user_id="mia")
    elif gone == "forgotten":
        await memory.forget(told, **ADA)
    else:
        await memory.forget(Selection(user_id="gene"), **ADA)
    assert await waiting(memory) == []


async def test_merge_says_what_it_took_from_everybody(memory: Memory) -> None:
    await belong(memory, "eden", "gene", "gene2")
    await belong(memory, "atlas", "jo", "tim")
    for group, user in (("eden", "gene"), ("eden", "gene2"), ("atlas", "jo")):
        await learn_in_group(memory, group, user, ASYNC)
    await memory.scopes.propagate(**ADA)
    assert await known(memory, "c") == [ASYNC]
    merged = await memory.people.merge(**MERGE)
    assert len(merged.retracted) == 1
    assert await known(memory, "c") == []


async def test_two_who_are_two_by_another_link_were_heard_by_two(memory: Memory, parrot: Parrot) -> None:
    """The merge that found it still stands, but not the one by which it reached the other."""
    told = await heard(memory, parrot, TWO[0], ("gene3", "Yes."))
    assert (await memory.people.merge(**MERGE)).heard_by_one == ()
    merged = await memory.people.merge(**ADA, user_id="gene3", into_user_id="gene2")
    assert merged.heard_by_one == (told,)
    await memory.people.unmerge(**ADA, user_id="gene2")
    assert await waiting(memory) == []
    assert (await memory.people.merge(**MERGE)).heard_by_one == (told,)
    assert len(await waiting(memory)) == 1


HELD = """
    INSERT INTO memory.judged (agent_key, source_scope_id, source_seq, target_scope_id, outcome, reason, judged_at)
    SELECT o.agent_key, o.scope_id, o.seq, s.scope_id, 'held', 'review', now()
    FROM memory.observations o JOIN memory.scopes s USING (agent_key)
    WHERE o.content = :said AND s.owner = 'c'
"""


async def test_what_is_said_of_its_claim_says_nothing_of_the_group(memory: Memory, parrot: Parrot) -> None:
    """A person refused to share it with everybody; the group still has it."""
    told = await heard(memory, parrot)
    await memory.observe("Eden plans in April.", **ADA, collective=True)
    await memory.people.merge(**MERGE)
    (review,) = await waiting(memory)
    everybodys = (await rows(memory, "SELECT scope_id FROM memory.scopes WHERE owner = 'c'"))[0][0]
    await rows(memory, HELD, said=SAID)
    await memory.work.decide(f"{told}>s{everybodys}", **ADA, accept=False)
    assert await waiting(memory) == [review]


@pytest.mark.parametrize("again", [False, True])
async def test_merge_while_the_model_answers_leaves_the_group_nothing_that_only_one_heard(
    memory: Memory, parrot: Parrot, again: bool
) -> None:
    await belong(memory, "eden", "mia")
    await say(memory, "t", *TWO)
    if again:
        await form(memory, parrot, "t", (SAID, "group", [1]))
    parrot.meanwhile = lambda: memory.people.merge(**MERGE)
    parrot.extracted = [(f"{SAID} Again." if again else SAID, "group", [1])]
    with pytest.raises(StaleError):
        await memory.conversations.form(**ADA, conversation_id="t", again=again)
    parrot.extracted = [(SAID, "group", [1])]
    await memory.conversations.form(**ADA, conversation_id="t", again=again)
    await tell(memory)
    assert (await known(memory, "g:eden"), await waiting(memory)) == ([], [])


async def test_unmerging_waits_for_what_is_being_stored(memory: Memory, parrot: Parrot, database_url: str) -> None:
    """Gene has left the group, and speaks there as one with Mia; whoever ends that finds what came of it."""
    await belong(memory, "eden", "mia", "gene", "jon", "lea")
    await memory.groups.remove_member("eden", "gene", **ADA)
    await memory.people.merge(**ADA, user_id="mia", into_user_id="gene")
    await say(memory, "t", ("gene", "We freeze on 3 April."), ("jon", "Good."), ("lea", "Yes."))
    parrot.meanwhile = lambda: memory.people.unmerge(**ADA, user_id="mia")
    with pytest.raises(StaleError):
        await form(memory, parrot, "t", (SAID, "group", [1]))
