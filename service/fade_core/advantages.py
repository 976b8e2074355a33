"""Advantages of grouped rows, and the registry that knows them by name.

Every advantage here is A = factor(group) * (r - rbar), failures divided by delta, and exactly 0 for groups without signal
(FADE.md, section 2).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from fade_core.config import SMALLEST_ALPHA, SMALLEST_DELTA, Estimator
from fade_core.errors import InvalidBatchError
from fade_core.rewards import Floats, Groups

FACTOR_CAP = 4.0
"""Largest difficulty factor of a static alpha below 1 (FADE.md, section 2)."""

PerGroup = float | npt.NDArray[np.float64]


def fade_advantages(groups: Groups, alpha: PerGroup, delta: PerGroup, estimator: Estimator = "plug_in") -> Floats:
    """FADE's advantage: (1 - rbar)^(alpha - 1) * (r - rbar), divided by delta below the baseline (FADE.md, section 2).

    Args:
        groups: N rows in M groups.
        alpha: Difficulty exponent, a number or (M,).
        delta: Failure divisor, a number or (M,).
        estimator: ``plug_in`` (the paper), or ``subset`` (FADE.md, section 5.4), which takes the plug-in factor for groups
            with no more than alpha scored rollouts.

    Returns:
        float64 (N,), on the mapped reward scale; 0 for rows without a reward.

    Raises:
        InvalidBatchError: ``subset`` on rewards other than 0 and 1 without solved flags; names the row.
    """
    row_group = groups.row_group
    counted = groups.has_signal[row_group] & groups.scored
    centred = np.where(counted, groups.rewards - groups.mean[row_group], 0.0)
    advantages = _plug_in_factor(groups.difficulty, alpha)[row_group] * centred
    if estimator == "subset":
        _check_binary(groups)
        success, failure, covered = _subset_weights(groups, alpha)
        weights = np.where(groups.solved, success[row_group], -failure[row_group])
        advantages = np.where(covered[row_group] & groups.scored, weights, advantages)
    if isinstance(delta, np.ndarray):
        return np.where(advantages < 0, advantages / delta[row_group], advantages)
    return advantages if delta == 1 else np.where(advantages < 0, advantages / delta, advantages)


def group_masses(groups: Groups, alpha: float, estimator: Estimator) -> Floats:
    """Sum of the positive advantages of each group's rollouts; the negative ones sum to 1 / delta times as much.

    Every group is balanced but for delta: rewards above their mean and below it have one spread, and k A_S = (G - k) |A_F| delta.

    Args:
        groups: M groups.
        alpha: Difficulty exponent.
        estimator: As in :func:`fade_advantages`.

    Returns:
        float64 (M,); 0 for groups without signal.

    Raises:
        InvalidBatchError: As :func:`fade_advantages`.
    """
    masses: Floats = _plug_in_factor(groups.difficulty, alpha) * groups.spread
    if estimator == "subset":
        _check_binary(groups)
        success, _, covered = _subset_weights(groups, alpha)
        masses = np.where(covered, groups.solved_count * success, masses)
    return masses * groups.has_signal


def subset_covers(groups: Groups, alpha: PerGroup) -> npt.NDArray[np.bool_]:
    """bool (M,): the groups with more scored rollouts than alpha, which the subset estimator can weigh."""
    return groups.scored_count > alpha


def _plug_in_factor(difficulty: Floats, alpha: PerGroup) -> Floats:
    """(1 - rbar)^(alpha - 1), capped where alpha < 1; a group at difficulty 1 has no signal, so its 0 base is replaced."""
    base = np.where(difficulty < 1, 1 - difficulty, 1.0)
    factor: Floats = base ** (alpha - 1)
    return np.minimum(factor, FACTOR_CAP)


def _subset_weights(groups: Groups, alpha: PerGroup) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """A_S and |A_F| * delta per group, and which groups they cover (FADE.md, section 5.4).

    C(n - 1, a) / C(n, a) = (n - a) / n, and 0 from n <= a on, so that C(G - k, a) / C(G, a) is a quotient of two running
    products. A group is balanced, k A_S = (G - k) |A_F| delta, which gives |A_F| without cancellation.
    """
    sizes, solved = groups.scored_count, groups.solved_count
    covered = groups.has_signal & subset_covers(groups, alpha)
    success = np.zeros(len(sizes))
    alphas = np.broadcast_to(np.asarray(alpha, np.float64), sizes.shape)
    for a in np.unique(alphas[covered]):
        own = covered & (alphas == a)
        g, k = sizes[own], solved[own]
        n = np.arange(g.max(), 0, -1)
        binomials = np.concatenate([[1.0], np.cumprod(np.maximum(n - a, 0.0) / n)])[::-1]  # C(n, a) / C(max G, a) at n
        success[own] = g / (g - a) * binomials[g - k] / binomials[g]
    failed = np.maximum(sizes - solved, 1)
    return success, success * solved / failed, covered


def _check_binary(groups: Groups) -> None:
    if groups.flagged:
        return
    shaped = groups.scored & (groups.rewards != 0) & (groups.rewards != 1)
    if shaped.any():
        problem = "is neither reward_min nor reward_max; estimator = subset needs solved/failed rewards or the solved column"
        raise InvalidBatchError("rewards", problem, row=int(np.argmax(shaped)))


Advantage = Callable[[Groups, Mapping[str, float]], Floats]

_REGISTRY: dict[str, tuple[Advantage, dict[str, float]]] = {}


def _register(name: str, **defaults: float) -> Callable[[Advantage], Advantage]:
    def add(function: Advantage) -> Advantage:
        _REGISTRY[name] = (function, defaults)
        return function

    return add


@_register("fade", alpha=1.0, delta=1.0)
def _fade(groups: Groups, parameters: Mapping[str, float]) -> Floats:
    return fade_advantages(groups, parameters["alpha"], parameters["delta"])


@_register("grpo_mean")
def _grpo_mean(groups: Groups, parameters: Mapping[str, float]) -> Floats:
    return fade_advantages(groups, 1.0, 1.0)


@_register("asym_grpo", delta=0.5)
def _asym_grpo(groups: Groups, parameters: Mapping[str, float]) -> Floats:
    return fade_advantages(groups, 1.0, parameters["delta"])


@_register("power", alpha=2.0)
def _power(groups: Groups, parameters: Mapping[str, float]) -> Floats:
    return fade_advantages(groups, parameters["alpha"], 1.0)


def advantage_names() -> tuple[str, ...]:
    """The registered names, sorted."""
    return tuple(sorted(_REGISTRY))


def named_advantages(groups: Groups, name: str, parameters: Mapping[str, float]) -> Floats:
    """A registered advantage applied to rows.

    Args:
        groups: N rows in M groups.
        name: One of :func:`advantage_names`.
        parameters: By name; the others take their defaults.

    Returns:
        float64 (N,), on the mapped reward scale.

    Raises:
        InvalidBatchError: The name or a parameter is unknown, or a parameter is out of bounds.
    """
    if name not in _REGISTRY:
        raise InvalidBatchError("advantage.name", f"is {name!r}; choose one of {', '.join(advantage_names())}")
    function, defaults = _REGISTRY[name]
    for key, value in parameters.items():
        if key not in defaults:
            known = ", ".join(defaults) or "none"
            raise InvalidBatchError("advantage.parameters", f"{key!r} is no parameter of {name!r}, which takes: {known}")
        smallest = SMALLEST_ALPHA if key == "alpha" else SMALLEST_DELTA
        if not (smallest <= value < np.inf):
            raise InvalidBatchError("advantage.parameters", f"{key!r} is {value}; give a finite number of {smallest} or more")
    return function(groups, {**defaults, **parameters})
