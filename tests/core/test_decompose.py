"""Decompositions: the table and the identities of FADE.md, section 5, and what was measured."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import (
    InvalidBatchError,
    RunConfig,
    advantage_names,
    decompose,
    decompose_rows,
    group_rows,
    named_advantages,
    two_level_advantages,
)

NAN = math.nan
SIZES = (4, 8, 16)


def rho(n: int, c: int, draws: int) -> float:
    return 1 - math.comb(n - c, draws) / math.comb(n, draws) if c <= n else 1.0


def table(g: int, k: int) -> dict[str, tuple[float, float]]:
    """FADE.md, section 5, row by row, for a mixed group and the defaults of the parameters."""
    p, q = k / g, 1 - k / g
    s, draws, b, lam, anchor = math.sqrt, 4, 1.0, 1.3, 0.5
    z = 1 + p * (math.exp(b) - 1)
    r = rho(g, k, draws)
    easy = p > 1 - 0.4
    return {
        "reinforce": (1, 0),
        "reinforce_signed": (1, 1),
        "psr": (1, 0),
        "nsr": (0, 1),
        "w_reinforce": (0.1, 1),
        "grpo_mean": (q, p),
        "rloo": ((g - k) / (g - 1), k / (g - 1)),
        "grpo_std": (s(q / p), s(p / q)),
        "grpo_std_ddof1": (s((g - 1) / g) * s(q / p), s((g - 1) / g) * s(p / q)),
        "maxrl": (q / p, 1),
        "pass_at_k": (draws * q**draws, draws * p * q ** (draws - 1)),
        "pkpo": (draws / g * math.comb(g - k, draws - 1) / math.comb(g - 1, draws - 1), 0),
        "pass_at_k_training": (s((1 - r) / r), (r - rho(g - 1, k, draws - 1)) / s(r * (1 - r)) if r < 1 else 0),
        "leave_one_out_pass_at_g": (1 if k == 1 else 0, 0),
        "log_mean_exp": (q * (math.exp(b) - 1) / (b * z), p * (math.exp(b) - 1) / (b * z)),
        "quantile": (0, 1 / s(p * q)) if easy else (1 / s(p * q), 0),
        "f_grpo": (q * s(q / p), q * s(p / q)),
        "wapo": (q, 0),
        "ha_dw": (lam * math.exp(-(p - anchor)) * s(q / p), lam * math.exp(p - anchor) * s(p / q)),
        "asym_grpo": (q, p / 0.5),
        "power": (q**2, p * q),
        "fade": (q, p),
        "beta": (q**1.25 / p, q**0.25),
    }


@pytest.mark.parametrize("name", advantage_names())
def test_the_table_is_that_of_the_theory(name: str) -> None:
    for size in SIZES:
        item = decompose(name, size)
        for k in range(1, size):
            success, failure = table(size, k)[name]
            assert item.weight_success[k] == pytest.approx(success, rel=1e-12, abs=1e-13)
            assert item.weight_failure[k] == pytest.approx(failure, rel=1e-12, abs=1e-13)
            assert item.group_mass_success[k] == pytest.approx(k / size * success, rel=1e-12, abs=1e-13)
            assert item.group_mass_failure[k] == pytest.approx((1 - k / size) * failure, rel=1e-12, abs=1e-13)


def test_the_guide_lists_every_advantage_as_it_is_registered() -> None:
    guide = (Path(__file__).parents[2] / "docs" / "decompose.md").read_text()
    for name, item in two_level_advantages().items():
        parameters = ", ".join(f"`{key}` = {parameter.default:g}" for key, parameter in item.parameters.items()) or "-"
        assert f"| `{name}` | {item.success} | {item.failure} | {parameters} | {item.source} |\n" in guide
    assert guide.count("\n| `") == len(two_level_advantages())


@pytest.mark.parametrize("name", advantage_names())
def test_population_curves_are_those_of_all_outcomes_of_a_group(batch: Any, name: str) -> None:
    """All 2^G outcomes, each with its chance: masses, and the policy gradient, whose grad log pi is (r - p) grad p / (p q)."""
    size, item = 8, decompose(name, 8)
    outcomes = np.array(list(itertools.product([0.0, 1.0], repeat=size)))
    rows = group_rows(RunConfig(), batch(outcomes.ravel(), np.repeat(np.arange(len(outcomes)), size).tolist()))
    advantages = named_advantages(rows, name, {}).reshape(outcomes.shape)
    solved = outcomes.sum(axis=1)
    for place in (4, 60, 100, 180):
        p = item.solve_rate[place]
        chance = p**solved * (1 - p) ** (size - solved)
        assert item.mass_success[place] == pytest.approx(chance @ (advantages * outcomes).mean(axis=1), rel=1e-11, abs=1e-13)
        assert item.mass_failure[place] == pytest.approx(
            -chance @ (advantages * (1 - outcomes)).mean(axis=1), rel=1e-11, abs=1e-13
        )
        gradient = chance @ (advantages * (outcomes - p)).mean(axis=1) / (p * (1 - p))
        assert item.population_weight[place] == pytest.approx(gradient, rel=1e-11, abs=1e-13)


@pytest.mark.parametrize("name", advantage_names())
@pytest.mark.parametrize("size", [5, 8, 16])
def test_the_summary_is_the_integral_over_all_difficulties(name: str, size: int) -> None:
    """Masses are polynomials in p of degree G, so Gauss and Legendre's 20 points integrate them and their moments exactly."""
    points, shares = np.polynomial.legendre.leggauss(20)
    p, shares = (points + 1) / 2, shares / 2
    item = decompose(name, size)
    k = np.arange(size + 1)
    chance = np.array([math.comb(size, int(one)) for one in k]) * p[:, None] ** k * (1 - p[:, None]) ** (size - k)
    success, failure = shares @ (chance @ item.group_mass_success), shares @ (chance @ item.group_mass_failure)
    mass = chance @ (item.group_mass_success + item.group_mass_failure)
    centre = (shares * p) @ mass / (shares @ mass)
    assert item.sign_ratio == pytest.approx(success / failure if failure else math.inf, rel=1e-12)
    assert item.centre == pytest.approx(centre, rel=1e-12)
    assert item.spread == pytest.approx(math.sqrt((shares * (p - centre) ** 2) @ mass / (shares @ mass)), rel=1e-11)
    grpo = shares @ (2 * p * (1 - p)) * (1 - 1 / size)  # E[(k/G)(1 - k/G)] = p q (G - 1) / G
    assert item.scale == pytest.approx(shares @ mass / grpo, rel=1e-12)


