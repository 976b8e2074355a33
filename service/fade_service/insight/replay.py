"""The controller along recorded telemetry under other settings: what the worker computes for a what-if."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from fade_core.config import RunConfig
from fade_core.simulate import Telemetry, Trajectory, simulate
from fade_core.state import EnvironmentState
from fade_service.insight.telemetry import PLACE, Columns

_NEEDED = ("revision", "step_solve_rate", "step_entropy_nats", "coverage", "prefiltered", "config_revision")


def needed(environments: Mapping[str, Columns]) -> dict[str, Columns]:
    """What :func:`replayed` looks at, float64 (n, 6) by environment: a quarter of what a line holds."""
    places = [PLACE[name] for name in _NEEDED]
    return {name: columns[:, places] for name, columns in environments.items()}


def replayed(
    configs: Sequence[RunConfig],
    starts: Mapping[str, EnvironmentState],
    baselines: Mapping[int, int],
    environments: Mapping[str, Columns],
    points: int,
) -> list[dict[str, tuple[list[int], Trajectory]]]:
    """By configuration and environment, the revisions that are shown and the trajectory there.

    Args:
        configs: The settings.
        starts: Each environment's averages before its first observation.
        baselines: The ``entropy_baseline`` of each version of the run's configuration.
        environments: What :func:`needed` gives.
        points: At most so many are shown per environment.
    """
    steps = {name: _steps(columns, baselines) for name, columns in environments.items()}
    return [
        {
            name: _thinned(columns[:, 0], simulate(config, starts[name], steps[name]), points)
            for name, columns in environments.items()
        }
        for config in configs
    ]


def shown(length: int, points: int) -> npt.NDArray[np.intp]:
    """Which of so many observations are shown: the last, and evenly spaced ones before it."""
    step = max(1, -(-length // points))
    return np.arange(length - 1, -1, -step)[::-1]


def _steps(columns: Columns, baselines: Mapping[int, int]) -> list[Telemetry]:
    return [
        Telemetry(
            solve_rate=None if math.isnan(rate) else rate,
            entropy_nats=None if math.isnan(entropy) else entropy,
            coverage=coverage,
            prefiltered=bool(prefiltered),
            entropy_baseline=baselines[int(config_revision)],
        )
        for _, rate, entropy, coverage, prefiltered, config_revision in columns.tolist()
    ]


def _thinned(revisions: Columns, trajectory: Trajectory, points: int) -> tuple[list[int], Trajectory]:
    places = shown(len(revisions), points)
    kept = {item.name: [getattr(trajectory, item.name)[place] for place in places] for item in fields(Trajectory)}
    return revisions[places].astype(np.int64).tolist(), Trajectory(**kept)
