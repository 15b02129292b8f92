"""Agents of Pydantic AI, with the real package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import (
    Agent,
    BinaryContent,
    CachePoint,
    DeferredToolRequests,
    DeferredToolResults,
    ModelMessage,
    RunContext,
    TextContent,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import InputError
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.pydantic_ai import MemoryCapability
from memory_sql.memory import Memory
from memory_sql.tools.answers import NOTICE
from tests.integrations.behaviour import AGENT, Behaviour, stored, told_once
from tests.integrations.model import ANSWER, Model, call, model


def capability(memory: AnyMemory, seconds: float = 5.0, **given: Any) -> MemoryCapability:
    return MemoryCapability(memory, agent_id=AGENT, seconds=seconds, **{"user_id": lambda ctx: ctx.deps, **given})


class Chat:
    def __init__(self, memory: AnyMemory, model_url: str, seconds: float, **given: Any) -> None:
        self.client = AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)
        self.model = OpenAIChatModel("gpt-5-mini", provider=OpenAIProvider(openai_client=self.client))
        self.agent: Agent[str | None, Any] = Agent(
            self.model,
            instructions="You are kind.",
            deps_type=str,
            capabilities=[capability(memory, seconds, **given)],
        )
        self.histories: dict[str, list[ModelMessage]] = {}

    async def say(self, text: str, *, user: str = "mia", conversation: str = "s1", turn: str | None = None) -> str:
        history = [one for one in self.histories.get(conversation, []) if turn is None or one.run_id != turn]
        result = await self.agent.run(
            text, deps=user, conversation_id=conversation, run_id=turn, message_history=history
        )
        self.histories[conversation] = result.all_messages()
        return str(result.output)

    async def close(self) -> None:
        await self.client.close()


class TestPydanticAI(Behaviour):
    make = Chat


class Berth(BaseModel):
    number: int


@pytest.fixture
async def llm() -> AsyncIterator[Model]:
    async with model() as served:
        yield served


@pytest.fixture
async def chat(memory: Memory, llm: Model) -> AsyncIterator[Chat]:
    chat = Chat(memory, llm.url, 5.0)
    yield chat
    await chat.close()


async def test_what_memory_has_stands_at_the_end_and_in_no_history(memory: Memory, chat: Chat, llm: Model) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    chat.agent.instructions(lambda ctx: f"You talk to {ctx.deps}.")
    result = await chat.agent.run("Which tea?", deps="mia")
    assert llm.asked[0].instructions.startswith(f"You are kind.\nYou talk to mia.\n{NOTICE}")
    assert b"green tea" not in result.all_messages_json()
    result = await chat.agent.run("Really?", deps="mia", message_history=result.all_messages())
    assert llm.asked[1].instructions.count(NOTICE) == 1
    assert b"green tea" not in result.all_messages_json()


async def test_an_agent_without_instructions_has_those_of_memory(memory: Memory, chat: Chat, llm: Model) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    agent = Agent(chat.model, capabilities=[capability(memory, user_id="mia")])
    await agent.run("Which tea?")
    assert llm.asked[0].instructions.startswith(NOTICE)


async def test_each_run_is_a_conversation_unless_it_has_one(memory: Memory, chat: Chat) -> None:
    first = await chat.agent.run("One.", deps="mia")
    await chat.agent.run("Two.", deps="mia", message_history=first.all_messages())
    await chat.agent.run("Three.", deps="mia")
    named = await chat.agent.run("Four.", deps="mia", conversation_id="s4")
    assert first.conversation_id != named.conversation_id == "s4"
    found = await memory.conversations.messages(agent_id=AGENT, user_id="mia", conversation_id=first.conversation_id)
    assert [one.content for one in reversed(found)] == ["One.", ANSWER, "Two.", ANSWER]


async def test_an_output_of_a_tool_is_the_answer(memory: Memory, chat: Chat) -> None:
    await chat.agent.run(call("final_result", number=7), deps="mia", output_type=Berth)
    assert (await stored(memory))[1:] == [("assistant", '{"number":7}')]


async def test_tools_of_the_host_are_evidence(memory: Memory, chat: Chat) -> None:
    @chat.agent.tool_plain
    def weather(city: str) -> dict[str, str]:
        return {"city": city, "weather": "rain"}

    asked = call("weather", city="Porto")
    await chat.agent.run(asked, deps="mia")
    assert await stored(memory) == [
        ("user", asked),
        ("assistant", "[used tools: weather]"),
        ("tool", '{"city":"Porto","weather":"rain"}'),
        ("assistant", ANSWER),
    ]


async def test_a_call_that_waits_for_somebody_is_stored_when_it_goes_on(memory: Memory, chat: Chat) -> None:
    @chat.agent.tool_plain(requires_approval=True)
    def book(berth: int) -> str:
        return f"Berth {berth} is yours."

    given: Any = {"deps": "mia", "output_type": [str, DeferredToolRequests], "conversation_id": "s1"}
    asked = await chat.agent.run(call("book", berth=7), **given)
    approved = DeferredToolResults(approvals={one.tool_call_id: True for one in asked.output.approvals})
    await chat.agent.run(message_history=asked.all_messages(), deferred_tool_results=approved, **given)
    assert (await stored(memory))[1:] == [
        ("assistant", "[used tools: book]"),
        ("tool", "Berth 7 is yours."),
        ("assistant", ANSWER),
    ]


async def test_a_picture_is_stored_as_its_kind(memory: Memory, chat: Chat) -> None:
    picture = BinaryContent(b"\x89PNG\r\n", media_type="image/png")
    await chat.agent.run(["A boat:", TextContent("mine"), CachePoint(), picture], deps="mia")
    assert (await stored(memory))[0] == ("user", "A boat:\nmine\n[binary]")


async def test_a_run_without_a_user_has_no_memory(memory: Memory, chat: Chat, llm: Model) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    assert (await chat.agent.run("Which tea?", deps=None)).output == ANSWER
    assert "tools" not in llm.server.requests[0].body
    assert llm.asked[0].instructions == "You are kind."
    assert await stored(memory) == []


async def test_a_user_that_cannot_be_fails_no_run(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    with told_once(caplog):
        assert (await chat.agent.run("Which tea?", deps="")).output == ANSWER


async def test_a_stream_is_stored_when_it_has_ended(memory: Memory) -> None:
    async def stream(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        assert info.instructions is not None
        assert NOTICE in info.instructions
        for word in ("Green", " tea."):
            yield word

    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    agent = Agent(FunctionModel(stream_function=stream), capabilities=[capability(memory, user_id="mia")])
    async with agent.run_stream("Which tea?") as run:
        assert [text async for text in run.stream_text(debounce_by=None)] == ["Green", "Green tea."]
    assert await stored(memory) == [("user", "Which tea?"), ("assistant", "Green tea.")]


@pytest.mark.parametrize("arguments", ["[1]", "{", '{"self": 1, "ctx": 2, "name": 3}', "7"])
async def test_arguments_that_cannot_be_fail_no_run(chat: Chat, llm: Model, arguments: str) -> None:
    assert (await chat.agent.run(f"CALL recall {arguments}", deps="mia")).output == ANSWER
    assert llm.asked[-1].results


async def test_a_sync_memory_serves_run_sync_and_any_loop(database_url: str, llm: Model) -> None:
    def blocking(memory: sync.Memory) -> str:
        with memory:
            memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
            loop, chat = asyncio.new_event_loop(), Chat(memory, llm.url, 5.0)
            asyncio.set_event_loop(loop)  # else `run_sync` makes one that nobody closes
            with closing(loop):
                answer = str(chat.agent.run_sync(call("remember", text="Mia likes coffee."), deps="mia").output)
                loop.run_until_complete(chat.close())
            return answer

    memory = sync.Memory(database_url, settings=Settings(llm="offline"))
    assert await asyncio.to_thread(blocking, memory) == ANSWER
    assert "green tea" in llm.asked[0].instructions
    assert "Remembered" in llm.asked[1].results[0]
    async with Memory(database_url, settings=Settings(llm="offline")) as again:
        assert [role for role, _ in await stored(again)] == ["user", "assistant"]


async def test_deps_say_whose_groups_these_are(memory: Memory, chat: Chat) -> None:
    def groups(ctx: RunContext[str]) -> list[str]:
        return ["harbor"] if ctx.deps == "mia" else []

    agent = Agent(chat.model, deps_type=str, capabilities=[capability(memory, group_ids=groups)])
    await agent.run("The harbour closes at ten.", deps="mia")
    assert [one.user_id for one in await memory.groups.members("harbor", agent_id=AGENT)] == ["mia"]


def test_groups_are_no_text() -> None:
    with pytest.raises(InputError):
        capability(Memory("postgresql://nobody@127.0.0.1:9/nothing"), group_ids="harbor")