@given(
    size=st.integers(2, 24),
    name=st.sampled_from(sorted(set(advantage_names()) - {"pkpo", "pass_at_k_training"})),
    data=st.data(),
)
def test_identity_1_every_advantage_is_a_weight_on_r_minus_p_and_a_shift(batch: Any, size: int, name: str, data: Any) -> None:
    k = data.draw(st.integers(1, size - 1))
    rewards = np.repeat([1.0, 0.0], [k, size - k])
    item, p = decompose(name, size), k / size
    weight = item.weight_success[k] + item.weight_failure[k]
    shifted = weight * (rewards - p) + (item.group_mass_success[k] - item.group_mass_failure[k])
    advantages = named_advantages(group_rows(RunConfig(), batch(rewards, [0] * size)), name, {})
    assert shifted == pytest.approx(advantages, rel=1e-10, abs=1e-12)


def test_identity_2_delta_moves_difficulty_and_a_clean_sign_probe_does_not() -> None:
    item = decompose("asym_grpo", 16, {"delta": 0.5})
    inner = slice(1, -1)
    p = np.arange(17)[inner] / 16
    assert (item.weight_success + item.weight_failure)[inner] == pytest.approx(1 + p, rel=1e-14)
    assert np.all(np.diff(item.population_weight) > 0)  # easy prompts weigh more

    def clean(rewards: Any) -> Any:
        rbar = rewards.mean()
        return np.where(rewards == 1, 1 - rbar, -rbar / 0.5) / (1 - rbar + rbar / 0.5)

    probe = decompose(clean, 16)
    assert (probe.weight_success + probe.weight_failure)[inner] == pytest.approx(np.ones(15), rel=1e-14)
    assert probe.group_mass_success[inner] / probe.group_mass_failure[inner] == pytest.approx(np.full(15, 0.5))


