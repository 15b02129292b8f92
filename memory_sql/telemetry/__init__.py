"""Spans and metrics of what the library does: by OpenTelemetry where the setting `telemetry` asks for it, else nothing.

Names, counts, durations and kinds of errors; no ids, and never remembered text.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar

from memory_sql.config import Settings
from memory_sql.llm import LanguageModel

if TYPE_CHECKING:
    from memory_sql.domain.results import Backlog

P = ParamSpec("P")
T = TypeVar("T")


class Step(Protocol):
    """What is being done."""

    def count(self, **counts: int) -> None:
        """What came of it, by name."""


class Telemetry(Protocol):
    """Where spans and metrics go."""

    def step(self, name: str) -> AbstractContextManager[Step]:
        """Meanwhile this is done: a span, and how long it took."""

    def watch(self, model: LanguageModel, provider: str) -> LanguageModel:
        """The model, whose calls and tokens are measured."""

    def backlog(self, backlog: Backlog, age_seconds: float) -> None:
        """What waits, of all agents, and how long the oldest has been due."""


class _Uncounted:
    def count(self, **counts: int) -> None:
        """Nobody counts."""


class Off:
    """Measures nothing."""

    _step = nullcontext[Step](_Uncounted())

    def step(self, name: str) -> AbstractContextManager[Step]:
        return self._step

    def watch(self, model: LanguageModel, provider: str) -> LanguageModel:
        return model

    def backlog(self, backlog: Backlog, age_seconds: float) -> None:
        """Nobody watches."""


def telemetry_of(settings: Settings) -> Telemetry:
    """Raises `ConfigurationError` where the packages are missing."""
    if not settings.telemetry:
        return Off()
    measured: Telemetry = import_module("memory_sql.telemetry.otel").OpenTelemetry()
    return measured


def measured(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """A method of `Memory` as a step of its name."""
    name = call.__name__

    @wraps(call)
    async def step(*args: P.args, **named: P.kwargs) -> T:
        memory: Any = args[0]
        with memory._runtime.telemetry.step(name):
            return await call(*args, **named)

    return step
