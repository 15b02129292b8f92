"""What a tracer of the process sees of a request: nothing that names a person."""

from __future__ import annotations

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.server.conftest import BASE, Served


async def test_traces_have_no_ids(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """FastAPI's own have paths and queries, so ids of people and conversations."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    assert (await served.host("GET", f"{BASE}/conversations/monday/messages", query={"user_id": "mia"})).status == 200
    assert (await served.host("GET", f"{BASE}/people/mia/export")).status == 404
    told = " ".join(span.to_json() for span in exporter.get_finished_spans())
    assert "mia" not in told
    assert "monday" not in told
