"""The beta family as a schedule, and the learning rate's multiplier."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import (
    EMPTY_STATE,
    EnvironmentState,
    InvalidConfigError,
    RunConfig,
    Schedule,
    fade_advantages,
    group_rows,
    named_advantages,
    observe,
    schedule_of,
)


@given(
    solved=st.lists(st.integers(0, 8), min_size=1, max_size=6),
    a=st.floats(-0.5, 3),
    b=st.floats(0, 1),
)
def test_it_is_the_registered_family_beta(batch: Any, solved: list[int], a: float, b: float) -> None:
    rewards = [float(row < k) for k in solved for row in range(8)]
    rows = group_rows(RunConfig(), batch(rewards, [group for group in range(len(solved)) for _ in range(8)]))
    ours, theirs = fade_advantages(rows, 1 + a, 1.0, likelihood=b), named_advantages(rows, "beta", {"a": a, "b": b})
    uncapped = np.array([(1 - k / 8) ** a <= 4 if k < 8 else True for k in solved for _ in range(8)])
    assert ours[uncapped] == pytest.approx(theirs[uncapped], rel=1e-12)


def test_its_advantages_and_masses_are_those_of_the_formula(batch: Any) -> None:
    config = RunConfig(alpha_rule="fixed", alpha=1.5, likelihood=0.5, delta_rule="fixed", delta=0.5)
    _, answer = observe(config, EMPTY_STATE, batch([1, 0, 0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]))
    one, two = (0.75**0.5 * 0.25**-0.5, 0.5**0.5 * 0.5**-0.5)
    expected = [one * 0.75, *[-one * 0.25 / 0.5] * 3, two * 0.5, two * 0.5, -two * 0.5 / 0.5, -two * 0.5 / 0.5]
    assert answer.advantages() == pytest.approx(expected, rel=1e-12)
    seen = answer.environments["default"].diagnostics
    assert seen.mass_success == pytest.approx((one * 0.75 + two) / 8, rel=1e-12)
    assert seen.difficulty_centre == pytest.approx((one * 0.75 * 0.25 + two * 0.5) / (one * 0.75 + two), rel=1e-12)


def test_groups_without_signal_stay_at_zero(batch: Any) -> None:
    config = RunConfig(likelihood=1.0)
    _, answer = observe(config, EMPTY_STATE, batch([0, 0, 1, 1, 1], [0, 0, 1, 1, 2]))
    assert answer.advantages().tolist() == [0.0] * 5


def test_each_environment_has_its_own(batch: Any) -> None:
    _, answer = observe(RunConfig(likelihood=1.0), EMPTY_STATE, batch([1, 0, 1, 0], [0, 0, 1, 1], environments=("a", "b")))
    alpha = answer.environments["a"].schedule.alpha
    assert answer.advantages() == pytest.approx([0.5**alpha / 0.5, -(0.5**alpha) / 0.5] * 2, rel=1e-12)


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"likelihood": -0.1}, "likelihood"),
        ({"likelihood": 1.1}, "likelihood"),
        ({"likelihood": 0.5, "estimator": "subset"}, "likelihood"),
        ({"lr_min": 0.0}, "lr_min"),
        ({"lr_min": 1.1}, "lr_min"),
        ({"lr_observations": 0}, "lr_observations"),
        ({"lr_rule": "step"}, "lr_rule"),
    ],
)
def test_bounds(config: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        RunConfig(**config)
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("rule", "count", "scale"),
    [
        ("none", 500, 1.0),
        ("linear", 0, 1.0),
        ("linear", 50, 0.1 + 0.9 * 0.5),
        ("linear", 100, 0.1),
        ("linear", 500, 0.1),
        ("cosine", 25, 0.1 + 0.9 * (1 + math.sqrt(0.5)) / 2),
        ("cosine", 50, 0.55),
        ("cosine", 100, 0.1),
    ],
)
def test_the_learning_rate_follows_the_observations(rule: Any, count: int, scale: float) -> None:
    config = RunConfig(lr_rule=rule, lr_min=0.1, lr_observations=100)
    assert schedule_of(config, EnvironmentState(observation_count=count)).lr_scale == pytest.approx(scale, rel=1e-12)


@pytest.mark.parametrize(("entropy", "scale"), [(None, 1.0), (2.0, 1.0), (1.5, 1.0), (0.75, 0.5), (0.01, 0.05)])
def test_the_learning_rate_follows_entropy(entropy: float | None, scale: float) -> None:
    state = EnvironmentState(entropy_nats=entropy, initial_entropy_nats=None if entropy is None else 1.5)
    assert schedule_of(RunConfig(lr_rule="entropy"), state).lr_scale == scale
    declared = schedule_of(RunConfig(lr_rule="entropy", initial_entropy_nats=3.0), state).lr_scale
    assert declared == (1.0 if entropy is None else max(0.05, entropy / 3))


def test_in_shadow_neither_is_applied_and_a_pin_is_alpha_and_delta_alone() -> None:
    config = RunConfig(likelihood=0.5, lr_rule="linear", lr_observations=1, mode="shadow")
    shadow = schedule_of(config, EnvironmentState(observation_count=5))
    assert (shadow.likelihood, shadow.lr_scale) == (0.5, 0.05)
    assert shadow.applied() == Schedule(mode="shadow", phase=shadow.phase)
    pinned = schedule_of(RunConfig(likelihood=0.5, mode="pinned", pinned_alpha=2.0), EnvironmentState())
    assert (pinned.alpha, pinned.likelihood) == (2.0, 0.0)
