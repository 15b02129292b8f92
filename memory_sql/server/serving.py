"""Running the application under uvicorn, until a signal ends it."""

from __future__ import annotations

import asyncio
import logging
import selectors
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import timedelta
from ipaddress import ip_address
from typing import Any

import uvicorn
from fastapi import FastAPI

from memory_sql.domain.keys import RIGHTS
from memory_sql.errors import ConfigurationError
from memory_sql.memory import Memory

log = logging.getLogger("memory_sql.server")

OWN = "memory-sql serve"  # who makes a key for its own life
INSPECTOR_HOURS = 24
BACKLOG = 2048
MOST_PORT = 65_535
KEEP_ALIVE_SECONDS = 75  # longer than clients and proxies keep one that they don't use: one may be sending as it closes
SETTLE_SECONDS = 0.1  # in which the requests of new connections are read


class Server(uvicorn.Server):
    """uvicorn's, but a signal that ended it cleanly isn't raised again: the exit code is 0."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self.servers = []  # none before it has started
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """First takes in whoever is connected already: a closed listener would reset them, after they have sent a request."""
        for listening in sockets or ():
            listening.listen(0)  # whoever comes now waits, and is refused when it closes
            with selectors.DefaultSelector() as waiting:
                waiting.register(listening, selectors.EVENT_READ)
                while waiting.select(0):  # noqa: ASYNC110 (asyncio accepts them in between)
                    await asyncio.sleep(0)
        await asyncio.sleep(SETTLE_SECONDS)
        await super().shutdown(sockets)

    def close(self) -> None:
        """Accepts nothing more. A loop that still watches a closed socket is deaf to the next one of that number."""
        for server in self.servers:
            server.close()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGINT, signal.SIGTERM)
        before = {number: signal.getsignal(number) for number in numbers}
        try:
            for number in numbers:
                loop.add_signal_handler(number, self.handle_exit, number, None)
        except NotImplementedError:  # Windows
            for number in numbers:
                signal.signal(number, self.handle_exit)
        try:
            yield
        finally:
            for number, handler in before.items():
                with suppress(NotImplementedError):
                    loop.remove_signal_handler(number)  # else the loop goes on being woken by every signal
                signal.signal(number, handler)


async def serve(
    app: FastAPI,
    *,
    host: str,
    port: int,
    grace_seconds: float,
    started: Callable[[str], None] = lambda _: None,
) -> None:
    """Serves until SIGTERM or SIGINT; then it accepts nothing new, and answers what it has accepted.

    It waits for that for `grace_seconds` at most. `started` is called with the URL once requests are answered; `port` 0: a
    free one. Raises `ConfigurationError` if the address can't be used.
    """
    listening = _listening(host, port)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=max(1, round(grace_seconds)),
    )
    address = _url(host, listening.getsockname()[1])
    with closing(listening), closing(Server(config, lambda: started(address))) as server:
        await server.serve([listening])


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def allowed_hosts(host: str, names: Sequence[str]) -> list[str] | None:
    """The names by which MCP may be asked for; None: those of the loopback alone."""
    if is_loopback(host) and not names:
        return None
    return [*names, *(f"{name}:*" for name in (*names, host, "localhost", "127.0.0.1", "[::1]"))]


async def own_key(memory: Memory, host: str) -> str | None:
    """The secret of a key for this process, where the database has none; `end_key` ends it. None: there are keys.

    Raises `ConfigurationError` for a host that other machines reach: they need a key that somebody made for them.
    """
    known = await memory.keys.list()
    if any(key.created_by != OWN for key in known):  # a killed server leaves its own, of which nobody knows
        return None
    if not is_loopback(host):
        raise ConfigurationError(
            f"--host {host} can be reached from elsewhere, and there is no key yet; make one: memory-sql key create NAME"
        )
    return (await memory.keys.create("serve", rights=RIGHTS, actor=OWN)).secret


async def inspector_key(memory: Memory) -> str:
    """The secret of a key for this process that allows everything; `end_key` ends it, and else its last hour does."""
    ends = memory.now() + timedelta(hours=INSPECTOR_HOURS)
    return (await memory.keys.create("inspect", rights=RIGHTS, expires_at=ends, actor=OWN)).secret


async def end_key(memory: Memory, secret: str) -> None:
    key = await memory.keys.find(secret)
    if key is not None:
        await memory.keys.revoke(key.key_id)


def _listening(host: str, port: int) -> socket.socket:
    if not 0 <= port <= MOST_PORT:  # the system takes another port for it
        raise ConfigurationError(f"can't serve at {host}:{port}: a port is a number from 0 to {MOST_PORT}")
    try:
        found = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        return _bound(socket.socket(family, kind, protocol), address)  # asyncio sends at once only where TCP is named
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"can't serve at {host}:{port}: {error}") from error


def _bound(made: socket.socket, address: Any) -> socket.socket:
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(address)
        made.listen(BACKLOG)
    except BaseException:
        made.close()
        raise
    made.setblocking(False)
    return made


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
