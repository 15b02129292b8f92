"""A worker's health for monitoring: a port that answers HTTP, and a file whose age shows it."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from pydantic_core import to_jsonable_python

from memory_sql.cli.output import whole_file
from memory_sql.errors import ConfigurationError, InputError

if TYPE_CHECKING:
    from memory_sql.worker import Health

log = logging.getLogger("memory_sql.worker")

NO_METRICS = 'no metrics here: pip install "memory-sql[telemetry]"; or OpenTelemetry is set up to send them elsewhere\n'
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
TEXT, JSON = "text/plain; charset=utf-8", "application/json"
READ_SECONDS = 10.0  # for who connects to say what for
Answer = tuple[int, str, bytes]


class Watch:
    """The latest state of the worker: its event loop reports it, and threads read it."""

    def __init__(self, metrics: Callable[[], bytes] | None = None) -> None:
        self._metrics = metrics
        self._health: Health | None = None

    def __call__(self, health: Health) -> None:
        self._health = health

    def answer(self, path: str) -> Answer:
        """Status, type and body."""
        if path == "/live":
            is_live = self._health is None or not self._health.is_stale  # None: it has just started
            return (200, TEXT, b"live\n") if is_live else (503, TEXT, b"the worker's event loop has stopped\n")
        if path == "/health":
            is_well = self._health is not None and self._health.is_well
            body = {} if self._health is None else {**to_jsonable_python(self._health), "is_well": is_well}
            return 200 if is_well else 503, JSON, json.dumps(body).encode() + b"\n"
        if path == "/metrics":
            return (404, TEXT, NO_METRICS.encode()) if self._metrics is None else (200, PROMETHEUS, self._metrics())
        return 404, TEXT, b"try /live, /health or /metrics\n"


@contextmanager
def served(watch: Watch, host: str, port: int) -> Iterator[int]:
    """Answers on the port from a thread of its own until the end. Returns the port; for 0, a free one."""

    class Answering(BaseHTTPRequestHandler):
        timeout = READ_SECONDS

        def do_GET(self) -> None:
            status, kind, body = watch.answer(self.path.partition("?")[0])
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Probes come every few seconds, so they aren't logged."""

    try:
        server = ThreadingHTTPServer((host, port), Answering)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"health can't be served at {host}:{port}: {error}") from error
    server.daemon_threads = True
    Thread(target=server.serve_forever, daemon=True, name="memory_sql health").start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def noted(file: Path) -> Iterator[Callable[[Health], None]]:
    """A function that writes the worker's state into the file while all is well. At the end the file is deleted.

    So an old file means that the worker is stuck, gone or cut off from its database.
    """

    def note(health: Health) -> None:
        if not health.is_well:
            return
        try:
            with whole_file(file) as to:
                json.dump(to_jsonable_python(health), to)
        except (OSError, InputError) as error:
            log.warning("the health file can't be written: %s", error)

    try:
        yield note
    finally:
        with suppress(OSError):
            if file.is_file():
                file.resolve().unlink()
