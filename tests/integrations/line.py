"""A line to a Postgres that can be cut, or on which nothing moves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from memory_sql.db.urls import asyncpg_url


class Line:
    """`url`: the database by this line."""

    def __init__(self, url: str) -> None:
        self._real = asyncpg_url(url)
        self._moves = asyncio.Event()
        self._moves.set()
        self._server: asyncio.Server | None = None
        self._tasks = set[asyncio.Task[None]]()
        self._port = 0

    @property
    def url(self) -> str:
        by_line = self._real.difference_update_query(["host", "port"]).set(host="127.0.0.1", port=self._port)
        return by_line.render_as_string(hide_password=False)

    async def connect(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """As if the server had been stopped: what is open ends, and nobody listens."""
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def stop(self) -> None:
        """Nothing moves any more; new connections hang, too."""
        self._moves.clear()

    def go_on(self) -> None:
        self._moves.set()

    async def mend(self) -> None:
        self.go_on()
        if self._server is not None and not self._server.is_serving():
            await self.connect()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            to_read, to_write = await self._open()
            try:
                await asyncio.gather(self._carry(reader, to_write), self._carry(to_read, writer))
            finally:
                to_write.close()
        except (asyncio.CancelledError, OSError):  # a cancelled one would be told of as a failure of the server
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        query = self._real.query
        host = str(query.get("host", self._real.host))
        port = int(str(query.get("port", self._real.port or 5432)))
        if host.startswith("/"):
            return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
        return await asyncio.open_connection(host, port)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                await self._moves.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


@asynccontextmanager
async def line(url: str) -> AsyncIterator[Line]:
    made = Line(url)
    await made.connect()
    try:
        yield made
    finally:
        made.go_on()
        await made.cut()
