"""A message that asks to be remembered, and a model that finds nothing: asked once more by itself, and then it is said."""

from __future__ import annotations

import json
from typing import Any

import pytest

from memory_sql.errors import AnswerError, UnavailableError
from memory_sql.formation.single import Facts
from memory_sql.llm import Request
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from tests.database import rows
from tests.factories import message
from tests.fakes import Scripted, extracted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
HERE: dict[str, Any] = {**MIA, "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
SIGNAL = "Actually, I prefer green tea."


def facts(*said: str) -> str:
    return json.dumps({"facts": said})


async def test_message_with_a_signal_is_asked_about_by_itself(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("Hello!"), message(SIGNAL, n=2), message("Nice weather.", n=3)], **HERE)
    llm.then(extracted(), facts("The user prefers green tea."))
    done = await memory.conversations.form(**SESSION)
    (tea,) = done.observations
    assert tea.content == "The user prefers green tea."
    assert await rows(memory, "SELECT number FROM memory.evidence") == [(2,)]
    whole, single = llm.requests
    assert SIGNAL in single.prompt
    assert "Nice weather" not in single.prompt
    assert len(single.prompt) + len(single.instructions) < (len(whole.prompt) + len(whole.instructions)) / 4
    assert (done.refused, (await memory.work.backlog()).unheard) == ({}, 0)


async def test_what_nothing_is_found_in_is_counted_and_said(memory: Memory, llm: Scripted) -> None:
    await memory.add([message(SIGNAL), message("I never eat fish.", n=2), message("Rain.", n=3)], **HERE)
    llm.then(extracted(), facts(), AnswerError("nonsense"))
    done = await memory.conversations.form(**SESSION)
    assert (done.observations, done.refused) == ((), {"signals_unheard": 2})
    assert (await memory.work.backlog(agent_id="ada")).unheard == 1
    assert (await memory.work.backlog(agent_id="eve")).unheard == 0


async def test_one_call_more_only_where_nothing_was_found(memory: Memory, llm: Scripted) -> None:
    await memory.add([message(SIGNAL), message("The boat lies in Kiel.", n=2)], **HERE)
    llm.then(extracted(("The boat lies in Kiel.", "individual", [2])))
    await memory.conversations.form(**SESSION)
    assert len(llm.requests) == 1


async def test_what_memory_says_already_is_not_asked_about_again(memory: Memory, llm: Scripted) -> None:
    await memory.observe("Mia actually prefers green tea.", **MIA)
    await memory.add([message(SIGNAL)], **HERE)
    llm.then(extracted())
    done = await memory.conversations.form(**SESSION)
    assert (len(llm.requests), done.refused) == (1, {})


async def test_what_has_only_short_words_is_not_taken_for_known(memory: Memory, llm: Scripted) -> None:
    await memory.add([message("From now on use TDD.")], **HERE)
    llm.then(extracted(), facts("The user wants TDD."))
    assert len((await memory.conversations.form(**SESSION)).observations) == 1


async def test_outage_while_it_is_asked_leaves_the_conversation_for_later(memory: Memory, llm: Scripted) -> None:
    await memory.add([message(SIGNAL)], **HERE)
    llm.then(extracted(), UnavailableError("connection", "down"))
    with pytest.raises(UnavailableError):
        await memory.conversations.form(**SESSION)
    assert await rows(memory, "SELECT unformed_messages FROM memory.conversations") == [(1,)]


async def test_invented_fact_is_refused_as_ever(memory: Memory, llm: Scripted) -> None:
    await memory.add([message(SIGNAL)], **HERE)
    llm.then(extracted(), facts("The harbour master collects Swedish stamps.", "The user prefers green tea."))
    done = await memory.conversations.form(**SESSION)
    assert [one.content for one in done.observations] == ["The user prefers green tea."]
    assert done.refused == {"not_said": 1}


async def test_each_person_by_their_own_words(memory: Memory, llm: Scripted) -> None:
    await memory.add([message(SIGNAL, n=1)], **HERE)
    await memory.add([message("I never eat fish.", n=2)], **{**HERE, "user_id": "jonas"})

    def answer(request: Request[Any]) -> str:
        return facts("They never eat fish." if "fish" in request.prompt else "They prefer green tea.")

    llm.then(extracted(), answer, answer)
    done = await memory.conversations.form(**SESSION)
    assert {(one.scope.owner_id, one.content) for one in done.observations} == {
        ("mia", "They prefer green tea."),
        ("jonas", "They never eat fish."),
    }


@pytest.mark.parametrize(
    "said",
    [
        '{"facts": ["Mia drinks tea."]}',
        '["Mia drinks tea."]',
        '{"observations": ["Mia drinks tea."]}',
        '{"facts": [{"fact": "Mia drinks tea."}]}',
        '{"facts": "Mia drinks tea."}',
        '```json\n{"facts": ["Mia drinks tea."]}\n```',
    ],
)
def test_facts_are_read_in_the_forms_in_which_they_come(said: str) -> None:
    assert read(said, Facts).facts == ["Mia drinks tea."]
