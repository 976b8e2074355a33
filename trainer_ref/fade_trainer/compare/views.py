"""What is compared with what: each method at its own best learning rate, and all at one.

Learning rates and the best static method are chosen on validation prompts, so that held-out figures are free of the choice.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from fade_trainer.compare.cells import COMMON_LEARNING_RATE, REGIMES
from fade_trainer.compare.methods import HEADLINE, METHODS
from fade_trainer.compare.results import Result
from fade_trainer.compare.statistics import Floats, best

CHOSEN_BY = "pass@1"
"""What learning rates and the best static method are chosen by: at the end, on validation prompts."""


@dataclass(frozen=True, order=True, slots=True)
class Setting:
    """What all methods of a comparison have in common. Nothing is compared across settings."""

    regime: str
    steps: int
    decay: bool

    @property
    def key(self) -> str:
        """For names of files and anchors."""
        return f"{self.regime}-{self.steps}-{'decayed' if self.decay else 'constant'}"

    @property
    def title(self) -> str:
        """What people read."""
        regime = REGIMES[self.regime].title if self.regime in REGIMES else self.regime
        return f"{regime}: {self.steps:,} steps, {'decayed' if self.decay else 'constant'} learning rate"


@dataclass(frozen=True, slots=True)
class Arm:
    """One method at one learning rate, over its seeds."""

    method: str
    title: str
    family: str
    learning_rate: float
    runs: dict[int, Result]
    """By seed, ascending."""

    def after(self, split: str, name: str) -> dict[int, float]:
        """A figure of the final evaluation on a split, by seed."""
        return {seed: run.after[split][name] for seed, run in self.runs.items()}

    def spectrum(self, name: str) -> dict[int, float]:
        """A figure of the output head's spectrum by seed; without the seeds where the head did not move."""
        return {seed: run.spectrum[name] for seed, run in self.runs.items() if name in run.spectrum}


@dataclass(frozen=True, slots=True)
class View:
    """One arm per method."""

    arms: dict[str, Arm]
    """By method; ours first, then schedules, then static ones."""

    common: bool
    """All at one learning rate; else each at its own best."""

    best_static: str | None
    """The static method that is best on validation prompts; None if there is none."""

    @property
    def headline(self) -> dict[str, Arm]:
        """The arms of the main figures: the project's six, the best static one, and ours."""
        return {name: arm for name, arm in self.arms.items() if name in (*HEADLINE, self.best_static) or arm.family == "ours"}


@dataclass(frozen=True, slots=True)
class Comparison:
    """Everything of one setting."""

    setting: Setting
    grid: dict[str, dict[float, Arm]]
    """By method, then by learning rate, ascending."""

    common_learning_rate: float
    """The one that most methods ran at."""

    views: list[View]
    """Each at its own best learning rate; then all at the common one, where that is something else."""


def compare(results: Iterable[Result]) -> list[Comparison]:
    """One comparison per setting, in order. The order of results does not matter, but of two with one key the last counts."""
    by_setting: dict[Setting, list[Result]] = defaultdict(list)
    for result in results:
        by_setting[Setting(result.regime, result.steps, result.decay)].append(result)
    return [_comparison(setting, by_setting[setting]) for setting in sorted(by_setting)]


def aligned(series: Iterable[Mapping[str, Sequence[float | None]]], name: str) -> tuple[Floats, Floats]:
    """[T] steps at which all n series have a value under a name, ascending, and [n, T] these values."""
    pairs = [zip(one["step"], one[name], strict=True) for one in series]
    at = [{step: value for step, value in pair if step is not None and value is not None} for pair in pairs]
    steps = sorted(set.intersection(*(set(found) for found in at)))
    return np.array(steps, dtype=np.float64), np.array([[found[step] for step in steps] for found in at], dtype=np.float64)


def _comparison(setting: Setting, results: Sequence[Result]) -> Comparison:
    grid = _grid(results)
    ran = Counter(rate for rates in grid.values() for rate in rates)
    common = max(sorted(ran), key=lambda rate: (ran[rate], rate == COMMON_LEARNING_RATE))
    own = {
        name: rates[best({rate: arm.after("validation", CHOSEN_BY) for rate, arm in rates.items()})]
        for name, rates in grid.items()
    }
    shared = {name: rates[common] for name, rates in grid.items() if common in rates}
    views = [_view(own, common=False)]
    if shared != own:
        views.append(_view(shared, common=True))
    return Comparison(setting, grid, common, views)


def _grid(results: Sequence[Result]) -> dict[str, dict[float, Arm]]:
    """By method, ours first, then by learning rate."""
    families = ("ours", "schedule", "static")
    places = {name: place for place, name in enumerate(METHODS)}
    ordered = sorted(
        results,
        key=lambda one: (
            families.index(one.family),
            places.get(one.method, len(places)),
            one.method,
            one.learning_rate,
            one.seed,
        ),
    )
    grid: dict[str, dict[float, Arm]] = defaultdict(dict)
    for result in ordered:
        rates = grid[result.method]
        if result.learning_rate not in rates:
            rates[result.learning_rate] = Arm(result.method, result.title, result.family, result.learning_rate, {})
        rates[result.learning_rate].runs[result.seed] = result
    return dict(grid)


def _view(arms: dict[str, Arm], *, common: bool) -> View:
    static = {name: arm.after("validation", CHOSEN_BY) for name, arm in arms.items() if arm.family == "static"}
    return View(arms, common, best(static) if static else None)
