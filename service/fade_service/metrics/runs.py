"""Gauges of the runs that are trained now, read from the store when Prometheus asks, so that every replica tells the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from fade_core import WATCHED, schedule_of
from fade_core.config import Mode
from fade_core.schedule import Phase
from fade_proto.storage.v1.storage_pb2 import ObservationRecord, RunHead, RunRecord
from fade_proto.v1.observation_pb2 import OUTCOME_FROZEN, EnvironmentSchedule
from fade_proto.v1.scheduler_pb2 import ObserveResponse
from fade_service.errors import ServiceError
from fade_service.runs import LoadedRun, Runs, decoded
from fade_service.store.base import StoredRun

RUN_LIMIT = 200
"""Runs with gauges of their own: the first by name. More are counted in ``fade_runs_beyond_limit``."""

IDLE_SECONDS = 24 * 3600.0
"""A run whose last observation is older has no gauges any more."""

CACHE_SECONDS = 5.0
"""Runs are read at most that often, and for at most a twentieth of the time."""

_PAGE = 500

_RUN = {
    "fade_run_revision": "Observations along the run's line.",
    "fade_run_last_observation_timestamp_seconds": "When the last observation was committed, in Unix time.",
    "fade_run_warnings": "Warnings given with the newest observation.",
}
_ENVIRONMENT = {
    "fade_run_alpha": "Difficulty exponent as scheduled.",
    "fade_run_delta": "Failure divisor as scheduled.",
    "fade_run_solve_rate": "Average solve rate.",
    "fade_run_entropy_nats": "Average entropy in nats per token; absent until it is known.",
    "fade_run_entropy_target_nats": "Target entropy in nats per token; absent until it is known.",
}
_NEWEST = {
    "fade_run_mass_success": "Mean over rollouts of the positive advantages, as scheduled, in the newest observation.",
    "fade_run_mass_failure": "Mean over rollouts of the absolute negative advantages, as scheduled, in the newest observation.",
    "fade_run_mass_vs_grpo_ratio": "Sum of absolute advantages against GRPO's on the newest observation; absent without signal.",
    "fade_run_signal_ratio": "Share of the newest observation's groups that have any advantage.",
    "fade_run_coverage_ratio": "Share of the newest observation's rollouts that were scored.",
    "fade_run_averages_held": "1 if the newest observation did not move the averages.",
}

Samples = dict[str, list[tuple[tuple[str, ...], float]]]
"""Label values and value of each sample, by metric."""


@dataclass(slots=True)
class _Run:
    """What is known of a run at one version; its samples where they were asked for."""

    version: int
    completed: bool
    samples: Samples | None = None


class RunsCollector(Collector):
    """Collects them. The cost is that of listing the runs, and of decoding those that have changed since.

    While the store cannot be read, there are none: ``fade_store_up`` says why.
    """

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._known: dict[str, _Run] = {}  # by uid
        self._families: list[Metric] = []
        self._valid_until = 0.0

    def collect(self) -> list[Metric]:
        """The gauges, as of at most a few seconds ago."""
        with self._lock:
            started = time.monotonic()
            if started >= self._valid_until:
                try:
                    self._families = self._read()
                except ServiceError:
                    self._families = []
                ended = time.monotonic()
                self._valid_until = ended + max(CACHE_SECONDS, 20 * (ended - started))
            return self._families

    def _read(self) -> list[Metric]:
        known: dict[str, _Run] = {}
        shown: list[Samples] = []
        active = 0
        for stored in self._recent():
            run = self._known.get(stored.uid)
            if run is None or run.version != stored.version:
                run = _Run(stored.version, RunRecord.FromString(stored.record).completed)
            known[stored.uid] = run
            if run.completed:
                continue
            active += 1
            if active <= RUN_LIMIT:
                run.samples = self._samples(stored) if run.samples is None else run.samples
                shown.append(run.samples)
        self._known = known
        return _families(shown, active)

    def _recent(self) -> Iterator[StoredRun]:
        """The runs that are not idle, by name."""
        oldest = time.time() - IDLE_SECONDS
        after = ""
        while True:
            page = self._runs.store.list_runs("projects/", after, _PAGE)
            for stored in page:
                if RunHead.FromString(stored.head).observe_time.seconds > oldest:
                    yield stored
            if len(page) < _PAGE:
                return
            after = page[-1].name

    def _samples(self, stored: StoredRun) -> Samples:
        run = self._runs.cached(stored.name)
        if run is None or (run.uid, run.version) != (stored.uid, stored.version):
            run = decoded(stored)
        return _samples(run, self._newest(run))

    def _newest(self, run: LoadedRun) -> ObserveResponse:
        """The answer to the newest observation of the branch that is written now; empty on a branch without one."""
        revision = run.head.revision
        for stored in self._runs.store.list_observations(run.uid, run.head.branch, revision - 1, revision, 1):
            return ObserveResponse.FromString(ObservationRecord.FromString(stored.payload).answer)
        return ObserveResponse()


def _samples(run: LoadedRun, newest: ObserveResponse) -> Samples:
    samples: Samples = {}
    _, project, _, name = run.name.split("/")
    labels = (project, name)
    assert run.head.observe_time is not None  # else it would be idle

    def add(metric: str, labels: tuple[str, ...], value: float) -> None:
        samples.setdefault(metric, []).append((labels, value))

    add("fade_run_revision", labels, run.head.revision)
    add("fade_run_last_observation_timestamp_seconds", labels, run.head.observe_time.ToNanoseconds() / 1e9)
    add("fade_run_warnings", labels, len(newest.warnings))
    for mode in get_args(Mode):
        add("fade_run_mode", (*labels, mode), run.config.mode == mode)
    for environment, state in run.head.state.environments.items():
        own = (*labels, environment)
        schedule = schedule_of(run.config, state)
        add("fade_run_alpha", own, schedule.alpha)
        add("fade_run_delta", own, schedule.delta)
        add("fade_run_solve_rate", own, state.solve_rate)
        if state.entropy_nats is not None:
            add("fade_run_entropy_nats", own, state.entropy_nats)
        if schedule.target_entropy_nats is not None:
            add("fade_run_entropy_target_nats", own, schedule.target_entropy_nats)
        for phase in get_args(Phase):
            add("fade_run_phase", (*own, phase), schedule.phase == phase)
    warned = {(warning.subject, warning.reason) for warning in newest.warnings}
    for item in newest.schedules:
        own = (*labels, item.environment)
        for metric, value in _of_newest(item).items():
            add(metric, own, value)
        for reason in WATCHED:
            add("fade_run_warning_active", (*own, reason), (item.environment, reason) in warned)
    return samples


def _of_newest(item: EnvironmentSchedule) -> dict[str, float]:
    seen = item.diagnostics
    groups = seen.mixed_group_count + seen.all_solved_group_count + seen.all_failed_group_count + seen.singleton_group_count
    groups += seen.filtered_all_solved + seen.filtered_all_failed
    values = {
        "fade_run_mass_success": seen.mass_success,
        "fade_run_mass_failure": seen.mass_failure,
        "fade_run_signal_ratio": seen.effective_group_count / groups if groups else 0.0,
        "fade_run_coverage_ratio": seen.coverage,
        "fade_run_averages_held": float(item.outcome == OUTCOME_FROZEN),
    }
    if seen.HasField("mass_vs_grpo"):
        values["fade_run_mass_vs_grpo_ratio"] = seen.mass_vs_grpo
    return values


def _families(shown: list[Samples], active: int) -> list[Metric]:
    count = GaugeMetricFamily("fade_active_runs", "Runs neither completed nor idle for a day.", value=active)
    beyond = GaugeMetricFamily("fade_runs_beyond_limit", "Active runs without gauges of their own.", value=active - len(shown))
    labels = ("project", "run")
    described: dict[str, tuple[str, tuple[str, ...]]] = {name: (text, labels) for name, text in _RUN.items()}
    described["fade_run_mode"] = ("1 for the mode that the run is in.", (*labels, "mode"))
    described |= {name: (text, (*labels, "environment")) for name, text in (_ENVIRONMENT | _NEWEST).items()}
    described["fade_run_phase"] = ("1 for the phase that the run is in.", (*labels, "environment", "phase"))
    text = "1 for each warning over many observations that the newest one came with."
    described["fade_run_warning_active"] = (text, (*labels, "environment", "reason"))
    families = []
    for metric, (text, names) in described.items():
        family = GaugeMetricFamily(metric, text, labels=names)
        for samples in shown:
            for values, value in samples.get(metric, ()):
                family.add_metric(values, value)
        families.append(family)
    return [count, beyond, *families]
