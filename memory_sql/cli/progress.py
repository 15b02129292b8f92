"""The progress of long work on stderr: a bar on a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable, Sized
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from memory_sql.cli.output import complain, plain

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

    from memory_sql.domain.results import Progress, Step

SECONDS_BETWEEN_LINES = 10.0
T = TypeVar("T", covariant=True)


class Several(Sized, Iterable[T], Protocol[T]):
    """What can be counted before it is gone through."""


def as_line(now: Progress, seconds: float) -> str:
    """What is done after that many seconds of a step, the rate, and the time left if it is known."""
    rate = now.count / max(seconds, 0.001)
    left = seconds * (now.total - now.done) / now.done if now.done and now.total else None
    about = "" if left is None else f", about {duration(left)} left"
    of = "" if now.of is None else f" of {now.of:,}"
    what = f" {now.what}" if now.what else ""
    return plain(f"{now.step}{what}: {now.count:,}{of} {now.unit}, {rate:,.0f} a second{about}")


def duration(seconds: float) -> str:
    """`40 s`, `2 min`, `3 h 20 min`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


class Telling:
    """Shows the progress that is reported to `told`. `clock` counts seconds. `quiet`: nothing, as with --json."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, *, quiet: bool = False) -> None:
        self._clock, self._step, self._began, self._spoke = clock, "", 0.0, clock()
        self._quiet, self._done = quiet, 0.0
        self._bar: Bar | None = None
        self._open = ExitStack()

    def __enter__(self) -> Self:
        if sys.stderr.isatty() and not self._quiet:
            self._bar = self._open.enter_context(_bar())
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def told(self, now: Progress) -> None:
        at = self._clock()
        if now.step != self._step or now.done < self._done:
            self._step, self._began = now.step, at
        self._done = now.done
        if self._bar is not None:
            share = f"{100 * now.done / now.total:.0f} %" if now.total else ""
            fields: dict[str, Any] = {
                "total": now.total or None,
                "said": as_line(now, at - self._began),
                "share": share,
            }
            tasks = self._bar.task_ids or [self._bar.add_task("", **fields)]
            self._bar.update(tasks[0], completed=now.done, **fields)
        elif not self._quiet and at - self._spoke >= SECONDS_BETWEEN_LINES:
            self._spoke = at
            complain(as_line(now, at - self._began))


def each(items: Several[T], step: Step, unit: str, *, what: str = "", quiet: bool = False) -> Generator[T]:
    """The items, one after another, with the progress of what is done with them; one alone has none. To be closed."""
    from memory_sql.domain.results import Progress

    most = len(items)
    with Telling(quiet=quiet or most <= 1) as progress:
        for n, item in enumerate(items):
            progress.told(Progress(step=step, what=what, unit=unit, count=n, of=most, done=n, total=most))
            yield item


def _bar() -> Bar:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = BarColumn(), TextColumn("{task.fields[share]}"), TextColumn("{task.fields[said]}", markup=False)
    return Progress(*columns, console=Console(stderr=True), transient=True)
