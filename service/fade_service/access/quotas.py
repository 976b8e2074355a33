"""How much one project may use of a server."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from cachetools import LRUCache

from fade_service.errors import QuotaExceededError
from fade_service.names import run_name
from fade_service.store.base import Store

RUN_RETRY_SECONDS = 60.0
"""When to look again for room that an operator makes."""

_KNOWN_PROJECTS = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotas:
    """What one project may use. Each server process counts for itself.

    Attributes:
        max_observations_per_second: Observe calls, on average; up to one second's worth at once. None: any number.
        max_runs_per_project: Runs that exist. None: any number.

    Raises:
        ValueError: A quota of nothing.
    """

    max_observations_per_second: float | None = None
    max_runs_per_project: int | None = None

    def __post_init__(self) -> None:
        if self.max_observations_per_second is not None and not 0 < self.max_observations_per_second <= 1e6:
            raise ValueError(f"max_observations_per_second is {self.max_observations_per_second}; give more than 0, up to 1e6")
        if self.max_runs_per_project is not None and not 1 <= self.max_runs_per_project <= 10**6:
            raise ValueError(f"max_runs_per_project is {self.max_runs_per_project}; give 1 to 1000000")


class ObservationRate:
    """A token bucket per project, kept as the time at which it will be full again (the generic cell rate algorithm)."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._slack_seconds = max(1.0, 1 / per_second)
        self._full_at: LRUCache[str, float] = LRUCache(_KNOWN_PROJECTS)
        self._lock = threading.Lock()

    def take(self, project: str) -> None:
        """Counts one observation.

        Raises:
            QuotaExceededError: It is one too many now.
        """
        now = time.monotonic()
        with self._lock:
            full_at = max(now, self._full_at.get(project, now)) + 1 / self._per_second
            too_early_seconds = full_at - now - self._slack_seconds
            if too_early_seconds <= 1e-9:
                self._full_at[project] = full_at
                return
        raise QuotaExceededError(
            "QUOTA_EXCEEDED",
            "project {project} reports more than {limit:g} observations per second; send this one again later, as it is",
            too_early_seconds,
            project=project,
            limit=self._per_second,
        )


class RunCount:
    """The number of runs of a project."""

    def __init__(self, limit: int, store: Store) -> None:
        self._limit = limit
        self._store = store
        self._lock = threading.Lock()

    @contextmanager
    def room_for(self, project: str, run: str) -> Iterator[None]:
        """Within this, the run may be created; joining one that exists needs no room.

        Raises:
            QuotaExceededError: The project has as many runs as it may have.
        """
        if self._store.get_run(run_name(project, run)) is not None:
            yield
            return
        with self._lock:
            if len(self._store.list_runs(run_name(project, ""), "", self._limit)) >= self._limit:
                problem = (
                    "project {project} has {limit} runs, and may have no more; delete one (DeleteRun), or have the quota raised"
                )
                details = {"project": project, "limit": self._limit}
                raise QuotaExceededError("RUN_QUOTA_EXCEEDED", problem, RUN_RETRY_SECONDS, **details)
            yield
