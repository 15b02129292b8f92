"""What every integration has to do, with agents of the real framework.

class TestLangChain(Behaviour):
    make = staticmethod(make)         # of this module, so that another process can import it
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from pydantic import BaseModel
from sqlalchemy import text as sql

from memory_sql import embedded
from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.db.engine import OVERFLOW
from memory_sql.errors import UnavailableError
from memory_sql.integrations.failures import AnyMemory
from memory_sql.llm import Answer, Request
from memory_sql.memory import Memory
from memory_sql.tools.answers import NOTICE
from tests.database import rows, serving
from tests.integrations.line import Line, line
from tests.integrations.model import ANSWER, Model, call, model

T = TypeVar("T", bound=BaseModel | str)

ROOT = Path(__file__).parents[2]
AGENT = "ada"
TEA = "Actually, I prefer green tea from Uji."  # a signal: it is due at once
SECONDS, PATIENT_SECONDS = 0.5, 20.0
SPARE = 4.0  # of a slow machine
SETTINGS = Settings(llm="offline", telemetry=True, pool_size=2, formation_min_messages=1)


class Agent(Protocol):
    """An agent "ada" of the framework, with memory."""

    async def say(self, text: str, *, user: str = "mia", conversation: str = "s1", turn: str | None = None) -> str:
        """The answer. `turn` names the user's message, where the framework has names for it: said again, it is the same."""

    async def close(self) -> None:
        """Closes the client of its model."""


class Make(Protocol):
    def __call__(self, memory: AnyMemory, model_url: str, seconds: float) -> Agent: ...


async def stored(memory: Memory) -> list[tuple[str, str]]:
    found = await rows(
        memory, "SELECT role, content FROM memory.messages WHERE content IS NOT NULL ORDER BY conversation_id, number"
    )
    return [(role, content) for role, content in found]


async def observed(memory: Memory) -> list[str]:
    return [content for (content,) in await rows(memory, "SELECT content FROM memory.observations ORDER BY 1")]


class Down:
    """A language model that nobody can reach."""

    async def generate(self, request: Request[T]) -> Answer[T]:
        raise UnavailableError("connection", "nobody is there")


@contextmanager
def within(seconds: float) -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds + SPARE


@contextmanager
def told_once(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """One line, in which nothing of what was said stands."""
    caplog.clear()
    yield
    told = [record.getMessage() for record in caplog.records if record.name == "memory_sql.integrations"]
    assert len(told) == 1
    assert "went on without it" in told[0]
    assert "tea" not in caplog.text


@asynccontextmanager
async def all_connections(memory: Memory) -> AsyncIterator[None]:
    async with AsyncExitStack() as held:
        for _ in range(SETTINGS.pool_size + OVERFLOW):
            session = await held.enter_async_context(serving(memory))
            await session.execute(sql("SELECT 1"))
        yield


async def in_another_process(make: Any, database_url: str, model_url: str, text: str) -> str:
    code = (
        "import asyncio, sys\n"
        "from tests.integrations.behaviour import AGENT, SETTINGS\n"
        f"from {make.__module__} import {make.__qualname__} as make\n"
        "from memory_sql import Memory\n"
        "async def main(url, model_url, text):\n"
        "    async with Memory(url, settings=SETTINGS) as memory:\n"
        "        agent = make(memory, model_url, 20.0)\n"
        "        print(await agent.say(text, conversation='another process'))\n"
        "        await agent.close()\n"
        "asyncio.run(main(*sys.argv[1:]))\n"
    )
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, database_url, model_url, text, stdout=pipe, stderr=pipe, cwd=ROOT
    )
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    return out.decode().strip()


