"""SimulateRun: a line's telemetry under other settings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

import numpy as np

from fade_core import EnvironmentState, InvalidConfigError, RunConfig, Trajectory
from fade_proto.convert import config_from_proto, state_from_proto
from fade_proto.v1.observation_pb2 import Trajectory as TrajectoryMessage
from fade_proto.v1.observation_pb2 import Warning as WarningMessage
from fade_proto.v1.scheduler_pb2 import SimulateRunRequest, SimulateRunResponse
from fade_service.errors import invalid, of_maths
from fade_service.insight.lines import Line, Lines
from fade_service.insight.replay import needed, replayed, shown
from fade_service.insight.telemetry import PLACE, Columns
from fade_service.insight.worker import Worker
from fade_service.names import checked_run_name
from fade_service.runs import LoadedRun, Runs
from fade_service.scheduler.history import segments

MOST_SETTINGS = 16

DEFAULT_POINTS = 500

_MOST_POINTS = 50_000
"""Of one answer, over all trajectories: 48 bytes each keep it under the 4 MB that gRPC's clients take."""

_NOTE = (
    "solve rates and entropies are those that the run recorded; a policy trained on another schedule would have reported others,"
    " so the further a setting is from the run's own, the less this tells"
)

_SIMULATED = {item.name for item in fields(RunConfig) if item.metadata["simulated"]}


def simulate_run(runs: Runs, lines: Lines, worker: Worker, request: SimulateRunRequest) -> SimulateRunResponse:
    """What alpha and delta would have been.

    Raises:
        ServiceError: INVALID_FIELD, INVALID_CONFIG, RUN_NOT_FOUND, BRANCH_NOT_FOUND.
    """
    run = runs.load(checked_run_name("name", request.name))
    if len(request.settings) > MOST_SETTINGS:
        raise invalid("settings", f"has {{count}} entries; give at most {MOST_SETTINGS}", count=len(request.settings))
    if request.max_points < 0:
        raise invalid("max_points", "is {value}; give 0 or more", value=request.max_points)
    configs = [_config(run, request, place) for place in range(len(request.settings))]
    line = lines.read(run, request.branch)
    series = max(1, len(line.environments) * (len(configs) + 1))
    points = max(2, min(request.max_points or DEFAULT_POINTS, _MOST_POINTS // series))
    response = SimulateRunResponse(name=run.name, branch=line.branch, revision=line.revision)
    for name, columns in line.environments.items():
        response.recorded.append(_recorded(name, columns, points))
    if configs:
        baselines = {change.config_revision: change.config.entropy_baseline for change in run.record.config_changes}
        found = worker.call(replayed, configs, _starts(run, line), baselines, needed(line.environments), points)
        for setting, trajectories in zip(request.settings, found, strict=True):
            one = response.simulations.add(label=setting.label)
            for name, (revisions, trajectory) in trajectories.items():
                one.trajectories.append(_message(name, revisions, trajectory))
    response.warnings.append(WarningMessage(reason="TELEMETRY_AS_RECORDED", message=_NOTE))
    return response


def _config(run: LoadedRun, request: SimulateRunRequest, place: int) -> RunConfig:
    setting = request.settings[place]
    for path in setting.update_mask.paths:
        if path not in _SIMULATED:
            problem = "names {path!r}, which telemetry cannot tell of; name any of {known}"
            known = ", ".join(sorted(_SIMULATED))
            raise invalid(f"settings[{place}].update_mask", problem, path=path, known=known)
    try:
        given = config_from_proto(setting.config)
        return replace(run.config, mode="active", **{path: getattr(given, path) for path in setting.update_mask.paths})
    except InvalidConfigError as error:
        raise of_maths(error, f"settings[{place}].config.") from None


def _starts(run: LoadedRun, line: Line) -> dict[str, EnvironmentState]:
    """Each environment's averages before its first observation on the line.

    Where the store was told to drop older ones, the averages after the first that is left stand in for them.
    """
    first = segments(run, line.branch)[0]
    oldest = min((columns[0, 0] for columns in line.environments.values()), default=first.after + 1)
    if oldest > first.after + 1:
        return {name: _averages_of(columns[0]) for name, columns in line.environments.items()}
    opened = state_from_proto(run.get_branch(first.branch).start)
    return {name: opened.environments.get(name, EnvironmentState()) for name in line.environments}


def _averages_of(row: Columns) -> EnvironmentState:
    solve_rate, entropy = row[PLACE["solve_rate"]], row[PLACE["entropy_nats"]]
    if math.isnan(entropy):
        return EnvironmentState(solve_rate=solve_rate)
    return EnvironmentState(solve_rate=solve_rate, entropy_nats=entropy, initial_entropy_nats=entropy, entropy_kind="")


def _recorded(name: str, columns: Columns, points: int) -> TrajectoryMessage:
    kept = columns[shown(len(columns), points)]
    trajectory = Trajectory(**{item.name: kept[:, PLACE[item.name]].tolist() for item in fields(Trajectory)})
    return _message(name, kept[:, 0].astype(np.int64).tolist(), trajectory)


def _message(name: str, revisions: Sequence[int], trajectory: Trajectory) -> TrajectoryMessage:
    columns = {item.name: getattr(trajectory, item.name) for item in fields(Trajectory)}
    return TrajectoryMessage(environment=name, revision=revisions, **columns)
