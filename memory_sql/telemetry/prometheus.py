"""Metrics as Prometheus reads them, for a process that has set no provider of its own."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest


def exposed() -> Callable[[], bytes] | None:
    """Collects metrics from now on; what is called gives their text. None: the process sends its metrics elsewhere."""
    if isinstance(metrics.get_meter_provider(), MeterProvider):
        return None
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    return lambda: generate_latest(REGISTRY)
