"""What the contract's messages say, as flat names and plain values: the keys of every JSON and CSV that the commands write.

Entropies are in nats per token, masses on the mapped [0, 1] reward scale.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp

from fade_client.operate import text
from fade_proto.convert import answer_from_proto
from fade_proto.v1 import observation_pb2, run_pb2

_OF_THE_BATCH = ("solve_rate", "entropy_nats")
"""Diagnostics whose name an average has too."""


def of_run(run: run_pb2.Run) -> dict[str, Any]:
    """A run without its configuration."""
    return {
        "name": run.name,
        "state": _word(run_pb2.Run.State, run.state),
        "mode": _word(observation_pb2.Mode, run.config.mode),
        "branch": run.branch,
        "revision": run.revision,
        "trainer_step": run.trainer_step if run.HasField("trainer_step") else None,
        "config_revision": run.config_revision,
        "create_time": time_of(run.create_time),
        "observe_time": time_of(run.observe_time) if run.HasField("observe_time") else None,
    }


def of_environment(item: observation_pb2.EnvironmentSchedule) -> dict[str, Any]:
    """How an environment stands: its schedule and its averages."""
    answer = answer_from_proto(item)
    schedule, state, applied = answer.schedule, answer.state, answer.schedule.applied()
    return {
        "environment": item.environment,
        "mode": schedule.mode,
        "phase": schedule.phase,
        "alpha": schedule.alpha,
        "delta": schedule.delta,
        "scale": schedule.scale,
        "estimator": schedule.estimator,
        "applied_alpha": applied.alpha,
        "applied_delta": applied.delta,
        "applied_scale": applied.scale,
        "average_solve_rate": state.solve_rate,
        "average_entropy_nats": state.entropy_nats,
        "target_entropy_nats": schedule.target_entropy_nats,
        "initial_entropy_nats": state.initial_entropy_nats,
        "entropy_kind": state.entropy_kind,
        "entropy_baseline": state.entropy_baseline,
        "observation_count": state.observation_count,
    }


def of_observation(run: str, item: observation_pb2.Observation) -> dict[str, Any]:
    """An observation without its environments."""
    return {
        "run": run,
        "branch": item.branch,
        "revision": item.revision,
        "observation_id": item.observation_id,
        "trainer_step": item.trainer_step if item.HasField("trainer_step") else None,
        "create_time": time_of(item.create_time),
        "config_revision": item.config_revision,
        "source": _source(item),
        "late_config_revision": item.late.config_revision if item.HasField("late") else None,
        "lost_reports": item.lost_reports,
        "warnings": [warning.reason for warning in item.warnings],
    }


def environments_of(item: observation_pb2.Observation) -> Iterator[dict[str, Any]]:
    """Each environment of an observation: how it stands after it, what was seen, and, of a late report, what was trained on."""
    late = {trained.environment: trained.schedule for trained in item.late.schedules}
    for answered in item.schedules:
        yield _environment_of(answered, late.get(answered.environment))


def flat(run: str, item: observation_pb2.Observation) -> Iterator[dict[str, Any]]:
    """An observation as one row per environment, all with the keys :data:`COLUMNS`."""
    shared = of_observation(run, item)
    for environment in environments_of(item):
        yield shared | environment


def nested(run: str, item: observation_pb2.Observation) -> dict[str, Any]:
    """An observation as one document."""
    return of_observation(run, item) | {"environments": list(environments_of(item))}


def _environment_of(item: observation_pb2.EnvironmentSchedule, late: observation_pb2.Schedule | None) -> dict[str, Any]:
    answer = answer_from_proto(item)
    seen = {f"batch_{key}" if key in _OF_THE_BATCH else key: _known(value) for key, value in asdict(answer.diagnostics).items()}
    trained = {f"late_{key}": None if late is None else getattr(late, key) for key in ("alpha", "delta", "scale")}
    return of_environment(item) | {"outcome": answer.outcome, "hold_reasons": list(answer.hold_reasons)} | seen | trained


def _source(item: observation_pb2.Observation) -> str:
    """What the batch was trained on, in the client's words."""
    if item.HasField("late"):
        return item.late.source
    pinned = any(answered.schedule.mode == observation_pb2.MODE_PINNED for answered in item.schedules)
    return "PINNED" if pinned else "SERVER"


def _word(enum: Any, value: int) -> str:
    """ "active" for STATE_ACTIVE; a newer server's value, unknown here, as its number."""
    return str(enum.Name(value)).partition("_")[2].lower() if value in enum.values() else str(value)


def _known(value: Any) -> Any:
    """None for what JSON has no number for: a ratio to nothing."""
    return None if isinstance(value, float) and not math.isfinite(value) else value


def time_of(stamp: Timestamp) -> str:
    """ "2026-03-01T09:12:44.031000+00:00": UTC, always of one form."""
    return text.moment(stamp).isoformat(timespec="microseconds")


COLUMNS = (
    *of_observation("", observation_pb2.Observation()),
    *_environment_of(observation_pb2.EnvironmentSchedule(), None),
)
"""The names of a flat row, in order."""
