"""A store that is measured, whatever store it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from fade_service.logs import Event, milliseconds
from fade_service.metrics.store import StoreMetrics
from fade_service.store.base import Store, StoredObservation, StoredRun

_OPERATIONS = ("create_run", "get_run", "list_runs", "commit", "find_observation", "list_observations", "delete_run", "ping")

_log = logging.getLogger(__name__)


class MeasuredStore(Store):
    """Times each operation of ``store``, and says after each ping whether it is up.

    Args:
        store: The store that does the work.
        backend: What it is called in the metrics: the scheme of its URL ("sqlite", "redis", "rediss", "memory").
        metrics: Where it is counted.
    """

    def __init__(self, store: Store, backend: str, metrics: StoreMetrics) -> None:
        self._store = store
        self._up = metrics.up
        self._operations = {op: metrics.of_operation(backend, op) for op in _OPERATIONS}

    @contextmanager
    def _measured(self, op: str) -> Iterator[None]:
        """Around one operation."""
        started = time.perf_counter()
        failure = None
        try:
            yield
        except Exception as error:
            failure = error
            raise
        finally:
            seconds = time.perf_counter() - started
            self._operations[op].done(seconds, failure)
            if _log.isEnabledFor(logging.DEBUG):
                outcome = "OK" if failure is None else type(failure).__name__
                _log.debug(Event(event="operation", op=op, outcome=outcome, milliseconds=milliseconds(seconds)))

    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        with self._measured("create_run"):
            return self._store.create_run(name, uid, record, head)

    def get_run(self, name: str) -> StoredRun | None:
        with self._measured("get_run"):
            return self._store.get_run(name)

    def list_runs(self, prefix: str, after: str, limit: int) -> Sequence[StoredRun]:
        with self._measured("list_runs"):
            return self._store.list_runs(prefix, after, limit)

    def commit(
        self,
        uid: str,
        expected_version: int,
        *,
        record: bytes | None = None,
        head: bytes | None = None,
        observation: StoredObservation | None = None,
    ) -> int | None:
        with self._measured("commit"):
            return self._store.commit(uid, expected_version, record=record, head=head, observation=observation)

    def find_observation(self, uid: str, branch: str, observation_id: str) -> StoredObservation | None:
        with self._measured("find_observation"):
            return self._store.find_observation(uid, branch, observation_id)

    def list_observations(self, uid: str, branch: str, after: int, until: int, limit: int) -> Sequence[StoredObservation]:
        with self._measured("list_observations"):
            return self._store.list_observations(uid, branch, after, until, limit)

    def delete_run(self, name: str, expected_version: int) -> bool:
        with self._measured("delete_run"):
            return self._store.delete_run(name, expected_version)

    def ping(self) -> None:
        try:
            with self._measured("ping"):
                self._store.ping()
        except Exception:
            self._up.set(0)
            raise
        self._up.set(1)

    def close(self) -> None:
        self._store.close()
