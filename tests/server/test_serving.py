"""`memory-sql serve` from outside: its key, its end under load, a body without end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing, suppress

import aiohttp
import httpx2
import pytest
from fastapi import FastAPI
from yarl import URL

from memory_sql.memory import Memory
from memory_sql.server.serving import _listening, serve
from tests.commands import memory_sql
from tests.server.conftest import BASE
from tests.server.processes import serving

CLIENTS = 40
PAUSE_SECONDS = httpx2.Limits().keepalive_expiry or 0.0  # after which the clients of most hosts open a new connection


@pytest.mark.slow
async def test_server_makes_a_key_for_its_own_life(database_url: str) -> None:
    async with serving(database_url) as server:
        headers = {"Authorization": f"Bearer {server.key}"}
        async with aiohttp.ClientSession(server.url) as client:
            async with client.get(f"{BASE}/settings") as answer:
                assert answer.status == 401
            async with client.get(f"{BASE}/settings", headers=headers) as answer:
                assert answer.status == 200
            async with client.post(f"{BASE}/context", headers=headers, json={"user_id": "mia"}) as answer:
                assert answer.status == 200
            async with client.get(f"{BASE}/people/mia/export", headers=headers) as answer:
                assert answer.status == 404
            async with client.get("/live") as live, client.get("/health") as health, client.get("/metrics") as metrics:
                assert (live.status, health.status, metrics.status) == (200, 200, 200)
                assert (await health.json())["is_well"] is True
                measured = await metrics.text()
                assert "memory_sql" in measured
                assert "mia" not in measured
        assert await server.ended() == 0
    assert server.key is not None
    logged = "\n".join(server.err)
    assert "/v1/agents/{agent_id}/context 200" in logged
    assert "mia" not in logged
    assert server.key not in logged
    async with Memory(database_url) as memory:
        assert await memory.keys.list() == []


@asynccontextmanager
async def cancelled_at_its_end() -> AsyncIterator[str]:
    """The URL of a server in this loop."""
    started: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.create_task(
        serve(FastAPI(), host="127.0.0.1", port=0, grace_seconds=1, started=started.set_result)
    )
    yield await started
    server.cancel()
    await asyncio.gather(server, return_exceptions=True)


@pytest.mark.slow
async def test_a_connection_stays_open_for_longer_than_a_client_keeps_it() -> None:
    """Else the server closes it while the next request is on its way, which no client may send a second time."""
    async with cancelled_at_its_end() as url, httpx2.AsyncClient(base_url=url) as client:
        stream = (await client.get("/")).extensions["network_stream"]
        await asyncio.sleep(PAUSE_SECONDS)
        assert not stream.get_extra_info("is_readable")  # as it is once the other side has closed it


async def test_who_cancels_a_server_can_listen_again() -> None:
    """The next listener gets the number of the old one's socket, which its loop must not watch any more."""
    async with cancelled_at_its_end():
        pass
    with closing(_listening("127.0.0.1", 0)) as listening:
        accepting = asyncio.create_task(asyncio.get_running_loop().sock_accept(listening))
        await asyncio.sleep(0)  # until it waits
        with closing(_connected(listening)):
            accepted, _ = await asyncio.wait_for(accepting, 10)
            accepted.close()


async def test_signals_are_the_hosts_again_after_a_server() -> None:
    """A loop that is still woken by them is in the way of who else wants to be, as trio does."""
    woken = signal.set_wakeup_fd(-1)
    try:
        async with cancelled_at_its_end():
            pass
        assert signal.set_wakeup_fd(-1) == -1
    finally:
        signal.set_wakeup_fd(woken)


async def test_answers_are_sent_at_once() -> None:
    """Else the body waits 40 ms for the client to acknowledge the headers."""
    accepted = asyncio.get_running_loop().create_future()

    def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        own = writer.get_extra_info("socket")
        accepted.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    with closing(_listening("localhost", 0)) as listening:
        async with await asyncio.start_server(take, sock=listening):
            _, writer = await asyncio.open_connection(sock=_connected(listening))
            assert await accepted
            writer.close()
            await writer.wait_closed()


