"""Spans and metrics of what the library does, with OpenTelemetry if the setting `telemetry` is on, else none.

They contain names, counts, durations and kinds of errors, but no ids and never remembered text.
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
    """A step that is running."""

    def count(self, **counts: int) -> None:
        """Adds its results, by name."""


class Telemetry(Protocol):
    """Where spans and metrics go."""

    def step(self, name: str) -> AbstractContextManager[Step]:
        """Measures a step while the context is open, as a span and a duration."""

    def watch(self, model: LanguageModel, provider: str) -> LanguageModel:
        """Returns the model with its calls and tokens measured."""

    def joined(self, traceparent: str, tracestate: str) -> AbstractContextManager[None]:
        """Makes what runs in the context part of the caller's trace, given its headers, unless a trace is there already."""

    def turn_failed(self, step: str) -> None:
        """Counts a step of an agent's turn that went on without memory."""

    def backlog(self, backlog: Backlog, age_seconds: float) -> None:
        """Records what is waiting, of all agents, and for how long the oldest item has been due."""


class _Uncounted:
    def count(self, **counts: int) -> None:
        """Does nothing."""


class Off:
    """Measures nothing."""

    _step = nullcontext[Step](_Uncounted())
    _alone = nullcontext()

    def step(self, name: str) -> AbstractContextManager[Step]:
        return self._step

    def watch(self, model: LanguageModel, provider: str) -> LanguageModel:
        return model

    def joined(self, traceparent: str, tracestate: str) -> AbstractContextManager[None]:
        return self._alone

    def turn_failed(self, step: str) -> None:
        """Does nothing."""

    def backlog(self, backlog: Backlog, age_seconds: float) -> None:
        """Does nothing."""


def telemetry_of(settings: Settings) -> Telemetry:
    """Raises `ConfigurationError` if the packages are missing."""
    if not settings.telemetry:
        return Off()
    measured: Telemetry = import_module("memory_sql.telemetry.otel").OpenTelemetry()
    return measured


def measured(call: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Measures a method of `Memory` as a step with its name."""
    name = call.__name__

    @wraps(call)
    async def step(*args: P.args, **named: P.kwargs) -> T:
        memory: Any = args[0]
        with memory._runtime.telemetry.step(name):
            return await call(*args, **named)

    return step


def joined(memory: Any, traceparent: str, tracestate: str) -> AbstractContextManager[None]:
    """What this `Memory` does in the context is part of the caller's trace (W3C trace context); "": there is none."""
    trace: AbstractContextManager[None] = memory._runtime.telemetry.joined(traceparent, tracestate)
    return trace


def count_failed_turn(memory: Any, step: str) -> None:
    """Counts a step of an agent's turn that this `Memory` failed in."""
    memory._runtime.telemetry.turn_failed(step)
