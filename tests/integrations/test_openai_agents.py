"""Agents of the OpenAI Agents SDK, with the real package."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    OpenAIConversationsSession,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
)
from agents.memory import OpenAIResponsesCompactionSession, Session, is_openai_responses_compaction_aware_session
from openai import AsyncOpenAI, BadRequestError

from memory_sql.config import Settings
from memory_sql.errors import InputError
from memory_sql.integrations.failures import AnyMemory
from memory_sql.integrations.openai_agents import AgentMemory, MemorySession
from memory_sql.memory import Memory
from memory_sql.tools.answers import NOTICE
from tests.integrations.behaviour import AGENT, ROOT, SETTINGS, TEA, Behaviour, observed, stored
from tests.integrations.model import ANSWER, Model, call, model


class Chat:
    def __init__(self, memory: AnyMemory, model_url: str, seconds: float) -> None:
        self.memory = AgentMemory(memory, agent_id=AGENT, seconds=seconds)
        self.client = AsyncOpenAI(base_url=model_url, api_key="none", max_retries=0)
        self.agent = Agent[Any](
            name="Ada", instructions="You are kind.", model=OpenAIResponsesModel("gpt-5-mini", self.client)
        )
        self.inner: dict[str, SQLiteSession] = {}

    async def say(self, text: str, *, user: str = "mia", conversation: str = "s1", turn: str | None = None) -> str:
        if conversation not in self.inner:
            self.inner[conversation] = SQLiteSession(conversation)
        session = self.memory.session(self.inner[conversation], user_id=user)
        ran = await Runner.run(
            session.remembering(self.agent), text, session=session, run_config=RunConfig(tracing_disabled=True)
        )
        return str(ran.final_output)

    async def close(self) -> None:
        await self.client.close()
        for one in self.inner.values():
            one.close()


class TestOpenAIAgents(Behaviour):
    make = Chat
    names_turns = False
    stored_times = 2  # the tool's result, then the answer


MIA: dict[str, Any] = {"agent_id": AGENT, "user_id": "mia"}
QUIET = RunConfig(tracing_disabled=True)


@pytest.fixture
async def served() -> AsyncIterator[Model]:
    async with model() as running:
        yield running


@pytest.fixture
def settings() -> Settings:
    return SETTINGS


@pytest.fixture
async def chat(memory: Memory, served: Model) -> AsyncIterator[Chat]:
    made = Chat(memory, served.url, 20.0)
    yield made
    await made.close()


@pytest.fixture
def inner() -> Iterator[SQLiteSession]:
    made = SQLiteSession("s1")
    yield made
    made.close()


@pytest.fixture
def session(chat: Chat, inner: SQLiteSession) -> MemorySession:
    return chat.memory.session(inner, user_id="mia")


async def test_memory_stands_behind_the_instructions(chat: Chat, memory: Memory, served: Model) -> None:
    await memory.observe("Mia likes green tea.", **MIA)
    await chat.say("Which tea?")
    told = served.asked[0].instructions
    assert told.startswith(f"You are kind.\n\n{NOTICE}\n<MemoryContext")
    assert "green tea" in told
    assert "green tea" not in str(await chat.inner["s1"].get_items())


async def test_instructions_may_be_functions_or_missing(
    chat: Chat, memory: Memory, served: Model, session: Any
) -> None:
    await memory.observe("Mia likes green tea.", **MIA)

    async def awaited(run: Any, agent: Any) -> str:
        return f"You are {agent.name}."

    for own, expected in ((awaited, "You are Ada.\n\n"), (lambda _, agent: agent.name, "Ada\n\n"), (None, NOTICE)):
        agent = session.remembering(chat.agent.clone(instructions=own))
        await Runner.run(agent, "Which tea?", session=session, run_config=QUIET)
        assert served.asked[-1].instructions.startswith(expected)
        assert "green tea" in served.asked[-1].instructions


async def test_the_sdk_takes_it_for_a_session(session: MemorySession) -> None:
    assert isinstance(session, Session)
    assert not is_openai_responses_compaction_aware_session(session)


async def test_no_id_of_ours_reaches_a_model_or_a_host(chat: Chat, served: Model, session: MemorySession) -> None:
    await chat.say("Hello.")
    await chat.say("Which tea?")
    kept = chat.inner["s1"]
    assert "memory_sql" in str(await kept.get_items())
    mine = chat.memory.session(kept, user_id="mia")
    assert "memory_sql" not in str(await mine.get_items())
    await Runner.run(chat.agent, "Without memory.", session=kept, run_config=QUIET)
    assert "created_by" not in str([one.body for one in served.server.requests])
    assert "Which tea?" in str(served.server.requests[-1].body)


async def test_what_is_popped_is_forgotten_formed_or_not(chat: Chat, memory: Memory) -> None:
    await chat.say(TEA)
    await memory.run_due()
    assert await observed(memory)
    session = chat.memory.session(chat.inner["s1"], user_id="mia")
    assert "memory_sql" not in str(await session.pop_item())
    while await session.pop_item():
        pass
    assert await stored(memory) == []
    assert await observed(memory) == []
    await chat.say(TEA)
    assert await stored(memory) == [("user", TEA), ("assistant", ANSWER)]
    assert await memory.admin.verify() == []


async def test_a_cleared_session_is_forgotten(chat: Chat, memory: Memory) -> None:
    await chat.say(TEA)
    await chat.say("Hello.", conversation="s2")
    await memory.run_due()
    assert await observed(memory)
    await chat.memory.session(chat.inner["s1"], user_id="mia").clear_session()
    assert await stored(memory) == [("user", "Hello."), ("assistant", ANSWER)]
    assert await observed(memory) == []
    await chat.say("Good morning.")
    assert ("user", "Good morning.") in await stored(memory)


async def test_what_is_taken_back_and_added_again_is_stored_once(memory: Memory, session: MemorySession) -> None:
    """As the SDK does when it tries a request again."""
    said: Any = {"role": "user", "content": "Hello."}
    answer: Any = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER}]}
    await session.add_items([said])
    assert await session.pop_item() == said
    await session.add_items([said])
    await session.add_items([answer])
    assert await session.pop_item() == answer
    await session.add_items([answer])
    assert await stored(memory) == [("user", "Hello."), ("assistant", ANSWER)]


@pytest.mark.parametrize("next_said", ["Hello.", "And now?"])
async def test_a_question_that_another_process_left_unanswered_is_stored(
    chat: Chat, memory: Memory, served: Model, next_said: str
) -> None:
    served.refuses = True
    with pytest.raises(BadRequestError):
        await chat.say("Hello.")
    served.refuses = False
    other = Chat(memory, served.url, 20.0)
    other.inner = chat.inner
    await other.say(next_said)
    await chat.say("Well?")
    await other.client.close()
    asked = dict.fromkeys(["Hello.", next_said, "Well?"])
    assert [text for role, text in await stored(memory) if role == "user"] == [*asked]


async def test_a_session_that_compacts_belongs_inside(
    chat: Chat, memory: Memory, served: Model, inner: SQLiteSession
) -> None:
    asked = list[int]()

    def hook(context: Any) -> bool:
        asked.append(len(context["session_items"]))
        return False

    compacting = OpenAIResponsesCompactionSession(
        "s1", inner, client=chat.client, should_trigger_compaction=hook, compaction_mode="input"
    )
    session = chat.memory.session(compacting, user_id="mia")
    is_compacting: bool = is_openai_responses_compaction_aware_session(session)
    assert is_compacting
    for text in ("Hello.", "And now?"):
        await Runner.run(session.remembering(chat.agent), text, session=session, run_config=QUIET)
    assert len(asked) == 2
    assert [text for role, text in await stored(memory) if role == "user"] == ["Hello.", "And now?"]
    await compacting.clear_session()  # as it does when it has compacted
    assert len(await stored(memory)) == 4


async def test_results_of_other_tools_are_stored_and_those_of_memorys_are_not(
    chat: Chat, memory: Memory, session: MemorySession
) -> None:
    async def weather(_: Any, __: str) -> str:
        return "Rain."

    own = FunctionTool(
        "weather", "The weather.", {"type": "object", "properties": {}}, weather, strict_json_schema=False
    )
    agent = session.remembering(chat.agent.clone(tools=[own]))
    for text in ("CALL weather", call("remember", text="Mia likes tea.")):
        await Runner.run(agent, text, session=session, run_config=QUIET)
    assert [one for one in await stored(memory) if one[0] != "user"] == [
        ("assistant", "[used tools: weather]"), ("tool", "Rain."), ("assistant", ANSWER), ("assistant", ANSWER),
    ]  # fmt: skip


async def test_parts_are_stored_as_text(chat: Chat, memory: Memory, session: MemorySession, served: Model) -> None:
    parts: Any = [{"type": "input_text", "text": "What is this?"}, {"type": "input_image", "image_url": "data:,"}]
    agent = session.remembering(chat.agent)
    await Runner.run(agent, [{"role": "user", "content": parts}], session=session, run_config=QUIET)
    assert (await stored(memory))[0] == ("user", "What is this?\n[input_image]")


async def test_a_streamed_run_is_stored(chat: Chat, memory: Memory, session: MemorySession, served: Model) -> None:
    await memory.observe("Mia likes green tea.", **MIA)
    for text in ("Hello.", call("recall", query="tea")):
        ran = Runner.run_streamed(session.remembering(chat.agent), text, session=session, run_config=QUIET)
        async for _ in ran.stream_events():
            pass
        assert ran.final_output == ANSWER
    assert "green tea" in served.asked[0].instructions
    assert "green tea" in served.asked[-1].results[-1]
    assert [role for role, _ in await stored(memory)] == ["user", "assistant"] * 2


RUN_SYNC = """
import sys
from agents import RunConfig, Runner, SQLiteSession
from memory_sql import sync
from tests.integrations.behaviour import AGENT, SETTINGS
from tests.integrations.test_openai_agents import QUIET, Chat
url, model_url, *said = sys.argv[1:]
with sync.Memory(url, settings=SETTINGS) as memory:
    memory.observe("Mia likes green tea.", agent_id=AGENT, user_id="mia")
    ada = Chat(memory, model_url, 20.0)
    for text in said:
        session = ada.memory.session(SQLiteSession("s1"), user_id="mia")
        Runner.run_sync(session.remembering(ada.agent), text, session=session, run_config=QUIET)
