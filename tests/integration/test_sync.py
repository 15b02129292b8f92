"""`memory_sql.sync`: the same methods for code without await."""

from __future__ import annotations

import asyncio
import inspect
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from memory_sql import memory as awaited
from memory_sql import sync
from memory_sql.config import Settings
from memory_sql.errors import InputError, NotFoundError
from memory_sql.portal import AHEAD, Portal
from memory_sql.resources.faces import FACES
from memory_sql.sync import Memory
from tests.factories import message

MIA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}
ASYNC_ONLY = {"Work.claim", "Work.refusal", "Memory.database"}
INTERRUPTED = """
import asyncio, signal, sys
from memory_sql.sync import Memory

signal.signal(signal.SIGINT, signal.default_int_handler)  # as in a terminal, whoever runs the tests ignores it

async def for_ever():
    print("waiting", flush=True)
    try:
        await asyncio.sleep(600)
    finally:
        print("given up", flush=True)

with Memory(sys.argv[1]) as memory:
    try:
        memory._portal.call(for_ever)
    except KeyboardInterrupt:
        print(len(memory.observations.list(agent_id="ada", user_id="mia")), flush=True)
"""


def opened(url: str) -> Memory:
    return Memory(url, settings=Settings(llm="offline"))


@pytest.mark.slow
def test_everything_is_called_without_awaiting(database_url: str) -> None:
    with opened(database_url) as memory:
        added = memory.add([message("I prefer green tea.")], **MIA, conversation_id="s", wait=True)
        assert added.formation in ("formed", "nothing")
        told = memory.observe("Has bay 4711.", **MIA)
        assert memory.observations.get(told.id, **MIA) == told
        assert "4711" in str(memory.context(**MIA, message="Which bay?"))
        assert memory.configure(agent_id="ada", formation_messages=20) == {"formation_messages": 20}
        lines = memory.people.export(**MIA)
        assert next(iter(lines)).type == "header"
        assert [line.type for line in lines].count("observation") == len(memory.observations.list(**MIA))
        half_read = memory.people.export(**MIA)
        next(iter(half_read))
        with pytest.raises(NotFoundError):
            memory.observations.get("o999-1", **MIA)
        with pytest.raises(NotFoundError):
            list(memory.people.export(agent_id="nobody", user_id="mia"))
    assert not [thread for thread in threading.enumerate() if thread.name == "memory_sql.sync"]


@pytest.mark.slow
def test_threads_call_at_once(database_url: str) -> None:
    with opened(database_url) as memory, ThreadPoolExecutor(8) as threads:
        told = list(threads.map(lambda n: memory.observe(f"Boat {n}.", **MIA), range(40)))
        assert len({one.id for one in told}) == len(memory.observations.list(**MIA, limit=100)) == 40


def test_what_cannot_be_waited_for_is_named(database_url: str) -> None:
    memory = opened(database_url)
    with pytest.raises(InputError, match="not open"):
        memory.context(**MIA)

    async def inside() -> None:
        memory.context(**MIA)

    with memory:
        with pytest.raises(InputError, match="event loop"):
            asyncio.run(inside())
        with pytest.raises(InputError, match="session="):
            memory.context(**MIA, session=object())  # type: ignore[arg-type]  # what it names
        with pytest.raises(InputError, match="open already"):
            memory.open()
    with pytest.raises(InputError, match="not open"):
        memory.context(**MIA)
    with memory:
        assert memory.observations.list(**MIA) == []


def test_who_waits_while_another_thread_closes_is_told(database_url: str) -> None:
    memory, waits = opened(database_url).open(), threading.Event()

    async def for_ever() -> None:
        waits.set()
        await asyncio.sleep(600)

    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(memory._portal.call, for_ever)
        assert waits.wait(20)
        memory.close()
        with pytest.raises(InputError, match="closed by another thread"):
            waiting.result(20)


