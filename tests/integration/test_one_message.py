"""One message that a model doesn't take costs itself, not the memory of its conversation."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import LanguageModelError, PromptTooLongError, RefusedError, UnavailableError
from memory_sql.llm import Request
from memory_sql.memory import Memory
from tests.database import rows
from tests.fakes import Scripted
from tests.loopback import turns

HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "s"}
SESSION: dict[str, Any] = {"agent_id": "ada", "conversation_id": "s"}
BAD = "a word that no filter lets through"


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", formation_messages=100)


def saying(*said: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text} for text in said]


def every(request: Request[Any]) -> str:
    """What each turn says, word for word."""
    found = [{"content": turn.text, "sources": [turn.n]} for turn in turns(request.prompt) if turn.is_persons]
    return json.dumps({"individual": found, "collective": []})


class Filtered(Scripted):
    """Refuses a prompt that holds a certain text, and one of more characters of conversation than it can read."""

    def __init__(self, refused: str = BAD, longest: int = 10**9) -> None:
        super().__init__()
        self._refused, self._longest = refused, longest

    async def generate(self, request: Request[Any]) -> Any:
        said = [turn.text for turn in turns(request.prompt)]
        if any(self._refused in text for text in said):
            self.requests.append(request)
            raise RefusedError("no")
        if sum(map(len, said)) > self._longest:
            self.requests.append(request)
            raise PromptTooLongError("too long")
        self.then(every)
        return await super().generate(request)


async def stored(memory: Memory) -> list[str]:
    return sorted(o.content for o in await memory.observations.list(agent_id="ada", user_id="mia"))


UNFORMED = "SELECT unformed_messages, dead_run_id FROM memory.conversations"
FACTS = [f"Fact {n} is about house number {n}." for n in range(1, 13)]


@pytest.mark.parametrize("place", [0, 5, 11])
async def test_refused_message_is_set_aside_and_the_rest_is_formed(
    database_url: str, settings: Settings, place: int, caplog: pytest.LogCaptureFixture
) -> None:
    llm = Filtered()
    async with Memory(database_url, llm, settings) as memory:
        said = [*FACTS[:place], BAD, *FACTS[place:]]
        await memory.add(saying(*said), **HERE)
        with caplog.at_level(logging.WARNING):
            done = await memory.conversations.form(**SESSION)
        assert await stored(memory) == sorted(FACTS)
        assert done.refused == {"messages_set_aside": 1}
        assert f"message {place + 1} of conversation s" in caplog.text
        assert BAD not in caplog.text
        assert len(llm.requests) <= 16
        assert list(await memory.admin.verify()) == []
        assert await rows(memory, UNFORMED) == [(0, None)]


async def test_prompt_that_is_too_long_is_asked_in_parts(database_url: str, settings: Settings) -> None:
    llm = Filtered(longest=120)
    async with Memory(database_url, llm, settings) as memory:
        await memory.add(saying(*FACTS), **HERE)
        await memory.conversations.form(**SESSION)
        assert await stored(memory) == sorted(FACTS)
        assert await rows(memory, "SELECT state, refused FROM memory.runs") == [("succeeded", {})]


async def test_long_message_is_divided_between_sentences(database_url: str, settings: Settings) -> None:
    llm = Filtered(longest=60_000)
    async with Memory(database_url, llm, settings.model_copy(update={"message_max_characters": 200_000})) as memory:
        text = " ".join(f"Paragraph {n} of the long letter." for n in range(5_000))
        await memory.add(saying("I like tea.", text), **HERE)
        await memory.conversations.form(**SESSION)
        said = [turn for request in llm.requests for turn in turns(request.prompt)]
        assert len(llm.requests) >= 4
        assert all(len(turn.text) <= settings.formation_window_characters for turn in said)
        assert all(turn.text.endswith(".") for turn in said)
        assert " ".join(turn.text for turn in said[1:]) == text


async def test_model_that_refuses_everything_forms_nothing(database_url: str, settings: Settings) -> None:
    """It may be the account: what was said waits."""
    async with Memory(database_url, Filtered(refused="Fact"), settings) as memory:
        await memory.add(saying(*FACTS), **HERE)
        with pytest.raises(RefusedError):
            await memory.conversations.form(**SESSION)
        assert await rows(memory, UNFORMED) == [(len(FACTS), None)]


async def test_message_that_stands_alone_is_set_aside_after_the_last_attempt(database_url: str) -> None:
    settings = Settings(llm="offline", formation_messages=1, retry_first_seconds=0.001)
    async with Memory(database_url, Filtered(), settings) as memory:
        await memory.add(saying(BAD), **HERE)
        for _ in range(settings.max_errors):
            await rows(memory, "UPDATE memory.conversations SET due_at = now() - interval '1 second'")
            await memory.run_due()
        assert (await memory.work.backlog(agent_id="ada")).dead == 0
        await memory.add(saying("I like tea."), **HERE)
        await memory.conversations.form(**SESSION)
        assert await stored(memory) == ["I like tea."]


async def test_outage_is_no_reason_to_divide(database_url: str, settings: Settings) -> None:
    llm = Scripted()
    llm.then(UnavailableError("timeout", "no answer"))
    async with Memory(database_url, llm, settings) as memory:
        await memory.add(saying(*FACTS), **HERE)
        with pytest.raises(UnavailableError):
            await memory.conversations.form(**SESSION)
        assert len(llm.requests) == 1


async def test_empty_answer_after_one_of_the_wrong_shape_is_not_taken_for_nothing(
    memory: Memory, llm: Scripted
) -> None:
    """Small models answer so when they are told that their answer was wrong."""
    await memory.add(saying(*FACTS[:4]), **HERE)
    garbled: list[dict[str, Any]] = [{"individual": FACTS[:4]}, {"individual": FACTS[:4], "collective": []}]
    for n, wrong in enumerate(garbled):
        if n:
            await memory.add(saying(*(fact.replace("Fact", "Thing") for fact in FACTS[:4])), **HERE)
        empty: dict[str, Any] = {"individual": []} | ({} if n else {"collective": []})
        llm.then(json.dumps(wrong), json.dumps(empty), every, every)
        done = await memory.conversations.form(**SESSION)
        assert len(done.observations) == 4
    assert len(llm.requests) == 8


async def test_empty_first_answer_is_nothing_to_keep(memory: Memory, llm: Scripted) -> None:
    await memory.add(saying(*FACTS[:4]), **HERE)
    llm.then(json.dumps({"individual": [], "collective": []}))
    assert (await memory.conversations.form(**SESSION)).observations == ()


async def test_scope_that_an_answer_about_a_half_leaves_out_is_asked_about_by_itself(
    memory: Memory, llm: Scripted
) -> None:
    await memory.add(saying(*FACTS[:2]), **HERE)
    only, other = json.dumps({"collective": []}), json.dumps({"individual": [], "collective": []})
    llm.then(PromptTooLongError("no"), only, every, other)
    done = await memory.conversations.form(**SESSION)
    assert [one.content for one in done.observations] == FACTS[:1]


async def test_part_that_cannot_be_used_is_asked_for_again_and_not_the_whole(memory: Memory, llm: Scripted) -> None:
    await memory.configure(agent_id="ada", formation_window_characters=1000)
    await memory.add(saying(" ".join(f"Paragraph {n} of the long letter." for n in range(80))), **HERE)
    llm.then("nonsense", "nonsense", "nonsense", "nonsense")
    with pytest.raises(LanguageModelError):
        await memory.conversations.form(**SESSION)
    shown = [sum(len(turn.text) for turn in turns(request.prompt)) for request in llm.requests]
    assert max(shown) < 1500
