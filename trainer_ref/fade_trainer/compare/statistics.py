"""Statistics over seeds: means, paired differences, and steps to a baseline's peak, each with a bootstrap interval.

Pure: the same numbers in any order give the same answer, for the bootstrap's generator is fixed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

FEW_SEEDS = 6
"""Means over fewer seeds than this are to be marked: an interval from so few is too narrow."""

_RESAMPLES = 10_000
_TAIL = 0.025
_NEAR = 1e-12
"""Relative slack in comparing a curve with a level: sums in another order differ in their last bits."""

Floats: TypeAlias = NDArray[np.float64]
Choice = TypeVar("Choice", float, str)


@dataclass(frozen=True, kw_only=True, slots=True)
class Estimate:
    """A mean over seeds."""

    mean: float

    standard_deviation: float | None
    """Over seeds, with n - 1; None from a single seed."""

    standard_error: float | None
    """Of the mean; None from a single seed."""

    low: float | None
    """Lower end of the 95 % percentile bootstrap interval of the mean; None from a single seed."""

    high: float | None
    """Its upper end."""

    seeds: tuple[int, ...]
    """Those that went in, ascending."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Race:
    """Steps that a method takes to a share of a baseline's peak. `inf` is never."""

    level: float
    """What is to be reached: the share times the peak of the baseline's smoothed mean curve."""

    steps: float
    """Where the method's smoothed mean curve first reaches the level."""

    low: float | None
    """Lower end of the 95 % bootstrap interval of `steps`; None from a single seed."""

    high: float | None
    """Its upper end."""

    baseline_steps: float
    """Where the baseline's own curve first reaches the level."""

    ratio: float
    """steps / baseline_steps."""

    ratio_low: float | None
    """Lower end of the 95 % bootstrap interval of `ratio`; None from a single seed."""

    ratio_high: float | None
    """Its upper end."""

    reached: float | None
    """Share of the resamples in which the method reaches the level at all; None from a single seed."""

    seeds: tuple[int, ...]
    """Those that both have, ascending: both curves are means over them."""


def estimate(by_seed: Mapping[int, float]) -> Estimate:
    """The mean of one value per seed.

    Raises:
        ValueError: There is no seed.
    """
    if not by_seed:
        raise ValueError("a mean over seeds needs at least one seed")
    seeds = tuple(sorted(by_seed))
    values = np.array([by_seed[seed] for seed in seeds], dtype=np.float64)
    if len(seeds) == 1:
        return Estimate(mean=float(values[0]), standard_deviation=None, standard_error=None, low=None, high=None, seeds=seeds)
    deviation = float(values.std(ddof=1))
    low, high = _interval(_resampled_means(values))
    error = deviation / len(seeds) ** 0.5
    return Estimate(
        mean=float(values.mean()), standard_deviation=deviation, standard_error=error, low=low, high=high, seeds=seeds
    )


def difference(mine: Mapping[int, float], theirs: Mapping[int, float]) -> Estimate | None:
    """Mean of mine - theirs, paired over the seeds that both have; None where there is no such seed."""
    shared = mine.keys() & theirs.keys()
    return estimate({seed: mine[seed] - theirs[seed] for seed in shared}) if shared else None


def best(candidates: Mapping[Choice, Mapping[int, float]]) -> Choice:
    """The candidate with the highest mean over seeds; of equals the smallest.

    Candidates with less than half the seeds of the one with most are left out, and the others are compared on the seeds that
    they share (where they share none, each on its own): a lucky seed that the others did not run must not decide.
    """
    most = max(len(by_seed) for by_seed in candidates.values())
    eligible = {name: by_seed for name, by_seed in candidates.items() if 2 * len(by_seed) >= most}
    shared = set.intersection(*(set(by_seed) for by_seed in eligible.values()))

    def mean(name: Choice) -> float:
        by_seed = eligible[name]
        return float(np.mean([by_seed[seed] for seed in sorted(shared or by_seed)]))

    return max(sorted(eligible), key=mean)


