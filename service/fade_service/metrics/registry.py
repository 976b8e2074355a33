"""One server's metrics."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from prometheus_client import CollectorRegistry, Gauge, PlatformCollector, ProcessCollector

from fade_core import MATHS_VERSION
from fade_service.metrics.calls import CallMetrics
from fade_service.metrics.observations import ObservationMetrics
from fade_service.metrics.store import StoreMetrics


class Metrics:
    """One server's metrics, in a registry of their own, so that several servers live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.calls = CallMetrics(self.registry)
        self.observations = ObservationMetrics(self.registry)
        self.store = StoreMetrics(self.registry)
        build = Gauge("fade_build_info", "1, with the versions as labels.", ("version", "maths"), registry=self.registry)
        build.labels(_version(), MATHS_VERSION).set(1)


def _version() -> str:
    try:
        return version("fade-scheduler")
    except PackageNotFoundError:  # a checkout on the path
        return "unknown"