class Behaviour:
    """`names_turns`: whether the framework knows a message again by a name of the host's.

    `stored_times`: how often it stores something in a turn with a tool.
    """

    make: Make
    names_turns = True
    stored_times = 1

    @pytest.fixture
    def failed(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], dict[str, int]]]:
        """How many steps have failed so far, by their names."""
        reader = InMemoryMetricReader()
        provider = MeterProvider([reader])
        monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
        yield lambda: _failed_steps(reader)
        provider.shutdown()

    @pytest.fixture
    async def wire(self, database_url: str) -> AsyncIterator[Line]:
        async with line(database_url) as made:
            yield made

    @pytest.fixture
    async def kept(self, failed: object, wire: Line) -> AsyncIterator[Memory]:
        """A memory whose line can be cut."""
        async with Memory(wire.url, settings=SETTINGS) as memory:
            yield memory
            await wire.mend()

    @pytest.fixture
    async def llm(self) -> AsyncIterator[Model]:
        async with model() as served:
            yield served

    @pytest.fixture
    async def agent(self, kept: Memory, llm: Model) -> AsyncIterator[Agent]:
        agent = self.make(kept, llm.url, PATIENT_SECONDS)
        yield agent
        await agent.close()

    @pytest.fixture
    async def hasty(self, kept: Memory, llm: Model) -> AsyncIterator[Agent]:
        """Another agent, which doesn't wait long for the same memory."""
        agent = self.make(kept, llm.url, SECONDS)
        yield agent
        await agent.close()

    async def test_remembers_in_another_conversation(self, agent: Agent, kept: Memory, llm: Model) -> None:
        assert await agent.say(TEA) == ANSWER
        assert await stored(kept) == [("user", TEA), ("assistant", ANSWER)]
        await kept.run_due()
        assert await observed(kept)
        assert await agent.say("Which tea?", conversation="s2") == ANSWER
        assert "green tea" in llm.asked[-1].instructions
        assert NOTICE in llm.asked[-1].instructions
        assert "green tea" not in llm.asked[0].instructions
        assert await kept.admin.verify() == []

    @pytest.mark.slow
    async def test_remembers_in_another_process(
        self, agent: Agent, kept: Memory, llm: Model, database_url: str
    ) -> None:
        await agent.say(TEA)
        await kept.run_due()
        assert await in_another_process(type(self).make, database_url, llm.url, "Which tea is it?") == ANSWER
        assert llm.asked[-1].said == "Which tea is it?"
        assert "green tea" in llm.asked[-1].instructions
        assert await kept.admin.verify() == []

    async def test_a_long_conversation_is_stored_once(self, agent: Agent, kept: Memory) -> None:
        said = [f"Turn {n} about the boats." for n in range(4)]
        for text in said:
            await agent.say(text)
        expected = [one for text in said for one in (("user", text), ("assistant", ANSWER))]
        assert await stored(kept) == expected

    async def test_the_same_turn_twice_is_stored_once(self, agent: Agent, kept: Memory) -> None:
        if not self.names_turns:
            pytest.skip("this framework has no names for turns")
        await agent.say(TEA, turn="t1")
        await agent.say(TEA, turn="t1")
        assert [text for role, text in await stored(kept) if role == "user"] == [TEA]

    async def test_a_run_that_is_tried_again_is_stored_once(self, agent: Agent, kept: Memory, llm: Model) -> None:
        await agent.say("Hello.")
        llm.refuses = True
        with pytest.raises(Exception, match="scripted"):
            await agent.say(TEA)
        llm.refuses = False
        assert await agent.say(TEA) == ANSWER
        assert [text for role, text in await stored(kept) if role == "user"] == ["Hello.", TEA]

    async def test_what_memory_says_is_never_said_to_it(self, agent: Agent, kept: Memory, llm: Model) -> None:
        await agent.say(TEA)
        await kept.run_due()
        before = await observed(kept)
        assert await agent.say(call("recall", query="tea"), conversation="s2") == ANSWER
        assert NOTICE in llm.asked[-1].results[-1]
        await kept.run_due()
        assert not any(NOTICE in text or "MemoryContext" in text for _, text in await stored(kept))
        assert [role for role, _ in await stored(kept)] == ["user", "assistant"] * 2
        assert len([text for text in await observed(kept) if "Uji" in text]) == len(before)

    async def test_tools_change_memory_and_refuse_other_names(self, agent: Agent, kept: Memory, llm: Model) -> None:
        await agent.say(call("remember", text="Mia lives in Porto."))
        assert "Remembered as" in llm.asked[-1].results[-1]
        await agent.say(call("recall", query="Porto", user_id="bo"))
        assert "user_id: there is no such argument" in llm.asked[-1].results[-1]
        found = await kept.search("Porto", agent_id=AGENT, user_id="mia", messages=0)
        assert [hit.observation.content for hit in found.results] == ["Mia lives in Porto."]

    async def test_forgetting_takes_two_turns(self, agent: Agent, kept: Memory, llm: Model) -> None:
        one = await kept.observe("Mia lives in Porto.", agent_id=AGENT, user_id="mia")
        await agent.say(call("forget", observation_ids=[one.id], confirmed=True))
        assert "Nothing was forgotten" in llm.asked[-1].results[-1]
        await agent.say(call("forget", observation_ids=[one.id], confirmed=True))
        assert f"Forgotten: {one.id}" in llm.asked[-1].results[-1]

    @pytest.mark.slow
    async def test_two_users_at_once_are_never_mixed(self, agent: Agent, kept: Memory, llm: Model) -> None:
        drinks = {"mia": "Actually, I prefer sencha.", "bo": "Actually, I prefer ristretto."}
        await asyncio.gather(*(agent.say(text, user=user, conversation=f"c-{user}") for user, text in drinks.items()))
        await kept.run_due()
        asked = len(llm.asked)
        await asyncio.gather(
            *(
                agent.say(f"{user}: what do I prefer?", user=user, conversation=f"d{n}-{user}")
                for n in range(3)
                for user in drinks
            )
        )
        for one in llm.asked[asked:]:
            mine, others = ("sencha", "ristretto") if one.said.startswith("mia") else ("ristretto", "sencha")
            assert mine in one.instructions
            assert others not in one.instructions
        said = await rows(kept, "SELECT DISTINCT user_id, content FROM memory.messages WHERE content LIKE '%prefer%'")
        assert {(user, text) for user, text in said if "Actually" in text} == set(drinks.items())

    async def test_a_memory_that_is_down_fails_no_turn_and_gets_it_later(
        self,
        agent: Agent,
        kept: Memory,
        wire: Line,
        caplog: pytest.LogCaptureFixture,
        failed: Callable[[], dict[str, int]],
    ) -> None:
        await agent.say("Hello.")
        await wire.cut()
        with within(SECONDS), told_once(caplog):
            assert await agent.say(TEA) == ANSWER
        assert failed() == {"before": 1, "after": 1}
        await wire.mend()
        await agent.say("And now?")
        users = [text for role, text in await stored(kept) if role == "user"]
        assert users == ["Hello.", TEA, "And now?"]
        assert len(await stored(kept)) == 6

    @pytest.mark.slow
    async def test_a_server_that_is_stopped_fails_no_turn(
        self, tmp_path: Path, llm: Model, caplog: pytest.LogCaptureFixture, failed: Callable[[], dict[str, int]]
    ) -> None:
        """A real one, and what it couldn't store comes when it is there again."""
        data = tmp_path / "data"
        server = await asyncio.to_thread(embedded.acquire, data)
        await asyncio.to_thread(migrate.upgrade, server.url)
        async with Memory(server.url, settings=SETTINGS) as memory:
            agent = self.make(memory, llm.url, PATIENT_SECONDS)
            await agent.say("Hello.")
            await asyncio.to_thread(server.release)
            with within(SECONDS), told_once(caplog):
                assert await agent.say(TEA) == ANSWER
            assert failed() == {"before": 1, "after": 1}
            server = await asyncio.to_thread(embedded.acquire, data)
            await agent.say("And now?")
            assert [text for role, text in await stored(memory) if role == "user"] == ["Hello.", TEA, "And now?"]
            await agent.close()
        await asyncio.to_thread(server.release)

    @pytest.mark.slow
    async def test_a_memory_that_hangs_fails_no_turn(
        self,
        agent: Agent,
        hasty: Agent,
        kept: Memory,
        wire: Line,
        caplog: pytest.LogCaptureFixture,
        failed: Callable[[], dict[str, int]],
    ) -> None:
        await agent.say("Hello.")
        wire.stop()
        with within(2 * SECONDS), told_once(caplog):
            assert await hasty.say(TEA) == ANSWER
        assert failed() == {"before": 1, "after": 1}
        wire.go_on()
        await agent.say("And now?", conversation="s2")
        users = [text for role, text in await stored(kept) if role == "user"]
        assert users.count("And now?") == 1
        assert users.count(TEA) <= 1  # it may have come through when the line went on

    @pytest.mark.slow
    @pytest.mark.direct
    async def test_a_full_pool_fails_no_turn(
        self,
        agent: Agent,
        hasty: Agent,
        kept: Memory,
        caplog: pytest.LogCaptureFixture,
        failed: Callable[[], dict[str, int]],
    ) -> None:
        async with all_connections(kept):
            with within(2 * SECONDS), told_once(caplog):
                assert await hasty.say(TEA) == ANSWER
        assert failed() == {"before": 1, "after": 1}
        assert await agent.say(TEA, conversation="s2") == ANSWER
        assert ("user", TEA) in await stored(kept)

    async def test_a_tool_fails_no_turn(
        self, agent: Agent, wire: Line, llm: Model, failed: Callable[[], dict[str, int]]
    ) -> None:
        await agent.say("Hello.")
        await wire.cut()
        with within(SECONDS):
            assert await agent.say(call("recall", query="tea")) == ANSWER
        assert "go on without it" in llm.asked[-1].results[-1]
        assert failed() == {"before": 1, "tool": 1, "after": self.stored_times}

    async def test_a_model_of_memory_that_is_down_fails_no_turn(
        self, database_url: str, llm: Model, failed: Callable[[], dict[str, int]]
    ) -> None:
        async with Memory(database_url, Down(), SETTINGS) as memory:
            agent = self.make(memory, llm.url, PATIENT_SECONDS)
            assert await agent.say(TEA) == ANSWER
            await agent.close()
            assert (await memory.run_due()).failed
            assert await stored(memory) == [("user", TEA), ("assistant", ANSWER)]
        assert failed() == {}

    @pytest.mark.slow
    async def test_a_turn_that_is_cancelled_leaves_nothing_half_stored(
        self, agent: Agent, kept: Memory, wire: Line
    ) -> None:
        await agent.say("Hello.")
        for delay in (0.0, 0.005, 0.02, 0.05, 0.1):
            turn = asyncio.create_task(agent.say(f"Take {delay}."))
            await asyncio.sleep(delay)
            turn.cancel()
            await asyncio.gather(turn, return_exceptions=True)
        task = 1
        while await _cancelled_with_task(agent, f"Take task {task}.", task):
            task += 1
        wire.stop()
        turn = asyncio.create_task(agent.say("Take while it hangs."))
        await asyncio.sleep(SECONDS / 5)
        turn.cancel()
        with within(SECONDS):
            await asyncio.gather(turn, return_exceptions=True)
        wire.go_on()
        assert await agent.say("And now?") == ANSWER
        said = await stored(kept)
        assert said[:2] == [("user", "Hello."), ("assistant", ANSWER)]
        assert said[-2:] == [("user", "And now?"), ("assistant", ANSWER)]
        users = [text for role, text in said if role == "user"]
        assert len(users) == len(set(users))
        assert await kept.admin.verify() == []


async def _cancelled_with_task(agent: Agent, text: str, nth: int) -> bool:
    """Cancel a turn as its `nth` task is made, which hasn't run then; whether it made so many."""
    loop = asyncio.get_running_loop()
    turn = asyncio.create_task(agent.say(text))
    made = 0

    def make(loop: asyncio.AbstractEventLoop, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        nonlocal made
        made += 1
        if made == nth:
            turn.cancel()
        return asyncio.Task(coroutine, loop=loop, **options)

    loop.set_task_factory(make)
    try:
        await asyncio.gather(turn, return_exceptions=True)
    finally:
        loop.set_task_factory(None)
    return made >= nth


def _failed_steps(reader: InMemoryMetricReader) -> dict[str, int]:
    data = reader.get_metrics_data()
    found: Any = json.loads(data.to_json()) if data else {"resource_metrics": []}
    return {
        point["attributes"]["memory_sql.step"]: point["value"]
        for of_resource in found["resource_metrics"]
        for of_scope in of_resource["scope_metrics"]
        for metric in of_scope["metrics"]
        if metric["name"] == "memory_sql.turns.failed"
        for point in metric["data"]["data_points"]
    }
