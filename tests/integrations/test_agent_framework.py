"""Agents of Microsoft's Agent Framework, with the real package."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Mapping, Sequence
from typing import Any

import pytest
from agent_framework import (
    Agent,
    AgentLoopMiddleware,
    AgentResponse,
    AgentSession,
    BaseChatClient,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    Message,
    ResponseStream,
    SessionContext,
    tool,
)
from agent_framework.openai import OpenAIChatCompletionClient
from openai import AsyncOpenAI

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import InputError
from memory_sql.integrations.agent_framework import MemoryProvider
from memory_sql.integrations.failures import AnyMemory
from memory_sql.memory import Memory
from memory_sql.tools.answers import NOTICE
from tests.integrations.behaviour import AGENT, Behaviour, stored, told_once
from tests.integrations.model import ANSWER, Model, call, model


def provider(memory: AnyMemory, seconds: float = 5.0, **given: Any) -> MemoryProvider:
    of_session: Any = {"user_id": lambda session: session.state.get("user")}
    return MemoryProvider(memory, agent_id=AGENT, seconds=seconds, **{**of_session, **given})


class Chat:
    def __init__(self, memory: AnyMemory, model_url: str, seconds: float, **given: Any) -> None:
        self.client = AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)
        self.model = OpenAIChatCompletionClient("gpt-5-mini", async_client=self.client)
        self.agent = Agent(
            self.model, instructions="You are kind.", context_providers=[provider(memory, seconds, **given)]
        )
        self.sessions: dict[str, dict[str, Any]] = {}

    async def say(self, text: str, *, user: str = "mia", conversation: str = "s1", turn: str | None = None) -> str:
        session = self.session(user, conversation)
        answer = await self.agent.run(Message("user", [text], message_id=turn), session=session)
        self.sessions[conversation] = session.to_dict()
        return answer.text

    def session(self, user: str | None, conversation: str) -> AgentSession:
        """As a host keeps it between turns."""
        kept = self.sessions.get(conversation)
        session = AgentSession.from_dict(kept) if kept else AgentSession(session_id=conversation)
        session.state["user"] = user
        return session

    async def close(self) -> None:
        await self.client.close()


class TestAgentFramework(Behaviour):
    make = Chat


class Streaming(BaseChatClient):
    """A model that speaks in words."""

    def _inner_get_response(
        self, *, messages: Sequence[Message], stream: bool, options: Mapping[str, Any], **kwargs: Any
    ) -> Awaitable[ChatResponse] | ResponseStream[ChatResponseUpdate, ChatResponse]:
        assert stream
        assert NOTICE in options["instructions"]
        return self._build_response_stream(self._words())

    async def _words(self) -> AsyncIterable[ChatResponseUpdate]:
        for word in ("Green", " tea."):
            yield ChatResponseUpdate(contents=[Content.from_text(word)], role="assistant")


@pytest.fixture
async def llm() -> AsyncIterator[Model]:
    async with model() as served:
        yield served


@pytest.fixture
async def chat(memory: Memory, llm: Model) -> AsyncIterator[Chat]:
    chat = Chat(memory, llm.url, 5.0)
    yield chat
    await chat.close()


async def test_what_memory_has_stands_at_the_end_and_in_no_session(memory: Memory, chat: Chat, llm: Model) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    await chat.say("Which tea?")
    await chat.say("Really?")
    assert llm.asked[1].instructions.startswith(f"You are kind.\n{NOTICE}")
    assert llm.asked[1].instructions.count(NOTICE) == 1
    assert "green tea" not in json.dumps(chat.sessions)


async def test_a_run_without_a_session_is_a_conversation_of_its_own(memory: Memory, llm: Model) -> None:
    chat = Chat(memory, llm.url, 5.0, user_id="mia")
    for _ in range(2):
        await chat.agent.run("Yes.")
    assert await stored(memory) == [("user", "Yes."), ("assistant", ANSWER)] * 2
    await chat.close()


async def test_of_a_conversation_that_the_host_keeps_only_what_is_new_is_stored(memory: Memory, chat: Chat) -> None:
    said = [Message("user", ["One."]), Message("assistant", ["First."]), Message("user", ["Two."])]
    await chat.agent.run(said, session=chat.session("mia", "s1"))
    assert await stored(memory) == [("user", "Two."), ("assistant", ANSWER)]


async def test_what_follows_a_session_of_earlier_is_stored(memory: Memory, chat: Chat) -> None:
    await chat.say("One.")
    earlier = dict(chat.sessions)
    await chat.say("Two.")
    chat.sessions = earlier
    await chat.say("Two.")
    chat.sessions = earlier
    await chat.say("Three.")
    assert [text for role, text in await stored(memory) if role == "user"] == ["One.", "Two.", "Three."]


async def test_the_same_words_again_are_stored_where_the_host_keeps_the_conversation(
    memory: Memory, chat: Chat
) -> None:
    said = [Message("user", ["Yes."])]
    for _ in range(3):
        for _ in range(2):  # a run that is tried again
            answer = await chat.agent.run(said, session=chat.session("mia", "s1"))
        said = [*said, *answer.messages, Message("user", ["Yes."])]
    assert await stored(memory) == [("user", "Yes."), ("assistant", ANSWER)] * 3


def test_groups_are_no_text(memory_nowhere: Memory) -> None:
    with pytest.raises(InputError):
        provider(memory_nowhere, group_ids="harbor")


@pytest.fixture
def memory_nowhere() -> Memory:
    return Memory("postgresql://nobody@127.0.0.1:9/nothing")


async def test_an_empty_id_is_none(memory: Memory, chat: Chat) -> None:
    await chat.say("Hello.", turn="")
    assert await stored(memory) == [("user", "Hello."), ("assistant", ANSWER)]


@pytest.mark.filterwarnings(r"ignore:\[HARNESS\]")
async def test_a_loop_is_a_turn_in_which_only_the_user_speaks_for_the_user(
    memory: Memory, chat: Chat, llm: Model
) -> None:
    one = await memory.observe("Mia lives in Porto.", agent_id=AGENT, user_id="mia")
    asked = call("forget", observation_ids=[one.id], confirmed=True)
    chat.agent.middleware = [
        AgentLoopMiddleware(lambda iteration, **_: iteration < 3, next_message=lambda **_: Message("user", [asked]))
    ]
    await chat.say(asked)
    results = [text for question in llm.asked for text in question.results]
    assert len(results) == 3
    assert not [text for text in results if "Forgotten" in text]
    assert await stored(memory) == [("user", asked), *[("assistant", ANSWER)] * 3]


async def test_tools_of_the_host_are_evidence(memory: Memory, chat: Chat) -> None:
    @tool
    def weather(city: str) -> str:
        """The weather there."""
        return f"Rain in {city}."

    asked = call("weather", city="Porto")
    await chat.agent.run(asked, session=chat.session("mia", "s1"), tools=[weather])
    assert await stored(memory) == [
        ("user", asked),
        ("assistant", "[used tools: weather]"),
        ("tool", "Rain in Porto."),
        ("assistant", ANSWER),
    ]


async def test_a_call_that_waits_for_somebody_is_stored_when_it_goes_on(memory: Memory, chat: Chat) -> None:
    @tool(approval_mode="always_require")
    def book(berth: int) -> str:
        """Books a berth."""
        return f"Berth {berth} is yours."

    session = chat.session("mia", "s1")
    asked = await chat.agent.run(call("book", berth=7), session=session, tools=[book])
    approved = [one.to_function_approval_response(True) for one in asked.user_input_requests]
    answer = await chat.agent.run(Message("user", approved), session=session, tools=[book])
    assert answer.text == ANSWER
    assert (await stored(memory))[1:] == [
        ("assistant", "[used tools: book]"),
        ("tool", "Berth 7 is yours."),
        ("assistant", ANSWER),
    ]


async def test_a_call_of_memory_that_waited_for_somebody_is_still_memorys(memory: Memory) -> None:
    called = Content.from_function_call("c1", "sources", arguments={"observation_id": "o1-1"})
    approved = Content.from_function_approval_response(True, "a1", called)
    context = SessionContext(session_id="s1", input_messages=[Message("user", [approved])])
    result = Content.from_function_result("c1", result="Mia said that she likes green tea.")
    context._response = AgentResponse(messages=[Message("tool", [result]), Message("assistant", ["Fine."])])
    session: Any = AgentSession(session_id="s1")
    await provider(memory, user_id="mia").after_run(agent=None, session=session, context=context, state={})
    assert await stored(memory) == [("assistant", "Fine.")]


async def test_a_picture_is_stored_as_its_kind(memory: Memory, chat: Chat) -> None:
    picture = Content.from_data(b"\x89PNG\r\n", media_type="image/png")
    await chat.agent.run(Message("user", ["My boat:", picture]), session=chat.session("mia", "s1"))
    assert (await stored(memory))[0] == ("user", "My boat:\n[data]")


async def test_a_run_without_a_user_has_no_memory(memory: Memory, chat: Chat, llm: Model) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    assert (await chat.agent.run("Which tea?", session=chat.session(None, "s1"))).text == ANSWER
    assert "tools" not in llm.server.requests[0].body
    assert llm.asked[0].instructions == "You are kind."
    assert await stored(memory) == []


async def test_a_user_that_cannot_be_fails_no_run(chat: Chat, caplog: pytest.LogCaptureFixture) -> None:
    with told_once(caplog):
        assert await chat.say("Which tea?", user="") == ANSWER


async def test_a_stream_is_stored_when_it_has_ended(memory: Memory) -> None:
    await memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    agent = Agent(Streaming(), context_providers=[provider(memory, user_id="mia")])
    stream = agent.run("Which tea?", stream=True, session=AgentSession(session_id="s1"))
    assert "".join([update.text async for update in stream]) == "Green tea."
    assert await stored(memory) == [("user", "Which tea?"), ("assistant", "Green tea.")]


@pytest.mark.parametrize("arguments", ["[1]", "{", '{"name": 1, "declared": 2}', "7"])
async def test_arguments_that_cannot_be_fail_no_run(chat: Chat, llm: Model, arguments: str) -> None:
    assert await chat.say(f"CALL recall {arguments}") == ANSWER
    assert "there is no such argument" in llm.asked[-1].results[0]


async def test_the_schema_of_a_tool_is_ours(memory: Memory, chat: Chat, llm: Model) -> None:
    await chat.say("Hello.")
    tools = {one["function"]["name"]: one["function"] for one in llm.server.requests[0].body["tools"]}
    assert sorted(tools) == ["correct", "forget", "recall", "remember", "sources"]
    assert tools["recall"]["parameters"]["properties"]["limit"]["maximum"] == 20


async def test_a_sync_memory_serves_any_loop(database_url: str, llm: Model) -> None:
    def blocking(memory: sync.Memory) -> str:
        async def say() -> str:
            chat = Chat(memory, llm.url, 5.0)
            try:
                return await chat.say("Which tea?")
            finally:
                await chat.close()

        with memory:
            memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
            return asyncio.run(say())

    memory = sync.Memory(database_url, settings=Settings(llm="offline"))
    assert await asyncio.to_thread(blocking, memory) == ANSWER
    assert "green tea" in llm.asked[0].instructions
