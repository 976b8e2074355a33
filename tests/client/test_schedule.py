"""Advantages, units and metrics of a schedule, against values worked out by hand."""

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fade_client import FadeClient, InvalidBatchError, RowStatus, RunConfig, Schedule

STATIC: dict[str, Any] = {"alpha_rule": "fixed", "delta_rule": "fixed"}


def observe(config: RunConfig, rewards: Any, groups: Any, **more: Any) -> Schedule:
    units = more.pop("advantage_units", "unit")
    client = FadeClient.local(config, on_rejected="raise", advantage_units=units)
    return client.observe("b", rewards=rewards, groups=groups, **more)


def test_none_and_nan_are_missing_and_not_zero() -> None:
    rewards = [1, 0, None, 0, 1, float("nan")]
    schedule = observe(RunConfig(**STATIC, delta=2.0), rewards, ["g"] * 6)
    assert schedule.advantages(rewards, ["g"] * 6).tolist() == [0.5, -0.25, 0, -0.25, 0.5, 0]


def test_alpha_and_delta_weigh_as_the_formula_says() -> None:
    rewards, groups = np.array([1.0, 0, 0, 0]), np.zeros(4, int)
    schedule = observe(RunConfig(**STATIC, alpha=3.0, delta=0.5), rewards, groups)
    factor = 0.75**2  # (1 - 1/4)^(3 - 1)
    expected = [factor * 0.75] + [factor * -0.25 / 0.5] * 3
    assert schedule.advantages(rewards, groups).tolist() == expected


@pytest.mark.parametrize(
    "relabel",
    [
        lambda g: g,
        lambda g: g.tolist(),
        lambda g: g.astype(np.int8),
        lambda g: g.astype(np.uint64) + 2**63,
        lambda g: g * 10**12 - 5,
        lambda g: [f"prompt {i}" for i in g],
        lambda g: np.array([f"prompt {i}" for i in g]),
        lambda g: [("suite", i) for i in g.tolist()],
        lambda g: torch.tensor(g),
        lambda g: np.array([f"p{i}" for i in g], dtype=object),
    ],
)
def test_labels_of_any_kind_in_any_order_group_the_same_rows(relabel: Callable[[Any], Any]) -> None:
    groups = np.array([0, 2, 1, 0, 2, 2, 0, 1, 0])
    rewards = np.array([1.0, 0, 1, 0, 0, 1, 0, 0, 1])  # g0 1,0,0,1; g1 1,0; g2 0,0,1: uneven groups, interleaved
    third = 1 / 3
    expected = np.array([0.5, -third, 0.5, -0.5, -third, 1 - third, -0.5, -0.5, 0.5])
    labels = relabel(groups)
    schedule = observe(RunConfig(**STATIC), rewards, labels)
    np.testing.assert_allclose(schedule.advantages(rewards, labels), expected, rtol=0, atol=1e-15)


def test_labels_that_changed_after_the_observation_are_read_anew() -> None:
    rewards, labels = [1.0, 0.0, 1.0, 0.0], ["a", "a", "b", "b"]
    schedule = observe(RunConfig(**STATIC), rewards, labels)
    labels[:] = ["a", "b", "a", "b"]
    assert schedule.advantages(rewards, labels).tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_torch_in_gives_torch_of_the_same_dtype_out(dtype: torch.dtype) -> None:
    rewards = torch.tensor([1, 0, 0, 0], dtype=dtype, requires_grad=True)
    advantages = observe(RunConfig(**STATIC), rewards, torch.zeros(4)).advantages(rewards, torch.zeros(4))
    assert advantages.dtype == dtype and advantages.device == rewards.device and not advantages.requires_grad
    assert advantages.tolist() == [0.75, -0.25, -0.25, -0.25]


def test_integer_tensors_get_floating_advantages() -> None:
    rewards = torch.tensor([1, 0, 0, 0])
    advantages = observe(RunConfig(**STATIC), rewards, [0] * 4).advantages(rewards, [0] * 4)
    assert advantages.dtype == torch.get_default_dtype()
    assert advantages.tolist() == [0.75, -0.25, -0.25, -0.25]


@pytest.mark.parametrize("size", [2, 8, 16])
@pytest.mark.parametrize("config", [RunConfig(**STATIC), RunConfig(mode="shadow"), RunConfig(**STATIC, scale="match_grpo")])
def test_neutral_weights_are_bit_equal_to_reward_minus_mean(size: int, config: RunConfig) -> None:
    generator = torch.Generator().manual_seed(size)
    rewards = (torch.rand(64, size, generator=generator) < 0.4).float()
    plain = (rewards - rewards.mean(1, keepdim=True)).flatten()
    groups = torch.arange(64).repeat_interleave(size)
    advantages = observe(config, rewards.flatten(), groups).advantages(rewards.flatten(), groups)
    assert torch.equal(advantages, plain)
    array = rewards.flatten().numpy().astype(float)
    assert observe(config, array, groups).advantages(array, groups).tolist() == plain.double().tolist()


