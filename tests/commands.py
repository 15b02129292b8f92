"""Runs `memory-sql` in the process of the test and captures its output."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any, NamedTuple
from unittest.mock import patch

from memory_sql import cli


class Ran(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def value(self) -> Any:
        """The object that a command prints with --json."""
        (row,) = self.rows
        return row

    @property
    def rows(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


COMPLAINT = re.compile(r"memory-sql: |\d{4}-\d\d-\d\dT[\d:.]+Z (info|warning|error) ")  # or what a worker logs


def memory_sql(*args: object, stdin: bytes = b"", code: int = 0) -> Ran:
    """Fails unless the command ends with this exit code."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    before = signal.getsignal(signal.SIGTERM)
    try:
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        ):
            ended = cli.main([str(arg) for arg in args])
    finally:
        signal.signal(signal.SIGTERM, before)
    ran = Ran(ended, _text(out), _text(err))
    assert ran.code == code, ran
    assert "Traceback" not in ran.err
    if code:
        assert all(COMPLAINT.match(line) for line in ran.err.splitlines()), ran.err
    return ran


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()


def commands(inside: Any = None, *names: str) -> Iterator[tuple[str, ...]]:
    """The names of all commands, each preceded by its group's."""
    group: Any = inside or cli.commands()
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, *names, name)
        else:
            yield (*names, name)
