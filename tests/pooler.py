"""A real PgBouncer in transaction mode in front of the tests' server, if Debian's package is installed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from memory_sql.db.urls import CACHE_SIZE, asyncpg_url

PROGRAM = shutil.which("pgbouncer") or shutil.which("/usr/sbin/pgbouncer")
USER = "postgres"  # it refuses to run as root; the package creates this user
UP = "process up"

# docs/deploying.md says which of these a host needs.
CONFIGURATION = """
[databases]
* = host={host} port={port}

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen_port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users.txt
pool_mode = transaction
default_pool_size = {servers}
max_client_conn = 500
log_connections = 0
log_disconnections = 0
log_stats = 0
"""


@dataclass(frozen=True, slots=True)
class Pooler:
    port: int

    def url(self, direct: str) -> str:
        """The same database and user, through the pooler."""
        parts = asyncpg_url(direct).difference_update_query(["host", "port"]).set(host="127.0.0.1", port=self.port)
        return parts.update_query_dict({CACHE_SIZE: "0"}).render_as_string(hide_password=False)


@contextmanager
def pooling(server_url: str, users: Mapping[str, str], *, servers: int) -> Iterator[Pooler]:
    """While this is open, these users, with their passwords, share so many connections for each database."""
    assert PROGRAM is not None
    with ExitStack() as ending:
        directory = Path(ending.enter_context(tempfile.TemporaryDirectory(prefix="memory-sql-pooler-")))
        directory.chmod(0o755)
        host, port = _where(server_url, directory)
        listen_port = _free_port()
        given = {"host": host, "port": port, "listen_port": listen_port, "directory": directory, "servers": servers}
        (directory / "pgbouncer.ini").write_text(CONFIGURATION.format(**given))
        (directory / "users.txt").write_text("".join(f'"{name}" "{word}"\n' for name, word in users.items()))
        ending.enter_context(_running(directory / "pgbouncer.ini"))
        yield Pooler(listen_port)


def _where(server_url: str, directory: Path) -> tuple[str, int]:
    """A Unix socket gets another name, in a directory that the pooler's user may enter."""
    url = asyncpg_url(server_url)
    host, port = (
        str(url.query.get("host") or url.host or "127.0.0.1"),
        int(str(url.query.get("port") or url.port or 5432)),
    )
    if not host.startswith("/"):
        return host, port
    name = f".s.PGSQL.{port}"
    os.link(Path(host, name), directory / name)
    return str(directory), port


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def _running(configuration: Path) -> Iterator[None]:
    as_user = ["-u", USER] if os.geteuid() == 0 else []
    command = [str(PROGRAM), *as_user, str(configuration)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        reading = threading.Thread(target=deque, args=(process.stderr, 0), daemon=True)
        try:
            assert process.stderr is not None
            said = list[str]()
            for line in process.stderr:
                said.append(line)
                if UP in line:
                    break
            assert UP in "".join(said[-1:]), f"PgBouncer hasn't started: {''.join(said)}"
            # Once the pipe is full, PgBouncer stops and forwards nothing any more.
            reading.start()
            yield
        finally:
            process.terminate()
            if reading.is_alive():
                reading.join()  # it reads to the end of the pipe, which is closed next
