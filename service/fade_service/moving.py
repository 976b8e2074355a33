"""Moving runs between stores of any kind, by way of a file (:mod:`~fade_service.runs_file`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fade_proto.storage.v1.storage_pb2 import RunHead, RunRecord
from fade_service.errors import ServiceError
from fade_service.runs_file import Counts, Item, count_runs, read_runs, write_runs
from fade_service.store.base import Store, StoredObservation, StoredRun

_READ_AT_ONCE = 200


def export_runs(store: Store, path: Path, names: Sequence[str] = ()) -> Counts:
    """Writes runs, those named or all, each as it stands when its turn comes, whatever a server commits meanwhile.

    Raises:
        ValueError: The file exists; a named run does not; a run was deleted meanwhile; or the store has no longer all of its
            history. There is no file then.
        OSError: The file cannot be written.
        ServiceError: Of the store.
    """
    return write_runs(path, _items(store, _named(store, names) if names else _all(store)))


def import_runs(store: Store, path: Path) -> Counts:
    """Reads all runs of a file into a store.

    A run keeps its name, configuration, branches, history and state; its uid is a new one, as it may live on in the other store.
    Until all of them are there they are marked as complete, so that a server takes no observation for one that is not whole; what
    an import that was killed leaves behind stays so, and can be deleted.

    Raises:
        ValueError: The file is damaged, of a newer version, or something else; or the store has a run of the same name. Nothing
            was changed.
        OSError: The file cannot be read.
        ServiceError: Of the store; runs that are not whole were deleted again, if it could be reached.
    """
    counts = count_runs(path)
    for item in read_runs(path):
        if isinstance(item, StoredRun) and store.get_run(item.name) is not None:
            raise _exists(item.name)
    closed: list[tuple[StoredRun, bytes]] = []  # with the records that open them again
    try:
        for item in read_runs(path):
            if isinstance(item, StoredRun):
                closed.append((_created(store, item), item.record))
            else:
                run, record = closed[-1]
                closed[-1] = _committed(store, run, observation=item), record
        while closed:
            run, record = closed[-1]
            _committed(store, run, record=record)
            closed.pop()
    except BaseException:
        for run, _ in closed:
            with suppress(ServiceError):
                store.delete_run(run.name, run.version)
        raise
    return counts


def _named(store: Store, names: Sequence[str]) -> Iterator[StoredRun]:
    for name in dict.fromkeys(names):
        run = store.get_run(name)
        if run is None:
            raise ValueError(f"the store has no run {name}; give projects/PROJECT/runs/RUN")
        yield run


def _all(store: Store) -> Iterator[StoredRun]:
    last = ""
    while page := store.list_runs("", last, _READ_AT_ONCE):
        yield from page
        last = page[-1].name


def _items(store: Store, runs: Iterator[StoredRun]) -> Iterator[Item]:
    for run in runs:
        yield run
        yield from _history(store, run)


def _history(store: Store, run: StoredRun) -> Iterator[StoredObservation]:
    """The observations of all branches up to where the run stood when it was read: what comes later is not part of it."""
    head = RunHead.FromString(run.head)
    for item in RunRecord.FromString(run.record).branches:
        branch, after = item.branch.id, item.branch.parent_revision
        until = head.revision if branch == head.branch else item.end_revision
        while after < until:
            found = store.list_observations(run.uid, branch, after, until, _READ_AT_ONCE)
            if not found or found[0].revision != after + 1:
                raise ValueError(
                    f"{run.name}: revision {after + 1} of branch {branch} is not there any more: the run was deleted, or its"
                    " store was told to keep a shorter history"
                )
            yield from found
            after = found[-1].revision


def _created(store: Store, run: StoredRun) -> StoredRun:
    record, uid = RunRecord.FromString(run.record), uuid.uuid4().hex
    record.completed = True
    created = store.create_run(run.name, uid, record.SerializeToString(deterministic=True), run.head)
    if created.uid != uid:
        raise _exists(run.name)
    return created


def _committed(
    store: Store, run: StoredRun, *, record: bytes | None = None, observation: StoredObservation | None = None
) -> StoredRun:
    version = store.commit(run.uid, run.version, record=record, observation=observation)
    if version is None:
        raise ValueError(f"{run.name} was changed or deleted by others while it was imported; delete it, and import again")
    return replace(run, version=version)


def _exists(name: str) -> ValueError:
    return ValueError(f"the store has a run {name} already; delete it, or import into another store")
