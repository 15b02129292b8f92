"""The turns themselves, by an agent of no framework: what an integration does is nothing else."""

from __future__ import annotations

import asyncio
import threading
import uuid
from typing import Any

import pytest
from openai import AsyncOpenAI

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import DatabaseError, InputError
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.turns import MOST_UNSTORED, MOST_UNSTORED_CHARACTERS, Everyone, Said, Turns
from memory_sql.memory import Memory
from memory_sql.tools import Policy
from memory_sql.tools.answers import NOTICE
from tests.integrations.behaviour import AGENT, Behaviour, stored, told_once


class Plain:
    """Keeps no history."""

    def __init__(self, memory: AnyMemory, model_url: str, seconds: float) -> None:
        self._everyone = Everyone(memory, agent_id=AGENT, seconds=seconds)
        self._model = AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)

    async def say(self, text: str, *, user: str = "mia", conversation: str = "s1", turn: str | None = None) -> str:
        turns, key = self._everyone.of(user), turn or uuid.uuid4().hex
        tools: Any = [
            {
                "type": "function",
                "function": {"name": one.name, "description": one.description, "parameters": one.schema},
            }
            for one in self._everyone.tools
        ]
        said, answer = [Said("user", text)], None
        messages: list[Any] = [{"role": "user", "content": text}]
        while not answer:
            system: Any = {"role": "system", "content": await turns.before(conversation, text, turn=key)}
            asked = await self._model.chat.completions.create(model="m", messages=[system, *messages], tools=tools)
            told = asked.choices[0].message
            answer = told.content
            calls: list[Any] = list(told.tool_calls or ())
            said.append(Said("assistant", answer or "", calls=[one.function.name for one in calls]))
            messages.append(told.model_dump(exclude_none=True))
            for one in calls:
                result = (await turns.call(conversation, one.function.name, one.function.arguments)).text
                said.append(Said("tool", result, tool=one.function.name))
                messages.append({"role": "tool", "tool_call_id": one.id, "content": result})
        await turns.after(conversation, said, key=key)
        return answer

    async def close(self) -> None:
        await self._model.close()


class TestTurns(Behaviour):
    make = Plain


@pytest.fixture
def turns(memory: Memory) -> Turns:
    return Turns(memory, agent_id=AGENT, user_id="mia", seconds=30.0)


async def test_nothing_of_memorys_own_is_stored(memory: Memory, turns: Turns) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    told = await turns.before("s1", "Which tea?")
    assert "green tea" in told
    said = [
        Said("system", "You are kind."),
        Said("developer", "Be brief."),
        Said("user", f"{told}\nWhich tea?"),
        Said("assistant", "", calls=["recall"]),
        Said("tool", "o1-1 Mia likes green tea.", tool="recall"),
        Said("assistant", None, calls=["recall", "weather"]),
        Said("tool", "Rain.", tool="weather"),
        Said("tool", f"{NOTICE}\no1-1 Mia likes green tea.", tool="a server of mine"),
        Said("assistant", "Green tea, for rain."),
    ]
    assert await turns.after("s1", said, key="r1")
    assert await stored(memory) == [
        ("user", "Which tea?"),
        ("assistant", "[used tools: weather]"),
        ("tool", "Rain."),
        ("assistant", "Green tea, for rain."),
    ]


async def test_a_turn_is_stored_once_under_its_key_also_in_parts(memory: Memory, turns: Turns) -> None:
    said = [Said("user", "Hello."), Said("assistant", "Good morning.")]
    assert await turns.after("s1", said[:1], key="r1")
    assert await turns.after("s1", said, key="r1")
    assert await turns.after("s1", [said[0], Said("assistant", "Good evening.")], key="r1")
    assert await stored(memory) == [("user", "Hello."), ("assistant", "Good morning.")]
    assert await turns.after("s1", said, key="r2")
    assert len(await stored(memory)) == 4


async def test_what_a_user_says_again_before_an_answer_is_said_once(memory: Memory, turns: Turns) -> None:
    said = [Said("user", "Yes.", id="1"), Said("user", "Yes.", id="2"), Said("assistant", "Fine.", id="3")]
    assert await turns.after("s1", [*said, Said("user", "Yes.", id="4")])
    assert await stored(memory) == [("user", "Yes."), ("assistant", "Fine."), ("user", "Yes.")]


