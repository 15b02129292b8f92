"""Counts what a client sends to Postgres: statements and round trips, including BEGIN and COMMIT."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import URL

from memory_sql.db.urls import asyncpg_url

_PROTOCOL_3 = 3  # the major version in the first message; requests for TLS or cancellation have another number there
_SOCKET = ".s.PGSQL.5432"
_CHUNK = 65536


class Frames:
    """Splits the bytes of one client into messages of the Postgres protocol."""

    def __init__(self) -> None:
        self._waiting = bytearray()
        self._started = False

    def feed(self, data: bytes) -> list[str]:
        """The types of the messages completed so far, in order.

        Messages before the start-up have no type and are left out.
        """
        self._waiting += data
        types = []
        while (end := self._end()) <= len(self._waiting):
            if self._started:
                types.append(chr(self._waiting[0]))
            else:
                self._started = int.from_bytes(self._waiting[4:6]) == _PROTOCOL_3
            del self._waiting[:end]
        return types

    def _end(self) -> int:
        """Where the first message ends, as far as its length can be read yet."""
        head = int(self._started)  # the type is one byte
        if len(self._waiting) < head + 4:
            return head + 4
        return head + int.from_bytes(self._waiting[head : head + 4])


@dataclass(slots=True)
class Wire:
    """What was sent since it was last reset. `url` leads through it."""

    url: str
    types: Counter[str] = field(default_factory=Counter)

    @property
    def statements(self) -> int:
        """Simple queries and executions of prepared statements."""
        return self.types["Q"] + self.types["E"]

    @property
    def round_trips(self) -> int:
        """How often the client waits for an answer: after a simple query, a Sync or a Flush."""
        return self.types["Q"] + self.types["S"] + self.types["H"]


@asynccontextmanager
async def counted(url: str) -> AsyncIterator[Wire]:
    """A socket in front of the server that forwards everything and counts."""
    there = asyncpg_url(url)
    with tempfile.TemporaryDirectory(prefix="wire") as folder:
        wire = Wire(_through(there, folder).render_as_string(hide_password=False))
        passed_on = list[asyncio.Task[None]]()
        async with asyncio.TaskGroup() as served:

            async def serve(client: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
                server, requests = await _connect(there)
                passed_on.append(served.create_task(_count(client, requests, wire)))
                passed_on.append(served.create_task(_pass_on(server, answers)))

            listener = await asyncio.start_unix_server(serve, Path(folder) / _SOCKET)
            try:
                yield wire
            finally:
                listener.close()
                for passing in passed_on:
                    passing.cancel()  # a pool that is kept would hold its connections open


def _through(url: URL, folder: str) -> URL:
    query = {**url.query, "host": folder}
    return URL.create(url.drivername, url.username, url.password, database=url.database, query=query)


async def _connect(url: URL) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    folder = url.query.get("host")
    if isinstance(folder, str) and folder.startswith("/"):
        return await asyncio.open_unix_connection(Path(folder) / _SOCKET)
    return await asyncio.open_connection(url.host or "localhost", url.port or 5432)


async def _count(client: asyncio.StreamReader, requests: asyncio.StreamWriter, wire: Wire) -> None:
    frames = Frames()
    try:
        while data := await client.read(_CHUNK):
            wire.types.update(frames.feed(data))
            requests.write(data)
            await requests.drain()
    finally:
        requests.close()


async def _pass_on(server: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
    try:
        while data := await server.read(_CHUNK):
            answers.write(data)
            await answers.drain()
    finally:
        answers.close()
