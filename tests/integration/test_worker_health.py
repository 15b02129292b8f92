"""What a worker reports: its log, its health over HTTP, the age of a file."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
from datetime import datetime, timedelta
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from sqlalchemy import text

from memory_sql.cli.health import Watch, noted, served
from memory_sql.config import Settings
from memory_sql.domain.results import Backlog
from memory_sql.errors import ConfigurationError, UnavailableError
from memory_sql.memory import Memory
from memory_sql.resources.clock import own_time
from memory_sql.worker import STALE, Health, Worked, Worker
from tests.commands import memory_sql
from tests.database import connect_once, owners_url, rows
from tests.factories import message
from tests.fakes import Parrot, Scripted
from tests.integration.test_worker import process

SECRET = "I prefer honey from my own bees."
IDLE = Backlog(
    due_conversations=0,
    due_scopes=0,
    due_propagations=0,
    waiting_conversations=0,
    oldest_due_at=None,
    in_progress=0,
    retrying=0,
    dead=0,
    held=0,
    late=0,
)


class Got(NamedTuple):
    status: int
    kind: str | None
    body: bytes


def get(port: int, path: str) -> Got:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    connection.request("GET", path)
    answer = connection.getresponse()
    got = Got(answer.status, answer.getheader("Content-Type"), answer.read())
    connection.close()
    return got


def state(**more: Any) -> Health:
    return Health(**{"at": own_time(), "running": 0, "worked": Worked(), "backlog": IDLE, **more})


def test_health_follows_the_database_and_life_the_event_loop() -> None:
    watch = Watch()
    statuses = []
    for told in (
        None,
        state(),
        state(backlog=None, error="the database can't be reached: ConnectionRefusedError"),
        state(at=own_time() - 2 * STALE),
    ):
        if told is not None:
            watch(told)
        statuses.append((watch.answer("/health")[0], watch.answer("/live")[0]))
    assert statuses == [(503, 200), (200, 200), (503, 200), (503, 503)]


@pytest.mark.slow
def test_health_is_served_as_json_and_only_what_there_is() -> None:
    watch = Watch()
    watch(state(running=2, worked=Worked(formed=3), refusal="no credit"))
    with served(watch, "127.0.0.1", 0) as port:
        got = get(port, "/health?verbose")
        assert (got.status, got.kind) == (200, "application/json")
        told = json.loads(got.body)
        assert (told["running"], told["worked"]["formed"], told["refusal"]) == (2, 3, "no credit")
        assert told["backlog"]["due_conversations"] == 0
        assert get(port, "/live").body == b"live\n"
        assert get(port, "/").status == 404
        with pytest.raises(ConfigurationError, match=f"health can't be served at 127.0.0.1:{port}"):
            served(watch, "127.0.0.1", port).__enter__()
    with served(watch, "127.0.0.1", port) as again:  # it was given back
        assert again == port


def test_file_grows_old_where_all_is_not_well_and_goes_at_the_end(tmp_path: Path) -> None:
    file = tmp_path / "health.json"
    with noted(file) as note:
        note(state(error="no database"))
        assert not file.exists()
        note(state(running=1))
        assert json.loads(file.read_text())["running"] == 1
        note(state(running=2, error="no database"))
        assert json.loads(file.read_text())["running"] == 1
    assert not file.exists()


@pytest.mark.slow
def test_who_connects_and_says_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a thread and a file descriptor, which the worker needs for its database."""
    monkeypatch.setattr("memory_sql.cli.health.READ_SECONDS", 0.05)
    with served(Watch(), "127.0.0.1", 0) as port, socket.create_connection(("127.0.0.1", port), timeout=5) as silent:
        assert silent.recv(1) == b""


def test_pipe_for_the_state_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "health"
    os.mkfifo(pipe)
    reading = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with noted(pipe) as note:
        note(state(running=1))
    assert json.loads(os.read(reading, 10_000))["running"] == 1
    os.close(reading)
    assert pipe.is_fifo()