@pytest.mark.parametrize("alpha", [2.0, 3.0, 4.0])
@pytest.mark.parametrize("delta", [0.3, 1.0])
def test_identity_3_fade_is_a_pass_at_k_objective_and_a_shift(alpha: float, delta: float) -> None:
    size = 16
    objective, item = decompose("pass_at_k", size, {"k": alpha}), decompose("fade", size, {"alpha": alpha, "delta": delta})
    assert alpha * item.weight_success == pytest.approx(objective.weight_success, rel=1e-13)
    assert alpha * delta * item.weight_failure == pytest.approx(objective.weight_failure, rel=1e-13)
    p = np.arange(1, size) / size
    step = 1e-6
    slope = ((1 - (1 - p - step) ** alpha) - (1 - (1 - p + step) ** alpha)) / (2 * step)  # of pass@alpha
    weight = (objective.weight_success + objective.weight_failure)[1:-1]
    assert weight == pytest.approx(slope, rel=1e-6, abs=1e-9)
    assert objective.group_mass_success == pytest.approx(objective.group_mass_failure, rel=1e-13)


@pytest.mark.parametrize(
    ("alpha", "p", "seen", "exact"),
    [(3.0, 0.02, 0.649, 0.960), (3.0, 0.9, 0.042, 0.010), (1.5, 0.3, 0.7009, 0.8367), (1.5, 0.9, 0.3820, 0.3162)],
)
def test_identity_4_the_plug_in_factor_is_biased_in_groups_of_eight(alpha: float, p: float, seen: float, exact: float) -> None:
    item = decompose("power", 8, {"alpha": alpha})
    place = int(np.argmin(abs(item.solve_rate - p)))
    assert item.population_weight[place] == pytest.approx(seen, abs=6e-4)
    assert (1 - item.solve_rate[place]) ** (alpha - 1) == pytest.approx(exact, abs=6e-4)
    large = decompose("power", 256, {"alpha": alpha})
    assert large.population_weight[place] == pytest.approx(exact, abs=2e-2)


def test_the_policy_gradient_of_leave_one_out_is_unbiased() -> None:
    for name in ("rloo", "reinforce", "psr", "nsr"):
        assert decompose(name, 8).population_weight == pytest.approx(np.ones(201), rel=1e-13)


@pytest.mark.parametrize("alpha", [1.0, 1.5, 3.0])
@pytest.mark.parametrize("delta", [0.3, 1.0])
def test_fade_peaks_where_the_paper_says_with_its_sign_ratio_and_scale(alpha: float, delta: float) -> None:
    item = decompose("fade", 512, {"alpha": alpha, "delta": delta})
    assert item.peak == pytest.approx(1 / (1 + alpha), abs=0.006)
    assert item.sign_ratio == pytest.approx(delta, rel=1e-12)
    mass = 1 / ((alpha + 1) * (alpha + 2))  # of p q^alpha over p ~ U(0, 1)
    assert item.scale == pytest.approx(3 * mass * (1 + 1 / delta), rel=6e-3)
    assert item.centre == pytest.approx(2 / (alpha + 3), rel=6e-3)


def test_the_scale_of_fade_is_a_hidden_ramp_of_seven() -> None:
    scales = [decompose("fade", 512, {"alpha": a, "delta": d}).scale for a, d in ((3.0, 1.0), (1.0, 0.3))]
    assert scales == pytest.approx([0.30, 2.17], abs=5e-3)


