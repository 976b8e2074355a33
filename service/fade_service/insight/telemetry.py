"""Stored observations as columns of numbers: what charts, exports and simulations read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fade_proto.storage.v1.storage_pb2 import ObservationRecord
from fade_proto.v1.observation_pb2 import HOLD_REASON_PREFILTERED, EnvironmentSchedule
from fade_proto.v1.scheduler_pb2 import ObserveResponse

Columns = npt.NDArray[np.float64]
"""float64 (n, len(COLUMNS)): an environment's observations, oldest first."""

COLUMNS = (
    "revision",
    "time",
    "config_revision",
    "alpha",
    "delta",
    "solve_rate",
    "step_solve_rate",
    "entropy_nats",
    "step_entropy_nats",
    "target_entropy_nats",
    "mass_success",
    "mass_failure",
    "sign_ratio",
    "difficulty_centre",
    "mass_vs_grpo",
    "coverage",
    "mixed_groups",
    "all_solved_groups",
    "all_failed_groups",
    "singleton_groups",
    "filtered_solved_groups",
    "filtered_failed_groups",
    "effective_groups",
    "held",
    "prefiltered",
)
"""Time in Unix seconds, entropies in nats per token, groups in counts; ``held``, ``prefiltered`` 0 or 1. NaN is unknown."""

PLACE = {name: place for place, name in enumerate(COLUMNS)}


@dataclass(frozen=True, slots=True)
class Remark:
    """Something worth a mark beside the numbers.

    Attributes:
        revision: Of the observation that carries it.
        kind: "warning", or "late" for a report that came after its batch was trained on.
        reason: The warning's, or where the late report's schedule came from.
        text: One sentence.
        environment: Which one it is about; empty means all.
    """

    revision: int
    kind: str
    reason: str
    text: str
    environment: str = ""


@dataclass(frozen=True, slots=True)
class Telemetry:
    """Columns by environment, and the remarks."""

    environments: dict[str, Columns]
    remarks: list[Remark]


def decode(payloads: Sequence[bytes]) -> Telemetry:
    """The telemetry of stored observations, oldest first."""
    rows: dict[str, list[list[float]]] = {}
    remarks: list[Remark] = []
    for payload in payloads:
        record = ObservationRecord.FromString(payload)
        answer = ObserveResponse.FromString(record.answer)
        committed = record.telemetry.create_time
        known = [float(answer.revision), committed.seconds + committed.nanos / 1e9, float(answer.config_revision)]
        for item in answer.schedules:
            rows.setdefault(item.environment, []).append(known + _row(item))
        for warning in answer.warnings:
            remarks.append(Remark(answer.revision, "warning", warning.reason, warning.message, warning.subject))
        if record.telemetry.HasField("late"):
            remarks.append(_late(answer.revision, record.telemetry.late.source, record.telemetry.lost_reports))
    return Telemetry({name: np.array(values) for name, values in rows.items()}, remarks)


def _row(item: EnvironmentSchedule) -> list[float]:
    """Everything after ``config_revision``, in the order of COLUMNS."""
    schedule, state, seen = item.schedule, item.state, item.diagnostics
    return [
        schedule.alpha,
        schedule.delta,
        state.solve_rate,
        seen.solve_rate if seen.HasField("solve_rate") else math.nan,
        state.entropy_nats if state.HasField("entropy_nats") else math.nan,
        seen.entropy_nats if seen.HasField("entropy_nats") else math.nan,
        schedule.target_entropy_nats if schedule.HasField("target_entropy_nats") else math.nan,
        seen.mass_success,
        seen.mass_failure,
        seen.sign_ratio if seen.HasField("sign_ratio") else math.nan,
        seen.difficulty_centre if seen.HasField("difficulty_centre") else math.nan,
        seen.mass_vs_grpo if seen.HasField("mass_vs_grpo") else math.nan,
        seen.coverage,
        seen.mixed_group_count,
        seen.all_solved_group_count,
        seen.all_failed_group_count,
        seen.singleton_group_count,
        seen.filtered_all_solved,
        seen.filtered_all_failed,
        seen.effective_group_count,
        float(len(item.hold_reasons) > 0),
        float(HOLD_REASON_PREFILTERED in item.hold_reasons),
    ]


def _late(revision: int, source: str, lost: int) -> Remark:
    text = f"reported late: trained on a schedule of source {source}"
    return Remark(revision, "late", source, f"{text}; {lost} batches before it were never reported" if lost else text)
