"""Agents of LangChain, with the real package."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, SummarizationMiddleware
from langchain.messages import HumanMessage, RemoveMessage, SystemMessage
from langchain.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import REMOVE_ALL_MESSAGES
from openai import BadRequestError, DefaultAsyncHttpxClient, DefaultHttpxClient
from pydantic import SecretStr

from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import InputError
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.langchain import MemoryMiddleware
from memory_sql.memory import Memory
from memory_sql.tools import TOOLS, Policy
from memory_sql.tools.answers import NOTICE
from tests.database import rows
from tests.integrations.behaviour import AGENT, SETTINGS, Behaviour, stored
from tests.integrations.model import ANSWER, Model, call, model


class Chat:
    def __init__(self, memory: AnyMemory, model_url: str, seconds: float, **given: Any) -> None:
        self.model = ChatOpenAI(
            model_name="gpt-5-mini",
            openai_api_base=model_url,
            openai_api_key=SecretStr("none"),
            max_retries=0,
            use_responses_api=False,
            http_client=DefaultHttpxClient(),  # the default is shared by address, and may be closed
            http_async_client=DefaultAsyncHttpxClient(),
        )
        of_run: Any = {"user_id": lambda runtime: runtime.context["user"]}
        self.middleware = MemoryMiddleware(memory, agent_id=AGENT, seconds=seconds, **{**of_run, **given})
        self.agent: Any = create_agent(
            self.model,
            system_prompt="You are kind.",
            middleware=[self.middleware],
            checkpointer=InMemorySaver(),
            context_schema=dict,
        )

    async def say(self, text: str, *, user: str = "mia", conversation: str = "s1", turn: str | None = None) -> str:
        found = await self.agent.ainvoke(
            {"messages": [HumanMessage(text, id=turn)]},
            {"configurable": {"thread_id": conversation}},
            context={"user": user},
        )
        return str(found["messages"][-1].text)

    async def close(self) -> None:
        await self.model.root_async_client.close()
        self.model.root_client.close()


class TestLangChain(Behaviour):
    make = Chat


MIA: dict[str, Any] = {"agent_id": AGENT, "user_id": "mia"}
ASKED = {"messages": [{"role": "user", "content": "Which tea?"}]}
IN_S1: Any = {"configurable": {"thread_id": "s1"}}


@pytest.fixture
async def served() -> AsyncIterator[Model]:
    async with model() as running:
        yield running


@pytest.fixture
def settings() -> Settings:
    return SETTINGS


@pytest.fixture
async def chat(memory: Memory, served: Model) -> AsyncIterator[Chat]:
    await memory.observe("Mia likes green tea.", **MIA)
    made = Chat(memory, served.url, 20.0, user_id="mia")
    yield made
    await made.close()


@pytest.fixture
async def blocking(database_url: str, served: Model) -> AsyncIterator[Chat]:
    """Of a `sync.Memory`."""
    memory = sync.Memory(database_url, settings=Settings(llm="offline"))
    await asyncio.to_thread(memory.open)
    await asyncio.to_thread(memory.observe, "Mia likes green tea.", **MIA)
    made = Chat(memory, served.url, 20.0, user_id="mia")
    yield made
    await made.close()
    await asyncio.to_thread(memory.close)


async def test_memory_stands_at_the_end_of_the_system_prompt_and_in_no_state(chat: Chat, served: Model) -> None:
    state = await chat.agent.ainvoke(ASKED, IN_S1)
    assert served.asked[0].instructions.startswith(f"You are kind.\n\n{NOTICE}\n<MemoryContext")
    assert "green tea" in served.asked[0].instructions
    assert "green tea" not in str(state)
    assert "green tea" not in str(await chat.agent.aget_state(IN_S1))


@pytest.mark.parametrize("prompt", [None, SystemMessage([{"type": "text", "text": "You are kind."}])])
async def test_any_system_prompt_is_kept(
    memory: Memory, served: Model, chat: Chat, prompt: SystemMessage | None
) -> None:
    agent: Any = create_agent(chat.model, system_prompt=prompt, middleware=[chat.middleware])
    await agent.ainvoke(ASKED)
    told = served.asked[0].instructions
    assert "green tea" in told
    assert told.startswith("You are kind." if prompt else NOTICE)


async def test_code_that_blocks_remembers_also_where_a_loop_runs(blocking: Chat, served: Model) -> None:
    said = {"messages": [HumanMessage(call("remember", text="Mia lives in Porto."))]}

    def answered() -> str:
        async def in_a_notebook() -> str:
            return str(blocking.agent.invoke(ASKED, IN_S1)["messages"][-1].text)

        return asyncio.run(in_a_notebook())

    assert await asyncio.to_thread(answered) == ANSWER
    assert "green tea" in served.asked[-1].instructions
    await asyncio.to_thread(blocking.agent.invoke, said, IN_S1)
    assert "Remembered as" in served.asked[-1].results[-1]
    streamed = await asyncio.to_thread(lambda: [*blocking.agent.stream(ASKED, IN_S1)])
    assert any("model" in one for one in streamed)
    assert "Porto" in served.asked[-1].instructions
    await blocking.agent.ainvoke(ASKED, IN_S1)  # in this loop
    assert "Porto" in served.asked[-1].instructions


async def test_what_was_said_in_blocking_code_is_stored(blocking: Chat, database_url: str) -> None:
    await asyncio.to_thread(blocking.agent.invoke, ASKED, IN_S1)
    async with Memory(database_url, settings=Settings(llm="offline")) as memory:
        assert await stored(memory) == [("user", "Which tea?"), ("assistant", ANSWER)]


async def test_blocking_code_is_told_that_its_memory_has_to_be_awaited(chat: Chat) -> None:
    with pytest.raises(InputError, match=r"memory_sql\.sync\.Memory"):
        await asyncio.to_thread(chat.agent.invoke, ASKED, IN_S1)


async def test_a_streamed_run_is_stored(chat: Chat, memory: Memory, served: Model) -> None:
    for text in ("Hello.", call("recall", query="tea")):
        said = {"messages": [HumanMessage(text)]}
        streamed = [part async for part in chat.agent.astream(said, IN_S1, stream_mode="messages")]
        assert any(part.text == ANSWER for part, _ in streamed)
    assert served.server.requests[0].body["stream"]
    assert "green tea" in served.asked[0].instructions
    assert "green tea" in served.asked[-1].results[-1]
    assert [role for role, _ in await stored(memory)] == ["user", "assistant"] * 2


async def test_a_run_that_failed_behind_a_tool_is_stored_with_the_next(
    chat: Chat, memory: Memory, served: Model
) -> None:
    @tool
    def weather() -> str:
        """The weather."""
        served.refuses = True
        return "Rain."

    agent: Any = create_agent(chat.model, tools=[weather], middleware=[chat.middleware], checkpointer=InMemorySaver())
    with pytest.raises(BadRequestError):
        await agent.ainvoke({"messages": [HumanMessage("CALL weather")]}, IN_S1)
    served.refuses = False
    await agent.ainvoke({"messages": [HumanMessage("And now?")]}, IN_S1)
    assert await stored(memory) == [
        ("user", "CALL weather"),
        ("assistant", "[used tools: weather]"),
        ("tool", "Rain."),
        ("user", "And now?"),
        ("assistant", ANSWER),
    ]


async def test_an_agent_may_be_a_node_of_a_graph(memory: Memory, chat: Chat, served: Model) -> None:
    async def asking(state: Any) -> Any:
        found = await agent.ainvoke({"messages": state["messages"]})
        return {"messages": found["messages"][-1:]}

    agent: Any = create_agent(chat.model, middleware=[chat.middleware])
    for thread, node in (("g1", agent), ("g2", asking)):
        graph: Any = StateGraph(MessagesState)
        graph.add_node("ada", node)
        graph.add_edge(START, "ada")
        app = graph.compile(checkpointer=InMemorySaver())
        for text in ("Which tea?", "And now?"):
            await app.ainvoke({"messages": [HumanMessage(text)]}, {"configurable": {"thread_id": thread}})
        assert "green tea" in served.asked[-1].instructions
    assert [text for role, text in await stored(memory) if role == "user"] == ["Which tea?", "And now?"] * 2


async def test_a_history_that_the_host_sends_each_time_is_stored_once(
    memory: Memory, served: Model, chat: Chat
) -> None:
    agent: Any = create_agent(chat.model, middleware=[chat.middleware])
    history: list[Any] = []
    for text in ("One.", "Two.", "Three."):
        history.append({"role": "user", "content": text})
        await agent.ainvoke({"messages": history})
        history.append({"role": "assistant", "content": ANSWER})
    said = [text for role, text in await stored(memory) if role == "user"]
    assert sorted(said) == ["One.", "Three.", "Two."]
    assert len(await rows(memory, "SELECT 1 FROM memory.conversations")) == 3


async def test_a_summary_is_nobodys_word(memory: Memory, served: Model, chat: Chat) -> None:
    summary = SummarizationMiddleware(chat.model, trigger=("messages", 4), keep=("messages", 1))
    agent: Any = create_agent(chat.model, middleware=[summary, chat.middleware], checkpointer=InMemorySaver())
    said = [f"Turn {n}." for n in range(4)]
    for text in said:
        await agent.ainvoke({"messages": [HumanMessage(text)]}, IN_S1)
    assert any("summary of the conversation" in str(one.body) for one in served.server.requests)
    assert [text for role, text in await stored(memory) if role == "user"] == said


@pytest.mark.parametrize("user", [None, "", "x" * 300])
async def test_a_run_of_nobodys_has_no_memory(memory: Memory, served: Model, chat: Chat, user: str | None) -> None:
    nobodys = MemoryMiddleware(memory, agent_id=AGENT, user_id=lambda _: user)
    agent: Any = create_agent(chat.model, middleware=[nobodys])
    assert (await agent.ainvoke(ASKED))["messages"][-1].text == ANSWER
    assert "tools" not in served.server.requests[-1].body
    assert "MemoryContext" not in served.asked[-1].instructions
    await agent.ainvoke({"messages": [HumanMessage(call("recall"))]})
    assert served.asked[-1].results == ("Memory isn't available here.",)
    assert await stored(memory) == []


async def test_groups_and_conversations_may_be_those_of_a_run(memory: Memory, served: Model, chat: Chat) -> None:
    made = MemoryMiddleware(
        memory,
        agent_id=AGENT,
        user_id="mia",
        group_ids=lambda runtime: runtime.context["groups"],
        conversation_id=lambda runtime: runtime.context["case"],
        tools=Policy(groups=frozenset(["harbor"])),
    )
    agent: Any = create_agent(chat.model, middleware=[made], context_schema=dict)
    text = call("remember", text="The gate opens at seven.", group="harbor")
    for groups in (["harbor"], []):
        await agent.ainvoke({"messages": [HumanMessage(text)]}, context={"groups": groups, "case": f"c{len(groups)}"})
    assert [one.results[-1][:18] for one in served.asked if one.results] == ["Remembered as o2-1", "group: the user's "]
    assert await memory.groups.members("harbor", agent_id=AGENT)


async def test_a_conversation_may_be_number_0(memory: Memory, chat: Chat) -> None:
    made = MemoryMiddleware(memory, **MIA, conversation_id=0)
    agent: Any = create_agent(chat.model, middleware=[made])
    await agent.ainvoke(ASKED)
    assert await rows(memory, "SELECT DISTINCT conversation_id FROM memory.messages") == [("0",)]


async def test_a_model_that_is_asked_again_behind_a_summary_is_in_the_same_turn(
    memory: Memory, served: Model, chat: Chat
) -> None:
    """What `forget` shows may only be confirmed in a later turn, also where the question is gone."""
    (one,) = (await memory.search("tea", **MIA)).results
    summary = HumanMessage("A summary.", additional_kwargs={"lc_source": "summarization"})

    class Summarised(AgentMiddleware[Any, Any, Any]):
        async def abefore_model(self, state: Any, runtime: Any) -> Any:
            called = [message for message in state["messages"] if message.type != "human"]
            return {"messages": [RemoveMessage(id=REMOVE_ALL_MESSAGES), summary, *called]} if called else None

    agent: Any = create_agent(chat.model, middleware=[Summarised(), chat.middleware], checkpointer=InMemorySaver())
    asked = call("forget", observation_ids=[one.observation.id])
    await agent.ainvoke({"messages": [HumanMessage(asked)]}, IN_S1)
    turns = chat.middleware._everyone.of("mia")
    answer = await turns.call("s1", "forget", {"observation_ids": [one.observation.id], "confirmed": True})
    assert "in a later turn" in answer.text
    assert ("assistant", ANSWER) in await stored(memory)


def test_what_cannot_be_is_refused_when_it_is_made(memory_nowhere: Memory) -> None:
    for given in ({"user_id": ""}, {"agent_id": ""}, {"seconds": 0}, {"budget_tokens": 1}, {"group_ids": "harbor"}):
        with pytest.raises(InputError):
            MemoryMiddleware(memory_nowhere, **{**MIA, **given})
    assert MemoryMiddleware(memory_nowhere, **MIA, tools=None).tools == []
    assert [one.name for one in MemoryMiddleware(memory_nowhere, **MIA).tools] == [*TOOLS]


@pytest.fixture
def memory_nowhere() -> Memory:
    return Memory("postgresql://nobody@127.0.0.1:9/nothing")