@pytest.mark.slow
def test_interrupt_gives_up_what_is_waited_for_and_memory_goes_on(database_url: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED, database_url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stdout is not None
            assert program.stdout.readline() == "waiting\n"
            program.send_signal(signal.SIGINT)
            out, err = program.communicate(timeout=60)
        finally:
            program.kill()
    assert (sorted(out.split("\n")), err, program.returncode) == (["", "0", "given up"], "", 0)


UNFINISHED = """
import sys
from memory_sql.sync import Memory

memory = Memory(sys.argv[1]).open()
memory.observe("Mia likes tea.", agent_id="ada", user_id="mia")
lines = memory.people.export(agent_id="ada", user_id="mia")
print(next(lines).type)
"""


@pytest.mark.slow
def test_process_ends_though_nobody_reads_an_iterator_to_its_end(database_url: str) -> None:
    command = [sys.executable, "-c", UNFINISHED, database_url]
    ended = subprocess.run(command, check=False, timeout=60, capture_output=True, text=True)
    assert (ended.stdout, ended.stderr, ended.returncode) == ("header\n", "", 0)


def test_iterator_that_is_dropped_where_a_loop_runs_stops_reading(database_url: str) -> None:
    """As by the garbage collector, which may run anywhere."""

    async def still_reading() -> int:
        takes = [task for task in asyncio.all_tasks() if "take" in str(task.get_coro())]
        return len((await asyncio.wait(takes, timeout=20))[1]) if takes else 0

    with opened(database_url) as memory:
        memory.add([message(n=n) for n in range(AHEAD * 2)], **MIA, conversation_id="s")
        lines = [memory.people.export(**MIA)]
        next(lines[0])

        async def drop() -> None:
            lines.clear()

        asyncio.run(drop())
        assert memory._portal.call(still_reading) == 0


def public(cls: type) -> dict[str, Any]:
    return {name: value for name, value in vars(cls).items() if not name.startswith("_")}


def test_each_method_is_there_with_the_same_parameters() -> None:
    kinds: list[tuple[Any, Any]] = [(awaited.Memory, sync.Memory)]
    given = awaited.Memory("postgresql://nowhere/none", settings=Settings())
    for part in (getattr(given, name) for name in FACES):
        kinds.append((type(part), getattr(sync, type(part).__name__)))
    for theirs, ours in kinds:
        assert {f"{theirs.__name__}.{name}" for name in set(public(theirs)) - set(public(ours))} <= ASYNC_ONLY
        face = ours("postgresql://nowhere/none") if ours is sync.Memory else ours(Portal(lambda: None), None)
        for name in set(public(theirs)) & set(public(ours)):
            wanted = list(inspect.signature(getattr(theirs, name)).parameters)[1:]
            assert wanted == list(inspect.signature(getattr(face, name)).parameters)
    assert len(kinds) == 16
    wanted = [name for name in inspect.signature(awaited.Memory).parameters if name != "engine"]
    assert list(inspect.signature(sync.Memory).parameters) == wanted


def test_run_awaits_also_where_a_loop_runs(database_url: str) -> None:
    async def both(given: awaited.Memory) -> list[str]:
        await given.observe("Likes tea.", **MIA)
        return [one.content for one in await given.observations.list(**MIA)]

    async def within(given: awaited.Memory) -> None:
        memory.run(both)

    async def in_a_loop() -> list[str]:
        with pytest.raises(InputError, match="would block"):
            memory.observations.list(**MIA)
        return memory.run(both)

    with opened(database_url) as memory:
        assert memory.run(both) == asyncio.run(in_a_loop()) == ["Likes tea."]
        with pytest.raises(InputError, match="await"):
            memory.run(within)
        with pytest.raises(NotFoundError):
            memory.run(lambda given: given.observations.get("o9-1", **MIA))
    with pytest.raises(InputError, match="not open"):
        memory.run(both)


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda memory: memory.conversations.form(agent_id=None, conversation_id="1"), "agent_id"),
        (
            lambda memory: memory.run(lambda awaited: awaited.conversations.form(agent_id="", conversation_id="1")),
            "agent_id",
        ),
        (lambda memory: memory.run(lambda awaited: awaited.now()), "not datetime"),
        (lambda memory: memory.run(asyncio.sleep(0)), "not coroutine"),
    ],
)
def test_what_fails_before_there_is_a_coroutine_is_raised(database_url: str, call: Any, says: str) -> None:
    with opened(database_url) as memory:
        calling = ThreadPoolExecutor(1).submit(call, memory)
        with pytest.raises(InputError, match=says):
            calling.result(timeout=10)
