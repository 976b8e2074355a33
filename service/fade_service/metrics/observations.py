"""Metrics of the reports that were answered, over all runs."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter

from fade_proto.v1.observation_pb2 import OUTCOME_APPLIED, SPLIT_EVAL
from fade_proto.v1.scheduler_pb2 import ObserveRequest, ObserveResponse

_SOURCES = ("SERVER", "LOCAL", "HELD", "NEUTRAL", "PINNED")


class ObservationMetrics:
    """Counts each report once, by what it was; what it says of its batch only where it moved the run."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, documentation: str, label: str, *values: str) -> dict[str, Counter]:
            """Its children, present from the start, so that the first event is an increase."""
            made = Counter(name, documentation, (label,), registry=registry)
            return {value: made.labels(value) for value in values}

        self._observations = counter(
            "fade_observations",
            "Reports answered: applied, frozen, replayed, or evaluated (moves nothing).",
            "outcome",
            *("applied", "frozen", "replayed", "evaluated"),
        )
        self._late = counter(
            "fade_late_reports",
            "Reports that came after their batch was trained on, by where its schedule came from.",
            "source",
            *(*_SOURCES, "other"),
        )
        self._lost = Counter("fade_lost_reports", "Batches trained on whose reports never came.", registry=registry)
        self._rollouts = counter(
            "fade_rollouts",
            "Rollouts reported: scored, stale (scored, by too old a policy), or missing (no finite reward).",
            "status",
            *("scored", "stale", "missing"),
        )
        self._warnings = Counter("fade_warnings", "Warnings given with answers.", ("reason",), registry=registry)

    def count(self, request: ObserveRequest, response: ObserveResponse, *, replayed: bool) -> None:
        """One report was answered."""
        if replayed:
            self._observations["replayed"].inc()
            return
        if request.split == SPLIT_EVAL:
            self._observations["evaluated"].inc()
            return
        self._observations["applied" if response.outcome == OUTCOME_APPLIED else "frozen"].inc()
        if request.HasField("late"):
            self._late.get(request.late.source, self._late["other"]).inc()
        if request.lost_reports:
            self._lost.inc(request.lost_reports)
        for schedule in response.schedules:
            seen = schedule.diagnostics
            self._rollouts["scored"].inc(seen.scored_count - seen.stale_count)
            self._rollouts["stale"].inc(seen.stale_count)
            self._rollouts["missing"].inc(seen.missing_count)
        for warning in response.warnings:
            self._warnings.labels(warning.reason).inc()
