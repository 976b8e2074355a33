"""RestoreRun: a new branch from a snapshot or from a point of the run's own history."""

from __future__ import annotations

import math
import uuid

from fade_core import MATHS_VERSION, EnvironmentState, Warning
from fade_proto.convert import state_from_proto, state_to_proto, warnings_to_proto
from fade_proto.storage.v1.storage_pb2 import BranchRecord, RunRecord
from fade_proto.v1.run_pb2 import Branch, Snapshot
from fade_proto.v1.scheduler_pb2 import RestoreRunRequest, RestoreRunResponse
from fade_service.errors import ServiceError, invalid
from fade_service.names import FIRST_BRANCH, checked_client_id, checked_id, checked_run_name
from fade_service.runs import Change, Head, LoadedRun, Runs, now
from fade_service.scheduler.history import Point, point_of
from fade_service.scheduler.lifecycle import run_message

_LARGEST_COUNT = 2**62
"""Of a snapshot's revision and observation counts: leaves room to count on."""


def restore_run(runs: Runs, request: RestoreRunRequest) -> RestoreRunResponse:
    """Opens a branch and claims it for the writer; the same request again finds the branch that it opened."""
    name = checked_run_name("name", request.name)
    checked_client_id("writer", request.writer)
    branch_id = checked_id("branch_id", request.branch_id) if request.branch_id else f"branch-{uuid.uuid4().hex[:12]}"
    source = request.WhichOneof("source")
    if source is None:
        raise invalid("source", "is missing; give a snapshot, or a point of the run's history")
    if source == "snapshot":
        _check_snapshot(request.snapshot)

    def decide(run: LoadedRun) -> Change | None:
        if run.record.completed:
            raise ServiceError("RUN_COMPLETED", "{name} is complete and cannot be restored", name=name)
        point, parent = (_snapshot_point if source == "snapshot" else _history_point)(runs, run, request)
        _check_trainer_step(request, point)
        opened = _new_branch(run, branch_id, parent, point, request)
        existing = run.find_branch(branch_id)
        if existing is not None:
            _check_same(run, existing, opened)
            return None
        record = RunRecord()
        record.CopyFrom(run.record)
        for item in record.branches:
            if item.branch.id == run.head.branch:
                item.end_revision = run.head.revision
        record.branches.append(opened)
        record.update_time.CopyFrom(opened.branch.create_time)
        head = Head(
            branch=branch_id,
            revision=point.revision,
            state=point.state,
            trainer_step=opened.start_trainer_step if opened.HasField("start_trainer_step") else None,
            observe_time=run.head.observe_time,
        )
        return Change(record=record, head=head)

    run = runs.change(name, decide)
    return RestoreRunResponse(
        run=run_message(run), state=run.get_branch(branch_id).start, warnings=warnings_to_proto(_warnings(request))
    )


def _history_point(runs: Runs, run: LoadedRun, request: RestoreRunRequest) -> tuple[Point, str]:
    """The point, and the branch that the new one hangs on."""
    point = point_of(runs, run, request.point.branch, request.point.revision)
    return point, point.branch


def _snapshot_point(runs: Runs, run: LoadedRun, request: RestoreRunRequest) -> tuple[Point, str]:
    """The point, and the branch that the new one hangs on: none where this server's history does not hold that very state."""
    snapshot = request.snapshot
    state = state_from_proto(snapshot.state)
    point = Point(
        branch=snapshot.branch,
        revision=snapshot.revision,
        state=state,
        trainer_step=snapshot.trainer_step if snapshot.HasField("trainer_step") else None,
        config_revision=snapshot.config_revision,
    )
    try:
        known = point_of(runs, run, snapshot.branch, snapshot.revision) if snapshot.name == run.name else None
    except ServiceError as error:
        if error.reason not in ("BRANCH_NOT_FOUND", "REVISION_NOT_FOUND", "HISTORY_EXPIRED"):
            raise
        known = None
    return point, snapshot.branch if known is not None and known.state == state else ""


def _new_branch(run: LoadedRun, branch_id: str, parent: str, point: Point, request: RestoreRunRequest) -> BranchRecord:
    branch = Branch(id=branch_id, parent=parent, parent_revision=point.revision, create_time=now(), writer=request.writer)
    record = BranchRecord(branch=branch, start=state_to_proto(point.state), start_config_revision=run.config_revision)
    step = request.trainer_step if request.HasField("trainer_step") else point.trainer_step
    if step is not None:
        record.start_trainer_step = step
    return record


def _check_same(run: LoadedRun, existing: BranchRecord, wanted: BranchRecord) -> None:
    same = (
        existing.branch.id != FIRST_BRANCH  # which no restore opened
        and existing.branch.writer == wanted.branch.writer
        and existing.branch.parent_revision == wanted.branch.parent_revision
        and existing.start == wanted.start
    )
    if not same:
        problem = "{name} has a branch {branch} that starts elsewhere or is another writer's; choose another branch_id"
        raise ServiceError("BRANCH_EXISTS", problem, name=run.name, branch=existing.branch.id)


def _check_trainer_step(request: RestoreRunRequest, point: Point) -> None:
    if not request.HasField("trainer_step") or point.trainer_step in (None, request.trainer_step):
        return
    raise ServiceError(
        "SNAPSHOT_MISMATCH",
        "the trainer resumes from step {given}, but the state to restore is of step {known}; restore the state that was"
        " saved with the trainer's own checkpoint",
        field="trainer_step",
        given=request.trainer_step,
        known=point.trainer_step,
    )


def _check_snapshot(snapshot: Snapshot) -> None:
    if not 0 <= snapshot.revision <= _LARGEST_COUNT:
        problem = "is {value}; give 0 to {most}"
        raise invalid("snapshot.revision", problem, value=snapshot.revision, most=_LARGEST_COUNT)
    names = [item.environment for item in snapshot.state.environments]
    if len(set(names)) < len(names):
        raise invalid("snapshot.state.environments", "names an environment twice; send the snapshot as it was saved")
    state = state_from_proto(snapshot.state)
    for name, item in state.environments.items():
        _check_environment(name, item)
    if state.digest() != snapshot.state_digest:
        raise ServiceError(
            "SNAPSHOT_MISMATCH",
            "the snapshot's state has digest {computed}, but the snapshot says {given}; it was changed after it was saved",
            field="snapshot.state_digest",
            computed=state.digest(),
            given=snapshot.state_digest,
        )


def _check_environment(name: str, item: EnvironmentState) -> None:
    entropies = [*item.warmup_entropy_nats, item.entropy_nats or 0.0, item.initial_entropy_nats or 0.0]
    sane = (
        0 <= item.solve_rate <= 1
        and all(0 <= value < math.inf for value in entropies)
        and 0 <= item.observation_count <= _LARGEST_COUNT
        and item.entropy_baseline >= 0
    )
    if not sane:
        problem = "is no state that a controller can have; send the snapshot as it was saved"
        raise invalid(f"snapshot.state.environments[{name}]", problem)


def _warnings(request: RestoreRunRequest) -> list[Warning]:
    given = request.snapshot.state.maths_version
    if request.WhichOneof("source") != "snapshot" or given in ("", MATHS_VERSION):
        return []
    message = f"the snapshot was made by version {given} of the maths; this server goes on from it under version {MATHS_VERSION}"
    return [Warning(reason="MATHS_VERSION_DIFFERS", message=message, subject="snapshot.state")]
