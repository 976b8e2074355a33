"""Observe: the one place where a run's controller moves.

The flow: read the report, then (until a commit wins) take the run, decide, commit. A refusal or a used id first looks whether
this report was answered before; if so, that answer is the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import fade_core
from fade_core import Answer, Batch, FadeError, Warning
from fade_proto.convert import (
    answer_to_proto,
    batch_from_proto,
    outcome_to_proto,
    schedule_from_proto,
    state_to_proto,
    warnings_to_proto,
)
from fade_proto.storage.v1.storage_pb2 import ObservationRecord, RunRecord
from fade_proto.v1.observation_pb2 import SPLIT_EVAL, SPLIT_TRAIN, SPLIT_UNSPECIFIED, GroupTelemetry, Observation
from fade_proto.v1.run_pb2 import Branch
from fade_proto.v1.scheduler_pb2 import ObserveRequest, ObserveResponse
from fade_service.digest import report_digest
from fade_service.errors import (
    DuplicateObservationError,
    ServiceError,
    StoreFullError,
    StoreUnavailableError,
    invalid,
    of_maths,
)
from fade_service.names import MAX_CLIENT_ID_LENGTH, checked_client_id, checked_run_name, checked_text
from fade_service.runs import COMMIT_ATTEMPTS, Change, Head, LoadedRun, Runs, contention, now
from fade_service.store.base import StoredObservation


@dataclass(frozen=True, slots=True)
class Observed:
    """An answer, and whether it is the stored one of an earlier call."""

    response: ObserveResponse
    replayed: bool


@dataclass(frozen=True, slots=True)
class _Report:
    """A request, read once for all attempts."""

    request: ObserveRequest
    batch: Batch
    digest: bytes


def observe(runs: Runs, request: ObserveRequest) -> Observed:
    """Applies a report exactly once.

    Raises:
        ServiceError: See the contract; nothing changed.
    """
    name = checked_run_name("name", request.name)
    report = _read(request)
    if request.split == SPLIT_EVAL:
        return _evaluate(runs.load(name), report)
    with runs.lock(name):
        for _ in range(COMMIT_ATTEMPTS):
            guess = runs.cached(name)
            run = guess or runs.load(name)
            try:
                change, response, answer = _decide(run, report)
                if runs.commit(run, change) is None:
                    continue
            except (StoreUnavailableError, StoreFullError):
                raise
            except (ServiceError, DuplicateObservationError) as refusal:
                confirmed = guess is None or isinstance(refusal, DuplicateObservationError)
                replayed = _replay(runs, run, report) if confirmed else None
                if replayed is not None:
                    return replayed
                if guess is None and isinstance(refusal, ServiceError):
                    raise
                runs.forget(name)  # another process moved the run: refuse, or replay, only what the store confirms
                continue
            if request.return_advantages:
                response.advantages.extend(answer.advantages().tolist())
            return Observed(response, replayed=False)
    raise contention(name)


def _read(request: ObserveRequest) -> _Report:
    checked_client_id("observation_id", request.observation_id)
    checked_client_id("writer", request.writer)
    if request.split not in (SPLIT_UNSPECIFIED, SPLIT_TRAIN, SPLIT_EVAL):
        raise invalid("split", "is {value}, which is no split", value=request.split)
    if request.lost_reports < 0:
        raise invalid("lost_reports", "is {value}; give a count of 0 or more", value=request.lost_reports)
    try:
        batch = batch_from_proto(request)
    except FadeError as error:
        raise of_maths(error) from None
    for environment in {*batch.environments, *batch.reports}:
        checked_text("environments", environment, MAX_CLIENT_ID_LENGTH)
    return _Report(request, batch, report_digest(batch))


def _evaluate(run: LoadedRun, report: _Report) -> Observed:
    """The answer to an EVAL report: the schedules as they are; nothing moves and nothing is kept."""
    _check_current(run, _own_branch(run, report.request))
    try:
        _, answer = fade_core.observe(run.config, run.head.state, report.batch, evaluation=True)
    except FadeError as error:
        raise of_maths(error) from None
    response = _response(run, report.request, run.head, run.config_revision, answer, ())
    if report.request.return_advantages:
        response.advantages.extend(answer.advantages().tolist())
    return Observed(response, replayed=False)


def _decide(run: LoadedRun, report: _Report) -> tuple[Change, ObserveResponse, Answer]:
    """What the report changes, and its answer; pure but for the clock."""
    request, head = report.request, run.head
    branch = _own_branch(run, request)
    if run.record.completed:
        raise ServiceError("RUN_COMPLETED", "{name} is complete and takes no new observations", name=run.name)
    _check_current(run, branch)
    if request.seen_revision > head.revision:
        raise ServiceError(
            "STATE_REGRESSED",
            "branch {branch} of {name} stands at revision {revision}, but this writer saw {seen} acknowledged: the store lost"
            " what came after; report those observations again, in order",
            name=run.name,
            branch=branch.id,
            revision=head.revision,
            seen=request.seen_revision,
        )
    if head.trainer_step is not None and request.HasField("trainer_step") and request.trainer_step < head.trainer_step:
        raise ServiceError(
            "TRAINER_STEP_DECREASED",
            "trainer_step is {given}, but branch {branch} stands at {known}; a trainer that went back restores the run from its"
            " checkpoint (RestoreRun)",
            field="trainer_step",
            given=request.trainer_step,
            branch=head.branch,
            known=head.trainer_step,
        )
    config_revision, config = run.config_revision, run.config
    if request.HasField("late"):
        config_revision = request.late.config_revision
        of_then = run.config_at(config_revision)
        if of_then is None:
            raise invalid("late.config_revision", "is {value}, which the run never had", value=config_revision)
        config = of_then
    try:
        state, answer = fade_core.observe(config, head.state, report.batch)
    except FadeError as error:
        raise of_maths(error) from None
    watches, warnings = fade_core.watch(config, head.watches, answer)
    after = Head(
        branch=head.branch,
        revision=head.revision + 1,
        state=state,
        trainer_step=request.trainer_step if request.HasField("trainer_step") else head.trainer_step,
        observe_time=now(),
        watches=watches,
    )
    response = _response(run, request, after, config_revision, answer, warnings)
    kept = ObservationRecord(
        answer=response.SerializeToString(deterministic=True),
        telemetry=_telemetry(request, after, answer),
        trainer_step=after.trainer_step,
    )
    observation = StoredObservation(
        branch=after.branch,
        revision=after.revision,
        observation_id=request.observation_id,
        digest=report.digest,
        payload=kept.SerializeToString(deterministic=True),
    )
    record = None if branch.writer else _claimed(run, request.writer)
    return Change(record=record, head=after, observation=observation), response, answer


def _own_branch(run: LoadedRun, request: ObserveRequest) -> Branch:
    """The branch that the report is for, if its writer may write it."""
    branch = run.get_branch(request.branch or run.head.branch).branch
    if branch.writer not in ("", request.writer):
        raise ServiceError(
            "WRITER_FENCED",
            "branch {branch} of {name} is written by {owner}, not by {writer}; for a new training take another run name"
            " (FADE_RUN), to go on with this one restore it (RestoreRun): that opens a branch of your own",
            branch=branch.id,
            name=run.name,
            owner=branch.writer,
            writer=request.writer,
        )
    return branch


def _check_current(run: LoadedRun, branch: Branch) -> None:
    if branch.id != run.head.branch:
        raise ServiceError(
            "WRITER_FENCED",
            "{name} was restored to branch {current}, and branch {branch} is never written again; for a training of its own take"
            " another run name (FADE_RUN), to go on with this one restore it (RestoreRun)",
            name=run.name,
            current=run.head.branch,
            branch=branch.id,
        )


def _claimed(run: LoadedRun, writer: str) -> RunRecord:
    """The run's record with the current branch, which is the newest, claimed by its first writer."""
    record = RunRecord()
    record.CopyFrom(run.record)
    record.branches[-1].branch.writer = writer
    return record


