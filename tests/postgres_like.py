"""Servers on 127.0.0.1 that aren't Postgres, or that refuse as Postgres and poolers do before a connection is open."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Greeting = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

TLS_ASKED = struct.pack("!ii", 8, 80877103)


@asynccontextmanager
async def listening(greeting: Greeting) -> AsyncIterator[int]:
    """The port, on which each connection is greeted and then closed."""
    greeted: set[asyncio.StreamWriter] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        greeted.add(writer)
        await greeting(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        for writer in greeted:
            writer.close()
        server.close()
        await server.wait_closed()


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Reads until the other side has had enough."""
    await reader.read()


async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


def refusing(code: str, message: str) -> Greeting:
    """Without TLS, and with this SQLSTATE after the first message."""

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked = await reader.readexactly(8)
        if asked == TLS_ASKED:
            writer.write(b"N")
            asked = await reader.readexactly(8)
        await reader.readexactly(struct.unpack("!i", asked[:4])[0] - 8)
        told = {"S": "FATAL", "V": "FATAL", "C": code, "M": message}
        fields = b"".join(kind.encode() + text.encode() + b"\0" for kind, text in told.items()) + b"\0"
        writer.write(b"E" + struct.pack("!i", len(fields) + 4) + fields)

    return greet
