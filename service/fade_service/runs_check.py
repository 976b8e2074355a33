"""Whether a server can serve the runs of a file. Its checksum proves that nobody changed it, not that it was right."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ParamSpec, TypeVar

from google.protobuf.message import DecodeError

from fade_core import FadeError
from fade_proto.convert import state_from_proto
from fade_proto.storage.v1.storage_pb2 import ObservationRecord
from fade_proto.v1.scheduler_pb2 import ObserveResponse
from fade_service.errors import ServiceError
from fade_service.names import checked_client_id, checked_id, checked_run_name
from fade_service.runs import LoadedRun, decoded
from fade_service.runs_file import Item, read_runs
from fade_service.store.base import StoredObservation, StoredRun

_Result = TypeVar("_Result")
_Parameters = ParamSpec("_Parameters")

_DIGEST_BYTES = 32


def checked_runs(path: Path) -> Iterator[Item]:
    """As :func:`~fade_service.runs_file.read_runs`; raises before it yields what a server could not serve.

    Raises:
        ValueError: The file is damaged, of a newer version, or something else; or what it says of a run contradicts itself.
        OSError: It cannot be read.
    """
    names: set[str] = set()
    run: _Run | None = None
    items = read_runs(path)
    try:
        for item in items:
            if isinstance(item, StoredRun):
                if run is not None:
                    run.end()
                run = _Run(item)
                _need(item.name not in names, item.name, "is there twice")
                names.add(item.name)
            else:
                _need(run is not None, f"observation {item.observation_id!r}", "is there before the first run")
                assert run is not None
                run.take(item)
            yield item
        if run is not None:
            run.end()
    except _UnsoundError as error:
        deque(items, maxlen=0)  # raises if the file is just damaged
        raise ValueError(f"{path}: {error}; export it again") from error.__cause__


class _UnsoundError(Exception):
    """What is wrong, and of what."""


class _Run:
    """A run of the file, and the observations that must follow."""

    def __init__(self, stored: StoredRun) -> None:
        _read("a run", checked_run_name, "its name", stored.name)
        self._name = stored.name
        run = _read(f"the record or head of {self._name}", decoded, stored)
        self._config_revisions = [change.config_revision for change in run.record.config_changes]
        ascends = self._config_revisions == sorted(set(self._config_revisions)) and self._config_revisions[0] > 0
        _need(ascends, self._name, "has configurations out of order")
        _read(f"the state of {self._name}", run.head.state.digest)
        self._check_branches(run)
        self._due = _places(run)
        self._ids: set[tuple[str, str]] = set()

    def _check_branches(self, run: LoadedRun) -> None:
        known = [""]  # a branch hangs on an older one, or on none
        for item in run.record.branches:
            branch = item.branch.id
            what = f"branch {branch!r} of {self._name}"
            _read(what, checked_id, "its id", branch)
            _need(branch not in known, what, "is there twice")
            _need(item.branch.parent in known, what, f"hangs on {item.branch.parent!r}, which is no older one")
            _need(item.branch.parent_revision >= 0, what, f"starts at revision {item.branch.parent_revision}")
            _need(item.start_config_revision in self._config_revisions, what, "starts under a configuration that is not there")
            _read(f"the start of {what}", state_from_proto(item.start).digest)
            known.append(branch)
        _need(run.head.branch == known[-1] != "", self._name, "does not stand on its newest branch")
        _need(run.head.revision >= run.record.branches[-1].branch.parent_revision, self._name, "stands before its branch began")

    def take(self, item: StoredObservation) -> None:
        """The next observation in the file."""
        place = next(self._due, None)
        here = (item.branch, item.revision)
        _need(place == here, self._name, f"has {_shown(here)} where {_shown(place)} belongs")
        what = f"{_shown(here)} of {self._name}"
        _need((item.branch, item.observation_id) not in self._ids, what, "has the id of an older one")
        self._ids.add((item.branch, item.observation_id))
        _need(len(item.digest) == _DIGEST_BYTES, what, f"has a digest of {len(item.digest)} bytes")
        _read(what, checked_client_id, "its id", item.observation_id)
        answer = _read(what, _answer, item.payload)
        said = (answer.branch, answer.revision, answer.observation_id)
        _need(said == (*here, item.observation_id), what, f"has the answer to another: {said}")
        _need(answer.config_revision in self._config_revisions, what, "was made under a configuration that is not there")

    def end(self) -> None:
        """There are no more."""
        place = next(self._due, None)
        _need(place is None, self._name, f"ends where {_shown(place)} belongs")


def _places(run: LoadedRun) -> Iterator[tuple[str, int]]:
    """Branch and revision of each observation, in the file's order."""
    for item in run.record.branches:
        branch = item.branch.id
        until = run.head.revision if branch == run.head.branch else item.end_revision
        for revision in range(item.branch.parent_revision + 1, until + 1):
            yield branch, revision


def _answer(payload: bytes) -> ObserveResponse:
    return ObserveResponse.FromString(ObservationRecord.FromString(payload).answer)


def _shown(place: tuple[str, int] | None) -> str:
    return "the next run" if place is None else f"revision {place[1]} of branch {place[0]!r}"


def _need(holds: bool, what: str, problem: str) -> None:
    if not holds:
        raise _UnsoundError(f"{what} {problem}")


def _read(
    what: str, read: Callable[_Parameters, _Result], *arguments: _Parameters.args, **options: _Parameters.kwargs
) -> _Result:
    """What ``read`` returns; bytes that are no message, and values that none may have, are told as such."""
    try:
        return read(*arguments, **options)
    except (DecodeError, FadeError, ServiceError, ValueError, LookupError, TypeError) as error:
        raise _UnsoundError(f"{what} cannot be read ({error or type(error).__name__})") from error
