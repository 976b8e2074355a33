"""What the service counts, for Prometheus. RPC names are go-grpc-prometheus's, so that dashboards made for those fit."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

import grpc
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, PlatformCollector, ProcessCollector

from fade_core import MATHS_VERSION

_SECONDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)

_CODE_NAMES = {code.name: code.name.title().replace("_", "") for code in grpc.StatusCode} | {"OK": "OK"}
"""go-grpc-prometheus writes NotFound for NOT_FOUND."""

_LABELS = ("grpc_type", "grpc_service", "grpc_method")


class Metrics:
    """One server's metrics, in a registry of their own, so that several servers live in one process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._started = Counter("grpc_server_started", "RPCs begun.", _LABELS, registry=self.registry)
        self._handled = Counter(
            "grpc_server_handled", "RPCs ended, by status code.", (*_LABELS, "grpc_code"), registry=self.registry
        )
        self._seconds = Histogram(
            "grpc_server_handling_seconds", "Time from request to answer.", _LABELS, buckets=_SECONDS, registry=self.registry
        )
        observations = Counter(
            "fade_observations",
            "Reports answered: applied, frozen, replayed, or evaluated (moves nothing).",
            ("outcome",),
            registry=self.registry,
        )
        self.observations = {name: observations.labels(name) for name in ("applied", "frozen", "replayed", "evaluated")}
        build = Gauge("fade_build_info", "1, with the versions as labels.", ("version", "maths"), registry=self.registry)
        build.labels(_version(), MATHS_VERSION).set(1)

    def of_method(self, service: str, method: str) -> MethodMetrics:
        """The metrics of one RPC, present from the start."""
        labels = ("unary", service, method)
        ok = self._handled.labels(*labels, "OK")
        return MethodMetrics(self._started.labels(*labels), ok, self._handled, self._seconds.labels(*labels), labels)


class MethodMetrics:
    """The metrics of one RPC."""

    def __init__(self, started: Counter, ok: Counter, handled: Counter, seconds: Histogram, labels: tuple[str, str, str]) -> None:
        self.started = started
        self._ok = ok
        self._handled = handled
        self._seconds = seconds
        self._labels = labels

    def done(self, code: str, seconds: float) -> None:
        """One call ended with the status code of that name (``"NOT_FOUND"``)."""
        (self._ok if code == "OK" else self._handled.labels(*self._labels, _CODE_NAMES[code])).inc()
        self._seconds.observe(seconds)


def _version() -> str:
    try:
        return version("fade-scheduler")
    except PackageNotFoundError:  # a checkout on the path
        return "unknown"
