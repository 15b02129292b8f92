"""worker --once, work backlog, dead, retry, discard, scope undo; the worker as a process is in test_worker.py."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from memory_sql.cli import worker as commands
from memory_sql.config import ScopeSettings, Settings
from memory_sql.memory import Memory
from memory_sql.worker import Worker
from tests.commands import Ran, memory_sql
from tests.database import rows
from tests.factories import message
from tests.fakes import HOPELESS, Reply, Scripted

Run = Callable[..., Ran]

ADA = ("--agent", "ada")
MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.fixture
def run(database_url: str) -> Run:
    return lambda *args, **options: memory_sql(*args, "--url", database_url, **options)


@pytest.fixture
def remember(database_url: str) -> Callable[..., None]:
    """Does something with a memory whose model gives these replies, and whose patience is short."""

    def remember(what: Callable[[Memory], Awaitable[object]], *replies: Reply) -> None:
        async def with_memory() -> None:
            settings = Settings(max_errors=1, consolidation_threshold=2, deduplicate="newest")
            async with Memory(database_url, Scripted(*replies), settings) as memory:
                await what(memory)

        asyncio.run(with_memory())

    return remember


async def say(memory: Memory) -> None:
    await memory.add([message("Actually, I prefer tea.")], **MIA, conversation_id="monday")


async def poison(memory: Memory) -> None:
    await say(memory)
    await memory.run_due()


async def poison_one(memory: Memory) -> None:
    poisoned = await memory.observe("one", **MIA, scope="poisoned")
    await memory.scopes.set(poisoned.scope.id, ScopeSettings(consolidation_threshold=1), agent_id="ada")
    await memory.run_due()


async def poison_scope(memory: Memory) -> None:
    for fact in ("one", "two"):
        await memory.observe(fact, **MIA)
    await memory.run_due()


def dead_run(run: Run) -> str:
    (dead,) = run("work", "dead", "--json").rows
    return str(dead["run_id"])


def test_worker_does_once_what_is_due(run: Run, remember: Callable[..., None]) -> None:
    remember(say)
    ran = run("worker", "--once", "--json")
    assert ran.value == {"formed": 1, "consolidated": 0, "propagated": 0, "failed": 0, "interrupted": 0, "embedded": 0}
    assert ran.err.endswith("Z info    conversation monday of agent ada: 1 message, 1 observation\n")
    idle = run("worker", "--once", *ADA)
    assert idle.out == "formed 0 conversations, consolidated 0 scopes, propagated 0 claims, 0 failed, 0 interrupted\n"
    (started,) = idle.err.splitlines()
    assert " works for agent ada, 4 at once; model offline; database " in started


def test_worker_says_when_something_failed(
    run: Run, remember: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(say)
    for name, value in {
        "MEMORY_SQL_LLM": "openai", "MEMORY_SQL_LLM_MAX_RETRIES": "0", "OPENAI_API_KEY": "none",
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
    }.items():  # fmt: skip
        monkeypatch.setenv(name, value)
    ran = run("worker", "--once", "--json", code=1)
    assert ran.value["failed"] == 1
    reason = "the model's server at 127.0.0.1:9 can't be reached; tried once; is OPENAI_BASE_URL right?\n"
    assert ran.err.endswith(f"warning conversation monday of agent ada: {reason}")
    assert run("work", "backlog", "--json").value["retrying"] == 1


def test_worker_refuses_what_makes_no_sense(run: Run) -> None:
    assert "concurrency" in run("worker", "--once", "--concurrency", 0, code=1).err


def test_worker_has_the_same_defaults_as_a_command_and_as_a_class() -> None:
    command, worker = (inspect.signature(it).parameters for it in (commands.worker, Worker))
    names = {"concurrency": "concurrency", "poll": "poll_seconds", "grace": "grace_seconds"}
    assert {name: command[name].default for name in names} == {
        name: worker[parameter].default for name, parameter in names.items()
    }


def test_status_counts_what_waits(run: Run, remember: Callable[..., None]) -> None:
    nothing = "due          0 conversations, 0 scopes\nin progress  0\nretrying     0\ngiven up     0\n"
    assert run("work", "backlog").out == nothing
    remember(say)
    assert re.fullmatch(
        r"due          1 conversation, 0 scopes; the oldest since \d{4}-\d\d-\d\d \d\d:\d\d UTC\n"
        r"in progress  0\nretrying     0\ngiven up     0\n",
        run("work", "backlog").out,
    )
    assert run("work", "backlog", "--agent", "eve").out == nothing
    assert run("work", "backlog", *ADA, "--json").value["due_conversations"] == 1


def test_status_lists_what_was_given_up_and_why(run: Run, remember: Callable[..., None]) -> None:
    remember(poison, *HOPELESS)
    status = run("work", "backlog", "--json").value
    assert (status["dead"], status["due_conversations"]) == (1, 0)
    (dead,) = run("work", "dead", "--json").rows
    assert (dead["agent_id"], dead["conversation_id"], dead["error_code"]) == ("ada", "monday", "not_json")
    line = run("work", "dead").out.strip()
    assert re.fullmatch(rf"run {dead['run_id']}  ada  conversation monday  [\d-]+ [\d:]+ UTC  not_json: .+", line)
    assert run("work", "dead", "--agent", "eve", "--json").rows == []
    assert run("work", "dead", "--agent", "eve").out == "nothing was given up\n"


def test_dead_run_is_tried_again_when_asked(run: Run, remember: Callable[..., None]) -> None:
    remember(poison, *HOPELESS)
    number = dead_run(run)
    assert run("work", "retry", number, *ADA).out == f"run {number}: due again\n"
    assert run("worker", "--once", "--json").value["formed"] == 1
    assert run("work", "retry", number, *ADA, code=1).err == f"memory-sql: no run that was given up {number}\n"


def test_dead_run_is_discarded_only_when_that_is_meant(run: Run, remember: Callable[..., None]) -> None:
    remember(poison, *HOPELESS)
    number = dead_run(run)
    assert "use --yes to confirm" in run("work", "discard", number, *ADA, code=1).err
    assert run("work", "discard", number, *ADA, "--yes", "--json").value == {
        "run_id": int(number),
        "state": "discarded",
    }
    assert run("work", "backlog", "--json").value["dead"] == 0
    assert (
        run("work", "discard", number, *ADA, "--yes", code=1).err == f"memory-sql: no run that was given up {number}\n"
    )


def test_dead_run_of_a_scope_names_the_scope(run: Run, remember: Callable[..., None]) -> None:
    remember(poison_one, "")
    (dead,) = run("work", "dead", "--json").rows
    assert f"  scope {dead['scope_id']}  " in run("work", "dead").out
    assert run("work", "discard", dead["run_id"], *ADA, "--yes").out == f"run {dead['run_id']}: discarded\n"


@pytest.mark.slow
def test_text_is_taken_back(run: Run, remember: Callable[..., None]) -> None:
    remember(poison_scope, "One and two.")
    remember(poison_scope, "One, two, and again.")
    (scope,) = run("scope", "list", *ADA, "--user", "mia", "--json").rows
    undo = partial(run, "scope", "undo", scope["ref"]["id"], *ADA)
    assert undo().out == f"{scope['ref']['id']}  individual:mia  v3\n  One and two.\n"
    assert undo("--json").value["version"] == 4
    assert "consolidation to undo" in undo(code=1).err
    assert run("scope", "undo", "twelve", *ADA, code=1).err == "memory-sql: scope_id: must look like s12\n"


@pytest.mark.slow
def test_change_of_a_text_is_shown_by_sentences(run: Run, remember: Callable[..., None]) -> None:
    remember(poison_scope, "One and two. So it is.")
    remember(poison_scope, "One and two. So it was.")
    (scope,) = run("scope", "list", *ADA, "--user", "mia", "--json").rows
    key = scope["ref"]["id"]
    diff = partial(run, "scope", "diff", key, *ADA, "--user", "mia")
    numbers = ", ".join(f"o{key[1:]}-{seq}" for seq in (3, 4))
    shown = f"--- {key} v1\n+++ {key} v2\n  One and two.\n- So it is.\n+ So it was.\nabsorbed: {numbers}\n"
    assert diff().out == shown
    assert diff("--from", "1", "--to", "2").out == shown
    assert diff("--json").value["sentences"][0] == {"change": "kept", "text": "One and two."}
    assert diff("--to", "3", code=1).err == f"memory-sql: no text of scope {key} of version 3\n"


@pytest.mark.slow
def test_verify_has_nothing_to_say_until_something_is_wrong(run: Run, remember: Callable[..., None]) -> None:
    remember(say)
    assert run("admin", "verify").out == "everything holds\n"
    assert run("admin", "verify", "--json").out == ""
    remember(partial(execute, sql="UPDATE memory.conversations SET unformed_messages = 7"))
    wrong = run("admin", "verify", "--json", code=1)
    assert "unformed_messages_are_counted" in wrong.out


async def execute(memory: Memory, sql: str) -> None:
    await rows(memory, sql)
