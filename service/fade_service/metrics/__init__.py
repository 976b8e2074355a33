"""What the service counts, for Prometheus; docs/metrics.md has the list, docs/runbooks what to do about it."""

from fade_service.metrics.calls import MethodMetrics
from fade_service.metrics.registry import Metrics
from fade_service.metrics.runs import RunsCollector

__all__ = ["MethodMetrics", "Metrics", "RunsCollector"]
