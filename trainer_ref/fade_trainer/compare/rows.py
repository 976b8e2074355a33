"""The numbers of the report: a row of estimates per arm of each view, and the same as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fade_trainer.compare.results import Result
from fade_trainer.compare.statistics import Estimate, Floats, Race, difference, estimate, race, smooth
from fade_trainer.compare.views import Arm, Comparison, View, aligned, compare

PASS_AT = tuple(f"pass@{k}" for k in (1, 2, 4, 8, 16, 32, 64))
MEASURED = (*PASS_AT, "entropy_nats")

SHARES = (0.95, 1.0)
"""Of the best static method's peak: what methods race to."""

RATIO_GOAL = 0.8
"""Goal of a schedule: that peak in at most this share of the steps that the best static method takes to it."""

REFERENCE = "fade"
"""What all others are compared with, besides the best static method."""

CURVES = ("curve.pass@1", "curve.pass@4", "curve.pass@16", "curve.entropy_nats")
TRAINING = (
    "training.solve_rate",
    "training.informative_groups",
    "training.entropy_nats",
    "training.alpha",
    "training.delta",
    "training.lr_scale",
    "training.success_mass",
    "training.failure_mass",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One arm's numbers."""

    arm: Arm

    held_out: dict[str, Estimate]
    """pass@k and entropy at the end, on held-out prompts."""

    validation: dict[str, Estimate]
    """The same on validation prompts."""

    against: dict[str, dict[str, Estimate]]
    """By another method: this one minus that one on held-out prompts, over shared seeds; without those that share none."""

    races: dict[float, Race]
    """By share of the best static method's peak, on validation prompts; empty where the two share no seed."""

    spectrum: dict[str, Estimate]
    """stable_rank and top_share of the output head's change."""

    seconds: Estimate
    """Wall time of a training."""


@dataclass(frozen=True, slots=True)
class Standings:
    """A view and its rows, the highest held-out pass@1 first."""

    view: View
    rows: list[Row]

    @property
    def headline(self) -> list[Row]:
        """The rows of the main figures."""
        return [row for row in self.rows if row.arm.method in self.view.headline]

    @property
    def best_static(self) -> Row | None:
        """The best static method's row."""
        return next((row for row in self.rows if row.arm.method == self.view.best_static), None)


@dataclass(frozen=True, slots=True)
class Analysis:
    """All numbers of a setting."""

    comparison: Comparison
    warmed_up: dict[str, Estimate]
    """pass@k and entropy before RL, on held-out prompts."""

    standings: list[Standings]
    """One per view."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Goal:
    """How a schedule stands to the two goals in a view. Within noise: the interval has both sides of the goal, or is missing."""

    arm: Arm
    race: Race
    earlier: bool
    earlier_within_noise: bool
    pass_at_64: Estimate
    kept: bool
    kept_within_noise: bool


def analyse(results: Iterable[Result]) -> list[Analysis]:
    """An analysis per setting.

    Raises:
        ValueError: There are no results.
    """
    comparisons = compare(results)
    if not comparisons:
        raise ValueError("there are no results to report on")
    return [Analysis(one, _warmed_up(one), [_standings(view) for view in one.views]) for one in comparisons]


def goals(standings: Standings) -> list[Goal]:
    """A goal per schedule, ours first; none without a static method to compare with."""
    best_static = standings.view.best_static
    by_method = {row.arm.method: row for row in standings.rows}
    rows = [by_method[name] for name, arm in standings.view.arms.items() if arm.family != "static"]
    return [
        _goal(row, row.against[best_static]["pass@64"]) for row in rows if best_static is not None and best_static in row.against
    ]


def mean_series(arm: Arm, name: str, *, smoothed: bool = False) -> tuple[Floats, Floats, Floats]:
    """Of a curve or of a training's record: steps [T], and over seeds mean [T] and standard deviation [T], 0 for a single seed.

    Args:
        name: `curve.pass@1`, `training.alpha` and so on, see `CURVES` and `TRAINING`.
        smoothed: Smooth each seed's before.
    """
    source, _, column = name.partition(".")
    steps, values = aligned([getattr(run, source) for run in arm.runs.values()], column)
    values = smooth(values) if smoothed else values
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(steps)
    return steps, values.mean(axis=0), deviation


def singular_values(arm: Arm) -> Floats:
    """[rank] mean over seeds of the singular values of the output head's change, each seed's relative to its largest."""
    spectra = [np.array(run.spectrum["singular_values"]) for run in arm.runs.values()]
    moved = [values / values.max() for values in spectra if values.max() > 0]
    mean: Floats = np.mean(moved, axis=0) if moved else np.zeros(0)
    return mean


def _standings(view: View) -> Standings:
    rows = [_row(view, arm) for arm in view.arms.values()]
    return Standings(view, sorted(rows, key=lambda row: -row.held_out["pass@1"].mean))


def _warmed_up(comparison: Comparison) -> dict[str, Estimate]:
    """Methods share the warmed-up policy of a seed: each seed counts once."""
    runs = {seed: run for rates in comparison.grid.values() for arm in rates.values() for seed, run in arm.runs.items()}
    return {name: estimate({seed: run.before["held_out"][name] for seed, run in runs.items()}) for name in MEASURED}


def _row(view: View, arm: Arm) -> Row:
    others = {name: view.arms[name] for name in (view.best_static, REFERENCE) if name in view.arms and name != arm.method}
    against = {name: _differences(arm, other) for name, other in others.items()}
    static = None if view.best_static is None else view.arms[view.best_static]
    races = {share: None if static is None else _race(arm, static, share) for share in SHARES}
    spectrum = {name: arm.spectrum(name) for name in ("stable_rank", "top_share")}
    return Row(
        arm=arm,
        held_out={name: estimate(arm.after("held_out", name)) for name in MEASURED},
        validation={name: estimate(arm.after("validation", name)) for name in MEASURED},
        against={name: found for name, found in against.items() if found},
        races={share: found for share, found in races.items() if found is not None},
        spectrum={name: estimate(by_seed) for name, by_seed in spectrum.items() if by_seed},
        seconds=estimate({seed: run.seconds for seed, run in arm.runs.items()}),
    )


def _differences(arm: Arm, other: Arm) -> dict[str, Estimate]:
    found = {name: difference(arm.after("held_out", name), other.after("held_out", name)) for name in MEASURED}
    return {name: one for name, one in found.items() if one is not None}


def _race(arm: Arm, static: Arm, share: float) -> Race | None:
    runs = [*arm.runs.values(), *static.runs.values()]
    steps, values = aligned([run.curve for run in runs], "pass@1")
    mine, theirs = values[: len(arm.runs)], values[len(arm.runs) :]
    return race(steps, dict(zip(arm.runs, mine, strict=True)), dict(zip(static.runs, theirs, strict=True)), share)


def _goal(row: Row, pass_at_64: Estimate) -> Goal:
    to_peak = row.races[1.0]
    return Goal(
        arm=row.arm,
        race=to_peak,
        earlier=to_peak.ratio <= RATIO_GOAL,
        earlier_within_noise=_within_noise(to_peak.ratio_low, to_peak.ratio_high, RATIO_GOAL),
        pass_at_64=pass_at_64,
        kept=pass_at_64.mean >= 0,
        kept_within_noise=_within_noise(pass_at_64.low, pass_at_64.high, 0),
    )


def _within_noise(low: float | None, high: float | None, goal: float) -> bool:
    return low is None or high is None or low <= goal < high