"""


@pytest.mark.slow
async def test_run_sync_remembers_with_a_sync_memory(database_url: str, memory: Memory, served: Model) -> None:
    """In a process of its own, since it leaves its loop open."""
    said = ("Which tea?", call("remember", text="Mia lives in Porto."))
    ran = await asyncio.create_subprocess_exec(
        sys.executable, "-c", RUN_SYNC, database_url, served.url, *said, cwd=ROOT, stderr=asyncio.subprocess.PIPE
    )
    _, err = await ran.communicate()
    assert ran.returncode == 0, err.decode()
    assert "green tea" in served.asked[0].instructions
    assert [text for role, text in await stored(memory) if role == "user"] == [*said]
    assert (await memory.search("Porto", **MIA)).results


def test_a_session_at_openai_is_refused(memory_nowhere: Memory) -> None:
    ada = AgentMemory(memory_nowhere, agent_id=AGENT)
    with pytest.raises(InputError, match="keeps its items at OpenAI"):
        ada.session(OpenAIConversationsSession(openai_client=AsyncOpenAI(api_key="none")), user_id="mia")


def test_what_cannot_be_is_refused_when_it_is_made(memory_nowhere: Memory, inner: SQLiteSession) -> None:
    with pytest.raises(InputError):
        AgentMemory(memory_nowhere, agent_id="")
    with pytest.raises(InputError):
        AgentMemory(memory_nowhere, agent_id=AGENT).session(inner, user_id="")
    session = AgentMemory(memory_nowhere, agent_id=AGENT, tools=None).session(inner, user_id="mia")
    assert session.tools == []


@pytest.fixture
def memory_nowhere() -> Memory:
    return Memory("postgresql://nobody@127.0.0.1:9/nothing")
