"""The end of a message's text by what it asks: under holds, in the journal, and of reviews that wait for its text."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.errors import InputError
from memory_sql.lifecycle import journal
from memory_sql.memory import Memory
from tests.conftest import administer
from tests.database import rows
from tests.factories import MONDAY, Clock
from tests.fakes import Scripted
from tests.integration.test_forgetting import aclosing_of, copy_of, origin, str_url
from tests.integration.test_spoken_requests import ADA, FORGET_TEA, MIA, TEA, asking, form, meaning, say
from tests.sizes import few_in_ci

TEXTS = "SELECT content FROM memory.messages ORDER BY conversation_id, number"
OLD = "Mia lives at 4 Harbour Street."
MORE = "Forget my old address. The bakery opens at 7."
FORGET_OLD = {"kind": "forget", "what": "Mia's old address", "sources": [1]}
TEXT_IDS = {"id": "m1"}


async def asked_for_tea(memory: Memory, llm: Scripted) -> str:
    tea = await memory.observe("Mia prefers green tea.", **MIA)
    await say(memory, TEA)
    llm.then(asking(FORGET_TEA), meaning(tea.content))
    assert (await form(memory)).hidden == (tea.id,)
    return tea.id


async def asked_for_more(memory: Memory, llm: Scripted) -> str:
    """The review of the text of a message that says more."""
    old = await memory.observe(OLD, **MIA, observed_at=MONDAY)
    await memory.add([{"role": "user", "content": MORE, **TEXT_IDS}], **MIA, conversation_id="talk")
    llm.then(asking(FORGET_OLD), meaning(old.content))
    assert (await form(memory)).hidden == (old.id,)
    (review,) = [one for one in await memory.work.reviews(**ADA) if one.why == "says_more"]
    return review.id


async def whys(memory: Memory) -> list[str]:
    return sorted(one.why for one in await memory.work.reviews(**ADA))


async def test_a_text_that_a_hold_kept_ends_with_its_release(memory: Memory, llm: Scripted) -> None:
    hold = await memory.holds.place(**ADA, conversation_id="talk")
    other = await memory.holds.place(**ADA, user_id="mia")
    await asked_for_tea(memory, llm)
    assert await rows(memory, TEXTS) == [(TEA,)]
    assert (await memory.search("green tea", **MIA, messages=10)).messages == ()
    assert await memory.conversations.messages(**MIA) == []
    assert await memory.admin.verify() == []
    await memory.holds.release(hold.hold_id, **ADA)
    assert await rows(memory, TEXTS) == [(TEA,)]
    await memory.holds.release(other.hold_id, **ADA)
    assert await rows(memory, TEXTS) == [(None,)]
    assert await rows(memory, "SELECT content FROM memory.observations") == [("Mia prefers green tea.",)]
    assert await memory.admin.verify() == []


async def test_the_end_of_a_text_is_in_the_journal(database_url: str, llm: Scripted, tmp_path: Path) -> None:
    path = tmp_path / "journal"
    async with Memory(database_url, llm, Settings(llm="offline", forget_journal=path)) as memory:
        await asked_for_tea(memory, llm)
        ((entry, committed),) = journal.read(path).entries
        assert (entry.ended, entry.messages, entry.observations, committed) == ({"talk": (1,)}, {}, (), True)
        assert "tea" not in path.read_text()
        assert await memory.admin.verify() == []


@pytest.mark.slow
@pytest.mark.parametrize("lines", few_in_ci([0, 1, 2], [2]))
async def test_a_restored_dump_ends_the_text_again(
    database_url: str, llm: Scripted, tmp_path: Path, server_url: str, lines: int
) -> None:
    """Killed before, between and after the lines of the journal: whoever opens the memory next writes what is lacking."""
    path, name = tmp_path / "journal", f"ended_{os.getpid()}_{lines}"
    settings = Settings(llm="offline", forget_journal=path)
    async with Memory(database_url, llm, settings) as memory:
        review = await asked_for_more(memory, llm)
        url = await copy_of(memory, server_url, name)
        try:
            await memory.work.decide(review, **ADA, accept=True)
            path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
            async with Memory(str_url(memory), llm, settings):
                assert [done for _, done in journal.read(path).entries] == [True]
            restored = await Memory(url, llm, settings).open(restoring=True)
            async with aclosing_of(restored):
                assert await rows(restored, TEXTS) == [(MORE,)]
                (receipt,) = await restored.admin.restore_check(path, incarnation=await origin(restored, path))
                assert receipt.counts == {"messages": 1}
                assert await rows(restored, TEXTS) == [(None,)]
                assert await whys(restored) == ["asked_to_forget"]
                assert await restored.admin.restore_check(path) == []
                assert await restored.admin.verify() == []
        finally:
            await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.slow
async def test_a_dump_from_before_the_request_hears_it_again(
    database_url: str, llm: Scripted, tmp_path: Path, server_url: str
) -> None:
    path, name = tmp_path / "journal", f"unheard_{os.getpid()}"
    settings = Settings(llm="offline", forget_journal=path)
    async with Memory(database_url, llm, settings) as memory:
        tea = await memory.observe("Mia prefers green tea.", **MIA)
        await say(memory, TEA)
        url = await copy_of(memory, server_url, name)
        try:
            llm.then(asking(FORGET_TEA), meaning(tea.content))
            await form(memory)
            restored = await Memory(url, llm, settings).open(restoring=True)
            async with aclosing_of(restored):
                await restored.admin.restore_check(path, incarnation=await origin(restored, path))
                assert await rows(restored, TEXTS) == [(TEA,)]
                llm.then(asking(FORGET_TEA), meaning(tea.content))
                assert (await form(restored)).hidden == (tea.id,)
                assert await rows(restored, TEXTS) == [(None,)]
                assert await restored.admin.verify() == []
        finally:
            await administer(server_url, f"DROP DATABASE {name} WITH (FORCE)")


@pytest.mark.parametrize("by", ["conversation", "user", "message"])
async def test_a_review_of_a_text_ends_when_that_is_forgotten(memory: Memory, llm: Scripted, by: str) -> None:
    await asked_for_more(memory, llm)
    chosen = {
        "conversation": Selection(conversation_id="talk"),
        "user": Selection(user_id="mia"),
        "message": Selection(conversation_id="talk", message_id="m1"),
    }
    await memory.forget(chosen[by], **ADA)
    assert "says_more" not in await whys(memory)
    assert await memory.admin.verify() == []


async def test_a_review_of_a_text_ends_with_its_retention(timed: Memory, llm: Scripted, clock: Clock) -> None:
    await asked_for_more(timed, llm)
    await timed.configure(**ADA, message_retention_days=10)
    clock.now += timedelta(days=20)
    assert (await timed.work.maintain()).messages == 1
    assert await whys(timed) == ["asked_to_forget"]


async def test_a_review_of_a_text_ends_when_that_is_replaced(memory: Memory, llm: Scripted) -> None:
    await asked_for_more(memory, llm)
    new = {"role": "user", "content": "The bakery opens at 7.", **TEXT_IDS}
    await memory.add([new], **MIA, conversation_id="talk", replace=True)
    assert await whys(memory) == ["asked_to_forget"]
    llm.then(asking(items=[("Mia says that the bakery opens at 7.", "individual")]))
    await form(memory)
    assert await whys(memory) == ["asked_to_forget"]
    assert await rows(memory, TEXTS) == [("The bakery opens at 7.",)]
    assert await memory.admin.verify() == []


async def test_a_text_that_says_no_more_than_is_formed_anew_ends(memory: Memory, llm: Scripted) -> None:
    await asked_for_more(memory, llm)
    llm.then(asking(FORGET_OLD, items=[("The bakery opens at 7.", "individual")]))
    await memory.conversations.form(**ADA, conversation_id="talk", again=True)
    assert await whys(memory) == ["asked_to_forget"]
    assert await rows(memory, TEXTS) == [(None,)]
    assert [one.content for one in await memory.observations.list(**MIA)] == ["The bakery opens at 7."]
    assert await memory.admin.verify() == []


async def test_what_waits_still_waits_once_it_is_formed_anew(memory: Memory, llm: Scripted) -> None:
    before = await asked_for_more(memory, llm)
    await say(memory, TEA, conversation_id="talk")
    llm.then(asking(FORGET_TEA))
    await form(memory)
    llm.then(asking(FORGET_OLD), asking(FORGET_TEA))
    await memory.conversations.form(**ADA, conversation_id="talk", again=True)
    reviews = {one.why: one for one in await memory.work.reviews(**ADA)}
    assert {*reviews} == {"asked_to_forget", "says_more", "not_found"}
    assert reviews["says_more"].id != before
    for why in ("says_more", "not_found"):
        await memory.work.decide(reviews[why].id, **ADA, accept=True)
    assert await rows(memory, TEXTS) == [(None,), (None,)]
    assert await memory.admin.verify() == []


async def test_the_rest_of_a_conversation_is_formed_again(memory: Memory, llm: Scripted) -> None:
    old = await memory.observe(OLD, **MIA, observed_at=MONDAY)
    await say(memory, "I have a dog.", "Forget my old address, my new address is 5 Hill Road.", "I sail.")
    new, dog = "Mia's new address is 5 Hill Road.", "Mia has a dog."
    items = [(dog, "individual", [1]), (new, "individual", [2]), ("Mia sails.", "individual", [3])]
    llm.then(asking({**FORGET_OLD, "sources": [2]}, items=items), meaning(old.content))
    await form(memory)
    assert await rows(memory, TEXTS) == [("I have a dog.",), (None,), ("I sail.",)]
    llm.then(asking(items=[(dog, "individual", [1]), ("Mia likes to sail.", "individual", [2])]))
    formed = await memory.conversations.form(**ADA, conversation_id="talk", again=True)
    assert "address" not in llm.requests[-1].prompt.rpartition("I have a dog.")[2]
    assert [one.content for one in formed.observations] == ["Mia likes to sail."]
    known = {one.content for one in await memory.observations.list(**MIA)}
    assert known == {dog, new, "Mia likes to sail."}
    assert await memory.admin.verify() == []


async def test_what_was_asked_to_be_forgotten_isnt_formed_again(memory: Memory, llm: Scripted) -> None:
    await say(memory, "I prefer green tea.", TEA)
    told = ("Mia prefers green tea.", "individual", [1])
    llm.then(asking({**FORGET_TEA, "sources": [2]}, items=[told]), meaning(told[0]))
    assert len((await form(memory)).hidden) == 1
    llm.then(asking(items=[("Mia likes green tea best.", "individual", [1])]))
    await memory.conversations.form(**ADA, conversation_id="talk", again=True)
    assert await memory.observations.list(**MIA) == []
    (review,) = await memory.work.reviews(**ADA)
    await memory.work.decide(review.id, **ADA, accept=True)
    with pytest.raises(InputError, match=r"1 of its messages.*leave out again"):
        await memory.conversations.form(**ADA, conversation_id="talk", again=True)
    assert await rows(memory, TEXTS) == [(None,), (None,)]
    assert await memory.admin.verify() == []
