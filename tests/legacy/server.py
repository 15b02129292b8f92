"""A server that speaks MongoDB's protocol: a stand-in in this process, or the official image if Docker answers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from testcontainers.community.mongodb import MongoDbContainer

IMAGE = "mongo:7"


@contextmanager
def stand_in() -> Iterator[str]:
    server_of = pytest.importorskip("secantus", reason="SecantusDB has no wheel for this Python").SecantusDBServer
    with tempfile.TemporaryDirectory() as folder:
        server = server_of(storage_path=folder, cache_size="64M")
        server.start()
        try:
            yield str(server.uri)
        finally:
            server.stop()


@contextmanager
def official() -> Iterator[str]:
    with MongoDbContainer(IMAGE) as container:
        yield container.get_connection_url()
