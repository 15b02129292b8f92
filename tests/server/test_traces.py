"""What a tracer of the process sees of a request: nothing that names a person."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from memory_sql.config import Settings
from memory_sql.memory import Memory
from memory_sql.server import create_app
from tests.asgi import Client, lived
from tests.factories import message
from tests.fakes import Parrot
from tests.server.conftest import BASE, Served

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
CALLER = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01", "tracestate": "vendor=1", "baggage": "user=mia"}


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    monkeypatch.setattr(trace, "get_tracer", provider.get_tracer)
    return exporter


@pytest.fixture
async def watched(database_url: str, exporter: InMemorySpanExporter) -> AsyncIterator[Client]:
    async with Memory(database_url, settings=Settings(llm="offline", telemetry=True)) as memory:
        made = await memory.keys.create("host", rights=["read", "admin"])
        async with lived(create_app(memory, mcp=False)) as client:
            yield client.with_key(made.secret)


def parents(exporter: InMemorySpanExporter) -> list[tuple[str, bool, int | None]]:
    """Of each span its name, whether it is in the caller's trace, and its parent."""
    found = exporter.get_finished_spans()
    return [(s.name, f"{s.context.trace_id:032x}" == TRACE, s.parent and s.parent.span_id) for s in found]


@pytest.mark.parametrize("accept", ["application/json", "text/event-stream"])
async def test_spans_join_the_callers_trace(watched: Client, exporter: InMemorySpanExporter, accept: str) -> None:
    answer = await watched("POST", f"{BASE}/work/run", headers={**CALLER, "Accept": accept})
    assert answer.status == 200
    assert parents(exporter) == [("memory_sql.run_due", True, 0x00F067AA0BA902B7)]
    (span,) = exporter.get_finished_spans()
    assert span.context.trace_state.get("vendor") == "1"
    assert "mia" not in span.to_json()
    await watched("POST", f"{BASE}/work/run", headers={"Accept": accept})
    assert parents(exporter)[1:] == [("memory_sql.run_due", False, None)]  # the next request isn't in it


@pytest.mark.parametrize(
    "wrong", ["", "nonsense", f"00-{'0' * 32}-00f067aa0ba902b7-01", "ff" + CALLER["traceparent"][2:]]
)
async def test_wrong_context_begins_a_trace(watched: Client, exporter: InMemorySpanExporter, wrong: str) -> None:
    body = {"user_id": "mia"}
    assert (await watched("POST", f"{BASE}/context", body, headers={"traceparent": wrong})).status == 200
    twice = [("traceparent", CALLER["traceparent"].encode())] * 2
    assert (await watched("POST", f"{BASE}/context", body, more_headers=twice)).status == 200
    assert parents(exporter) == [("memory_sql.context", False, None)] * 2


async def test_open_span_of_a_host_stays_the_parent(watched: Client, exporter: InMemorySpanExporter) -> None:
    with trace.get_tracer("host").start_as_current_span("request") as span:
        assert (await watched("POST", f"{BASE}/context", {"user_id": "mia"}, headers=CALLER)).status == 200
    assert parents(exporter)[0] == ("memory_sql.context", False, span.get_span_context().span_id)


async def test_baggage_goes_no_further(database_url: str, exporter: InMemorySpanExporter) -> None:
    """Whatever instruments the process's own requests would send it to the provider of the model."""
    seen, model = list[tuple[object, int]](), Parrot()

    async def watch() -> None:
        seen.append((dict(baggage.get_all()), trace.get_current_span().get_span_context().trace_id))

    model.meanwhile = watch
    async with Memory(database_url, model, Settings(llm="offline", telemetry=True)) as memory:
        await memory.add([message("Actually, I keep bees.")], agent_id="ada", user_id="mia", conversation_id="monday")
        made = await memory.keys.create("host", rights=["admin"])
        async with lived(create_app(memory, mcp=False)) as client:
            await client.with_key(made.secret)("POST", f"{BASE}/work/run", headers=CALLER)
    assert seen == [({}, int(TRACE, 16))]


@pytest.mark.slow
async def test_traces_have_no_ids(served: Served, exporter: InMemorySpanExporter) -> None:
    """FastAPI's own have paths and queries, so ids of people and conversations."""
    assert (await served.host("GET", f"{BASE}/conversations/monday/messages", query={"user_id": "mia"})).status == 200
    assert (await served.host("GET", f"{BASE}/people/mia/export")).status == 404
    told = " ".join(span.to_json() for span in exporter.get_finished_spans())
    assert "mia" not in told
    assert "monday" not in told
