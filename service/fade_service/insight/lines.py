"""The lines of history that somebody looks at, decoded once and then extended."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count, islice

import numpy as np
from cachetools import LRUCache

from fade_service.insight.telemetry import Columns, Remark, Telemetry, decode
from fade_service.insight.worker import Worker
from fade_service.runs import LoadedRun, Runs
from fade_service.scheduler.history import line_of, segments
from fade_service.store.base import StoredObservation

CACHED_LINES = 32
"""Lines kept decoded; 10,000 observations of one environment take 2 MB."""

_READ_AT_ONCE = 250
"""Observations that one read of the store fetches; so many are decoded in this process too."""

_DECODED_AT_ONCE = 5000
"""Observations that go to the worker in one piece."""

_REMARKS = 2000
"""The newest are kept."""

_loads = count(1)


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """The observations along a branch's line, oldest first.

    Attributes:
        branch: The branch.
        revision: Of the last observation; 0 without one.
        digest: The last observation's, by which a rewritten history is found out.
        environments: Columns by environment.
        remarks: What was remarked, a warning where it began.
        loaded: Another number whenever the line was read from its beginning.
    """

    branch: str
    revision: int
    digest: bytes
    environments: dict[str, Columns]
    remarks: list[Remark]
    loaded: int
    lasting: dict[tuple[str, str], int]  # the last revision with that warning, by environment and reason


class Lines:
    """Reads lines, and keeps those that were asked for last."""

    def __init__(self, runs: Runs, worker: Worker) -> None:
        self._runs = runs
        self._worker = worker
        self._known: LRUCache[tuple[str, str], Line] = LRUCache(CACHED_LINES)
        self._lock = threading.Lock()
        self._reading: dict[tuple[str, str], threading.Lock] = {}

    def read(self, run: LoadedRun, branch: str = "") -> Line:
        """The line of a branch, by default the one that is written now, as far as the run was loaded.

        Raises:
            ServiceError: BRANCH_NOT_FOUND, WORKER_ENDED.
        """
        branch = branch or run.head.branch
        run.get_branch(branch)
        key = (run.uid, branch)
        with self._lock:
            reading = self._reading.setdefault(key, threading.Lock())
        with reading:  # many who look at one run make it be read once
            with self._lock:
                line = self._known.get(key)
            line = self._extended(run, line) if line else self._extended(run, _empty(branch))
            with self._lock:
                self._known[key] = line
                self._reading = {own: lock for own, lock in self._reading.items() if lock.locked()}
        return line

    def _extended(self, run: LoadedRun, line: Line) -> Line:
        end = segments(run, line.branch)[-1].until
        if line.revision and not self._still_there(run, line, end):
            line = _empty(line.branch)
        if end == line.revision:
            return line
        later = line_of(self._runs, run, line.branch, line.revision, _READ_AT_ONCE)
        while found := list(islice(later, _DECODED_AT_ONCE)):
            payloads = [stored.payload for stored in found]
            more = decode(payloads) if len(payloads) <= _READ_AT_ONCE else self._worker.call(decode, payloads)
            line = _joined(line, found[-1], more)
        return line

    def _still_there(self, run: LoadedRun, line: Line, end: int) -> bool:
        """Whether the store still has the last observation that was read: it may have lost it, and be told another since."""
        if end < line.revision:
            return False
        last = next(iter(line_of(self._runs, run, line.branch, line.revision - 1, 1)), None)
        return last is not None and last.revision == line.revision and last.digest == line.digest


def _empty(branch: str) -> Line:
    return Line(branch, 0, b"", {}, [], next(_loads), {})


def _joined(line: Line, last: StoredObservation, more: Telemetry) -> Line:
    environments = dict(line.environments)
    for name, columns in more.environments.items():
        environments[name] = np.concatenate([environments[name], columns]) if name in environments else columns
    lasting = dict(line.lasting)
    began = _beginnings(more.remarks, lasting)
    return replace(
        line,
        revision=last.revision,
        digest=last.digest,
        environments=dict(sorted(environments.items())),
        remarks=[*line.remarks, *began][-_REMARKS:],
        lasting=lasting,
    )


def _beginnings(remarks: Sequence[Remark], lasting: dict[tuple[str, str], int]) -> list[Remark]:
    """All but the warnings that the observation before had too; ``lasting`` is brought up to date."""
    began = []
    for remark in remarks:
        key = (remark.environment, remark.reason)
        if remark.kind != "warning":
            began.append(remark)
            continue
        if lasting.get(key) != remark.revision - 1:
            began.append(remark)
        lasting[key] = remark.revision
    return began
