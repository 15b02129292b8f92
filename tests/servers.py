"""The Postgres of the suite: a given URL, a container, or the embedded server."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, urlsplit

import pytest
import yaml
from testcontainers.community.postgres import PostgresContainer

from memory_sql import embedded

URL = "MEMORY_SQL_TEST_URL"
COMPOSE = Path(__file__).parents[1] / "docker" / "compose.yaml"

Choice = Literal["url", "container", "embedded"]


def choose(server_option: str | None, environ: Mapping[str, str], docker_answers: Callable[[], bool]) -> Choice:
    """The requested server, or an error if it isn't available.

    Without a request: the URL, else a container, else the embedded server.
    """
    match server_option:
        case "embedded":
            return "embedded"
        case "url" if environ.get(URL):
            return "url"
        case "url":
            raise pytest.UsageError(f"--server=url: {URL} isn't set")
        case "container" if docker_answers():
            return "container"
        case "container":
            raise pytest.UsageError("--server=container: no Docker engine answers")
        case None if environ.get(URL):
            return "url"
        case None:
            return "container" if docker_answers() else "embedded"
    raise pytest.UsageError(f"--server={server_option}: url, container or embedded")


def docker_answers() -> bool:
    """Whether anything answers at DOCKER_HOST, else on the usual socket (an engine behind TLS says 400)."""
    # Docker's own client leaks a socket if nobody answers, which our tests treat as a failure.
    try:
        with _engine(urlsplit(os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock")) as engine:
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return engine.recv(5) == b"HTTP/"
    except (OSError, ValueError):
        return False


def _engine(where: SplitResult) -> socket.socket:
    if where.scheme != "unix":
        return socket.create_connection((where.hostname or "", where.port or 2375), timeout=2)
    engine = socket.socket(socket.AF_UNIX)
    engine.settimeout(2)
    try:
        engine.connect(where.path)
    except OSError:
        engine.close()
        raise
    return engine


@contextmanager
def serve(choice: str, environ: Mapping[str, str]) -> Iterator[str]:
    """The URL of a database on a server in which others can be created.

    The server is stopped at the end, unless it was given.
    """
    if choice == "url":
        yield environ[URL]
        return
    with _container() if choice == "container" else _embedded() as url:
        yield url


@contextmanager
def _container() -> Iterator[str]:
    container = PostgresContainer(postgres_image(), driver="asyncpg").with_command(
        "postgres -c fsync=off -c autovacuum=off"
    )
    with container:
        yield container.get_connection_url()


def postgres_image() -> str:
    """The image that users are given."""
    return str(yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]["postgres"]["image"])


@contextmanager
def _embedded() -> Iterator[str]:
    with (
        tempfile.TemporaryDirectory(prefix="memory-sql-tests-") as directory,
        embedded.acquire(Path(directory) / "data", options={"fsync": "off", "autovacuum": "off"}) as server,
    ):
        yield server.url
