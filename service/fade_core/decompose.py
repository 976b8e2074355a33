"""Any advantage along the paper's three axes: sign, difficulty and scale (FADE.md, sections 1 and 5).

A group of G rollouts with k solved has the gradient masses mS = (k / G) wS and mF = ((G - k) / G) wF. A prompt of solve rate p
has their expectation over k ~ Bin(G, p). One number per axis summarises the prompts of every difficulty alike, p ~ U(0, 1);
then k is uniform on 0..G, so that these numbers are exact sums and no integral is approximated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fade_core.errors import InvalidBatchError
from fade_core.two_level import Floats, Integers, Weights, registered, two_level_advantages

LARGEST_GROUP_SIZE = 1024
SOLVE_RATES = 201
"""Points of the grid of p, ends included."""
BINS = 10
_SAME = 1e-5
"""Advantages this close, relative to the group's largest, are one level: callables may work in float32."""

GroupAdvantage = Callable[[Floats], npt.ArrayLike]
"""Takes the rewards of one group, float64 (G,) of 0 and 1, and gives its advantages, (G,)."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decomposition:
    """An advantage in groups of one size.

    Attributes:
        name: The registered name, or that of the callable.
        parameters: All of them, by name.
        group_size: G.
        weight_success, weight_failure: float64 (G + 1,), wS and wF for k = 0..G solved; 0 where no rollout carries them.
        group_mass_success, group_mass_failure: float64 (G + 1,), mS and mF of such a group.
        solve_rate: float64 (P,), p from 0 to 1.
        mass_success, mass_failure: float64 (P,), mS(p) and mF(p): expectations over k ~ Bin(G, p).
        population_weight: float64 (P,), w_G(p): the expected on-policy gradient is w_G(p) grad p.
        sign_ratio: Total mS over total mF; infinite where mF is 0 throughout, NaN where both are.
        centre, spread: Mean and standard deviation of p under the mass |mS| + |mF|; NaN where there is none.
        peak: The p of the grid with the largest mass; NaN where the mass is the same everywhere.
        scale: Mean mass relative to that of r - rbar (GRPO without standard deviation) in groups of the same size.
    """

    name: str
    parameters: Mapping[str, float] = field(default_factory=dict)
    group_size: int
    weight_success: Floats
    weight_failure: Floats
    group_mass_success: Floats
    group_mass_failure: Floats
    solve_rate: Floats
    mass_success: Floats
    mass_failure: Floats
    population_weight: Floats
    sign_ratio: float
    centre: float
    spread: float
    peak: float
    scale: float

    def sign_ratios(self) -> Floats:
        """float64 (P,): mS(p) / mF(p); infinite where mF is 0, NaN where both are."""
        return _ratio(self.mass_success, self.mass_failure)


@dataclass(frozen=True, slots=True, kw_only=True)
class Likeness:
    """How near a registered advantage, under its defaults, is to measured numbers.

    Attributes:
        name: The registered name.
        distance: Norm of the measured minus ``scale`` times the registered advantages over that of the measured: 0 is the same
            but for scale, 1 is nothing in common.
        scale: The factor, 0 or more, with the smallest distance.
    """

    name: str
    distance: float
    scale: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MeasuredDecomposition:
    """Advantages as they were measured. Each group counts once, at its own solve rate k / G.

    Attributes:
        row_count, group_count: Rows and groups with a reward.
        missing_count: Rows without one, left out.
        bin_edges: float64 (11,): bin i holds solve rates from edge i to below edge i + 1, the last one 1 too.
        bin_groups: int64 (10,), groups in each.
        mass_success, mass_failure: float64 (10,), mean mS and mF of a group in the bin; 0 where there is none.
        sign_ratio, centre, spread, scale: As in :class:`Decomposition`, over the groups.
        nearest: Every registered advantage that groups of these sizes can have, nearest first.
    """

    row_count: int
    group_count: int
    missing_count: int
    bin_edges: Floats
    bin_groups: Integers
    mass_success: Floats
    mass_failure: Floats
    sign_ratio: float
    centre: float
    spread: float
    scale: float
    nearest: tuple[Likeness, ...]


def decompose(
    advantage: str | GroupAdvantage, group_size: int = 8, parameters: Mapping[str, float] | None = None
) -> Decomposition:
    """An advantage along the three axes.

    Args:
        advantage: One of :func:`~fade_core.advantage_names`, or a callable: rewards of one group, float64 (G,) of 0 and 1, to
            its advantages, (G,).
        group_size: G, 2 to 1024.
        parameters: Of a registered advantage, by name; the others take their defaults.

    Raises:
        InvalidBatchError: The name, the size or a parameter is wrong; or what the callable gives is not finite, of another
            shape, or differs between rollouts of the same outcome.
    """
    if not 2 <= group_size <= LARGEST_GROUP_SIZE:
        raise InvalidBatchError("group_size", f"is {group_size}; give 2 to {LARGEST_GROUP_SIZE} rollouts")
    solved = np.arange(group_size + 1)
    if isinstance(advantage, str):
        known = registered(advantage)
        name, given = known.name, known.given(parameters or {})
        success, failure = known.weights(solved, np.full_like(solved, group_size), given)
    else:
        name, given = getattr(advantage, "__name__", type(advantage).__name__), {}
        if parameters:
            raise InvalidBatchError("advantage.parameters", "are of registered advantages; a callable has its own")
        success, failure = _measured_weights(advantage, group_size)
    rate = solved / group_size
    masses = rate * success, (1 - rate) * failure
    mass = np.abs(masses[0]) + np.abs(masses[1])
    p = np.arange(SOLVE_RATES) / (SOLVE_RATES - 1)
    expected = np.abs(mass_success := _expected(masses[0], p)) + np.abs(mass_failure := _expected(masses[1], p))
    # Over p ~ U(0, 1), p given k solved of G is Beta(k + 1, G - k + 1).
    first = (solved + 1) / (group_size + 2)
    second = first * (solved + 2) / (group_size + 3)
    centre, spread = _centre_and_spread(mass, first, second)
    return Decomposition(
        name=name,
        parameters=given,
        group_size=group_size,
        weight_success=success,
        weight_failure=failure,
        group_mass_success=masses[0],
        group_mass_failure=masses[1],
        solve_rate=p,
        mass_success=mass_success,
        mass_failure=mass_failure,
        population_weight=_expected(success[1:] + failure[:-1], p),
        sign_ratio=_total_ratio(*masses),
        centre=centre,
        spread=spread,
        peak=float(p[np.argmax(expected)]) if np.ptp(expected) > 1e-9 * expected.max() else math.nan,
        scale=float(mass.sum() / (2 * rate * (1 - rate)).sum()),
    )


def decompose_rows(group: npt.ArrayLike, outcome: npt.ArrayLike, advantage: npt.ArrayLike) -> MeasuredDecomposition:
    """Measured advantages along the three axes; they may be of any kind.

    Args:
        group: (N,), any labels.
        outcome: (N,), 1 or true for a solved rollout, 0 or false for a failed one, NaN for one without a reward.
        advantage: (N,), finite where there is a reward.

    Raises:
        InvalidBatchError: Shapes differ, no row has a reward, or a value is wrong; names the column and the row.
    """
    labels, outcomes, values = np.asarray(group), np.asarray(outcome, np.float64), np.asarray(advantage, np.float64)
    if not (labels.shape == outcomes.shape == values.shape and labels.ndim == 1):
        problem = f"has shape {values.shape}, group {labels.shape} and outcome {outcomes.shape}; give columns of one length"
        raise InvalidBatchError("advantage", problem)
    scored = ~np.isnan(outcomes)
    other = scored & (outcomes != 0) & (outcomes != 1)
    if other.any():
        row = int(np.argmax(other))
        problem = f"is {outcomes[row]:g}, neither 0 nor 1; give whether each rollout was solved"
        raise InvalidBatchError("outcome", problem, row=row)
    infinite = scored & ~np.isfinite(values)
    if infinite.any():
        row = int(np.argmax(infinite))
        raise InvalidBatchError("advantage", f"is {values[row]}; give a finite number", row=row)
    if not scored.any():
        raise InvalidBatchError("outcome", "is missing in every row; there is nothing to decompose")
    won, values = outcomes[scored] == 1, values[scored]
    _, index = np.unique(labels[scored], return_inverse=True)
    sizes = np.bincount(index)
    counts = np.bincount(index[won], minlength=len(sizes))
    rate = counts / sizes
    success = np.bincount(index[won], values[won], len(sizes)) / sizes
    failure = np.bincount(index[~won], -values[~won], len(sizes)) / sizes
    mass = np.abs(success) + np.abs(failure)
    grpo_mass = (2 * rate * (1 - rate)).sum()
    bins = np.minimum(counts * BINS // sizes, BINS - 1)
    in_bin = np.bincount(bins, minlength=BINS)
    centre, spread = _centre_and_spread(mass, rate, rate**2)
    return MeasuredDecomposition(
        row_count=len(values),
        group_count=len(sizes),
        missing_count=len(scored) - len(values),
        bin_edges=np.arange(BINS + 1) / BINS,
        bin_groups=in_bin,
        mass_success=np.bincount(bins, success, BINS) / np.maximum(in_bin, 1),
        mass_failure=np.bincount(bins, failure, BINS) / np.maximum(in_bin, 1),
        sign_ratio=_total_ratio(success, failure),
        centre=centre,
        spread=spread,
        scale=float(mass.sum() / grpo_mass) if grpo_mass else math.nan,
        nearest=_nearest(values, won, index, counts, sizes),
    )


def _measured_weights(advantage: GroupAdvantage, group_size: int) -> Weights:
    """wS and wF of a callable, from one group of each k in two orders of its rows."""
    success, failure = np.zeros(group_size + 1), np.zeros(group_size + 1)
    for k in range(group_size + 1):
        first, last = np.repeat([1.0, 0.0], [k, group_size - k]), np.repeat([0.0, 1.0], [group_size - k, k])
        values = np.concatenate([_called(advantage, first, k), _called(advantage, last, k)])
        won = np.concatenate([first, last]) == 1
        for level, sign, weights in ((values[won], 1, success), (values[~won], -1, failure)):
            if len(level) == 0:
                continue
            if np.ptp(level) > _SAME * np.abs(values).max():
                problem = (
                    f"gives {'solved' if sign == 1 else 'failed'} rollouts of a group with {k} of {group_size} solved"
                    f" from {level.min():g} to {level.max():g}; one that sees only success or failure gives them one number"
                )
                raise InvalidBatchError("advantage", problem)
            weights[k] = sign * level.mean() + 0.0  # no -0
    return success, failure


def _called(advantage: GroupAdvantage, rewards: Floats, k: int) -> Floats:
    values = np.asarray(advantage(rewards.copy()), np.float64)
    group = f"a group with {k} of {len(rewards)} solved"
    if values.shape != rewards.shape:
        raise InvalidBatchError("advantage", f"gives shape {values.shape} for {group}; give one number per rollout")
    if not np.isfinite(values).all():
        problem = f"gives {values[~np.isfinite(values)][0]} for {group}; give 0 where it has no value"
        raise InvalidBatchError("advantage", problem)
    return values


def _expected(values: Floats, p: Floats) -> Floats:
    """E[values[K]] over K ~ Bin(len(values) - 1, p), at each p, by de Casteljau's algorithm: no powers, no cancellation."""
    rows = np.repeat(values[:, None], len(p), axis=1)
    while len(rows) > 1:
        rows = (1 - p) * rows[:-1] + p * rows[1:]
    expected: Floats = rows[0]
    return expected


