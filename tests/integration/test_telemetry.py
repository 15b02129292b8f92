"""Spans and metrics: each step, its counts and tokens, and what waits; never what somebody said."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory_sql.config import Settings
from memory_sql.domain.selection import Selection
from memory_sql.errors import ConfigurationError, UnavailableError
from memory_sql.memory import Memory
from memory_sql.telemetry import Off
from tests.factories import message
from tests.fakes import Parrot

SECRET = "Actually, I keep bees on the roof of the library."
SETTINGS = Settings(llm="offline", telemetry=True, formation_min_messages=1, consolidation_threshold=1)
ADA: dict[str, Any] = {"agent_id": "ada", "user_id": "mia"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemoryMetricReader]:
    reader = InMemoryMetricReader()
    provider = MeterProvider([reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    yield reader
    provider.shutdown()


@pytest.fixture
async def watched(
    database_url: str, spans: InMemorySpanExporter, reader: InMemoryMetricReader
) -> AsyncIterator[Memory]:
    async with Memory(database_url, Parrot(), SETTINGS) as memory:
        yield memory


def named(spans: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    return {span.name: span for span in spans.get_finished_spans()}


def points(reader: InMemoryMetricReader, name: str) -> dict[tuple[Any, ...], Any]:
    """The value of each point of a metric, for a histogram (how many, their sum), by its attributes' values."""
    found: Any = json.loads(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    return {
        tuple(point["attributes"].values()): point.get("value", (point.get("count"), point.get("sum")))
        for of_resource in found["resource_metrics"]
        for of_scope in of_resource["scope_metrics"]
        for metric in of_scope["metrics"]
        if metric["name"] == name
        for point in metric["data"]["data_points"]
    }


async def test_steps_are_spans_within_one_another_and_counted(
    watched: Memory, spans: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    await watched.add([message(SECRET)], **ADA, conversation_id="monday")
    await watched.run_due()
    await watched.context(**ADA, message="Where are my bees?")
    seen = named(spans)
    assert set(seen) == {
        "memory_sql.add", "memory_sql.run_due", "memory_sql.formation", "memory_sql.consolidation", "memory_sql.context",
        f"chat {SETTINGS.fast_model}", f"chat {SETTINGS.slow_model}",
    }  # fmt: skip
    formation, call = seen["memory_sql.formation"], seen[f"chat {SETTINGS.fast_model}"]
    assert formation.parent is not None
    assert formation.parent.span_id == seen["memory_sql.run_due"].context.span_id
    assert call.parent is not None
    assert call.parent.span_id == formation.context.span_id
    assert (formation.attributes or {})["memory_sql.observations"] == 1
    assert (call.attributes or {})["gen_ai.provider.name"] == "custom"
    items = points(reader, "memory_sql.step.items")
    assert (items["formation", "messages"], items["formation", "observations"]) == (1, 1)
    assert items["consolidation", "absorbed"] == 1
    steps = points(reader, "memory_sql.step.duration")
    assert {name for (name,) in steps} == {"add", "run_due", "formation", "consolidation", "context"}


async def test_tokens_are_counted_as_the_provider_does(watched: Memory, reader: InMemoryMetricReader) -> None:
    await watched.add([message(SECRET)], **ADA, conversation_id="monday")
    formed = await watched.conversations.form(agent_id="ada", conversation_id="monday")
    stats = await watched.admin.stats(agent_id="ada")
    assert formed.observations
    tokens = points(reader, "gen_ai.client.token.usage")
    of_call = ("chat", "custom", SETTINGS.fast_model)
    assert tokens[*of_call, "input"] == (1, stats.input_tokens)
    assert tokens[*of_call, "output"] == (1, stats.output_tokens)
    assert points(reader, "gen_ai.client.operation.duration")[of_call][0] == 1


async def test_failure_is_told_by_its_kind_alone(
    database_url: str, spans: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    model = Parrot()
    model.failing = UnavailableError("rate_limit", f"the server said: {SECRET}")
    async with Memory(database_url, model, SETTINGS) as memory:
        await memory.add([message(SECRET)], **ADA, conversation_id="monday")
        await memory.run_due()
    seen = named(spans)
    for name in ("memory_sql.formation", f"chat {SETTINGS.fast_model}"):
        span = seen[name]
        assert (span.attributes or {})["error.type"] == "rate_limit"
        assert not span.status.is_ok
    assert points(reader, "memory_sql.step.duration")["formation", "rate_limit"][0] == 1
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    assert "bees" not in told


async def test_nothing_that_was_said_is_told(
    watched: Memory, spans: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    await watched.add([message(SECRET)], **ADA, conversation_id="monday")
    await watched.observe("Mia sells honey.", **ADA)
    await watched.run_due()
    await watched.search("honey bees", **ADA)
    await watched.forget(Selection(conversation_id="monday"), agent_id="ada")
    told = "".join(span.to_json() for span in spans.get_finished_spans())
    told += str(reader.get_metrics_data().to_json())  # type: ignore[union-attr]
    assert "memory_sql.forget" in told
    for word in ("bees", "honey", "mia", "monday"):
        assert word not in told.lower()


async def test_backlog_of_all_is_a_gauge(watched: Memory, reader: InMemoryMetricReader) -> None:
    await watched.add([message(SECRET)], **ADA, conversation_id="monday")
    await watched.work.backlog(agent_id="ada")  # of one agent: that would overwrite the number of all
    assert points(reader, "memory_sql.backlog") == {}
    await watched.work.backlog()
    assert points(reader, "memory_sql.backlog")["due_conversations",] == 1
    assert points(reader, "memory_sql.backlog.age")[()] >= 0
    assert points(reader, "memory_sql.backlog")["due_conversations",] == 1, "until it changes"


async def test_without_the_setting_nothing_is_measured(
    database_url: str, spans: InMemorySpanExporter, reader: InMemoryMetricReader
) -> None:
    async with Memory(database_url, Parrot(), SETTINGS.model_copy(update={"telemetry": False})) as memory:
        await memory.add([message(SECRET)], **ADA, conversation_id="monday")
        await memory.run_due()
        assert isinstance(memory._runtime.telemetry, Off)
    assert spans.get_finished_spans() == ()


async def test_setting_without_the_packages_is_refused_by_name(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "memory_sql.telemetry.otel", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(ConfigurationError, match=r"memory-sql\[telemetry\]"):
        await Memory(database_url, Parrot(), SETTINGS).open()


@pytest.mark.slow
def test_packages_are_imported_only_where_asked_for() -> None:
    code = "import sys; from memory_sql import Memory; import memory_sql.cli; print('opentelemetry' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"
