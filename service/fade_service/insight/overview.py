"""All runs at a glance, as people list and search them."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cachetools import LRUCache

from fade_core import schedule_of
from fade_service.insight.telemetry import PLACE, Telemetry, decode
from fade_service.runs import LoadedRun, Runs, decoded
from fade_service.store.base import StoredRun

LISTED_SECONDS = 1.0
"""The runs are listed at most that often, and for at most a tenth of the time."""

SPARKLINE_OBSERVATIONS = 60

_PAGE = 500

Entry = dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Known:
    """A run at one version."""

    version: int
    run: LoadedRun
    reported: float  # Unix seconds of the last observation, or of the creation


class Overview:
    """Lists runs, newest report first. A run is decoded again only when it has changed."""

    def __init__(self, runs: Runs) -> None:
        self._runs = runs
        self._lock = threading.Lock()
        self._known: dict[str, _Known] = {}  # by name
        self._valid_until = 0.0
        self._newest: LRUCache[tuple[str, int], Telemetry] = LRUCache(1000)

    def page(self, project: str, query: str, state: str, page: int, page_size: int) -> Entry:
        """One page of the runs.

        Args:
            project: "-" means all.
            query: What their names contain; empty means anything.
            state: "active", "completed" or "all".
            page: From 0.
            page_size: Runs of a page.
        """
        found = [item for item in self.runs(project) if query in item.run.name.removeprefix("projects/")]
        if state != "all":
            found = [item for item in found if item.run.record.completed == (state == "completed")]
        found.sort(key=lambda item: (-item.reported, item.run.name))
        shown = found[page * page_size : (page + 1) * page_size]
        return {"total": len(found), "page": page, "page_size": page_size, "runs": [self._entry(item) for item in shown]}

    def versions(self, project: str) -> dict[str, tuple[str, int]]:
        """Uid and version of each run, by "project/run"."""
        return {"/".join(item.run.name.split("/")[1::2]): (item.run.uid, item.version) for item in self.runs(project)}

    def runs(self, project: str) -> list[_Known]:
        """The runs as of at most a few seconds ago."""
        with self._lock:
            started = time.monotonic()
            if started >= self._valid_until:
                self._known = {stored.name: self._decoded(stored) for stored in self._listed()}
                ended = time.monotonic()
                self._valid_until = ended + max(LISTED_SECONDS, 10 * (ended - started))
            known = list(self._known.values())
        return known if project == "-" else [item for item in known if item.run.name.split("/")[1] == project]

    def _listed(self) -> Sequence[StoredRun]:
        listed: list[StoredRun] = []
        while True:
            page = self._runs.store.list_runs("projects/", listed[-1].name if listed else "", _PAGE)
            listed += page
            if len(page) < _PAGE:
                return listed

    def _decoded(self, stored: StoredRun) -> _Known:
        known = self._known.get(stored.name)
        if known is not None and (known.run.uid, known.version) == (stored.uid, stored.version):
            return known
        run = decoded(stored)
        reported = run.head.observe_time or run.record.create_time
        return _Known(stored.version, run, reported.seconds + reported.nanos / 1e9)

    def _entry(self, item: _Known) -> Entry:
        run = item.run
        _, project, _, name = run.name.split("/")
        newest = self._telemetry(item)
        first = next(iter(newest.environments.values()), None)
        return {
            "project": project,
            "run": name,
            "state": "completed" if run.record.completed else "active",
            "mode": run.config.mode,
            "branch": run.head.branch,
            "revision": run.head.revision,
            "trainer_step": run.head.trainer_step,
            "observe_time": run.head.observe_time.ToJsonString() if run.head.observe_time else None,
            "create_time": run.record.create_time.ToJsonString(),
            "warnings": sorted({mark.reason for mark in newest.remarks if _is_current_warning(mark, run)}),
            "environments": [_environment(run, environment) for environment in sorted(run.head.state.environments)],
            "sparkline": [] if first is None else first[:, PLACE["solve_rate"]].tolist(),
        }

    def _telemetry(self, item: _Known) -> Telemetry:
        """Of the last observations of the branch that is written now."""
        key = (item.run.uid, item.version)
        newest = self._newest.get(key)
        if newest is None:
            head = item.run.head
            after = max(0, head.revision - SPARKLINE_OBSERVATIONS)
            stored = self._runs.store.list_observations(item.run.uid, head.branch, after, head.revision, SPARKLINE_OBSERVATIONS)
            newest = self._newest[key] = decode([observation.payload for observation in stored])
        return newest


def _is_current_warning(mark: Any, run: LoadedRun) -> bool:
    return bool(mark.kind == "warning" and mark.revision == run.head.revision)


def _environment(run: LoadedRun, name: str) -> Entry:
    state = run.head.state.environments[name]
    schedule = schedule_of(run.config, state)
    return {
        "name": name,
        "phase": schedule.phase,
        "alpha": schedule.alpha,
        "delta": schedule.delta,
        "solve_rate": state.solve_rate,
        "entropy_nats": math.nan if state.entropy_nats is None else state.entropy_nats,
        "target_entropy_nats": math.nan if schedule.target_entropy_nats is None else schedule.target_entropy_nats,
    }
