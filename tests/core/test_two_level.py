"""Every registered advantage against what it is defined to be, computed from the rewards of a group."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import (
    InvalidBatchError,
    RunConfig,
    advantage_names,
    fade_advantages,
    group_rows,
    named_advantages,
    two_level_advantages,
)

CONFIG = RunConfig()
SIZES = (4, 8, 16)
NAN = math.nan
Rewards = Any


def over(values: Rewards, scale: float) -> Rewards:
    """A quotient that is 0 where the scale is."""
    return values / scale if scale else np.zeros_like(values)


def subsets(r: Rewards, k: int) -> tuple[Rewards, Rewards, Rewards]:
    """Every choice of k rollouts: int (S, k), the best reward of each, and which rollouts are in it, bool (S, G)."""
    chosen = np.array(list(itertools.combinations(range(len(r)), k)))
    inside = np.zeros((len(chosen), len(r)), bool)
    np.put_along_axis(inside, chosen, True, axis=1)
    return chosen, r[chosen].max(axis=1), inside


def rloo(r: Rewards) -> Rewards:
    return np.array([r[i] - np.delete(r, i).mean() for i in range(len(r))])


def pass_at_k(r: Rewards, k: float) -> Rewards:
    """The slope of 1 - (1 - p)^k, by its expansion in powers of p, times r - rbar."""
    p = Fraction(int(r.sum()), len(r))
    slope = sum(-Fraction((-1) ** j * math.comb(int(k), j) * j) * p ** (j - 1) for j in range(1, int(k) + 1))
    return float(slope) * (r - r.mean())


def pkpo(r: Rewards, k: float) -> Rewards:
    """How much each rollout adds to the best of k, averaged over all choices of k; 0 for those that it is not in."""
    chosen, best, inside = subsets(r, int(k))
    gains = np.zeros(len(r))
    for i in range(len(r)):
        without = np.where(chosen == i, 0.0, r[chosen]).max(axis=1)
        gains[i] = ((best - without) * inside[:, i]).sum() / len(chosen)
    return gains


def pass_at_k_training(r: Rewards, k: float) -> Rewards:
    """Each choice of k is a sample with the best reward, standardised over all choices; a rollout has the mean of its own."""
    _, best, inside = subsets(r, int(k))
    standard = over(best - best.mean(), best.std())
    return np.array([standard[inside[:, i]].mean() for i in range(len(r))])


def leave_one_out(r: Rewards) -> Rewards:
    return np.array([r.max() - np.delete(r, i).max() for i in range(len(r))])


def log_mean_exp(r: Rewards, b: float) -> Rewards:
    return (np.exp(b * r) / np.exp(b * r).mean() - 1) / b


def quantile(r: Rewards, level: float) -> Rewards:
    """The baseline is the smallest reward that at least this share of the group does not exceed."""
    needed = max(math.ceil(Fraction(str(level)) * len(r)), 1)
    return over(r - np.sort(r)[needed - 1], r.std())


def ha_dw(r: Rewards, anchor: float, lam: float) -> Rewards:
    standard = over(r - r.mean(), r.std())
    return lam * np.exp(-np.sign(standard) * (r.mean() - anchor)) * standard


def fade(r: Rewards, alpha: float, delta: float) -> Rewards:
    if r.std() == 0:
        return np.zeros_like(r)
    factor = min((1 - r.mean()) ** (alpha - 1), 4.0)
    return factor * (r - r.mean()) / np.where(r < r.mean(), delta, 1.0)


def beta(r: Rewards, a: float, b: float) -> Rewards:
    p = r.mean()
    return np.zeros_like(r) if r.std() == 0 else (1 - p) ** a / p**b * (r - p)


DIRECT: dict[str, tuple[Callable[..., Rewards], list[dict[str, float]]]] = {
    "reinforce": (lambda r: r, [{}]),
    "reinforce_signed": (lambda r: 2 * r - 1, [{}]),
    "psr": (lambda r: np.maximum(2 * r - 1, 0), [{}]),
    "nsr": (lambda r: np.minimum(2 * r - 1, 0), [{}]),
    "w_reinforce": (lambda r, lam: np.where(r == 1, lam, -1), [{"lambda": 0.1}, {"lambda": 3.0}]),
    "grpo_mean": (lambda r: r - r.mean(), [{}]),
    "rloo": (rloo, [{}]),
    "grpo_std": (lambda r: over(r - r.mean(), r.std()), [{}]),
    "grpo_std_ddof1": (lambda r: over(r - r.mean(), r.std(ddof=1)), [{}]),
    "maxrl": (lambda r: over(r - r.mean(), r.mean()), [{}]),
    "pass_at_k": (pass_at_k, [{"k": 1.0}, {"k": 4.0}, {"k": 16.0}]),
    "pkpo": (pkpo, [{"k": 1.0}, {"k": 2.0}, {"k": 4.0}]),
    "pass_at_k_training": (pass_at_k_training, [{"k": 1.0}, {"k": 3.0}, {"k": 4.0}]),
    "leave_one_out_pass_at_g": (leave_one_out, [{}]),
    "log_mean_exp": (log_mean_exp, [{"b": 1.0}, {"b": 5.0}, {"b": 0.1}]),
    "quantile": (quantile, [{"level": 0.4}, {"level": 0.25}, {"level": 0.0}, {"level": 1.0}]),
    "f_grpo": (
        lambda r, gamma: (1 - r.mean()) ** gamma * over(r - r.mean(), r.std()),
        [{"gamma": 1.0}, {"gamma": 0.5}, {"gamma": 0.0}],
    ),
    "wapo": (lambda r: r * (1 - r.mean()), [{}]),
    "ha_dw": (ha_dw, [{"anchor": 0.5, "lambda": 1.3}, {"anchor": 0.1, "lambda": 1.0}]),
    "asym_grpo": (lambda r, delta: fade(r, 1.0, delta), [{"delta": 0.5}, {"delta": 2.0}]),
    "power": (lambda r, alpha: fade(r, alpha, 1.0), [{"alpha": 2.0}, {"alpha": 3.0}, {"alpha": 0.5}]),
    "fade": (fade, [{"alpha": 1.5, "delta": 0.3}, {"alpha": 0.5, "delta": 1.0}]),
    "beta": (beta, [{"a": 0.25, "b": 1.0}, {"a": -0.5, "b": 0.5}, {"a": 1.0, "b": 0.0}]),
}
CASES = [(name, parameters) for name, (_, settings) in DIRECT.items() for parameters in settings]


def rewards_of(solved: int, size: int) -> Rewards:
    """One group, the first ``solved`` right."""
    return np.repeat([1.0, 0.0], [solved, size - solved])


def one_group(batch: Any, solved: int, size: int) -> Any:
    """The same as rows."""
    return group_rows(CONFIG, batch(rewards_of(solved, size), [0] * size))


def test_every_registered_name_has_its_definition_here() -> None:
    assert sorted(DIRECT) == list(advantage_names()) == list(two_level_advantages())


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
def test_closed_forms_are_what_the_definitions_give(batch: Any, name: str, parameters: dict[str, float]) -> None:
    direct = DIRECT[name][0]
    for size in SIZES:
        for solved in range(size + 1):
            expected = direct(rewards_of(solved, size), *parameters.values())
            advantages = named_advantages(one_group(batch, solved, size), name, parameters)
            assert advantages == pytest.approx(expected, rel=1e-12, abs=1e-13), (size, solved)


@pytest.mark.parametrize(("name", "parameters"), CASES, ids=str)
def test_weights_are_those_of_the_rows(name: str, parameters: dict[str, float]) -> None:
    for size in SIZES:
        solved = np.arange(size + 1)
        success, failure = two_level_advantages()[name].weights(solved, np.full_like(solved, size), parameters)
        rows = [DIRECT[name][0](rewards_of(k, size), *parameters.values()) for k in solved]
        assert success[1:] == pytest.approx([row[0] for row in rows[1:]], rel=1e-12, abs=1e-13)
        assert failure[:-1] == pytest.approx([-row[-1] for row in rows[:-1]], rel=1e-12, abs=1e-13)
        assert success[0] == failure[-1] == 0.0


@pytest.mark.parametrize(("size", "level"), [(5, 0.4), (10, 0.4), (10, 0.9), (10, 0.7), (20, 0.85), (3, 0.5)])
def test_the_quantile_at_the_very_share_of_failures_is_a_failure(batch: Any, size: int, level: float) -> None:
    for solved in range(size + 1):
        expected = quantile(rewards_of(solved, size), level)
        assert named_advantages(one_group(batch, solved, size), "quantile", {"level": level}) == pytest.approx(expected)


@pytest.mark.parametrize("b", [0.5, 2.0])
def test_log_mean_exp_weighs_prompts_by_the_slope_of_its_objective(b: float) -> None:
    solved, size, step = np.arange(1, 8), 8, 1e-5

    def objective(p: Rewards) -> Rewards:
        return np.log(1 - p + p * math.exp(b)) / b

    success, failure = two_level_advantages()["log_mean_exp"].weights(solved, np.full_like(solved, size), {"b": b})
    slope = (objective(solved / size + step) - objective(solved / size - step)) / (2 * step)
    assert success + failure == pytest.approx(slope, rel=1e-8)


def test_large_draws_from_large_groups_are_exact_binomials() -> None:
    size, draws = 1000, 400
    solved = np.array([1, 2, 5, 100])
    success, _ = two_level_advantages()["pkpo"].weights(solved, np.full_like(solved, size), {"k": draws})
    chances = [Fraction(math.comb(size - k, draws - 1), math.comb(size - 1, draws - 1)) for k in solved.tolist()]
    assert success == pytest.approx([float(Fraction(draws, size) * chance) for chance in chances], rel=1e-11)


@pytest.mark.parametrize("name", advantage_names())
def test_groups_of_different_sizes_and_rows_without_a_reward_are_weighed_at_once(batch: Any, name: str) -> None:
    groups = {0: (3, 8, 1), 1: (0, 5, 0), 2: (4, 4, 2), 3: (1, 6, 0), 4: (0, 0, 2), 5: (2, 16, 0)}
    rows = [
        (reward, group)
        for group, (solved, size, missing) in groups.items()
        for reward in [1.0] * solved + [0.0] * (size - solved) + [NAN] * missing
    ]
    np.random.default_rng(0).shuffle(rows)
    rewards, index = np.array([row[0] for row in rows]), np.array([int(row[1]) for row in rows])
    parameters = dict(DIRECT[name][1][0])
    advantages = named_advantages(group_rows(CONFIG, batch(rewards, index.tolist())), name, parameters)
    assert np.isfinite(advantages).all() and advantages[np.isnan(rewards)].tolist() == [0.0] * 5
    for group, (_, size, _) in groups.items():
        if size:
            own = (index == group) & ~np.isnan(rewards)
            assert advantages[own] == pytest.approx(DIRECT[name][0](rewards[own], *parameters.values()), rel=1e-12, abs=1e-13)


@pytest.mark.parametrize("name", advantage_names())
def test_a_group_of_one_has_finite_weights(batch: Any, name: str) -> None:
    parameters = {"k": 1.0} if "k" in two_level_advantages()[name].parameters else {}
    for solved in (0, 1):
        (advantage,) = named_advantages(one_group(batch, solved, 1), name, parameters)
        assert math.isfinite(advantage) and abs(advantage) <= 1


def test_rows_of_one_rollout_count_once(batch: Any) -> None:
    fanned = batch([1, 1, 1, 0, 0], [0] * 5, rollout_index=[7, 7, 7, 8, 9])
    assert named_advantages(group_rows(CONFIG, fanned), "maxrl", {}) == pytest.approx([2, 2, 2, -1, -1], rel=1e-14)


BINARY_ONLY = sorted(set(advantage_names()) - {"fade", "grpo_mean", "asym_grpo", "power"})


@pytest.mark.parametrize("name", BINARY_ONLY)
def test_shaped_rewards_are_refused_without_flags_and_weighed_by_them_with(batch: Any, name: str) -> None:
    with pytest.raises(InvalidBatchError, match=name) as caught:
        named_advantages(group_rows(CONFIG, batch([1.0, 0.0, 0.5, 0.0], [0] * 4)), name, {})
    assert (caught.value.field, caught.value.row) == ("rewards", 2)
    flagged = group_rows(CONFIG, batch([1.0, 0.0, 0.5, 0.0], [0] * 4, solved=[True, False, True, False]))
    plain = group_rows(CONFIG, batch([1.0, 0.0, 1.0, 0.0], [0] * 4))
    assert named_advantages(flagged, name, {}).tolist() == named_advantages(plain, name, {}).tolist()


@given(
    rewards=st.lists(st.sampled_from([0.0, 0.25, 0.37, 1.0]), min_size=1, max_size=20),
    alpha=st.floats(0.5, 4.0),
    delta=st.floats(0.01, 3.0),
)
def test_fade_and_its_special_cases_take_shaped_rewards_bit_for_bit(
    batch: Any, rewards: list[float], alpha: float, delta: float
) -> None:
    rows = group_rows(CONFIG, batch(rewards, [row % 3 for row in range(len(rewards))], environments=("default",) * 3))
    for name, parameters, expected in (
        ("fade", {"alpha": alpha, "delta": delta}, (alpha, delta)),
        ("fade", {}, (1.0, 1.0)),
        ("grpo_mean", {}, (1.0, 1.0)),
        ("asym_grpo", {"delta": delta}, (1.0, delta)),
        ("asym_grpo", {}, (1.0, 0.5)),
        ("power", {"alpha": alpha}, (alpha, 1.0)),
        ("power", {}, (2.0, 1.0)),
    ):
        assert named_advantages(rows, name, parameters).tobytes() == fade_advantages(rows, *expected).tobytes()


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("pkpo", {"k": 5.0}, "'k' is 5, but a group has 4 scored rollouts"),
        ("pass_at_k_training", {"k": 2.5}, "'k' is 2.5; give a whole number"),
        ("pass_at_k_training", {"k": 0.0}, "'k' is 0.0; give a number from 1 to"),
        ("pass_at_k", {"k": 0.5}, "'k' is 0.5"),
        ("log_mean_exp", {"b": 0.0}, "from 1e-06 to 100"),
        ("quantile", {"level": 1.1}, "from 0 to 1"),
        ("quantile", {"level": NAN}, "'level' is nan"),
        ("w_reinforce", {"lambda": -0.1}, "'lambda' is -0.1"),
        ("f_grpo", {"gamma": math.inf}, "'gamma' is inf"),
        ("ha_dw", {"anchor": 2.0}, "'anchor' is 2.0"),
        ("beta", {"b": 1.5}, "from -1 to 1"),
        ("fade", {"alpha": 0.4}, "a finite number of 0.5 or more"),
        ("fade", {"delta": math.inf}, "a finite number of 0.001 or more"),
        ("rloo", {"k": 1.0}, "takes: none"),
        ("ha_dw", {"delta": 1.0}, "takes: anchor, lambda"),
    ],
)
def test_parameters_out_of_bounds_are_refused_by_name(batch: Any, name: str, parameters: dict[str, float], words: str) -> None:
    with pytest.raises(InvalidBatchError) as caught:
        named_advantages(one_group(batch, 1, 4), name, parameters)
    assert caught.value.field == "advantage.parameters" and words in caught.value.problem


@pytest.mark.parametrize("name", advantage_names())
def test_no_weight_is_negative_or_infinite_at_the_bounds_of_the_parameters(name: str) -> None:
    known = two_level_advantages()[name]
    size = 16
    solved = np.arange(size + 1)
    ends = [(item.smallest, float(size) if item.draws else min(item.largest, 1e300)) for item in known.parameters.values()]
    for values in itertools.product(*ends):
        with np.errstate(under="ignore"):
            weights = known.weights(solved, np.full_like(solved, size), dict(zip(known.parameters, values, strict=True)))
        assert all(np.isfinite(weight).all() and (weight >= 0).all() for weight in weights)


@pytest.mark.parametrize("name", ["fade", "power"])
def test_the_factor_of_an_alpha_below_one_is_capped_at_four(name: str) -> None:
    (success,), (failure,) = two_level_advantages()[name].weights(np.array([399]), np.array([400]), {"alpha": 0.5})
    assert (success, failure) == (pytest.approx(4 / 400, rel=1e-12), pytest.approx(4 * 399 / 400, rel=1e-12))  # not 20
