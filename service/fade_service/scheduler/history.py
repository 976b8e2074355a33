"""A run's lines of history: GetSchedule, ListObservations, and the state at a point."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fade_core import DEFAULT_ENVIRONMENT, ControllerState, EnvironmentState, RunConfig, schedule_of
from fade_proto.convert import environment_state_to_proto, schedule_to_proto, state_from_proto, state_to_proto
from fade_proto.storage.v1.storage_pb2 import BranchRecord, ObservationRecord
from fade_proto.v1.observation_pb2 import EnvironmentSchedule, Observation
from fade_proto.v1.run_pb2 import ConfigChange
from fade_proto.v1.scheduler_pb2 import (
    GetScheduleRequest,
    GetScheduleResponse,
    ListObservationsRequest,
    ListObservationsResponse,
    ObserveResponse,
)
from fade_service.errors import ServiceError, invalid
from fade_service.names import checked_run_name
from fade_service.paging import Page
from fade_service.runs import LoadedRun, Runs
from fade_service.store.base import StoredObservation

DEFAULT_PAGE_SIZE = 100

PAGE_BYTES = 2 * 2**20
"""A page of large observations ends here, whatever its size in entries: gRPC's clients take 4 MB unless told otherwise."""

READ_AT_ONCE = 100
"""Observations that one read of the store fetches at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A run's controller at one point of its history.

    Attributes:
        branch: The branch that was asked for.
        revision: The revision.
        state: The controller's state after it.
        trainer_step: The trainer's step there.
        config_revision: The configuration's version there.
    """

    branch: str
    revision: int
    state: ControllerState
    trainer_step: int | None
    config_revision: int


def get_schedule(runs: Runs, request: GetScheduleRequest) -> GetScheduleResponse:
    """The schedules at a point; at the newest one, those that the next observation would start from."""
    run = runs.load(checked_run_name("name", request.name))
    point = point_of(runs, run, request.branch, request.revision if request.HasField("revision") else None)
    config = run.config_at(point.config_revision)
    assert config is not None  # points carry versions that the run keeps
    return GetScheduleResponse(
        name=run.name,
        branch=point.branch,
        revision=point.revision,
        config_revision=point.config_revision,
        schedules=_schedules(config, point.state),
        state=state_to_proto(point.state),
        state_digest=point.state.digest(),
    )


def list_observations(runs: Runs, request: ListObservationsRequest) -> ListObservationsResponse:
    """A page of the observations along one line, oldest first.

    Of each branch it starts at the oldest that the store keeps.

    Raises:
        ServiceError: HISTORY_EXPIRED: the store dropped what comes next since the page before was read.
    """
    run = runs.load(checked_run_name("parent", request.parent))
    branch = request.branch or run.head.branch
    page = Page.of(request, "ListObservations", (run.uid, branch), DEFAULT_PAGE_SIZE)
    response = ListObservationsResponse()
    room = PAGE_BYTES
    last = page.after_number()
    for stored in line_of(runs, run, branch, last, min(page.size + 1, READ_AT_ONCE)):
        if stored.revision > last + 1 and last > run.get_branch(stored.branch).branch.parent_revision:
            raise _expired(run, stored.branch, last + 1)
        last = stored.revision
        room -= len(stored.payload)
        if len(response.observations) == page.size or (response.observations and room < 0):
            response.next_page_token = page.token(response.observations[-1].revision)
            break
        response.observations.append(_entry(stored))
    response.config_changes.extend(_config_changes(run, {item.config_revision for item in response.observations}))
    return response


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a line: the observations of ``branch`` with ``after`` < revision <= ``until``."""

    branch: str
    after: int
    until: int


def segments(run: LoadedRun, branch: str) -> list[Segment]:
    """The stretches that make up a branch's line, oldest first.

    Raises:
        ServiceError: BRANCH_NOT_FOUND.
    """
    item = run.get_branch(branch)
    until = run.head.revision if branch == run.head.branch else item.end_revision
    line = [Segment(branch, item.branch.parent_revision, until)]
    while item.branch.parent:
        until = min(until, item.branch.parent_revision)  # a branch may hang on a point before its parent's own start
        item = run.get_branch(item.branch.parent)
        line.append(Segment(item.branch.id, item.branch.parent_revision, until))
    return [segment for segment in reversed(line) if segment.after <= segment.until]


def line_of(runs: Runs, run: LoadedRun, branch: str, after: int, at_once: int) -> Iterator[StoredObservation]:
    """The observations along a branch's line after a revision, oldest first."""
    for segment in segments(run, branch):
        first = max(after, segment.after)
        while first < segment.until:
            found = runs.store.list_observations(run.uid, segment.branch, first, segment.until, at_once)
            if not found:
                break
            yield from found
            first = found[-1].revision


