"""The progress of an import on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

from memory_sql.cli.output import complain

if TYPE_CHECKING:
    from rich.progress import Progress

    from memory_sql.domain.results import ImportProgress

SECONDS_BETWEEN_LINES = 10.0
WHAT = {"reading": "documents", "looking": "observations", "storing": "observations"}


def as_line(now: ImportProgress, seconds: float) -> str:
    """What is done after that many seconds of a step, the rate, and the time left if it is known."""
    rate = now.count / max(seconds, 0.001)
    left = seconds * (now.total - now.done) / now.done if now.done and now.total else None
    about = "" if left is None else f", about {duration(left)} left"
    return f"{now.step} {now.what}: {now.count:,} {WHAT[now.step]}, {rate:,.0f} a second{about}"


def duration(seconds: float) -> str:
    """`40 s`, `2 min`, `3 h 20 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Telling:
    """Shows the progress that an import reports to `told`. `clock` counts seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._step, self._began, self._spoke = clock, "", 0.0, clock()
        self._bar: Progress | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            self._bar = self._open.enter_context(_bar())
            self._bar.add_task("", total=None, said="")
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def told(self, now: ImportProgress) -> None:
        at = self._clock()
        if now.step != self._step:
            self._step, self._began = now.step, at
        if self._bar is not None:
            (task,) = self._bar.task_ids
            self._bar.update(task, completed=now.done, total=now.total or None, said=as_line(now, at - self._began))
        elif at - self._spoke >= SECONDS_BETWEEN_LINES:
            self._spoke = at
            complain(as_line(now, at - self._began))


def _bar() -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TextColumn("{task.fields[said]}", markup=False)
    return Progress(*columns, console=Console(stderr=True), transient=True)
