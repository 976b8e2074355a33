"""Advantages of grouped rows: FADE's own, and every registered one by name.

FADE's is A = factor(group) * (r - rbar), failures divided by delta, and exactly 0 for groups without signal (FADE.md,
section 2). The others are weights on success and failure, of :mod:`fade_core.two_level`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from fade_core.config import Estimator
from fade_core.errors import InvalidBatchError
from fade_core.rewards import Floats, Groups
from fade_core.two_level import FACTOR_CAP, registered, two_level_advantages

_SPECIAL_CASES_OF_FADE = ("fade", "grpo_mean", "asym_grpo", "power")
"""They are defined for graded rewards too; the other registered advantages see only success or failure."""

PerGroup = float | npt.NDArray[np.float64]


def fade_advantages(
    groups: Groups, alpha: PerGroup, delta: PerGroup, estimator: Estimator = "plug_in", likelihood: PerGroup = 0.0
) -> Floats:
    """FADE's advantage: (1 - rbar)^(alpha - 1) * (r - rbar), divided by delta below the baseline (FADE.md, section 2).

    With a likelihood exponent b the factor is (1 - rbar)^(alpha - 1) rbar^-b: the family beta(alpha - 1, b).

    Args:
        groups: N rows in M groups.
        alpha: Difficulty exponent, a number or (M,).
        delta: Failure divisor, a number or (M,).
        estimator: ``plug_in`` (the paper), or ``subset`` (FADE.md, section 5.4), which takes the plug-in factor for groups
            with no more than alpha scored rollouts.
        likelihood: Exponent of 1 / rbar under ``plug_in``, a number or (M,).

    Returns:
        float64 (N,), on the mapped reward scale; 0 for rows without a reward.

    Raises:
        InvalidBatchError: ``subset`` on rewards other than 0 and 1 without solved flags; names the row.
    """
    row_group = groups.row_group
    counted = groups.has_signal[row_group] & groups.scored
    centred = np.where(counted, groups.rewards - groups.mean[row_group], 0.0)
    advantages = _plug_in_factor(groups.difficulty, alpha, likelihood)[row_group] * centred
    if estimator == "subset":
        _check_binary(groups, "estimator = subset")
        success, failure, covered = _subset_weights(groups, alpha)
        weights = np.where(groups.solved, success[row_group], -failure[row_group])
        advantages = np.where(covered[row_group] & groups.scored, weights, advantages)
    if isinstance(delta, np.ndarray):
        return np.where(advantages < 0, advantages / delta[row_group], advantages)
    return advantages if delta == 1 else np.where(advantages < 0, advantages / delta, advantages)


def group_masses(groups: Groups, alpha: float, estimator: Estimator, likelihood: float) -> Floats:
    """Sum of the positive advantages of each group's rollouts; the negative ones sum to 1 / delta times as much.

    Every group is balanced but for delta: rewards above their mean and below it have one spread, and k A_S = (G - k) |A_F| delta.

    Args:
        groups: M groups.
        alpha: Difficulty exponent.
        estimator, likelihood: As in :func:`fade_advantages`.

    Returns:
        float64 (M,); 0 for groups without signal.

    Raises:
        InvalidBatchError: As :func:`fade_advantages`.
    """
    masses: Floats = _plug_in_factor(groups.difficulty, alpha, likelihood) * groups.spread
    if estimator == "subset":
        _check_binary(groups, "estimator = subset")
        success, _, covered = _subset_weights(groups, alpha)
        masses = np.where(covered, groups.solved_count * success, masses)
    return masses * groups.has_signal


def subset_covers(groups: Groups, alpha: PerGroup) -> npt.NDArray[np.bool_]:
    """bool (M,): the groups with more scored rollouts than alpha, which the subset estimator can weigh."""
    return groups.scored_count > alpha


def _plug_in_factor(difficulty: Floats, alpha: PerGroup, likelihood: PerGroup) -> Floats:
    """(1 - rbar)^(alpha - 1), capped where alpha < 1, times rbar^-likelihood; groups at 0 and 1 have no signal, so their 0 bases
    are replaced.
    """
    base = np.where(difficulty < 1, 1 - difficulty, 1.0)
    factor: Floats = np.minimum(base ** (alpha - 1), FACTOR_CAP)
    if isinstance(likelihood, float) and likelihood == 0:
        return factor
    return factor * np.where(difficulty > 0, difficulty, 1.0) ** -likelihood


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


def _check_binary(groups: Groups, what: str) -> None:
    if groups.flagged:
        return
    shaped = groups.scored & (groups.rewards != 0) & (groups.rewards != 1)
    if shaped.any():
        problem = f"is neither reward_min nor reward_max; {what} needs solved/failed rewards or the solved column"
        raise InvalidBatchError("rewards", problem, row=int(np.argmax(shaped)))


def advantage_names() -> tuple[str, ...]:
    """The registered names, sorted."""
    return tuple(two_level_advantages())


def named_advantages(groups: Groups, name: str, parameters: Mapping[str, float]) -> Floats:
    """A registered advantage applied to rows.

    Args:
        groups: N rows in M groups.
        name: One of :func:`advantage_names`.
        parameters: By name; the others take their defaults.

    Returns:
        float64 (N,), on the mapped reward scale; 0 for rows without a reward.

    Raises:
        InvalidBatchError: The name or a parameter is unknown, or a parameter is out of bounds or draws more rollouts than a
            group has; or rewards are other than 0 and 1 without solved flags, for all but ``fade`` and what it has as
            special cases. Names the field, and the row.
    """
    advantage = registered(name)
    if name in _SPECIAL_CASES_OF_FADE:
        given = advantage.given(parameters)
        return fade_advantages(groups, given.get("alpha", 1.0), given.get("delta", 1.0))
    _check_binary(groups, f"the advantage {name}")
    sizes = groups.scored_count
    some = sizes > 0
    success, failure = np.zeros(len(sizes)), np.zeros(len(sizes))
    success[some], failure[some] = advantage.weights(groups.solved_count[some], sizes[some], parameters)
    weights = np.where(groups.solved, success[groups.row_group], 0.0 - failure[groups.row_group])  # no -0
    return np.where(groups.scored, weights, 0.0)