def test_file_that_cannot_be_written_is_said_and_does_no_harm(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with noted(tmp_path / "nowhere" / "health.json") as note:
        note(state())
    assert "the health file can't be written" in caplog.text


async def test_worker_tells_what_waits_and_who_refuses(database_url: str, llm: Scripted) -> None:
    told: asyncio.Future[Health] = asyncio.get_running_loop().create_future()
    llm.then(UnavailableError("auth", "the server answered HTTP 401"))
    async with Memory(database_url, llm) as memory:
        await memory.add([message(SECRET)], agent_id="ada", user_id="mia", conversation_id="monday")
        worker = Worker(memory, watch=told.set_result)
        await worker.run_once()
        stop = asyncio.Event()
        running = asyncio.create_task(worker.run(stop))
        async with asyncio.timeout(30):
            health = await told
        stop.set()
        await running
    assert health.is_well
    assert health.backlog is not None
    assert (health.backlog.retrying, health.backlog.refusal) == (1, "auth")
    assert health.refusal is not None
    assert health.refusal.startswith("the server answered HTTP 401; nothing else is asked before ")


async def test_worker_that_has_lost_its_database_is_not_well(database_url: str) -> None:
    async with Memory(database_url, Parrot()) as memory:
        worker = Worker(memory)
        assert (await worker.health()).is_well
        await rows(memory, "ALTER SCHEMA memory RENAME TO elsewhere")
        health = await worker.health()
        assert not health.is_well
        assert health.error == "the database has no schema of this release; run `memory-sql db upgrade`"


@pytest.mark.slow
async def test_worker_whose_database_hangs_lives_but_is_not_well(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_sql.worker.ANSWER_SECONDS", 0.2)
    async with Memory(database_url, Parrot(), Settings(lock_timeout_seconds=600)) as memory:
        worker = Worker(memory)
        async with connect_once(owners_url(database_url)) as holding:
            await holding.execute(text("LOCK TABLE memory.conversations"))
            for _ in range(2):
                health = await worker.health()
                assert health.error == "the database hasn't answered for 0.2 s"
                assert not health.is_well
                assert not health.is_stale
            waiting = (
                "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
            )
            assert await holding.scalar(text(waiting)) == 1  # it was asked once
        monkeypatch.setattr("memory_sql.worker.ANSWER_SECONDS", 10.0)
        assert (await worker.health()).is_well


# As a process


async def has_formed(file: Path) -> None:
    """Until the file says so."""
    while True:
        if formed_by(file):
            return
        await asyncio.sleep(0.05)


def formed_by(file: Path) -> int:
    return json.loads(file.read_text())["worked"]["formed"] if file.exists() else 0


@pytest.mark.slow
async def test_log_is_json_with_its_facts_and_without_what_was_said(
    database_url: str, memory: Memory, tmp_path: Path
) -> None:
    await memory.add([message(SECRET)], agent_id="ada", user_id="mia", conversation_id="monday")
    file, port = tmp_path / "health.json", _free_port()
    options = ("--url", database_url, "--log-format", "json", "--health-port", str(port), "--health-file", str(file))
    async with process(*options, MEMORY_SQL_LLM="offline") as worker, asyncio.timeout(60):
        await has_formed(file)
        health = await asyncio.to_thread(get, port, "/health")
        metrics = await asyncio.to_thread(get, port, "/metrics")
        worker.send_signal(signal.SIGTERM)
        _, err = await worker.communicate()
    assert (health.status, metrics.status) == (200, 200)
    for line in (b"gen_ai_client_operation_duration_seconds_count{", b'memory_sql_backlog{memory_sql_kind="dead"'):
        assert line in metrics.body
    assert b"bees" not in metrics.body
    assert not file.exists()
    assert "bees" not in err.decode()
    started, formed, *_, stopping = [json.loads(line) for line in err.decode().splitlines()]
    assert (started["event"], started["model"], started["concurrency"]) == ("started", "offline", 4)
    assert formed["message"] == "conversation monday of agent ada: 1 message, 1 observation"
    assert (formed["level"], formed["event"], formed["agent_id"], formed["observations"]) == (
        "info",
        "formed",
        "ada",
        1,
    )
    assert datetime.now().astimezone() - datetime.fromisoformat(formed["time"]) < timedelta(minutes=5)
    assert stopping["message"].startswith("stopping")


def test_start_line_names_the_database_without_its_password(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEMORY_SQL_LLM", "offline")
    url = re.sub(r"^(.*?://)(\w+)(?::[^@/]*)?@", r"\1\2:hushhush@", database_url)
    told = memory_sql("worker", "--once", "--url", url).err
    assert "hushhush" not in told
    assert ":***@" in told


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
