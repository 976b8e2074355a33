"""Runs as the scheduler works on them: decoded, cached, and changed by compare and set alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace

from cachetools import LRUCache
from google.protobuf.timestamp_pb2 import Timestamp

from fade_core import ControllerState, RunConfig, Watch
from fade_proto.convert import config_from_proto, state_from_proto, state_to_proto
from fade_proto.storage.v1.storage_pb2 import BranchRecord, RunHead, RunRecord
from fade_proto.storage.v1.storage_pb2 import Watch as StoredWatch
from fade_service import failpoints
from fade_service.errors import ServiceError
from fade_service.store.base import Store, StoredObservation, StoredRun

CACHED_RUNS = 4096
"""Runs kept decoded per process; the rest are decoded again when they are used."""

COMMIT_ATTEMPTS = 16
"""Lost races against other processes before a caller is told to try again."""

_LOCKS = 64


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Head:
    """Where a run stands.

    Attributes:
        branch: The branch that is written now.
        revision: Its revision.
        state: The controller's state there.
        trainer_step: The trainer's step there.
        observe_time: When the last observation was committed.
        watches: What the warnings remember, by environment.
    """

    branch: str
    revision: int
    state: ControllerState
    trainer_step: int | None
    observe_time: Timestamp | None
    watches: Mapping[str, Watch] = field(default_factory=dict)

    def encode(self) -> bytes:
        """The stored bytes."""
        message = RunHead(
            branch=self.branch, revision=self.revision, state=state_to_proto(self.state), observe_time=self.observe_time
        )
        if self.trainer_step is not None:
            message.trainer_step = self.trainer_step
        for name, item in sorted(self.watches.items()):
            message.watches.append(_stored_watch(name, item))
        return message.SerializeToString(deterministic=True)

    @classmethod
    def decode(cls, stored: bytes) -> Head:
        """The inverse of :meth:`encode`."""
        message = RunHead.FromString(stored)
        return cls(
            branch=message.branch,
            revision=message.revision,
            state=state_from_proto(message.state),
            trainer_step=message.trainer_step if message.HasField("trainer_step") else None,
            observe_time=message.observe_time if message.HasField("observe_time") else None,
            watches={item.environment: _watch(item) for item in message.watches},
        )


def _stored_watch(environment: str, watch: Watch) -> StoredWatch:
    known = {item.name: value for item in fields(watch) if (value := getattr(watch, item.name)) is not None}
    return StoredWatch(environment=environment, **known)


def _watch(stored: StoredWatch) -> Watch:
    values = {descriptor.name: value for descriptor, value in stored.ListFields()}
    del values["environment"]
    return Watch(**values)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoadedRun:
    """A run, decoded. Read-only: changes are made on copies and committed.

    Attributes:
        name, uid, version: As stored.
        record: What changes seldom.
        config: The configuration in force.
        head: Where it stands.
    """

    name: str
    uid: str
    version: int
    record: RunRecord
    config: RunConfig
    head: Head

    @property
    def config_revision(self) -> int:
        """The version of the configuration in force."""
        return self.record.config_changes[-1].config_revision

    def config_at(self, config_revision: int) -> RunConfig | None:
        """That version of the configuration, if the run had it."""
        if config_revision == self.config_revision:
            return self.config
        for change in self.record.config_changes:
            if change.config_revision == config_revision:
                return config_from_proto(change.config)
        return None

    def find_branch(self, branch: str) -> BranchRecord | None:
        """The branch of that id."""
        return next((item for item in self.record.branches if item.branch.id == branch), None)

    def get_branch(self, branch: str) -> BranchRecord:
        """The branch of that id.

        Raises:
            ServiceError: BRANCH_NOT_FOUND.
        """
        found = self.find_branch(branch)
        if found is None:
            raise ServiceError("BRANCH_NOT_FOUND", "{name} has no branch {branch!r}", name=self.name, branch=branch)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a use case wants committed; what is None stays."""

    record: RunRecord | None = None
    head: Head | None = None
    observation: StoredObservation | None = None


class Runs:
    """The runs of one store."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._cache: LRUCache[str, LoadedRun] = LRUCache(CACHED_RUNS)
        self._cache_lock = threading.Lock()
        self._locks = [threading.Lock() for _ in range(_LOCKS)]

    def lock(self, name: str) -> threading.Lock:
        """The lock that orders this process's changes of a run, so that they do not race each other to the store."""
        return self._locks[hash(name) % _LOCKS]

    def load(self, name: str) -> LoadedRun:
        """The run as the store has it now.

        Raises:
            ServiceError: RUN_NOT_FOUND.
        """
        stored = self.store.get_run(name)
        if stored is None:
            self.forget(name)
            raise ServiceError("RUN_NOT_FOUND", "{name} does not exist; create it with CreateRun", name=name)
        run = decoded(stored)
        self._remember(run)
        return run

    def cached(self, name: str) -> LoadedRun | None:
        """The run as this process saw it last: a guess that only a commit confirms."""
        with self._cache_lock:
            return self._cache.get(name)

    def forget(self, name: str) -> None:
        """Drops the guess."""
        with self._cache_lock:
            self._cache.pop(name, None)

    def commit(self, run: LoadedRun, change: Change) -> LoadedRun | None:
        """Commits a change to the run as it was loaded.

        Returns:
            The run after it; None, with nothing written, if the run changed in between.

        Raises:
            DuplicateObservationError: Of the store.
        """
        failpoints.reach("before_commit")
        version = self.store.commit(
            run.uid,
            run.version,
            record=None if change.record is None else change.record.SerializeToString(deterministic=True),
            head=None if change.head is None else change.head.encode(),
            observation=change.observation,
        )
        if version is None:
            self.forget(run.name)
            return None
        failpoints.reach("after_commit")
        record, config = run.record, run.config
        if change.record is not None:
            record, config = change.record, config_in_force(change.record)
        after = replace(run, version=version, record=record, config=config, head=change.head or run.head)
        self._remember(after)
        return after

    def change(self, name: str, decide: Callable[[LoadedRun], Change | None]) -> LoadedRun:
        """Loads a run, lets ``decide`` say what to change, and commits it; again from the start where another was faster.

        Raises:
            ServiceError: RUN_NOT_FOUND, CONTENTION, and what ``decide`` raises.
        """
        with self.lock(name):
            for _ in range(COMMIT_ATTEMPTS):
                run = self.load(name)
                change = decide(run)
                after = run if change is None else self.commit(run, change)
                if after is not None:
                    return after
        raise contention(name)

    def _remember(self, run: LoadedRun) -> None:
        with self._cache_lock:
            known = self._cache.get(run.name)
            if known is None or known.uid != run.uid or known.version <= run.version:
                self._cache[run.name] = run


def contention(name: str) -> ServiceError:
    """Too many other processes changed the run at once."""
    return ServiceError("CONTENTION", "{name} is being changed by others; try again", name=name)


def decoded(stored: StoredRun) -> LoadedRun:
    """A stored run, decoded."""
    record = RunRecord.FromString(stored.record)
    return LoadedRun(
        name=stored.name,
        uid=stored.uid,
        version=stored.version,
        record=record,
        config=config_in_force(record),
        head=Head.decode(stored.head),
    )


def config_in_force(record: RunRecord) -> RunConfig:
    """The newest version of the configuration."""
    return config_from_proto(record.config_changes[-1].config)


def now() -> Timestamp:
    """The time that records are stamped with."""
    seconds, nanos = divmod(time.time_ns(), 10**9)
    return Timestamp(seconds=seconds, nanos=nanos)
