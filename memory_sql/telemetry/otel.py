"""Spans and metrics with OpenTelemetry, sent wherever the providers that the process has set send them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import TypeVar
from weakref import WeakKeyDictionary

from pydantic import BaseModel

from memory_sql.domain.results import Backlog
from memory_sql.errors import ConfigurationError, LanguageModelError
from memory_sql.llm import Answer, LanguageModel, Request, Usage

try:
    from opentelemetry import context, metrics, trace
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ModuleNotFoundError as error:
    raise ConfigurationError('OpenTelemetry is missing: pip install "memory-sql[telemetry]"') from error

T = TypeVar("T", bound=BaseModel | str)

LIBRARY = "memory_sql"
# Upper bounds in seconds: those of the GenAI conventions, and finer ones below for steps without a model.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
TOKENS = tuple(4**power for power in range(14))  # as in the GenAI conventions
WAITING = (
    "due_conversations",
    "due_scopes",
    "due_propagations",
    "due_rechecks",
    "waiting_conversations",
    "in_progress",
    "retrying",
    "dead",
    "held",
)

Attributes = dict[str, str | int]


_backlogs: WeakKeyDictionary[metrics.Meter, dict[str, float]] = WeakKeyDictionary()


def _backlog_of(meter: metrics.Meter) -> dict[str, float]:
    """What is told of the backlog, whenever it is asked for: OpenTelemetry 1.44 tells a gauge that is set only once."""
    if meter in _backlogs:
        return _backlogs[meter]
    latest = _backlogs[meter] = dict[str, float]()

    def waiting(_: metrics.CallbackOptions) -> list[metrics.Observation]:
        return [metrics.Observation(latest[name], {"memory_sql.kind": name}) for name in WAITING if name in latest]

    def age(_: metrics.CallbackOptions) -> list[metrics.Observation]:
        return [metrics.Observation(latest["age"])] if "age" in latest else []

    meter.create_observable_gauge("memory_sql.backlog", [waiting], "{item}", "What waits, by what it waits for.")
    meter.create_observable_gauge("memory_sql.backlog.age", [age], "s", "How long the oldest due work has been due.")
    return latest


class OpenTelemetry:
    """Model calls are named as in the GenAI conventions; all other names begin with `memory_sql`."""

    def __init__(self) -> None:
        self._tracer, meter = trace.get_tracer(LIBRARY), metrics.get_meter(LIBRARY)
        self._steps = meter.create_histogram(
            "memory_sql.step.duration",
            "s",
            "How long a step took, by its name and the type of its error.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._items = meter.create_counter("memory_sql.step.items", "{item}", "What steps have read and made, by kind.")
        self._calls = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "How long a call of the language model took, with its retries.",
            explicit_bucket_boundaries_advisory=SECONDS,
        )
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens that a call took, as the provider counts them.",
            explicit_bucket_boundaries_advisory=TOKENS,
        )
        self._failed_turns = meter.create_counter(
            "memory_sql.turns.failed", "{step}", "Steps of an agent's turn that went on without memory, by step."
        )
        self._backlog = _backlog_of(meter)

    @contextmanager
    def step(self, name: str) -> Iterator[_Step]:
        of_step: Attributes = {"memory_sql.step": name}
        started = perf_counter()
        with self._span(f"{LIBRARY}.{name}", SpanKind.INTERNAL, of_step) as span:
            try:
                yield _Step(self, span, of_step)
            except BaseException as error:
                of_step["error.type"] = _failed(span, error)
                raise
            finally:
                self._steps.record(perf_counter() - started, of_step)

    @contextmanager
    def call(self, request: Request[T], provider: str) -> Iterator[_Call]:
        of_call: Attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": provider,
            "gen_ai.request.model": request.model,
        }
        started = perf_counter()
        with self._span(f"chat {request.model}", SpanKind.CLIENT, of_call) as span:
            span.set_attribute("memory_sql.purpose", request.purpose)
            call = _Call(self, span, of_call)
            try:
                yield call
            except BaseException as error:
                if isinstance(error, LanguageModelError) and error.usage is not None:
                    call.used(error.usage)
                of_call["error.type"] = _failed(span, error)
                raise
            finally:
                self._calls.record(perf_counter() - started, of_call)

    def watch(self, model: LanguageModel, provider: str) -> LanguageModel:
        return _Watched(model, self, provider)

    @contextmanager
    def joined(self, traceparent: str, tracestate: str) -> Iterator[None]:
        """A span that is open already is a host's for this request: it has joined the trace itself."""
        if trace.get_current_span().get_span_context().is_valid:
            yield
            return
        # Not the process's propagator: baggage would go on from strangers to the provider of the model.
        found = TraceContextTextMapPropagator().extract({"traceparent": traceparent, "tracestate": tracestate})
        token = context.attach(found)
        try:
            yield
        finally:
            context.detach(token)

    def turn_failed(self, step: str) -> None:
        self._failed_turns.add(1, {"memory_sql.step": step})

    def backlog(self, backlog: Backlog, age_seconds: float) -> None:
        self._backlog.update({name: getattr(backlog, name) for name in WAITING}, age=age_seconds)

    def count(self, of_step: Attributes, name: str, number: int) -> None:
        self._items.add(number, {**of_step, "memory_sql.item": name})

    def tokens(self, of_call: Attributes, kind: str, number: int) -> None:
        self._tokens.record(number, {**of_call, "gen_ai.token.type": kind})

    @contextmanager
    def _span(self, name: str, kind: SpanKind, attributes: Attributes) -> Iterator[Span]:
        """Only the type of an exception is recorded: its message may quote a memory."""
        with self._tracer.start_as_current_span(
            name, kind=kind, attributes=attributes, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span


def _failed(span: Span, error: BaseException) -> str:
    """Sets the type of the error on the span and returns it: the reason of a language model's error, else the class."""
    kind = error.reason if isinstance(error, LanguageModelError) else type(error).__name__
    span.set_attribute("error.type", kind)
    span.set_status(Status(StatusCode.ERROR))
    return kind


class _Step:
    def __init__(self, telemetry: OpenTelemetry, span: Span, of_step: Attributes) -> None:
        self._telemetry = telemetry
        self._span = span
        self._of_step = of_step

    def count(self, **counts: int) -> None:
        for name, number in counts.items():
            self._span.set_attribute(f"{LIBRARY}.{name}", number)
            self._telemetry.count(self._of_step, name, number)


class _Call:
    def __init__(self, telemetry: OpenTelemetry, span: Span, of_call: Attributes) -> None:
        self._telemetry = telemetry
        self._span = span
        self._of_call = of_call

    def used(self, usage: Usage) -> None:
        self._span.set_attribute("gen_ai.response.model", usage.model)
        for kind, number in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if number is not None:
                self._span.set_attribute(f"gen_ai.usage.{kind}_tokens", number)
                self._telemetry.tokens(self._of_call, kind, number)


class _Watched:
    def __init__(self, model: LanguageModel, telemetry: OpenTelemetry, provider: str) -> None:
        self._model = model
        self._telemetry = telemetry
        self._provider = provider

    async def generate(self, request: Request[T]) -> Answer[T]:
        with self._telemetry.call(request, self._provider) as call:
            answer = await self._model.generate(request)
            call.used(answer.usage)
            return answer
