"""`examples/service`: two processes with one engine each, stopped by SIGTERM; and the script beside it."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.bare import Bare, closure, link
from tests.acceptance.test_types import mypy, pyright
from tests.migrations.databases import execute, fetch

pytestmark = pytest.mark.slow

CHECKOUT = Path(__file__).parents[2]
EXAMPLES = CHECKOUT / "examples"


def environ(url: str) -> dict[str, str]:
    return {**os.environ, "HARBOUR_URL": url, "MEMORY_SQL_LLM": "offline", "PYTHONPATH": f"{CHECKOUT}:{EXAMPLES}"}


def run(url: str, *command: str) -> str:
    done = subprocess.run(
        [sys.executable, *command],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=EXAMPLES,
        env=environ(url),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
async def harbour(empty_database: str) -> str:
    """A database with both histories."""
    await asyncio.to_thread(run, empty_database, "-m", "alembic", "-c", "service/alembic.ini", "upgrade", "head")
    await asyncio.to_thread(run, empty_database, "-m", "memory_sql.cli", "db", "upgrade", "--url", empty_database)
    return empty_database


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def started(url: str, port: int, log: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "uvicorn", "service.app:app", "--workers", "2", "--port", str(port)]
    with log.open("w") as to:
        return subprocess.Popen(command, stdout=to, stderr=to, cwd=EXAMPLES, env=environ(url))


@asynccontextmanager
async def served(url: str, log: Path) -> AsyncIterator[aiohttp.ClientSession]:
    port = free_port()
    process = started(url, port, log)
    try:
        async with asyncio.timeout(60):
            while log.read_text().count("Application startup complete") < 2:  # noqa: ASYNC240
                assert process.poll() is None, log.read_text()  # noqa: ASYNC240
                await asyncio.sleep(0.05)
        async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
            yield client
        process.send_signal(signal.SIGTERM)
        await asyncio.to_thread(process.wait, 30)
    finally:
        process.kill()
        process.wait()


async def test_two_processes_store_bookings_and_memory_together(harbour: str, tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def book(client: aiohttp.ClientSession, n: int) -> int:
        wish = {"customer": f"c{n % 5}", "berth": f"B{n % 30}", "message_id": f"m{n}", "message": f"Berth {n}, please."}
        async with client.post("/bookings", json=wish) as answer:
            return answer.status

    async with served(harbour, log) as client:
        statuses = await asyncio.gather(*(book(client, n) for n in range(40)))
        assert (statuses.count(201), statuses.count(409)) == (30, 10)
        async with client.get("/context/c1") as answer:
            assert "Booked berth B1." in (await answer.json())["context"]
        async with client.get(f"/context/{'x' * 300}") as answer:
            assert answer.status == 422
            assert "user_id" in (await answer.json())["detail"]
        await execute(harbour, "ALTER SCHEMA memory RENAME TO away")
        async with client.get("/context/c1") as answer:
            assert (answer.status, await answer.json()) == (500, {"detail": "memory isn't available"})
        await execute(harbour, "ALTER SCHEMA away RENAME TO memory")
    told = log.read_text()
    assert "Traceback" not in told
    assert told.count("Application shutdown complete") == 2
    counts = "SELECT (SELECT count(*) FROM bookings), (SELECT count(*) FROM memory.messages)"
    assert await fetch(harbour, counts) == [(30, 30)]
    printed = await asyncio.to_thread(run, harbour, "-m", "service.script", harbour, "c1")
    assert "Was written to." in printed


@pytest.mark.parametrize("checker", [mypy, pytest.param(pyright, marks=pytest.mark.prove)], ids=["mypy", "pyright"])
def test_service_and_script_have_no_type_errors_against_the_wheel(checker: object, bare: Bare, tmp_path: Path) -> None:
    for needed in closure(["fastapi"]):
        link(needed, bare.site)
    folder = tmp_path / "host"
    shutil.copytree(
        EXAMPLES / "service", folder / "service", ignore=shutil.ignore_patterns("migrations", "__pycache__")
    )
    command = {"mypy": mypy, "pyright": pyright}[checker.__name__](bare.root / "bin/python", folder)  # type: ignore[attr-defined]
    files = [str(file) for file in sorted((folder / "service").glob("*.py"))]
    done = subprocess.run(
        [sys.executable, "-m", *command, *files], check=False, capture_output=True, text=True, timeout=300, cwd=folder
    )
    assert done.returncode == 0, done.stdout + done.stderr