async def test_what_was_told_is_taken_out_and_nothing_else(memory: Memory, turns: Turns) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    told = await turns.before("s1", "Which tea?")
    parts = [{"type": "text", "text": told}, {"type": "text", "text": "Which tea?"}]
    assert await turns.after("s1", [Said("user", parts), Said("assistant", "  - green\n")])
    assert await stored(memory) == [("user", "Which tea?"), ("assistant", "  - green\n")]


async def test_what_cannot_be_read_fails_no_turn(turns: Turns, caplog: pytest.LogCaptureFixture) -> None:
    with told_once(caplog):
        assert not await turns.after("s1", (Said("user", str(1 // n)) for n in (1, 0)))


async def test_a_long_message_that_cannot_wait_is_stored_at_once(memory: Memory, turns: Turns) -> None:
    long = "x" * (MOST_UNSTORED_CHARACTERS + 1)
    assert await turns.after("s1", [Said("user", long, id="1")], is_over=False)
    assert await turns.after("s1", [Said("assistant", "Well.")])
    assert await stored(memory) == [("user", long), ("assistant", "Well.")]


async def test_an_id_that_cannot_be_forgotten_stops_no_later_turn(memory: Memory, turns: Turns) -> None:
    assert not await turns.forget("s1", ["x" * 300])
    assert await turns.after("s1", [Said("user", "Hello.")])
    assert await stored(memory) == [("user", "Hello.")]


@pytest.mark.parametrize(
    "bad", [Said("user", 7), Said("king", "We."), Said("user", "x" * 2_000_000), Said("user", {"a": 1})]
)
async def test_a_message_that_cannot_be_stored_is_left_out_alone(
    memory: Memory, turns: Turns, bad: Said, caplog: pytest.LogCaptureFixture
) -> None:
    with told_once(caplog):
        assert not await turns.after("s1", [Said("user", "Hello."), bad, Said("assistant", "Good morning.")])
    assert await stored(memory) == [("user", "Hello."), ("assistant", "Good morning.")]


async def test_a_secret_that_is_refused_is_left_out_alone(memory: Memory, turns: Turns) -> None:
    await memory.configure(agent_id=AGENT, secrets="refuse")
    said = [Said("user", "Hello."), Said("user", "My key is sk-proj-abcdefghijklmnopqrstuvwx1234567890ABCDEFGH.")]
    assert not await turns.after("s1", said, key="r1")
    assert await stored(memory) == [("user", "Hello.")]


async def test_what_failed_comes_with_the_next_turn_as_much_as_is_kept(
    memory: Memory, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object, **__: object) -> None:
        raise DatabaseError("down")

    with monkeypatch.context() as failing:
        failing.setattr(memory, "add", down)
        for n in range(MOST_UNSTORED + 5):
            assert not await turns.after("s1", [Said("user", f"Turn {n}.")])
        assert not await turns.after("s2", [Said("user", "x" * (MOST_UNSTORED_CHARACTERS + 1))])
    assert await turns.after("s1", [Said("user", "And now?")])
    said = [text for _, text in await stored(memory)]
    assert said == [*(f"Turn {n}." for n in range(5, MOST_UNSTORED + 5)), "And now?"]
    assert await turns.after("s1", [Said("user", "Well?")])
    assert len(await stored(memory)) == MOST_UNSTORED + 2
    assert await turns.after("s2", [])
    assert len(await stored(memory)) == MOST_UNSTORED + 2


async def test_a_turn_that_is_not_over_waits_in_the_process(memory: Memory, turns: Turns) -> None:
    assert await turns.after("s1", [Said("user", "Hello.", id="1"), Said("user", "You?", id="2")], is_over=False)
    assert await stored(memory) == []
    assert await turns.forget("s1", ["1"])
    assert await turns.after("s1", [Said("assistant", "Good morning.")])
    assert await stored(memory) == [("user", "You?"), ("assistant", "Good morning.")]


async def test_what_could_not_be_forgotten_is_with_the_next_turn(
    memory: Memory, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def down(*_: object, **__: object) -> None:
        raise DatabaseError("down")

    await turns.after("s1", [Said("user", "Hello.", id="1")])
    with monkeypatch.context() as failing:
        failing.setattr(memory, "forget", down)
        assert not await turns.forget("s1", ["1"])
    assert await stored(memory) == [("user", "Hello.")]
    assert await turns.after("s1", [Said("user", "Good morning.", id="2")])
    assert await stored(memory) == [("user", "Good morning.")]
    assert await turns.forget("s1")
    assert await turns.after("s1", [Said("user", "Good evening.", id="3")])
    assert await stored(memory) == [("user", "Good evening.")]


async def test_memory_is_asked_once_in_a_turn(memory: Memory, turns: Turns) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    first = await turns.before("s1", "Tea?", turn="t1")
    await memory.observe("Mia likes coffee.", agent_id=AGENT, user_id="mia")
    assert await turns.before("s1", "Tea?", turn="t1") == first
    assert "coffee" in await turns.before("s1", "Tea?", turn="t2")
    assert "coffee" in await turns.before("s2", "Tea?", turn="t1")


async def test_agents_that_ask_at_once_in_a_turn_are_told_the_same(memory: Memory, turns: Turns) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    first, second = await asyncio.gather(*(turns.before("s1", "Tea?", turn="t1") for _ in range(2)))
    assert "green tea" in first
    assert first == second


async def test_a_turn_is_told_what_it_asked_while_another_begins(
    memory: Memory, turns: Turns, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = asyncio.Event()

    async def context(*, message: str, **_: object) -> str:
        if message == "slow":
            await goes_on.wait()
        return message

    monkeypatch.setattr(memory, "context", context)
    slow = asyncio.create_task(turns.before("s1", "slow", turn="t1"))
    await asyncio.sleep(0.01)
    assert "fast" in await turns.before("s1", "fast", turn="t2")
    goes_on.set()
    assert "slow" in await slow
    assert "fast" in await turns.before("s1", "fast", turn="t2")


async def test_a_question_without_a_message_is_in_the_turn_before(memory: Memory, turns: Turns) -> None:
    one = await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    told = await turns.before("s1", "Forget the tea.", turn="t1")
    await turns.call("s1", "forget", {"observation_ids": [one.id]})
    assert await turns.before("s1", None) == told
    asked = {"observation_ids": [one.id], "confirmed": True}
    assert "in a later turn" in (await turns.call("s1", "forget", asked)).text


async def test_nothing_known_is_no_text(turns: Turns) -> None:
    assert await turns.before("s1", "Which tea?") == ""
    assert await turns.before(None, None) == ""


async def test_what_is_taken_back_is_forgotten(memory: Memory, turns: Turns) -> None:
    assert await turns.forget("s1", ["r1:0"])  # nothing of it is there
    await turns.after("s1", [Said("user", "Hello."), Said("assistant", "Good morning.")], key="r1")
    assert await turns.forget("s1", ["r1:0"])
    assert await stored(memory) == []  # with its answer
    assert await turns.forget("s1")


@pytest.mark.parametrize(
    "given",
    [
        {"seconds": 0},
        {"seconds": float("nan")},
        {"seconds": True},
        {"budget_tokens": 3},
        {"agent_id": ""},
        {"user_id": ""},
    ],
)
def test_what_cannot_be_is_refused_at_once(given: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Turns(Memory("postgresql://nobody@127.0.0.1:9/nothing"), **{"agent_id": AGENT, "user_id": "mia", **given})


async def test_ids_that_come_with_a_turn_fail_no_turn(turns: Turns, caplog: pytest.LogCaptureFixture) -> None:
    with told_once(caplog):
        assert await turns.before("", "Which tea?") == ""
    assert not await turns.after("", [Said("user", "Hello.")])


async def test_only_a_sync_memory_blocks(turns: Turns) -> None:
    with pytest.raises(InputError, match="sync"):
        turns.blocking.before("s1", "Which tea?")


async def test_a_sync_memory_serves_any_loop_and_a_thread_with_a_loop(database_url: str) -> None:
    memory = sync.Memory(database_url, settings=Settings(llm="offline"))
    await asyncio.to_thread(memory.open)
    turns = Turns(memory, agent_id=AGENT, user_id="mia")
    await asyncio.to_thread(memory.observe, "Mia likes green tea.", agent_id=AGENT, user_id="mia")
    told = [
        await turns.before("s1", "Which tea?"),
        turns.blocking.before("s1", "Which tea?"),  # as in a notebook
        await asyncio.to_thread(lambda: asyncio.run(turns.before("s1", "Which tea?"))),
        await asyncio.to_thread(turns.blocking.before, "s1", "Which tea?"),
    ]
    assert all("green tea" in text for text in told)
    assert turns.blocking.after("s1", [Said("user", "Hello.")])
    assert "Remembered" in turns.blocking.call("s1", "remember", {"text": "Mia likes coffee."}).text
    await asyncio.to_thread(memory.close)
    assert turns.blocking.before("s1", "Which tea?") == ""
    assert await turns.before("s1", "Which tea?") == ""


async def test_a_host_whose_threads_are_busy_waits_no_longer(database_url: str) -> None:
    memory, over = sync.Memory(database_url, settings=Settings(llm="offline")), threading.Event()
    await asyncio.to_thread(memory.open)
    turns, loop = Turns(memory, agent_id=AGENT, user_id="mia", seconds=5.0), asyncio.get_running_loop()
    busy = [loop.run_in_executor(None, over.wait, 30.0) for _ in range(64)]
    async with asyncio.timeout(10):
        assert await turns.after("s1", [Said("user", "Hello.")])
    over.set()
    await asyncio.gather(*busy)
    await asyncio.to_thread(memory.close)


async def test_the_log_has_a_line_a_minute_that_counts_the_others(
    turns: Turns, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    with told_once(caplog):
        for _ in range(3):
            await turns.before("", "Which tea?")
    monkeypatch.setattr("memory_sql.integrations.failures.LOG_SECONDS", 0.0)
    with told_once(caplog):
        await turns.before("", "Which tea?")
    assert "2 more since" in caplog.text


async def test_work_that_somebody_else_cancels_cancels_no_turn(
    memory: Memory, turns: Turns, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def cancelled(*_: object, **__: object) -> None:
        raise asyncio.CancelledError

    monkeypatch.setattr(memory, "context", cancelled)
    with told_once(caplog):
        assert await turns.before("s1", "Which tea?") == ""


async def test_two_at_once_take_back_what_each_was_told(memory: Memory, turns: Turns) -> None:
    await turns.after("s1", [Said("user", f"Turn {n}.", id=str(n)) for n in range(6)])
    assert all(await asyncio.gather(*(turns.forget("s1", [str(n)]) for n in range(5))))
    assert await stored(memory) == [("user", "Turn 5.")]


async def test_the_log_says_what_is_wrong_with_how_memory_is_used(
    memory: Memory, turns: Turns, memory_nowhere: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    with told_once(caplog):
        assert await Turns(memory_nowhere, agent_id=AGENT, user_id="mia").before("s1", "Which tea?") == ""
    assert "this Memory is not open" in caplog.text
    await turns.before("s1", "Which tea?")
    with told_once(caplog):
        assert await asyncio.to_thread(lambda: asyncio.run(turns.before("s1", "Which tea?"))) == ""
    assert "event loop" in caplog.text


def test_an_everyone_keeps_the_turns_of_a_user(memory_nowhere: Memory) -> None:
    everyone = Everyone(memory_nowhere, agent_id=AGENT, tools=Policy(writes=False, forget="no"))
    assert everyone.of("mia") is everyone.of("mia")
    assert everyone.of("mia") is not everyone.of("mia", ["harbor"])
    assert [one.name for one in everyone.tools] == ["recall", "sources"]
    assert Everyone(memory_nowhere, agent_id=AGENT, tools=None).tools == ()


@pytest.fixture
def memory_nowhere() -> Memory:
    return Memory("postgresql://nobody@127.0.0.1:9/nothing")
