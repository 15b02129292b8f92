"""Metrics in the format of Prometheus, for a process that has set no provider of its own."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import metrics
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from prometheus_client import REGISTRY, generate_latest


def exposed() -> Callable[[], bytes] | None:
    """Collects metrics from now on and returns a function that gives their text. None: the process already has a provider."""
    if isinstance(metrics.get_meter_provider(), MeterProvider):
        return None
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader()]))
    return lambda: generate_latest(REGISTRY)
