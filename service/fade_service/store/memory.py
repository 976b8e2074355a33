"""A store in this process's memory, for tests: nothing survives the process."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from fade_service.errors import DuplicateObservationError
from fade_service.store.base import Store, StoredObservation, StoredRun


@dataclass(slots=True)
class _Line:
    """The observations of one branch."""

    by_revision: dict[int, StoredObservation] = field(default_factory=dict)
    by_id: dict[str, StoredObservation] = field(default_factory=dict)


class MemoryStore(Store):
    """See :class:`~fade_service.store.base.Store`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runs: dict[str, StoredRun] = {}  # by name
        self._names: dict[str, str] = {}  # by uid
        self._lines: dict[tuple[str, str], _Line] = {}  # by uid and branch

    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        with self._lock:
            if name not in self._runs:
                self._runs[name] = StoredRun(name=name, uid=uid, version=1, record=record, head=head)
                self._names[uid] = name
            return self._runs[name]

    def get_run(self, name: str) -> StoredRun | None:
        with self._lock:
            return self._runs.get(name)

    def list_runs(self, prefix: str, after: str, limit: int) -> Sequence[StoredRun]:
        with self._lock:
            names = sorted(name for name in self._runs if name.startswith(prefix) and name > after)
            return [self._runs[name] for name in names[:limit]]

    def commit(
        self,
        uid: str,
        expected_version: int,
        *,
        record: bytes | None = None,
        head: bytes | None = None,
        observation: StoredObservation | None = None,
    ) -> int | None:
        with self._lock:
            run = self._runs.get(self._names.get(uid, ""))
            if run is None or run.version != expected_version:
                return None
            if observation is not None:
                line = self._lines.setdefault((uid, observation.branch), _Line())
                if observation.revision in line.by_revision or observation.observation_id in line.by_id:
                    problem = f"has observation {observation.observation_id!r} or revision {observation.revision}"
                    raise DuplicateObservationError(f"branch {observation.branch} {problem}")
                line.by_revision[observation.revision] = line.by_id[observation.observation_id] = observation
            self._runs[run.name] = replace(
                run,
                version=run.version + 1,
                record=run.record if record is None else record,
                head=run.head if head is None else head,
            )
            return run.version + 1

    def find_observation(self, uid: str, branch: str, observation_id: str) -> StoredObservation | None:
        with self._lock:
            return self._lines.get((uid, branch), _Line()).by_id.get(observation_id)

    def list_observations(self, uid: str, branch: str, after: int, until: int, limit: int) -> Sequence[StoredObservation]:
        with self._lock:
            line = self._lines.get((uid, branch), _Line()).by_revision
            return [line[revision] for revision in sorted(line) if after < revision <= until][:limit]

    def delete_run(self, name: str, expected_version: int) -> bool:
        with self._lock:
            run = self._runs.get(name)
            if run is None or run.version != expected_version:
                return False
            del self._runs[name], self._names[run.uid]
            for key in [key for key in self._lines if key[0] == run.uid]:
                del self._lines[key]
            return True

    def ping(self) -> None:
        """Always."""

    def close(self) -> None:
        """Nothing to free."""
