"""`memory-sql serve` as a process of its own."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

START_SECONDS = 60
STARTED = re.compile(r"(?: serves at|^inspector:) (http://\S+)", re.MULTILINE)
KEY = re.compile(r"key for this run: (ms_\S+)")


class Process(NamedTuple):
    process: asyncio.subprocess.Process
    url: str
    out: list[str]
    err: list[str]

    @property
    def key(self) -> str | None:
        """The one that it made for its own life."""
        found = KEY.search("\n".join(self.out))
        return found[1] if found else None

    async def ended(self) -> int:
        """Its exit code after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(START_SECONDS):
            return await self.process.wait()

    def memory_kib(self) -> int:
        return memory_kib(self.process.pid)


def memory_kib(pid: int) -> int:
    """What the process has in memory."""
    with open(f"/proc/{pid}/status") as file:
        return int(next(line for line in file if line.startswith("VmRSS")).split()[1])


@asynccontextmanager
async def serving(database_url: str, *options: str, command: str = "serve", **more: str) -> AsyncIterator[Process]:
    """`command`: serve or inspect. `more`: variables of its environment."""
    called = [sys.executable, "-m", "memory_sql.cli", command, "--port", "0", "--url", database_url, *options]
    environ = {**os.environ, "MEMORY_SQL_LLM": "offline", **more}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*called, stdout=pipe, stderr=pipe, env=environ)
    out, err, started = list[str](), list[str](), asyncio.Event()
    reading = [
        asyncio.create_task(_read(process.stdout, out, started)),
        asyncio.create_task(_read(process.stderr, err, started)),
    ]
    try:
        async with asyncio.timeout(START_SECONDS):
            await started.wait()
        found = STARTED.search("\n".join((*err, *out)))
        assert found, err
        yield Process(process, found[1], out, err)
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await asyncio.gather(*reading)


async def _read(stream: asyncio.StreamReader | None, into: list[str], started: asyncio.Event) -> None:
    assert stream is not None
    while line := await stream.readline():
        into.append(line.decode().rstrip())
        if STARTED.search(into[-1]):
            started.set()
    started.set()  # it has ended