def point_of(runs: Runs, run: LoadedRun, branch: str, revision: int | None) -> Point:
    """The point after ``revision`` on a branch's line; None means the newest.

    Raises:
        ServiceError: BRANCH_NOT_FOUND, REVISION_NOT_FOUND, INVALID_FIELD; HISTORY_EXPIRED, if the store keeps it no longer.
    """
    branch = branch or run.head.branch
    head = run.head
    if revision is not None and revision < 0:
        raise invalid("revision", "is {value}; give 0 or more", value=revision)
    if branch == head.branch and revision in (None, head.revision):
        return Point(
            branch=branch,
            revision=head.revision,
            state=head.state,
            trainer_step=head.trainer_step,
            config_revision=run.config_revision,
        )
    line = segments(run, branch)
    if revision is None:
        revision = line[-1].until
    expired = None
    for segment in line:
        if segment.after < revision <= segment.until:
            found = runs.store.list_observations(run.uid, segment.branch, revision - 1, revision, 1)
            if found:
                return _point_after(branch, found[0])
            expired = _expired(run, segment.branch, revision)  # unless a branch starts there, which keeps its start
        elif revision == segment.after:
            return _point_at_start(branch, run.get_branch(segment.branch))
    if expired is not None:
        raise expired
    raise ServiceError(
        "REVISION_NOT_FOUND",
        "branch {branch} of {name} has no revision {revision}",
        branch=branch,
        name=run.name,
        revision=revision,
    )


def _expired(run: LoadedRun, branch: str, revision: int) -> ServiceError:
    return ServiceError(
        "HISTORY_EXPIRED",
        "revision {revision} of branch {branch} of {name} is no longer kept, as the store was told to keep the newest only;"
        " ask for a newer one, or list the observations from the start again",
        revision=revision,
        branch=branch,
        name=run.name,
    )


def _point_after(branch: str, stored: StoredObservation) -> Point:
    record = ObservationRecord.FromString(stored.payload)
    answer = ObserveResponse.FromString(record.answer)
    return Point(
        branch=branch,
        revision=stored.revision,
        state=state_from_proto(answer.state),
        trainer_step=record.trainer_step if record.HasField("trainer_step") else None,
        config_revision=answer.config_revision,
    )


def _point_at_start(branch: str, start: BranchRecord) -> Point:
    return Point(
        branch=branch,
        revision=start.branch.parent_revision,
        state=state_from_proto(start.start),
        trainer_step=start.start_trainer_step if start.HasField("start_trainer_step") else None,
        config_revision=start.start_config_revision,
    )


def _schedules(config: RunConfig, state: ControllerState) -> list[EnvironmentSchedule]:
    environments = dict(state.environments) or {DEFAULT_ENVIRONMENT: EnvironmentState()}
    schedules = []
    for name, item in sorted(environments.items()):
        message = EnvironmentSchedule(environment=name)
        schedule_to_proto(schedule_of(config, item), message.schedule)
        environment_state_to_proto(name, item, message.state)
        schedules.append(message)
    return schedules


def _entry(stored: StoredObservation) -> Observation:
    record = ObservationRecord.FromString(stored.payload)
    answer = ObserveResponse.FromString(record.answer)
    entry = record.telemetry
    entry.observation_id = answer.observation_id
    entry.branch = answer.branch
    entry.revision = answer.revision
    entry.config_revision = answer.config_revision
    entry.outcome = answer.outcome
    entry.schedules.extend(answer.schedules)
    entry.warnings.extend(answer.warnings)
    return entry


def _config_changes(run: LoadedRun, revisions: set[int]) -> list[ConfigChange]:
    return [item for item in run.record.config_changes if item.config_revision in revisions]
