"""Metrics of the store."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from fade_service.errors import DuplicateObservationError, ServiceError, StoreFullError, StoreUnavailableError

_SECONDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class StoreMetrics:
    """Times and errors of every operation, and whether the last look found the store able to read and write."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._seconds = Histogram(
            "fade_store_op_duration_seconds",
            "Time of the store's operations, failed ones too.",
            ("backend", "op"),
            buckets=_SECONDS,
            registry=registry,
        )
        self._errors = Counter(
            "fade_store_errors",
            "Failed operations: unavailable (cannot be reached), full (no room), internal (anything else).",
            ("backend", "kind"),
            registry=registry,
        )
        self.up = Gauge(
            "fade_store_up", "1 while the store can read and write, as looked at every two seconds.", registry=registry
        )

    def of_operation(self, backend: str, op: str) -> OperationMetrics:
        """The metrics of one operation, present from the start."""
        errors = {kind: self._errors.labels(backend, kind) for kind in ("unavailable", "full", "internal")}
        return OperationMetrics(self._seconds.labels(backend, op), errors)


class OperationMetrics:
    """The metrics of one operation."""

    def __init__(self, seconds: Histogram, errors: dict[str, Counter]) -> None:
        self._seconds = seconds
        self._errors = errors

    def done(self, seconds: float, failure: Exception | None) -> None:
        """One operation ended after that time: well, or not."""
        self._seconds.observe(seconds)
        if isinstance(failure, StoreUnavailableError):
            self._errors["unavailable"].inc()
        elif isinstance(failure, StoreFullError):
            self._errors["full"].inc()
        elif failure is not None and not isinstance(failure, (DuplicateObservationError, ServiceError)):
            # These two are answers of a store that works: an id that is used, history that has expired.
            self._errors["internal"].inc()