def test_known_values_by_hand() -> None:
    item = decompose("grpo_mean", 8)
    assert (item.sign_ratio, item.centre, item.peak, item.scale) == (1.0, pytest.approx(0.5), 0.5, 1.0)
    assert item.spread == pytest.approx(math.sqrt(1 / 20), rel=1e-14)  # of Beta(2, 2)
    assert item.sign_ratios()[1:-1] == pytest.approx(np.ones(199), rel=1e-12)
    failures = decompose("nsr", 8)
    assert (failures.sign_ratio, failures.peak) == (0.0, 0.0) and failures.centre == pytest.approx(1 / 3, rel=1e-14)
    assert math.isinf(decompose("psr", 8).sign_ratio)
    flat = decompose("reinforce_signed", 8)
    assert math.isnan(flat.peak) and flat.scale == pytest.approx(1 / (1 / 3 * 7 / 8), rel=1e-14)
    assert decompose("fade", 8, {"alpha": 2.0}).parameters == {"alpha": 2.0, "delta": 1.0}


def standardised(rewards: Any) -> Any:
    """What a trainer writes, in its precision."""
    rewards = rewards.astype(np.float32)
    return (rewards - rewards.mean()) / (rewards.std(ddof=1) + np.float32(1e-9))


def test_a_callable_is_taken_apart_as_the_registered_advantage_that_it_is() -> None:
    mine, known = decompose(standardised, 8), decompose("grpo_std_ddof1", 8)
    assert (mine.name, mine.parameters) == ("standardised", {})
    for field in ("weight_success", "weight_failure", "mass_success", "mass_failure", "population_weight"):
        assert getattr(mine, field) == pytest.approx(getattr(known, field), rel=1e-6, abs=1e-6)
    assert (mine.centre, mine.scale) == (pytest.approx(known.centre, rel=1e-6), pytest.approx(known.scale, rel=1e-6))