def test_declared_units_give_advantages_on_the_rewards_own_scale() -> None:
    rewards, groups = [-1.0, 1.0, -1.0, -1.0], [0, 0, 0, 0]
    config = RunConfig(**STATIC, reward_min=-1, reward_max=1)
    assert observe(config, rewards, groups).advantages(rewards, groups).tolist() == [-0.25, 0.75, -0.25, -0.25]
    declared = observe(config, rewards, groups, advantage_units="declared")
    assert declared.advantages(rewards, groups).tolist() == [-0.5, 1.5, -0.5, -0.5]  # r - mean


def test_flags_statuses_and_rollouts_are_heeded() -> None:
    rewards, groups = [0.2, 0.6, 0.6, 0.0], ["g"] * 4
    more: dict[str, Any] = {"solved": [False] * 4}
    assert observe(RunConfig(**STATIC), rewards, groups, **more).advantages(rewards, groups, **more).tolist() == [0, 0, 0, 0]
    more = {"statuses": [RowStatus.SCORED, RowStatus.SCORED, RowStatus.ERROR, RowStatus.PADDING]}
    advantages = observe(RunConfig(**STATIC), rewards, groups, **more).advantages(rewards, groups, **more)
    np.testing.assert_allclose(advantages, [-0.2, 0.2, 0, 0], rtol=0, atol=1e-15)
    more = {"rollouts": ["x", "y", "y", "z"]}
    advantages = observe(RunConfig(**STATIC), rewards, groups, **more).advantages(rewards, groups, **more)
    mean = (0.2 + 0.6 + 0.0) / 3
    np.testing.assert_allclose(advantages, np.array(rewards) - mean, rtol=0, atol=1e-15)


def test_environments_have_their_own_schedules() -> None:
    rewards = [1.0, 0, 1, 1, 0, 0, 0, 1]
    groups = ["m"] * 4 + ["c"] * 4
    environments = {"m": "math", "c": "code"}
    config = RunConfig(ema_weight=1.0)
    schedule = observe(config, rewards, groups, environments=environments, entropy={"math": (10.0, 10), "code": (3.0, 10)})
    assert schedule["math"].alpha == 1.0  # p_hat 3/4
    assert schedule["code"].alpha == 3.0  # p_hat 1/4
    assert schedule["math"].delta == 1.0
    with pytest.raises(AttributeError, match="code, math"):
        schedule.alpha  # noqa: B018
    with pytest.raises(KeyError):
        schedule["games"]
    factor = 0.75**2
    expected = [0.25, -0.75, 0.25, 0.25, *[factor * -0.25] * 3, factor * 0.75]
    np.testing.assert_allclose(schedule.advantages(rewards, groups), expected, rtol=1e-15)
    np.testing.assert_allclose(schedule["code"].advantages(rewards[4:], groups[4:]), expected[4:], rtol=1e-15)
    metrics = schedule.metrics()
    assert metrics["fade/math/p_hat"] == 0.75 and metrics["fade/code/h_step"] == 0.3
    assert metrics["fade/source"] == "LOCAL" and "fade/alpha" not in metrics
    with pytest.raises(InvalidBatchError, match="games"):
        schedule.advantages(rewards, groups, environments={"m": "math", "c": "games"})


def test_metrics_are_flat_jsonable_and_without_what_is_unknown() -> None:
    metrics = observe(RunConfig(), [1.0, 0, 0, 0], [0] * 4).metrics()
    assert json.loads(json.dumps(metrics)) == metrics
    assert metrics["fade/p_step"] == 0.25
    assert metrics["fade/p_hat"] == 0.98 * 0.5 + 0.02 * 0.25
    assert metrics["fade/observations"] == 1 and metrics["fade/revision"] == 1 and metrics["fade/rejected"] == 0
    assert "fade/h_hat" not in metrics and "fade/h_step" not in metrics and "fade/h_target" not in metrics
    alpha = 1.5 * (1 - metrics["fade/p_hat"]) / metrics["fade/p_hat"]
    assert metrics["fade/alpha"] == metrics["fade/applied_alpha"] == alpha
    factor = 0.75 ** (alpha - 1)
    assert metrics["fade/mass_success"] == pytest.approx(factor * 0.75 / 4, rel=1e-12)
    assert metrics["fade/mass_vs_grpo"] == pytest.approx(factor, rel=1e-12)


def test_shadow_tells_the_schedule_and_applies_neutral_weights() -> None:
    rewards, groups = [1.0, 0, 0, 0], [0] * 4
    schedule = observe(RunConfig(mode="shadow", ema_weight=1.0), rewards, groups)
    metrics = schedule.metrics()
    assert schedule.mode == metrics["fade/mode"] == "shadow"
    assert schedule.alpha == metrics["fade/alpha"] == 3.0
    assert metrics["fade/applied_alpha"] == metrics["fade/applied_delta"] == 1.0
    assert schedule.advantages(rewards, groups).tolist() == [0.75, -0.25, -0.25, -0.25]


def test_a_schedule_survives_pickling() -> None:
    rewards, groups = [1.0, 0, 0, 0], ["a"] * 4
    schedule = observe(RunConfig(), rewards, groups)
    copy = pickle.loads(pickle.dumps(schedule))
    assert copy.metrics() == schedule.metrics()
    assert copy.advantages(rewards, groups).tolist() == schedule.advantages(rewards, groups).tolist()
