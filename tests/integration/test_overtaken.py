"""What a newer observation overtakes, where the model names words of the text alone; and what a consolidation is shown."""

from datetime import timedelta
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import UnavailableError
from memory_sql.memory import Memory
from tests.factories import MONDAY
from tests.fakes import Meanings, Scripted
from tests.integration.test_consolidation_replacing import answer, consolidated, known, observed, statuses

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
OVERTAKEN = (
    ("Mia lives in Lyon.", "Mia moved to Oslo.", "Lyon", "Oslo"),
    ("Mia works at Bosch.", "Mia started at Siemens on Monday.", "works at Bosch", "works at Siemens"),
    ("Mia drives a Volvo.", "Mia bought a cargo bike and sold her car.", "drives a Volvo", "rides a cargo bike"),
    ("The weekly call is on Tuesdays.", "The team meets on Thursdays from December on.", "Tuesdays", "Thursdays"),
    ("Mia wohnt in Lyon.", "Mia ist nach Oslo gezogen.", "wohnt in Lyon", "wohnt in Oslo"),
    ("米娅住在里昂。", "米娅搬到奥斯陆了。", "住在里昂", "住在奥斯陆"),
)


@pytest.mark.parametrize(("older", "newer", "was", "now"), OVERTAKEN)
async def test_words_of_the_text_overtake_the_observation_that_said_them(
    memory: Memory, llm: Scripted, older: str, newer: str, was: str, now: str
) -> None:
    scope = await observed(memory, older)
    await consolidated(memory, llm, scope, answer(older))
    await observed(memory, newer, day=1)
    await consolidated(memory, llm, scope, answer(newer, [("n1", None, was, now)]))
    assert await statuses(memory) == {1: 2}
    assert list(await memory.admin.verify()) == []


@pytest.mark.parametrize("was", ["the", "is", "in", "2026", "Lyon and Graz"])
async def test_words_that_say_nothing_overtake_nothing(memory: Memory, llm: Scripted, was: str) -> None:
    """Nor do those that the text doesn't have."""
    told = "Ana, the sister of Mia, is in Lyon in 2026.", "Mia likes the sea, which is warm in 2026."
    scope, text = await observed(memory, *told), " ".join(told)
    await consolidated(memory, llm, scope, answer(text))
    await observed(memory, "Mia moved to Oslo.", day=1)
    await consolidated(memory, llm, scope, answer(f"{text} Mia lives in Oslo.", [("n1", None, was, "Oslo")]))
    assert await memory.work.reviews(agent_id="ada") == []
    assert await statuses(memory) == {}


async def test_a_sisters_home_stays(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, "Mia lives in Lyon.", "Ana, a sister of Mia, lives in Lyon too.")
    text = "Mia lives in Lyon. So does her sister Ana."
    await consolidated(memory, llm, scope, answer(text))
    await observed(memory, "Mia moved to Oslo.", day=1)
    await consolidated(
        memory, llm, scope, answer("Mia lives in Oslo. Her sister Ana lives in Lyon.", [("n1", None, "Lyon", "Oslo")])
    )
    assert await statuses(memory) == {1: 3}


async def test_another_authors_words_wait_for_a_person(memory: Memory, llm: Scripted) -> None:
    crew: dict[str, Any] = {"agent_id": "ada", "group_id": "crew"}
    first = await memory.observe("The call is on Tuesdays.", user_id="mia", observed_at=MONDAY, **crew)
    scope = first.scope.key
    await consolidated(memory, llm, scope, answer("The call is on Tuesdays."))
    await memory.observe("The call is on Thursdays.", user_id="jon", observed_at=MONDAY + timedelta(days=1), **crew)
    await consolidated(memory, llm, scope, answer("The call is on Thursdays.", [("n1", None, "Tuesdays", "Thursdays")]))
    assert await statuses(memory) == {}
    assert len(await memory.work.reviews(agent_id="ada")) == 1
    assert list(await memory.admin.verify()) == []


async def test_what_is_near_in_meaning_is_shown_beside_what_is_new(database_url: str, llm: Scripted) -> None:
    """Without a word in common; what was stored only now has its vector before it is read."""
    model = Meanings()
    async with Memory(database_url, llm, Settings(llm="offline"), embeddings=model) as memory:
        scope = await observed(memory, "Mia owns a sloop.", "Mia drinks tea.")
        await consolidated(memory, llm, scope, answer("Mia owns a sloop. Mia drinks tea."))
        await observed(memory, "The ferry was sold.", day=1)
        await consolidated(memory, llm, scope, answer("Mia drinks tea.", [("n1", "k1", "owns a sloop", "sold")]))
        assert known(llm.requests[1])[0] == "Mia owns a sloop."
        assert await statuses(memory) == {1: 3}


async def test_a_model_of_vectors_that_fails_stops_no_consolidation(database_url: str, llm: Scripted) -> None:
    model = Meanings()
    model.failing = UnavailableError("timeout", "no answer")
    async with Memory(database_url, llm, Settings(llm="offline"), embeddings=model) as memory:
        scope = await observed(memory, "Mia owns a sloop.")
        assert (await consolidated(memory, llm, scope, answer("Mia owns a sloop."))).version == 1