def test_a_callable_that_weighs_nothing_has_no_difficulty() -> None:
    item = decompose(np.zeros_like, 4)
    assert item.scale == 0 and all(map(math.isnan, (item.sign_ratio, item.centre, item.spread, item.peak)))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda rewards: rewards * np.linspace(1, 2, len(rewards)), "one that sees only success or failure"),
        (lambda rewards: np.full(len(rewards), rewards[0]), "one that sees only success or failure"),
        (lambda rewards: rewards[:-1], "gives shape (7,)"),
        (lambda rewards: float(rewards.mean()), "gives shape ()"),
        (lambda rewards: np.where(rewards.mean() == 0, NAN, rewards), "gives nan for a group with 0 of 8 solved"),
    ],
)
def test_a_callable_that_is_no_two_level_advantage_is_refused(function: Any, words: str) -> None:
    with pytest.raises(InvalidBatchError) as caught:
        decompose(function, 8)
    assert caught.value.field == "advantage" and words in caught.value.problem


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("nothing",), "advantage.name"),
        (("fade", 1), "group_size"),
        (("fade", 1025), "group_size"),
        (("fade", 8, {"gamma": 1.0}), "advantage.parameters"),
        (("pkpo", 3), "advantage.parameters"),
        ((standardised, 8, {"gamma": 1.0}), "advantage.parameters"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_by_field(arguments: Any, field: str) -> None:
    with pytest.raises(InvalidBatchError) as caught:
        decompose(*arguments)
    assert caught.value.field == field


def rows_of(name: str, parameters: dict[str, float], counts: list[tuple[int, int]]) -> tuple[list[str], Any, Any]:
    """Labels, outcomes and advantages of groups given as (solved, size), from the table above."""
    labels, outcomes, advantages = [], [], []
    for number, (solved, size) in enumerate(counts):
        known = two_level_advantages()[name].weights(np.array([solved]), np.array([size]), parameters)
        labels += [f"prompt {number}"] * size
        outcomes += [1.0] * solved + [0.0] * (size - solved)
        advantages += [known[0][0]] * solved + [-known[1][0]] * (size - solved)
    return labels, np.array(outcomes), np.array(advantages)


COUNTS = [(1, 8), (3, 8), (4, 8), (7, 8), (0, 8), (8, 8), (2, 16), (15, 16), (2, 4), (5, 10)]


@pytest.mark.parametrize("name", sorted(set(advantage_names()) - {"reinforce", "fade"}))  # which are psr and grpo_mean
def test_measured_numbers_find_the_advantage_that_made_them(name: str) -> None:
    labels, outcomes, advantages = rows_of(name, {}, COUNTS)
    seen = decompose_rows(labels, outcomes, 3 * advantages)
    nearest = seen.nearest[0]
    assert (nearest.name, nearest.distance, nearest.scale) == (name, pytest.approx(0, abs=1e-12), pytest.approx(3, rel=1e-12))
    assert len(seen.nearest) == len(advantage_names())


def test_of_equally_shaped_advantages_the_one_of_the_same_scale_comes_first() -> None:
    labels, outcomes, advantages = rows_of("grpo_std_ddof1", {}, [(1, 8), (5, 8)])
    first, second = decompose_rows(labels, outcomes, advantages).nearest[:2]
    assert (first.name, first.scale) == ("grpo_std_ddof1", pytest.approx(1))
    assert (second.name, second.scale) == ("grpo_std", pytest.approx(math.sqrt(7 / 8)))
    assert second.distance == pytest.approx(0, abs=1e-12)


def test_measured_axes_are_those_of_the_groups_as_they_are() -> None:
    labels = ["a"] * 4 + [7] * 2 + ["c"] * 2 + ["d"]
    solved = [1, 0, 0, 0, 1, 0, True, False, NAN]
    advantages = [0.75, -0.5, -0.25, -0.25, 1.0, -1.0, 0.5, 0.0, NAN]
    seen = decompose_rows(labels, solved, advantages)
    assert (seen.row_count, seen.group_count, seen.missing_count) == (8, 3, 1)
    assert seen.bin_groups.tolist() == [0, 0, 1, 0, 0, 2, 0, 0, 0, 0]
    success, failure = [0.75 / 4, 1 / 2, 0.5 / 2], [1 / 4, 1 / 2, 0]
    assert seen.mass_success[[2, 5]] == pytest.approx([success[0], (success[1] + success[2]) / 2])
    assert seen.mass_failure[[2, 5]] == pytest.approx([failure[0], (failure[1] + failure[2]) / 2])
    assert seen.sign_ratio == pytest.approx(sum(success) / sum(failure))
    mass, p = np.add(success, failure), np.array([0.25, 0.5, 0.5])
    assert seen.centre == pytest.approx(np.average(p, weights=mass))
    assert seen.spread == pytest.approx(math.sqrt(np.average((p - seen.centre) ** 2, weights=mass)))
    assert seen.scale == pytest.approx(mass.sum() / (2 * (3 / 16 + 1 / 4 + 1 / 4)))


def test_advantages_that_no_group_of_these_sizes_can_have_are_not_compared() -> None:
    labels, outcomes, advantages = rows_of("grpo_mean", {}, [(1, 2), (1, 3)])
    names = {item.name for item in decompose_rows(labels, outcomes, advantages).nearest}
    assert names == set(advantage_names()) - {"pkpo", "pass_at_k_training"}


def test_groups_without_signal_measure_as_nothing() -> None:
    seen = decompose_rows(["a", "a", "b"], [0, 0, 1], [0.0, 0.0, 0.0])
    assert all(map(math.isnan, (seen.sign_ratio, seen.centre, seen.spread, seen.scale)))
    assert (seen.bin_groups[0], seen.bin_groups[-1]) == (1, 1)


@pytest.mark.parametrize(
    ("columns", "field", "row"),
    [
        ((["a", "a"], [1, 0.5], [1, 1]), "outcome", 1),
        ((["a", "a"], [1, 0], [1, math.inf]), "advantage", 1),
        ((["a", "a"], [1, 0], [NAN, 1]), "advantage", 0),
        ((["a", "a"], [1, 0], [1]), "advantage", None),
        (([["a", "a"]], [[1, 0]], [[1, 0]]), "advantage", None),
        ((["a"], [NAN], [1]), "outcome", None),
        (([], [], []), "outcome", None),
    ],
)
def test_wrong_rows_are_refused_by_column_and_row(columns: Any, field: str, row: int | None) -> None:
    with pytest.raises(InvalidBatchError) as caught:
        decompose_rows(*columns)
    assert (caught.value.field, caught.value.row) == (field, row)
