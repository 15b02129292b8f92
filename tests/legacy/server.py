"""A server that speaks the protocol of MongoDB: the official image where a Docker engine answers, else a stand-in."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from secantus import SecantusDBServer


@contextmanager
def stand_in() -> Iterator[str]:
    """The URL of one of our own, in this process."""
    with tempfile.TemporaryDirectory() as folder:
        server = SecantusDBServer(storage_path=folder, cache_size="64M")
        server.start()
        try:
            yield f"{server.uri}"
        finally:
            server.stop()