def _replay(runs: Runs, run: LoadedRun, report: _Report) -> Observed | None:
    """The stored answer, if the writer's branch has this observation."""
    request = report.request
    found = run.find_branch(request.branch or run.head.branch)
    if found is None or found.branch.writer != request.writer:
        return None
    stored = runs.store.find_observation(run.uid, found.branch.id, request.observation_id)
    if stored is None:
        return None
    if stored.digest != report.digest:
        raise ServiceError(
            "OBSERVATION_CONFLICT",
            "branch {branch} has an observation {observation_id!r} with other content, at revision {revision}; give each"
            " generation batch an id of its own",
            field="observation_id",
            branch=stored.branch,
            observation_id=request.observation_id,
            revision=stored.revision,
        )
    response = ObserveResponse.FromString(ObservationRecord.FromString(stored.payload).answer)
    if request.return_advantages:
        response.advantages.extend(_advantages_again(run, report, response))
    return Observed(response, replayed=True)


def _advantages_again(run: LoadedRun, report: _Report, answered: ObserveResponse) -> list[float]:
    """The advantages of an earlier answer, from its schedules: bit-equal to those sent then."""
    config = run.config_at(answered.config_revision)
    assert config is not None  # every observation was applied under a version that the run keeps
    groups = fade_core.group_rows(config, report.batch)
    schedules = dict.fromkeys(report.batch.environments, fade_core.Schedule())  # for groups of padding alone
    schedules |= {item.environment: schedule_from_proto(item.schedule) for item in answered.schedules}
    advantages: list[float] = fade_core.apply_schedules(groups, report.batch.environments, schedules).tolist()
    return advantages


def _response(
    run: LoadedRun, request: ObserveRequest, after: Head, config_revision: int, answer: Answer, watched: Sequence[Warning]
) -> ObserveResponse:
    response = ObserveResponse(
        name=run.name,
        branch=after.branch,
        observation_id=request.observation_id,
        revision=after.revision,
        config_revision=config_revision,
        outcome=outcome_to_proto(answer.outcome),
        degraded=answer.degraded,
        state=state_to_proto(after.state),
        warnings=warnings_to_proto((*answer.warnings, *watched)),
    )
    for environment, item in answer.environments.items():
        answer_to_proto(environment, item, response.schedules.add())
    return response


def _telemetry(request: ObserveRequest, after: Head, answer: Answer) -> Observation:
    """What the history shows of an observation beside its answer."""
    groups = answer.groups
    places = dict.fromkeys(set(answer.group_environments), -1)
    places |= {environment: place for place, environment in enumerate(answer.environments)}
    one = len(places) == 1  # and then the column holds zeros
    stale = groups.stale_count.any()
    telemetry = Observation(
        create_time=after.observe_time,
        groups=GroupTelemetry(
            environment_index=() if one else [places[environment] for environment in answer.group_environments],
            scored=groups.scored_count.tolist(),
            solved=groups.solved_count.tolist(),
            stale=groups.stale_count.tolist() if stale else (),
            stale_solved=groups.stale_solved_count.tolist() if stale else (),
            mean=groups.mean.tolist(),
        ),
        lost_reports=request.lost_reports,
    )
    if request.HasField("trainer_step"):
        telemetry.trainer_step = request.trainer_step
    if request.HasField("late"):
        telemetry.late.CopyFrom(request.late)
    return telemetry
