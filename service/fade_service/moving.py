"""Moving runs between stores of any kind, by way of a file (:mod:`~fade_service.runs_file`)."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from fade_proto.storage.v1.storage_pb2 import RunHead, RunRecord
from fade_service.errors import ServiceError
from fade_service.runs_check import checked_runs
from fade_service.runs_file import Counts, Item, read_runs, write_runs
from fade_service.store.base import Store, StoredObservation, StoredRun

_READ_AT_ONCE = 200


class LeftBehindError(ValueError):
    """An import failed, and so did deleting again what it had written.

    Attributes:
        names: The runs that the store may still have; those that are not whole are marked as complete.
    """

    def __init__(self, error: BaseException, names: Sequence[str]) -> None:
        super().__init__(
            f"{str(error) or type(error).__name__}; what was imported could not be deleted again, and need not be whole:"
            f" {', '.join(names)}; delete it (DeleteRun) before you import again"
        )
        self.names = tuple(names)


def export_runs(store: Store, path: Path, names: Sequence[str] = ()) -> Counts:
    """Writes runs, those named or all, each as it stands when its turn comes, whatever a server commits meanwhile.

    Raises:
        ValueError: The file exists; a named run does not; a run was deleted meanwhile; or the store has no longer all of its
            history. There is no file then.
        OSError: The file cannot be written.
        ServiceError: Of the store.
    """
    return write_runs(path, _items(store, _named(store, names) if names else _all(store)))


def check_runs(path: Path) -> Counts:
    """Reads a file to its end, and says what it holds.

    Raises:
        ValueError: The file is damaged, of a newer version, or something else; or it says of a run what no server could serve.
        OSError: The file cannot be read.
    """
    return _counted(checked_runs(path))


def import_runs(store: Store, path: Path) -> Counts:
    """Reads all runs of a file into a store.

    A run keeps its name, configuration, branches, history and state; its uid is a new one, as it may live on in the other store.
    Until all of them are there they are marked as complete, so that a server takes no observation for one that is not whole; what
    an import that was killed leaves behind stays so, and can be deleted.

    Raises:
        ValueError: As :func:`check_runs`; or the store has a run of the same name. Nothing was changed.
        OSError: The file cannot be read; nothing was changed.
        ServiceError: Of the store; what was written is deleted again.
        LeftBehindError: It failed, and what was written could not be deleted again.
    """
    counts = _counted(_new(store, checked_runs(path)))
    begun: list[StoredRun] = []  # as the file has them, under their new uids
    closed: list[StoredRun] = []  # as the store has them
    try:
        for item in read_runs(path):
            if isinstance(item, StoredRun):
                begun.append(replace(item, uid=uuid.uuid4().hex))
                closed.append(_created(store, begun[-1]))
            else:
                closed[-1] = _committed(store, closed[-1], observation=item)
        for run, whole in zip(closed, begun, strict=True):
            _committed(store, run, record=whole.record)
    except BaseException as error:
        left = [run.name for run in begun if not _is_taken_back(store, run)]
        if left:
            raise LeftBehindError(error, left) from error
        raise
    return counts


def _counted(items: Iterator[Item]) -> Counts:
    runs = observations = 0
    for item in items:
        runs += isinstance(item, StoredRun)
        observations += isinstance(item, StoredObservation)
    return Counts(runs, observations)


def _new(store: Store, items: Iterator[Item]) -> Iterator[Item]:
    """The items, all of runs that the store has not."""
    for item in items:
        if isinstance(item, StoredRun) and store.get_run(item.name) is not None:
            raise _exists(item.name)
        yield item


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
    created = store.create_run(run.name, run.uid, _completed(run.record), run.head)
    if created.uid != run.uid:
        raise _exists(run.name)
    return created


def _is_taken_back(store: Store, run: StoredRun) -> bool:
    """Whether the store does not have the run any more; it keeps one that others have changed since it was imported."""
    try:
        found = store.get_run(run.name)
        if found is None or found.uid != run.uid:
            return True
        is_ours = found.head == run.head and found.record in (run.record, _completed(run.record))
        return is_ours and store.delete_run(run.name, found.version)
    except ServiceError:
        return False


def _completed(record: bytes) -> bytes:
    message = RunRecord.FromString(record)
    message.completed = True
    return message.SerializeToString(deterministic=True)


def _committed(
    store: Store, run: StoredRun, *, record: bytes | None = None, observation: StoredObservation | None = None
) -> StoredRun:
    version = store.commit(run.uid, run.version, record=record, observation=observation)
    if version is None:
        raise ValueError(f"{run.name} was changed or deleted by others while it was imported; delete it, and import again")
    return replace(run, version=version)


def _exists(name: str) -> ValueError:
    return ValueError(f"the store has a run {name} already; delete it, or import into another store")
