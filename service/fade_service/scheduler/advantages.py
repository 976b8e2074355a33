"""ComputeAdvantages: weights applied to rows, nothing moved."""

from __future__ import annotations

import math

import fade_core
from fade_core import Batch, EnvironmentState, FadeError, RunConfig, Schedule
from fade_core.config import SMALLEST_ALPHA, SMALLEST_DELTA
from fade_proto.convert import batch_from_proto, schedule_from_proto
from fade_proto.storage.v1.storage_pb2 import ObservationRecord
from fade_proto.v1 import observation_pb2
from fade_proto.v1.scheduler_pb2 import ComputeAdvantagesRequest, ComputeAdvantagesResponse, ObserveResponse
from fade_service.errors import ServiceError, invalid, of_maths
from fade_service.names import checked_run_name
from fade_service.runs import LoadedRun, Runs
from fade_service.scheduler.history import point_of, segments

SMALLEST_SCALE = 1e-9
"""0 is what an unset field reads as, and no schedule has it."""


def compute_advantages(runs: Runs, request: ComputeAdvantagesRequest) -> ComputeAdvantagesResponse:
    """Advantages of the rows under a schedule or a named advantage."""
    run = runs.load(checked_run_name("name", request.name))
    weights = request.WhichOneof("weights")
    try:
        batch = batch_from_proto(request)
        if weights == "advantage":
            groups = fade_core.group_rows(run.config, batch)
            values = fade_core.named_advantages(groups, request.advantage.name, dict(request.advantage.parameters))
        else:
            config, schedules = _schedules(runs, run, request, batch)
            values = fade_core.apply_schedules(fade_core.group_rows(config, batch), batch.environments, schedules)
    except FadeError as error:
        raise of_maths(error) from None
    return ComputeAdvantagesResponse(advantages=values.tolist())


def _schedules(
    runs: Runs, run: LoadedRun, request: ComputeAdvantagesRequest, batch: Batch
) -> tuple[RunConfig, dict[str, Schedule]]:
    """The schedule of each environment in the batch, and the configuration that maps the rewards."""
    weights = request.WhichOneof("weights")
    if weights == "observation_id":
        answer = _answer(runs, run, request.branch or run.head.branch, request.observation_id)
        config = run.config_at(answer.config_revision)
        assert config is not None  # every observation was applied under a version that the run keeps
        given = {item.environment: schedule_from_proto(item.schedule) for item in answer.schedules}
        for place, environment in enumerate(batch.environments):
            if environment not in given:
                problem = "is {value!r}, which observation {observation_id!r} had not"
                raise invalid(f"groups.environments[{place}]", problem, value=environment, observation_id=request.observation_id)
        return config, given
    if weights == "schedule":
        return run.config, dict.fromkeys(batch.environments, _checked(request.schedule))
    point = point_of(runs, run, request.branch, None)
    states = point.state.environments
    current = {name: fade_core.schedule_of(run.config, states.get(name, EnvironmentState())) for name in set(batch.environments)}
    return run.config, current


def _answer(runs: Runs, run: LoadedRun, branch: str, observation_id: str) -> ObserveResponse:
    """The stored answer of the newest observation with that id on the branch's line."""
    for segment in reversed(segments(run, branch)):
        stored = runs.store.find_observation(run.uid, segment.branch, observation_id)
        if stored is not None and stored.revision <= segment.until:
            return ObserveResponse.FromString(ObservationRecord.FromString(stored.payload).answer)
    raise ServiceError(
        "OBSERVATION_NOT_FOUND",
        "branch {branch} of {name} has no observation {observation_id!r}",
        branch=branch,
        name=run.name,
        observation_id=observation_id,
    )


def _checked(message: observation_pb2.Schedule) -> Schedule:
    for name, words in (("mode", observation_pb2.Mode), ("estimator", observation_pb2.Estimator)):
        value = getattr(message, name)
        if value not in words.values():
            raise invalid(f"schedule.{name}", "is {value}, which the contract does not know", value=value)
    schedule = schedule_from_proto(message)
    for name, smallest in (("alpha", SMALLEST_ALPHA), ("delta", SMALLEST_DELTA), ("scale", SMALLEST_SCALE)):
        value = getattr(schedule, name)
        if not smallest <= value < math.inf:
            raise invalid(
                f"schedule.{name}", "is {value}; give a finite number of {smallest} or more", value=value, smallest=smallest
            )
    if not 0 <= schedule.likelihood <= 1:
        raise invalid("schedule.likelihood", "is {value}; give a number in [0, 1]", value=schedule.likelihood)
    return schedule
