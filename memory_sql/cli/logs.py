"""A worker's log on stderr: one line for each event, as text or JSON."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from memory_sql.cli.output import complain, flat

LIBRARY = "memory_sql"


class Warned(logging.Handler):
    """The library's warnings, as a command prints what it complains of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


@contextmanager
def warned() -> Iterator[None]:
    """Prints the library's warnings on stderr until the end."""
    log, handler = logging.getLogger(LIBRARY), Warned()
    log.addHandler(handler)
    try:
        yield
    finally:
        log.removeHandler(handler)


@contextmanager
def logged(style: str) -> Iterator[None]:
    """Sends the library's log to stderr until the end, each record once."""
    log, handler = logging.getLogger(LIBRARY), logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Json() if style == "json" else _Text())
    level, before = log.level, log.handlers
    log.handlers = [handler]
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.handlers = before


class _Text(logging.Formatter):
    """`2026-03-02T10:15:00Z info  conversation monday of agent ada: 4 messages, 2 observations`"""

    def format(self, record: logging.LogRecord) -> str:
        return f"{_time(record)} {record.levelname.lower():<7} {flat(record.getMessage())}"


class _Json(logging.Formatter):
    """One object a line: time, level, logger, message, and the facts of the event, by name."""

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": flat(record.getMessage()),
        }
        return json.dumps({**getattr(record, "facts", {}), **told}, default=str)


def _time(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z"
