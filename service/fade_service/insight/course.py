"""A run's course along one branch: its series, its marks, and where it stands, as the dashboard draws them."""

from __future__ import annotations

from typing import Any

from fade_proto.convert import schedule_from_proto
from fade_proto.storage.v1.storage_pb2 import ObservationRecord
from fade_proto.v1.scheduler_pb2 import ObserveResponse
from fade_service.insight.lines import Line
from fade_service.insight.marks import marks_of
from fade_service.insight.series import series_of
from fade_service.runs import LoadedRun, Runs
from fade_service.scheduler.history import line_of

Course = dict[str, Any]


def course_of(runs: Runs, run: LoadedRun, line: Line, first: int, last: int, points: int) -> Course:
    """The observations with ``first`` <= revision <= ``last``, in at most so many points per environment."""
    series = series_of(line, max(first, 1), last, points)
    return {
        "branch": line.branch,
        "config_revision": run.config_revision,
        "first_revision": series.first,
        "last_revision": series.last,
        "stretch": series.stretch,
        "environments": series.environments,
        "marks": marks_of(run, line, series.first if first > 1 else 0, series.last),
        "newest": _newest(runs, run, line),
    }


def _newest(runs: Runs, run: LoadedRun, line: Line) -> Course | None:
    """The last observation, exact; None before the first."""
    stored = next(iter(line_of(runs, run, line.branch, line.revision - 1, 1)), None)
    if stored is None or line.revision == 0:
        return None
    record = ObservationRecord.FromString(stored.payload)
    answer = ObserveResponse.FromString(record.answer)
    now = series_of(line, line.revision, line.revision, 1).environments
    environments = {
        item.environment: {name: column[-1] for name, column in now[item.environment].items()}
        | {"phase": schedule_from_proto(item.schedule).phase}
        for item in answer.schedules
    }
    return {
        "revision": answer.revision,
        "trainer_step": record.trainer_step if record.HasField("trainer_step") else None,
        "observation_id": answer.observation_id,
        "time": record.telemetry.create_time.seconds + record.telemetry.create_time.nanos / 1e9,
        "environments": environments,
        "warnings": [
            {"reason": warning.reason, "text": warning.message, "environment": warning.subject} for warning in answer.warnings
        ],
    }
