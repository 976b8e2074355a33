"""FADE's advantage and the subset estimator against independent computations (arXiv 2607.01490; fractions, gamma functions)."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import (
    EMPTY_STATE,
    InvalidBatchError,
    RunConfig,
    advantage_names,
    fade_advantages,
    group_rows,
    named_advantages,
    observe,
)

CONFIG = RunConfig()
ALPHAS = [0.5, 0.75, 1.0, 1.5, 2.0, 2.25, 3.0]


def paper(rewards: list[Fraction], alpha: float, delta: float) -> list[float]:
    """The formula, row by row, for one group with signal."""
    mean = sum(rewards) / len(rewards)
    factor = min(float(1 - mean) ** (alpha - 1), 4.0)
    return [factor * float(r - mean) / (1.0 if r >= mean else delta) for r in rewards]


def group(batch: Any, solved: int, size: int) -> Any:
    """One group of ``size`` rollouts, the first ``solved`` of them right."""
    return group_rows(CONFIG, batch([1.0] * solved + [0.0] * (size - solved), [0] * size))


@pytest.mark.parametrize("alpha", ALPHAS)
@pytest.mark.parametrize("delta", [0.3, 0.5, 1.0, 2.0])
def test_binary_groups_have_the_papers_advantages(batch: Any, alpha: float, delta: float) -> None:
    for size, solved in ((g, k) for g in (2, 3, 8, 16) for k in range(1, g)):
        expected = paper([Fraction(1)] * solved + [Fraction(0)] * (size - solved), alpha, delta)
        assert fade_advantages(group(batch, solved, size), alpha, delta) == pytest.approx(expected, rel=1e-14)


@given(
    parts=st.lists(st.integers(0, 64), min_size=2, max_size=20),
    alpha=st.sampled_from(ALPHAS),
    delta=st.sampled_from([0.3, 1.0, 2.0]),
)
def test_shaped_groups_have_the_papers_advantages(batch: Any, parts: list[int], alpha: float, delta: float) -> None:
    rewards = [Fraction(part, 64) for part in parts]
    groups = group_rows(CONFIG, batch([float(r) for r in rewards], [0] * len(rewards)))
    expected = [0.0] * len(rewards) if len(set(rewards)) == 1 else paper(rewards, alpha, delta)
    assert list(fade_advantages(groups, alpha, delta)) == pytest.approx(expected, rel=1e-12, abs=1e-15)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 3.0])
def test_masses_are_those_of_the_paper_and_peak_where_it_says(batch: Any, alpha: float) -> None:
    size, delta = 400, 0.5
    masses = []
    for solved in range(1, size):
        advantages = fade_advantages(group(batch, solved, size), alpha, delta)
        p, q = solved / size, 1 - solved / size
        success, failure = advantages[advantages > 0].sum() / size, -advantages[advantages < 0].sum() / size
        assert success == pytest.approx(p * q**alpha, rel=1e-12)
        assert failure == pytest.approx(p * q**alpha / delta, rel=1e-12)
        masses.append(success + failure)
    assert (int(np.argmax(masses)) + 1) / size == pytest.approx(1 / (1 + alpha), abs=1 / size)


@given(
    shape=st.lists(st.tuples(st.sampled_from([0.0, 1.0, 0.37]), st.integers(1, 6)), min_size=1, max_size=8),
    alpha=st.floats(0.5, 3.0),
    delta=st.floats(0.3, 2.0),
    estimator=st.sampled_from(["plug_in", "subset"]),
)
def test_equal_groups_and_singletons_get_exact_zeros(
    batch: Any, shape: list[tuple[float, int]], alpha: float, delta: float, estimator: Any
) -> None:
    rewards = [reward if estimator == "plug_in" else round(reward) * 1.0 for reward, size in shape for _ in range(size)]
    index = [place for place, (_, size) in enumerate(shape) for _ in range(size)]
    advantages = fade_advantages(group_rows(CONFIG, batch(rewards, index)), alpha, delta, estimator)
    assert advantages.tolist() == [0.0] * len(rewards)


@given(
    rewards=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, math.nan]), min_size=1, max_size=40),
    groups=st.integers(1, 5),
    alpha=st.floats(0.5, 3.0),
    delta=st.floats(0.01, 5.0),
)
def test_no_advantage_is_ever_nan_or_infinite(batch: Any, rewards: list[float], groups: int, alpha: float, delta: float) -> None:
    index = [row % groups for row in range(len(rewards))]
    rows = group_rows(CONFIG, batch(rewards, index, environments=("default",) * groups))
    assert np.isfinite(fade_advantages(rows, alpha, delta)).all()


def generalised(n: float, a: float) -> float:
    """C(n, a) by gamma functions; 0 where n <= a - 1."""
    return 0.0 if n <= a - 1 else math.gamma(n + 1) / (math.gamma(a + 1) * math.gamma(n - a + 1))


@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0, 2.25, 3.0])
@pytest.mark.parametrize("delta", [0.5, 1.0])
def test_the_subset_estimator_is_the_generalised_binomials(batch: Any, alpha: float, delta: float) -> None:
    for size, solved in ((g, k) for g in (4, 8, 13, 16) for k in range(1, g)):
        leave = generalised(size - solved, alpha) / generalised(size, alpha)
        success = size / (size - alpha) * leave
        fewer = generalised(size - solved - 1, alpha - 1) / generalised(size - 1, alpha - 1)
        failure = -size / (size - alpha) * (fewer - leave) / delta
        advantages = fade_advantages(group(batch, solved, size), alpha, delta, "subset")
        assert advantages[0] == pytest.approx(success, rel=1e-10, abs=1e-15)
        assert advantages[-1] == pytest.approx(failure, rel=1e-9, abs=1e-12)
        assert solved * advantages[0] == pytest.approx((size - solved) * -advantages[-1] * delta, rel=1e-12, abs=1e-15)
        assert advantages[0] >= 0 >= advantages[-1]


def population_weight(batch: Any, alpha: float, p: float, size: int, estimator: Any) -> float:
    """w_G(p): the expected wS(K + 1) + wF(K) over K of the other G - 1 rollouts solved."""
    total = 0.0
    for others in range(size):
        chance = math.comb(size - 1, others) * p**others * (1 - p) ** (size - 1 - others)
        success = fade_advantages(group(batch, others + 1, size), alpha, 1.0, estimator)[0] if others + 1 < size else 0.0
        failure = -fade_advantages(group(batch, others, size), alpha, 1.0, estimator)[-1] if others > 0 else 0.0
        total += chance * (success + failure)
    return total


@pytest.mark.parametrize(("alpha", "size"), list(itertools.product([1.0, 2.0, 3.0], [8, 16])))
def test_the_subset_estimator_is_unbiased_for_whole_alpha(batch: Any, alpha: float, size: int) -> None:
    for p in (0.02, 0.3, 0.5, 0.9):
        weight = population_weight(batch, alpha, p, size, "subset")
        assert weight == pytest.approx((1 - p) ** (alpha - 1), rel=1e-10)


@pytest.mark.parametrize(
    ("alpha", "p", "estimator", "expected"),
    [
        (1.5, 0.3, "subset", 0.8367),
        (1.5, 0.9, "subset", 0.3505),
        (1.5, 0.3, "plug_in", 0.7009),
        (1.5, 0.9, "plug_in", 0.3820),
        (3.0, 0.02, "plug_in", 0.649),
        (3.0, 0.9, "plug_in", 0.042),
    ],
)
def test_population_weights_at_eight_rollouts_are_the_known_numbers(
    batch: Any, alpha: float, p: float, estimator: Any, expected: float
) -> None:
    assert population_weight(batch, alpha, p, 8, estimator) == pytest.approx(expected, abs=6e-4)


def test_subset_at_alpha_one_is_leave_one_out(batch: Any) -> None:
    advantages = fade_advantages(group(batch, 3, 8), 1.0, 1.0, "subset")
    assert advantages == pytest.approx([5 / 7] * 3 + [-3 / 7] * 5, rel=1e-14)


def test_the_factor_of_an_alpha_below_one_is_capped_at_four(batch: Any) -> None:
    size, solved = 400, 399  # (1 / 400)^(-1/2) = 20
    advantages = fade_advantages(group(batch, solved, size), 0.5, 1.0)
    assert (advantages[0], advantages[-1]) == (pytest.approx(4 / 400, rel=1e-12), pytest.approx(-4 * 399 / 400, rel=1e-12))


@pytest.mark.parametrize("alpha", [2.0, 3.0])
def test_a_group_of_alpha_rollouts_takes_the_plug_in_and_one_more_the_subset_estimator(batch: Any, alpha: float) -> None:
    size = int(alpha)
    small = fade_advantages(group(batch, 1, size), alpha, 1.0, "subset")
    assert list(small) == pytest.approx(paper([Fraction(1)] + [Fraction(0)] * (size - 1), alpha, 1.0), rel=1e-14)
    more = fade_advantages(group(batch, 1, size + 1), alpha, 1.0, "subset")
    assert more[0] == pytest.approx((size + 1) * generalised(size, alpha) / generalised(size + 1, alpha), rel=1e-12)


def test_rows_without_a_reward_get_zero_from_either_estimator(batch: Any) -> None:
    rows = group_rows(CONFIG, batch([1, 0, math.nan, 0, 0], [0] * 5))
    for estimator in ("plug_in", "subset"):
        advantages = fade_advantages(rows, 2.0, 1.0, estimator)
        assert advantages[2] == 0.0 and advantages[0] > 0 > advantages[1]
    of_four = fade_advantages(group(batch, 1, 4), 2.0, 1.0, "subset")
    assert fade_advantages(rows, 2.0, 1.0, "subset")[[0, 1, 3, 4]].tolist() == of_four.tolist()


def test_groups_too_small_for_the_subset_estimator_take_the_plug_in(batch: Any) -> None:
    rows = group_rows(CONFIG, batch([1, 0, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1, 1]))
    small = fade_advantages(rows, 3.0, 1.0, "subset")[:2]
    assert list(small) == pytest.approx(paper([Fraction(1), Fraction(0)], 3.0, 1.0), rel=1e-15)


def test_groups_that_are_too_small_or_have_too_few_failures_for_the_subset_estimator_are_counted(batch: Any) -> None:
    config = RunConfig(alpha_rule="fixed", alpha=3.0, estimator="subset")
    sizes = {"of two": [1, 0], "of two, all solved": [1, 1], "two failed": [1] * 6 + [0] * 2, "three failed": [1] * 5 + [0] * 3}
    rewards = [reward for rewards in sizes.values() for reward in rewards]
    index = [place for place, rewards in enumerate(sizes.values()) for _ in rewards]
    _, answer = observe(config, EMPTY_STATE, batch(rewards, index))
    seen, advantages = answer.environments["default"].diagnostics, answer.advantages()
    assert seen.plug_in_group_count == 1 and [item.reason for item in answer.warnings] == ["PLUG_IN_GROUPS"]
    assert [bool(np.any(advantages[np.array(index) == place])) for place in range(4)] == [True, False, False, True]
    assert (seen.mixed_group_count, seen.effective_group_count) == (3, 2)


def test_whole_numbers_are_taken_for_alpha_and_delta(batch: Any) -> None:
    rows = group(batch, 1, 4)
    assert fade_advantages(rows, 2, 2).tolist() == fade_advantages(rows, 2.0, 2.0).tolist()


def test_the_subset_estimator_refuses_shaped_rewards_without_flags(batch: Any) -> None:
    with pytest.raises(InvalidBatchError) as caught:
        fade_advantages(group_rows(CONFIG, batch([1.0, 0.5, 0.0], [0, 0, 0])), 2.0, 1.0, "subset")
    assert (caught.value.field, caught.value.row) == ("rewards", 1)
    flagged = group_rows(CONFIG, batch([1.0, 0.5, 0.0], [0, 0, 0], solved=[True, False, False]))
    assert np.isfinite(fade_advantages(flagged, 2.0, 1.0, "subset")).all()


def test_static_methods_are_settings_of_the_one_formula(batch: Any) -> None:
    rows = group(batch, 2, 8)
    q, p = 0.75, 0.25
    expected = {
        ("grpo_mean", ()): (q, p),
        ("asym_grpo", (("delta", 2.0),)): (q, p / 2),
        ("power", (("alpha", 3.0),)): (q**3, p * q**2),
        ("fade", (("alpha", 1.5), ("delta", 0.3))): (q**1.5, p * q**0.5 / 0.3),
    }
    assert {name for name, _ in expected} <= set(advantage_names())
    for (name, parameters), (success, failure) in expected.items():
        advantages = named_advantages(rows, name, dict(parameters))
        assert (advantages[0], -advantages[-1]) == (pytest.approx(success, rel=1e-14), pytest.approx(failure, rel=1e-14))


@pytest.mark.parametrize(
    ("name", "parameters", "field"),
    [
        ("nothing", {}, "advantage.name"),
        ("power", {"gamma": 1.0}, "advantage.parameters"),
        ("power", {"alpha": 0.4}, "advantage.parameters"),
        ("asym_grpo", {"delta": 0.0}, "advantage.parameters"),
        ("asym_grpo", {"delta": 1e-320}, "advantage.parameters"),
        ("asym_grpo", {"delta": math.inf}, "advantage.parameters"),
        ("power", {"alpha": math.nan}, "advantage.parameters"),
    ],
)
def test_unknown_names_and_parameters_are_refused(batch: Any, name: str, parameters: Any, field: str) -> None:
    with pytest.raises(InvalidBatchError) as caught:
        named_advantages(group(batch, 1, 4), name, parameters)
    assert caught.value.field == field


def test_with_alpha_and_delta_one_a_power_of_two_gives_exactly_reward_minus_mean(batch: Any) -> None:
    for size in (2, 4, 16, 64):
        for solved in range(1, size):
            advantages = fade_advantages(group(batch, solved, size), 1.0, 1.0)
            assert advantages.tolist() == [1 - solved / size] * solved + [-solved / size] * (size - solved)