def _centre_and_spread(mass: Floats, first: Floats, second: Floats) -> tuple[float, float]:
    """Mean and standard deviation of p under the mass, from the first two moments of p where each part of it sits."""
    total = mass.sum()
    if total == 0:
        return math.nan, math.nan
    centre = float((mass * first).sum() / total)
    return centre, math.sqrt(max(float((mass * second).sum() / total) - centre**2, 0.0))


def _total_ratio(success: Floats, failure: Floats) -> float:
    return float(_ratio(np.array([success.sum()]), np.array([failure.sum()]))[0])


def _ratio(numerator: Floats, denominator: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        quotient: Floats = numerator / denominator
    return quotient


def _nearest(
    values: Floats, won: npt.NDArray[np.bool_], index: npt.NDArray[np.intp], counts: Integers, sizes: Integers
) -> tuple[Likeness, ...]:
    found = []
    norm = float(np.linalg.norm(values))
    for name, advantage in two_level_advantages().items():
        try:
            success, failure = advantage.weights(counts, sizes, {})
        except InvalidBatchError:  # draws more rollouts than these groups have
            continue
        theirs = np.where(won, success[index], -failure[index])
        square = float(theirs @ theirs)
        scale = max(float(theirs @ values) / square, 0.0) if square else 0.0
        distance = float(np.linalg.norm(values - scale * theirs)) / norm if norm else math.nan
        found.append(Likeness(name=name, distance=distance, scale=scale))

    def order(item: Likeness) -> tuple[float, float, int]:
        unlike = abs(math.log(item.scale)) if item.scale else math.inf
        return round(item.distance, 9), round(unlike, 9), len(two_level_advantages()[item.name].parameters)

    return tuple(sorted(found, key=order))
