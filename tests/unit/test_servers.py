"""The server that the suite runs on."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from tests import servers

GIVEN = {servers.URL: "postgresql+asyncpg://host/db"}


@pytest.mark.parametrize(
    ("option", "environ", "answers", "choice"),
    [
        (None, {}, False, "embedded"),
        (None, {}, True, "container"),
        (None, {servers.URL: ""}, True, "container"),
        (None, GIVEN, True, "url"),
        ("url", GIVEN, True, "url"),
        ("container", GIVEN, True, "container"),
        ("embedded", GIVEN, True, "embedded"),
    ],
)
def test_option_goes_before_url_before_container_before_embedded(
    option: str | None, environ: dict[str, str], answers: bool, choice: str
) -> None:
    assert servers.choose(option, environ, lambda: answers) == choice


@pytest.mark.parametrize(
    ("option", "environ", "words"),
    [
        ("container", GIVEN, "no Docker engine answers"),
        ("url", {}, "MEMORY_SQL_TEST_URL isn't set"),
        ("sqlite", GIVEN, "url, container or embedded"),
    ],
)
def test_what_was_asked_for_and_cannot_be_had_is_an_error(option: str, environ: dict[str, str], words: str) -> None:
    with pytest.raises(pytest.UsageError, match=words):
        servers.choose(option, environ, lambda: False)


@pytest.mark.parametrize("option", ["url", "embedded", None])
def test_docker_is_not_asked_without_need(option: str | None) -> None:
    servers.choose(option, GIVEN, lambda: pytest.fail("asked"))


@pytest.mark.parametrize("host", ["unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "tcp://127.0.0.1:nonsense"])
def test_engine_that_is_not_there_does_not_answer(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", host)
    assert not servers.docker_answers()


@pytest.fixture
def engine() -> Iterator[str]:
    """Says to one caller what an engine says to a ping."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            caller, _ = server.accept()
            with caller:
                caller.recv(1024)
                caller.sendall(b"HTTP/1.0 200 OK\r\nApi-Version: 1.47\r\n\r\nOK")

        thread = threading.Thread(target=answer)
        thread.start()
        yield f"tcp://127.0.0.1:{server.getsockname()[1]}"
        thread.join()


def test_engine_that_is_there_answers(monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", engine)
    assert servers.docker_answers()


def test_given_url_is_served_as_it_is() -> None:
    with servers.serve("url", GIVEN) as url:
        assert url == GIVEN[servers.URL]


def test_container_runs_the_image_of_the_composition() -> None:
    assert servers.postgres_image().startswith("postgres:")
