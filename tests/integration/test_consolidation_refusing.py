"""What happens to a text that fails the checks, and to the observations it was made from."""

import json
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.domain.results import RunDueResult
from memory_sql.errors import GuardError
from memory_sql.memory import Memory
from tests.database import TOLD, rows
from tests.fakes import Scripted

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
OLD = " ".join(f"Mia looks after garden number {n} near the harbour." for n in range(1, 31))


@pytest.fixture
def settings() -> Settings:
    return Settings(llm="offline", consolidation_threshold=1)


async def observed(memory: Memory, text: str) -> str:
    return (await memory.observe(text, **MIA)).scope.id


async def with_text(memory: Memory, llm: Scripted, text: str = OLD) -> str:
    scope = await observed(memory, text)
    llm.then(text)
    assert (await memory.run_due()).consolidated[0].content == text
    return scope


async def pending(memory: Memory) -> list[str]:
    return [o.content for o in await memory.observations.list(**MIA) if o.pending]


async def test_model_is_told_why_and_asked_once_more(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, "The rent is 1,980 euros.")
    llm.then("The rent is 2,180 euros.", "The rent is 1980 euros.")
    result = await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert result.content == "The rent is 1980 euros."
    assert "figures or links that stand in nothing" in llm.requests[1].prompt
    assert "refused" not in llm.requests[0].prompt
    assert await rows(memory, "SELECT input_tokens, calls FROM memory.runs") == [(200, 2)]


async def test_model_may_say_that_the_text_tells_it_already(memory: Memory, llm: Scripted) -> None:
    """In words that share too few with it. Asked why it tells nothing new, it learns how to say so."""
    text = f"{OLD} Tomato focaccia has replaced the spelt loaf."
    scope = await with_text(memory, llm, text)
    said = "From June on Tansy Lane Bakehouse drops the spelt loaf, of which about four a day were binned, and sells tomato"
    await observed(memory, f"{said} focaccia in its place; all three partners ticked it on the sheet by the oven.")
    llm.then(text, json.dumps({"text": text, "left_out": [{"what": "n1", "why": "repeated"}]}))
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=scope)).content == text
    assert "as repeated each that it tells in other words" in llm.requests[-1].prompt
    assert await pending(memory) == []


@pytest.mark.slow
async def test_refused_text_leaves_everything_pending_until_something_new_comes(memory: Memory, llm: Scripted) -> None:
    """However often: no observation is set aside, the batch isn't halved, nobody asks the model for nothing."""
    await with_text(memory, llm)
    await observed(memory, "Mia sold her boat.")
    for n in range(2, 6):
        llm.then("Mia sold her boat.", "Mia sold her boat.")
        assert "where the old one has" in next(iter((await memory.run_due()).failed.values()))
        assert await memory.run_due() == RunDueResult()
        later = "due_at > now() + interval '23 hours'"
        told = f"SELECT content, suspects, errors, {later} FROM {TOLD}"  # noqa: S608
        assert await rows(memory, told) == [(OLD, 0, 0, True)]
        assert list(await memory.admin.verify()) == []
        await observed(memory, f"Mia bought tree number {n}.")
    assert len(await pending(memory)) == 5
    assert "Mia sold her boat." in (await memory.context(**MIA)).xml
    llm.then(f"{OLD} She sold her boat and bought trees 2, 3, 4 and 5.")
    assert (await memory.run_due()).consolidated[0].absorbed == 5
    assert list(await memory.admin.verify()) == []


async def test_person_may_ask_again_at_once(memory: Memory, llm: Scripted) -> None:
    scope = await with_text(memory, llm)
    await observed(memory, "Mia sold her boat.")
    llm.then("Short.", "Short.")
    assert (await memory.run_due()).failed
    llm.then("Short.", "Short.")
    with pytest.raises(GuardError):
        await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    llm.then(f"{OLD} She sold her boat.")
    assert (await memory.scopes.consolidate(agent_id="ada", scope_id=scope)).absorbed == 1


async def test_text_that_was_taken_away_is_not_asked_for_for_ever(memory: Memory, llm: Scripted) -> None:
    """What a forgetting leaves is due at once, but not again after a refusal."""
    scope = await observed(memory, "Mia keeps bees.")
    await observed(memory, "The rent is 1,980 euros.")
    llm.then("Mia keeps bees. The rent is 1,980 euros.")
    await memory.run_due()
    await memory.forget(f"o{scope[1:]}-1", agent_id="ada", wait=False)
    llm.then("The rent is 5 euros.", "The rent is 5 euros.")
    assert (await memory.run_due()).failed
    assert await memory.run_due() == RunDueResult()
    assert await pending(memory) == ["The rent is 1,980 euros."]
    assert list(await memory.admin.verify()) == []


async def test_lower_limit_on_words_is_met_by_the_next_text(memory: Memory, llm: Scripted) -> None:
    """It was refused for ever, and what was new was set aside one by one."""
    await with_text(memory, llm)
    await memory.configure(agent_id="ada", consolidation_max_words=60)
    await observed(memory, "Mia sold her boat.")
    text = "Mia looks after gardens 1 to 30 near the harbour. She sold her boat. " + "She likes the harbour. " * 4
    llm.then(text)
    assert (await memory.run_due()).consolidated[0].content == text.strip()


async def test_what_is_accounted_for_may_go(memory: Memory, llm: Scripted) -> None:
    await with_text(memory, llm)
    await observed(memory, "Mia gave up all the gardens near the harbour.")
    left_out = [{"what": f"s{n}", "why": "overtaken", "by": "n1"} for n in range(1, 31)]
    llm.then(json.dumps({"text": "Mia gave up the gardens near the harbour.", "left_out": left_out}))
    assert (await memory.run_due()).consolidated[0].content == "Mia gave up the gardens near the harbour."


async def test_secret_in_a_text_is_masked(memory: Memory, llm: Scripted) -> None:
    scope = await observed(memory, "Mia has changed it.")
    llm.then("Mia's password: hunter2hunter")
    result = await memory.scopes.consolidate(agent_id="ada", scope_id=scope)
    assert result.content == "Mia's password: [secret: password]"
