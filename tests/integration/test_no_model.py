"""Without a language model nothing is formed: rules take its place only if somebody asks for them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from memory_sql.config import Settings
from memory_sql.errors import ConfigurationError
from memory_sql.llm.select import NO_MODEL
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.commands import Ran, memory_sql
from tests.database import rows
from tests.factories import message

MIA = ("--agent", "ada", "--user", "mia")
HERE: dict[str, Any] = {"agent_id": "ada", "user_id": "mia", "conversation_id": "talk"}
SAID = [message("From now on I work in Lisbon.")]


@pytest.fixture(autouse=True)
def _no_model(_own_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMORY_SQL_LLM")


async def run_for_ever(memory: Memory) -> None:
    await Worker(memory).run(asyncio.Event())


async def run_once(memory: Memory) -> None:
    await Worker(memory).run_once()


async def run_due(memory: Memory) -> None:
    await memory.run_due()


async def form(memory: Memory) -> None:
    await memory.conversations.form(agent_id="ada", conversation_id="talk")


async def consolidate(memory: Memory) -> None:
    (scope,) = await memory.scopes.list(agent_id="ada", user_id="mia")
    await memory.scopes.consolidate(agent_id="ada", scope_id=scope.ref.id)


async def propagate(memory: Memory) -> None:
    (scope,) = await memory.scopes.list(agent_id="ada", user_id="mia")
    await memory.scopes.propagate(agent_id="ada", scope_id=scope.ref.id)


WORK = (run_for_ever, run_once, run_due, form, consolidate, propagate)


@pytest.mark.parametrize("work", WORK, ids=[one.__name__ for one in WORK])
async def test_work_is_refused_and_messages_wait(database_url: str, work: Callable[[Memory], Awaitable[None]]) -> None:
    async with Memory(database_url, settings=Settings()) as memory:
        await memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")
        await memory.add(SAID, **HERE)
        with pytest.raises(ConfigurationError) as refused:
            await work(memory)
        assert str(refused.value) == NO_MODEL
        assert await memory.conversations.unformed(agent_id="ada") == ["talk"]
        assert await rows(memory, "SELECT run_id FROM memory.runs") == []
        waiting = await memory.work.backlog(agent_id="ada")
        assert (waiting.due_conversations, waiting.has_model) == (1, False)


async def test_waiting_for_it_is_refused_once_the_messages_are_stored(database_url: str) -> None:
    async with Memory(database_url, settings=Settings()) as memory:
        with pytest.raises(ConfigurationError) as refused:
            await memory.add(SAID, **HERE, wait=True)
        assert refused.value.added is not None
        assert refused.value.added.accepted == 1
        assert refused.value.added.formation == "no_model"


async def test_what_needs_no_model_goes_on(database_url: str) -> None:
    """A forgetting rewrites no text then: it is withheld until there is a model."""
    async with Memory(database_url, settings=Settings()) as memory:
        await memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")
        assert "likes tea" in str(await memory.context(agent_id="ada", user_id="mia"))
        await memory.work.maintain()


def test_commands_refuse_in_one_line(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: object, code: int = 0) -> Ran:
        return memory_sql(*args, "--url", database_url, code=code)

    for early in (("worker", "--once"), ("run-due",)):
        assert run(*early, code=1).err == f"memory-sql: {NO_MODEL}\n"
    assert "there is no language model: set" in run("work", "backlog").out
    talk = tmp_path / "talk.jsonl"
    talk.write_text(json.dumps({"role": "user", "content": SAID[0]["content"]}))
    run("add", talk, *MIA, "--no-form")
    for command in (("worker",), ("worker", "--once"), ("run-due",), ("conversation", "form", "--agent", "ada")):
        refused = run(*command, code=1)
        assert refused.err == f"memory-sql: {NO_MODEL}\n"
        assert "\n" not in NO_MODEL
    assert "there is no language model, and messages wait: set" in run("work", "backlog").out
    monkeypatch.setenv("MEMORY_SQL_LLM", "offline")
    assert "there is no language model" not in run("work", "backlog").out
    assert "offline-rules-1" in run("conversation", "form", "--agent", "ada").out
