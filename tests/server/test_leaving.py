"""Clients that leave, or stop reading: what they began is whole or absent, and what they held is given back."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memory_sql.memory import Memory
from memory_sql.server import answers
from memory_sql.server.routing import EXPORTS
from tests.asgi import Client
from tests.database import rows
from tests.server.conftest import ADA, BASE, Served
from tests.server.processes import Process, serving

EACH = 30  # messages of a request


class Leaving:
    """A client that is gone once it has sent its request, or half of it; or one that reads no more than headers."""

    def __init__(self, app: ASGIApp, how: str) -> None:
        self._app, self._how = app, how

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = 0

        async def receive_once() -> Message:
            nonlocal asked
            asked += 1
            if asked == 1 and self._how == "half":
                return {"type": "http.request", "body": b'{"text"', "more_body": True}
            return await receive() if asked == 1 or self._how == "stuck" else {"type": "http.disconnect"}

        async def send_headers(message: Message) -> None:
            if self._how == "stuck" and message["type"] == "http.response.body":
                await asyncio.Event().wait()
            await send(message)

        await self._app(scope, receive_once, send_headers)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["gone", "stuck"])
async def test_export_ends_with_its_client(
    served: Served, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers, "READ_SECONDS", 0.05)
    for n in range(20):
        await served.memory.observe(f"Fact {n}.", **ADA, user_id="mia")
    client = Client(Leaving(served.mia.app, how), served.mia.headers)
    with caplog.at_level(logging.INFO):
        async with asyncio.timeout(30):
            await client("GET", f"{BASE}/people/mia/export")
    assert "failed with" not in caplog.text
    assert served.memory.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.slow
async def test_exports_that_nobody_reads_leave_connections_to_others(served: Served) -> None:
    for n in range(20):
        await served.memory.observe(f"Fact {n}.", **ADA, user_id="mia")
    stuck = Client(Leaving(served.mia.app, "stuck"), served.mia.headers)
    asking = [asyncio.create_task(stuck("GET", f"{BASE}/people/mia/export")) for _ in range(EXPORTS + 20)]
    async with asyncio.timeout(30):
        while served.memory.database.engine.pool.checkedout() < EXPORTS:  # type: ignore[attr-defined]  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await served.mia("GET", f"{BASE}/observations")).status == 200
    assert served.memory.database.engine.pool.checkedout() == EXPORTS  # type: ignore[attr-defined]
    for one in asking:
        one.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    assert served.memory.database.engine.pool.checkedout() == 0  # type: ignore[attr-defined]


async def test_half_a_request_is_no_bug(served: Served, caplog: pytest.LogCaptureFixture) -> None:
    client = Client(Leaving(served.mia.app, "half"), served.mia.headers)
    with caplog.at_level(logging.INFO), pytest.raises(IndexError):  # nobody is there to be answered
        await client("POST", f"{BASE}/observations", b"")
    assert "failed with" not in caplog.text
    assert "ended with its client" in caplog.text


async def leave(server: Process, secret: str, n: int, before: float | None) -> None:
    """Sends a whole request, and closes the connection so many seconds later; None: waits until it is closed."""
    said = [{"id": f"{i}", "role": "user", "content": f"I prefer tea number {i}."} for i in range(EACH)]
    body = json.dumps({"user_id": "mia", "messages": said}).encode()
    head = (
        f"POST {BASE}/conversations/c{n}/messages HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {secret}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    await writer.drain()
    if before is None:
        await reader.read()
    else:
        await asyncio.sleep(before)
    writer.transport.abort()


async def counts(memory: Memory) -> dict[str, int]:
    return dict(await rows(memory, "SELECT conversation_id, count(*)::int FROM memory.v_messages GROUP BY 1"))


@pytest.mark.slow
async def test_write_of_who_leaves_is_whole_or_absent(database_url: str) -> None:
    """Also if the server is killed in the middle of it."""
    async with Memory(database_url) as memory:
        made = await memory.keys.create("host", rights=["write"])
        async with serving(database_url) as server:
            await asyncio.gather(*(leave(server, made.secret, n, n / 1000) for n in range(40)))
            assert await server.ended() == 0
        seen = await counts(memory)
        assert set(seen.values()) <= {EACH}
        async with serving(database_url) as server:
            asking = [asyncio.create_task(leave(server, made.secret, n, None)) for n in range(100, 140)]
            while not any(key >= "c100" and len(key) == 4 for key in await counts(memory)):
                pass  # until the first of them is stored
            server.process.kill()
            await asyncio.gather(*asking, return_exceptions=True)
        after = await counts(memory)
        assert set(after.values()) == {EACH}
        assert len(after) < len(seen) + 40  # it was in the middle
        assert await memory.admin.verify() == []
