"""A line for a chart: at most so many points, however long it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from fade_service.insight.lines import Line
from fade_service.insight.telemetry import COLUMNS, PLACE, Columns

LARGEST_POINTS = 5000

_SHOWN = tuple(name for name in COLUMNS if name not in ("config_revision", "prefiltered"))
_LAST = [PLACE["revision"], PLACE["time"]]


@dataclass(frozen=True, slots=True)
class Series:
    """Columns by environment, each point an average over a stretch of revisions; its revision and time are the stretch's last.

    Attributes:
        first, last: The revisions asked for, as far as the line has them.
        stretch: Revisions that one point stands for.
        environments: By name, columns of one length; NaN is unknown.
    """

    first: int
    last: int
    stretch: int
    environments: Mapping[str, Mapping[str, list[float]]]


def series_of(line: Line, first: int, last: int, points: int) -> Series:
    """The observations with ``first`` <= revision <= ``last``.

    Args:
        line: The line.
        first, last: Revisions.
        points: At most so many per environment.
    """
    last = min(last, line.revision)
    stretch = max(1, -(-(last - first + 1) // points))
    return Series(
        first, last, stretch, {name: _columns(columns, first, last, stretch) for name, columns in line.environments.items()}
    )


def _columns(columns: Columns, first: int, last: int, stretch: int) -> dict[str, list[float]]:
    revisions = columns[:, 0]
    inside = columns[np.searchsorted(revisions, first) : np.searchsorted(revisions, last, side="right")]
    shown = inside if stretch == 1 or not len(inside) else _averaged(inside, stretch)
    return {name: shown[:, PLACE[name]].tolist() for name in _SHOWN}


def _averaged(columns: Columns, stretch: int) -> Columns:
    """One row per stretch, cut at multiples of its length so that points stay where they are as the line grows."""
    numbers = columns[:, 0] // stretch
    starts = np.flatnonzero(np.diff(numbers, prepend=-1))
    known = ~np.isnan(columns)
    sums = np.add.reduceat(np.where(known, columns, 0.0), starts)
    counts = np.add.reduceat(known.astype(np.float64), starts)
    with np.errstate(invalid="ignore"):
        averages: Columns = sums / counts
    ends = np.append(starts[1:], len(columns)) - 1
    averages[:, _LAST] = columns[ends][:, _LAST]
    return averages