def smooth(curves: Floats) -> Floats:
    """[..., T] -> [..., T]: each evaluation averaged with its two neighbours; the first and the last have one."""
    gap = np.full_like(curves[..., :1], np.nan)
    padded = np.concatenate([gap, curves, gap], axis=-1)
    smoothed: Floats = np.nanmean([padded[..., :-2], curves, padded[..., 2:]], axis=0)
    return smoothed


def steps_to(steps: Floats, curves: Floats, level: Floats) -> Floats:
    """Where curves first reach a level, interpolated linearly between evaluations.

    Args:
        steps: [T] of the evaluations, ascending.
        curves: [..., T] values at these steps.
        level: [...] one per curve.

    Returns:
        [...] steps; `inf` where the level is never reached.
    """
    reached = curves >= (level - _NEAR * np.abs(level))[..., None]
    after = reached.argmax(axis=-1)
    before = np.maximum(after - 1, 0)
    low, high = (np.take_along_axis(curves, place[..., None], axis=-1)[..., 0] for place in (before, after))
    rise = np.where(high > low, high - low, 1.0)  # equal only where the first evaluation reaches it: nothing to interpolate
    part = np.clip((level - low) / rise, 0, 1)
    found: Floats = np.where(reached.any(axis=-1), steps[before] + part * (steps[after] - steps[before]), np.inf)
    return found


def race(steps: Floats, mine: Mapping[int, Floats], baseline: Mapping[int, Floats], share: float) -> Race | None:
    """Compares when two methods' mean curves reach a share of the baseline's peak; None where they share no seed.

    Curves are smoothed over three evaluations, since the peak of a noisy curve is biased upwards. The bootstrap draws seeds, the
    same for both, and takes the peak anew each time.

    Args:
        steps: [T] of the evaluations, ascending.
        mine: a curve [T] per seed.
        baseline: a curve [T] per seed.
        share: of the peak, for example 0.95.
    """
    seeds = tuple(sorted(mine.keys() & baseline.keys()))
    if not seeds:
        return None
    ours, theirs = (smooth(np.array([curves[seed] for seed in seeds])) for curves in (mine, baseline))
    level, taken, needed = _race(steps, ours.mean(axis=0), theirs.mean(axis=0), share)
    low = high = ratio_low = ratio_high = reached = None
    if len(seeds) > 1:
        _, drawn, drawn_needed = _race(steps, _resampled_means(ours), _resampled_means(theirs), share)
        low, high = _interval(drawn)
        ratio_low, ratio_high = _interval(_ratio(drawn, drawn_needed))
        reached = float(np.isfinite(drawn).mean())
    return Race(
        level=float(level),
        steps=float(taken),
        low=low,
        high=high,
        baseline_steps=float(needed),
        ratio=float(_ratio(taken, needed)),
        ratio_low=ratio_low,
        ratio_high=ratio_high,
        reached=reached,
        seeds=seeds,
    )


def _race(steps: Floats, mine: Floats, baseline: Floats, share: float) -> tuple[Floats, Floats, Floats]:
    """Mean curves [..., T] -> the level, and the steps of both to it, each [...]."""
    level = np.asarray(share * baseline.max(axis=-1))
    return level, steps_to(steps, mine, level), steps_to(steps, baseline, level)


def _ratio(taken: Floats, needed: Floats) -> Floats:
    """taken / needed; 1 where both are 0, for a baseline that is at its peak from the start."""
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = np.where(taken == needed, 1.0, np.divide(taken, needed))
    return quotient


def _resampled_means(values: Floats) -> Floats:
    """[n, ...] values of n seeds -> [resamples, ...] means over n seeds drawn with replacement; the same draws for the same n."""
    seeds = len(values)
    counts = np.random.default_rng(0).multinomial(seeds, np.full(seeds, 1 / seeds), size=_RESAMPLES)
    means: Floats = np.tensordot(counts / seeds, values, axes=1)
    return means


def _interval(values: Floats) -> tuple[float, float]:
    """The middle 95 % of values, of which some may be infinite."""
    low, high = np.quantile(values, [_TAIL, 1 - _TAIL], method="inverted_cdf")
    return float(low), float(high)