def _connected(to: socket.socket) -> socket.socket:
    made = socket.create_connection(to.getsockname()[:2])
    made.setblocking(False)
    return made


def test_host_that_others_reach_needs_a_key(database_url: str) -> None:
    def serve(*options: str) -> str:
        return memory_sql("serve", *options, "--url", database_url, code=1).err

    assert "there is no key yet" in serve("--host", "0.0.0.0")
    assert memory_sql("key", "create", "chat", "--url", database_url).out
    assert "can't serve at" in serve("--host", "203.0.113.1")


@pytest.mark.parametrize("command", ["serve", "inspect"])
@pytest.mark.parametrize("port", ["65536", "99999", "-1"])
def test_port_that_is_none_is_refused(database_url: str, command: str, port: str) -> None:
    """The system would take another one, at which nobody looks for it."""
    told = memory_sql(command, f"--port={port}", "--url", database_url, code=1).err
    assert f"can't serve at 127.0.0.1:{port}: a port is a number from 0 to 65535" in told


@pytest.mark.slow
async def test_every_accepted_request_is_answered_when_it_ends(database_url: str) -> None:
    """Each client sends one request after another, each on a connection of its own, until no more are accepted."""
    async with serving(database_url, "--requests-per-minute", "1000000") as server:
        seen, loaded = Counter[int](), asyncio.Event()
        body = {"user_id": "mia", "messages": [{"role": "user", "content": "I prefer tea."}]}
        headers = {"Authorization": f"Bearer {server.key}", "Connection": "close"}

        async def ask(n: int) -> None:
            async with aiohttp.ClientSession(server.url, headers=headers) as client:
                while True:
                    try:
                        async with client.post(f"{BASE}/conversations/c{n}/messages", json=body) as answer:
                            await answer.read()
                            seen[answer.status] += 1
                            if seen[201] == 3 * CLIENTS:
                                loaded.set()
                    except aiohttp.ClientConnectionError:
                        return  # it wasn't accepted

        asking = [asyncio.create_task(ask(n)) for n in range(CLIENTS)]
        await loaded.wait()
        assert await server.ended() == 0
        async with asyncio.timeout(30):
            await asyncio.gather(*asking)
    assert set(seen) == {201}
    async with Memory(database_url) as memory:
        assert (await memory.admin.stats(agent_id="ada")).messages == seen[201]


@pytest.mark.slow
async def test_body_of_a_gibibyte_is_refused_and_takes_no_memory(database_url: str) -> None:
    async def endless() -> AsyncIterator[bytes]:
        piece = b" " * 2**20
        for _ in range(1024):
            yield piece

    async with serving(database_url) as server:
        before = server.memory_kib()
        headers = {"Authorization": f"Bearer {server.key}", "Content-Type": "application/json"}
        for _ in range(5):
            async with aiohttp.ClientSession(server.url, headers=headers) as client:
                with suppress(aiohttp.ClientConnectionError):  # it may close while we still send
                    async with client.post(f"{BASE}/observations", data=endless()) as answer:
                        assert answer.status == 413
        assert server.memory_kib() - before < 20_000
        assert await server.ended() == 0


@pytest.mark.slow
async def test_inspect_serves_the_pages_and_signs_in_once(database_url: str) -> None:
    """Its address opens a session; the key behind it ends with the command."""
    async with serving(database_url, "--no-browser", command="inspect") as server:
        address = URL(server.url)
        assert (address.host, address.path) == ("127.0.0.1", "/enter")
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client:
            async with client.get(address, allow_redirects=False) as entered:
                assert (entered.status, entered.headers["location"]) == (303, "/")
            async with client.get(address.with_path("/").with_query(None)) as home:
                assert home.status == 200
                assert "Sign out" in await home.text()
            async with client.get(address, allow_redirects=False) as again:
                assert again.status == 401
        async with Memory(database_url) as memory:
            assert [key.name for key in await memory.keys.list()] == ["inspect"]
            assert await server.ended() == 0
            assert await memory.keys.list() == []
