"""Small inputs from what users of such trainers ran into in public, one test for each, with its own numbers.

Alpha and delta are fixed per case; advantages are on the mapped scale, in request order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from fade_core import (
    EMPTY_STATE,
    Entropy,
    EntropyKindError,
    EnvironmentReport,
    InvalidBatchError,
    RowStatus,
    RunConfig,
    observe,
)

NAN = math.nan
THIRD = 1 / 3


@dataclass
class Case:
    """One input, the advantages that must come back, and what the diagnostics must say."""

    link: str
    rewards: list[float]
    groups: list[int]
    advantages: list[float]
    alpha: float = 1.0
    delta: float = 1.0
    config: dict[str, Any] = field(default_factory=dict)
    columns: dict[str, Any] = field(default_factory=dict)
    seen: dict[str, Any] = field(default_factory=dict)


SIX = [THIRD, -2 * THIRD]
CASES = {
    "1: None in a group is not 0": Case(
        "https://github.com/huggingface/trl/pull/5902",
        [1, 0, NAN, 0, 1, NAN],
        [0] * 6,
        [0.5, -0.25, 0, -0.25, 0.5, 0],
        delta=2.0,
        seen={"scored_count": 4, "missing_count": 2, "solve_rate": 0.5},
    ),
    "2: NaN does not poison other groups": Case(
        "https://github.com/modelscope/ms-swift/issues/8123", [1, 0, NAN, 1, 0], [0, 0, 0, 1, 1], [0.5, -0.5, 0, 0.5, -0.5]
    ),
    "5: rewards of -1 and 1": Case(
        "https://github.com/modelscope/ms-swift/issues/3925",
        [-1, -1, 1, -1],
        [0] * 4,
        [-0.25 * 0.75, -0.25 * 0.75, 0.75 * 0.75, -0.25 * 0.75],
        alpha=2.0,
        config={"reward_min": -1.0},
        seen={"solve_rate": 0.25},
    ),
    "7: a constant group of shaped rewards": Case(
        "https://github.com/OpenRLHF/OpenRLHF/pull/1272",
        [0.37] * 4,
        [0] * 4,
        [0.0] * 4,
        alpha=0.5,
        seen={"zero_variance_group_count": 1, "solve_rate": 0.0},
    ),
    "8: shaped differences in an all-failed group": Case(
        "https://github.com/verl-project/verl-recipe/pull/125",
        [-0.02, -0.11, -0.30, -0.05],
        [0] * 4,
        [0.0] * 4,
        config={"reward_min": -1.0},
        columns={"solved": [False] * 4},
        seen={"all_failed_group_count": 1, "effective_group_count": 0},
    ),
    "9: parts that cancel": Case(
        "https://github.com/huggingface/trl/issues/3857",
        [-3.0] * 4,
        [0] * 4,
        [0.0] * 4,
        config={"reward_min": -13.0, "reward_max": 7.0},
        seen={"zero_variance_group_count": 1},
    ),
    "11: all solved and all failed": Case(
        "https://github.com/huggingface/trl/pull/6365",
        [1, 1, 1, 1, 0, 0, 0, 0],
        [0] * 4 + [1] * 4,
        [0.0] * 8,
        alpha=0.5,
        seen={"all_solved_group_count": 1, "all_failed_group_count": 1, "mixed_group_count": 0},
    ),
    "12: one success and one failure keep their signal": Case(
        "https://github.com/NVIDIA-NeMo/RL/pull/3469",
        [1, 0, 0, 0, 1, 1, 1, 0],
        [0] * 4 + [1] * 4,
        [0.75, -0.125, -0.125, -0.125, 0.25, 0.25, 0.25, -0.375],
        delta=2.0,
        seen={"mixed_group_count": 2},
    ),
    "15: equal prompts in two groups stay two": Case(
        "https://github.com/NVIDIA-NeMo/RL/pull/3882", [0] * 4 + [1] * 4, [0] * 4 + [1] * 4, [0.0] * 8
    ),
    "16: siblings that became singletons": Case(
        "https://github.com/NVIDIA-NeMo/RL/pull/4013",
        [1, 0, 1, 0],
        [0, 1, 2, 3],
        [0.0] * 4,
        seen={"singleton_group_count": 4},
    ),
    "18: uneven groups have means of their own": Case(
        "https://github.com/THUDM/slime/issues/1414",
        [1, 0, 0, 1, 1, 0, 0, 0, 1],
        [0, 0, 0, 0, 1, 1, 2, 2, 2],
        [0.5, -0.5, -0.5, 0.5, 0.5, -0.5, -THIRD, -THIRD, 2 * THIRD],
    ),
    "19: interleaved rows": Case(
        "https://github.com/areal-project/AReaL/issues/1419",
        [1, 0, 1, 0, 0, 0, 0, 1, 1],
        [0, 2, 1, 0, 1, 2, 0, 2, 0],
        [0.5, -THIRD, 0.5, -0.5, -0.5, -THIRD, -0.5, 2 * THIRD, 0.5],
    ),
    "21: padding is no rollout": Case(
        "https://github.com/NVIDIA-NeMo/RL/pull/3837",
        [1, 0, 1, 0, 1, 0, 0, 0],
        [0] * 8,
        [0.5, -0.5, 0.5, -0.5, 0.5, -0.5, 0, 0],
        columns={"statuses": [RowStatus.SCORED] * 6 + [RowStatus.PADDING] * 2},
        seen={"padding_count": 2, "rollout_count": 6, "solve_rate": 0.5},
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_case(batch: Any, case: Case) -> None:
    config = RunConfig(alpha_rule="fixed", delta_rule="fixed", alpha=case.alpha, delta=case.delta, **case.config)
    _, answer = observe(config, EMPTY_STATE, batch(case.rewards, case.groups, **case.columns))
    advantages = answer.advantages()
    assert advantages.tolist() == pytest.approx(case.advantages, rel=1e-14)
    assert [value == 0 for value in advantages] == [value == 0 for value in case.advantages], "zeros are exact"
    diagnostics = answer.environments["default"].diagnostics
    assert {name: getattr(diagnostics, name) for name in case.seen} == case.seen
    assert math.isfinite(diagnostics.mass_success) and math.isfinite(diagnostics.mass_failure)


def test_case_2_infinity_is_refused_by_row(batch: Any) -> None:
    """https://github.com/modelscope/ms-swift/issues/8123"""
    with pytest.raises(InvalidBatchError) as caught:
        observe(RunConfig(), EMPTY_STATE, batch([1, 0, math.inf], [0] * 3))
    assert (caught.value.field, caught.value.row) == ("rewards", 2)


def test_case_4_a_verifier_that_is_down_holds_the_averages_and_still_weighs(batch: Any) -> None:
    """https://github.com/verl-project/verl/issues/4417"""
    rewards = [1.0, 0.0] * 12 + [NAN] * 40
    entropy = Entropy(sum_nats=1.0, token_count=1)
    before, _ = observe(RunConfig(ema_weight=1.0), EMPTY_STATE, batch([1, 1, 1, 0], [0] * 4, entropy=entropy))
    lower = Entropy(sum_nats=0.1, token_count=1)
    rows = batch(rewards, [row // 8 for row in range(64)], entropy=lower)
    state, answer = observe(RunConfig(), before, rows)
    assert answer.degraded and answer.outcome == "frozen"
    assert answer.environments["default"].hold_reasons == ("quorum",)
    assert answer.environments["default"].diagnostics.coverage == 0.375
    held = state.environments["default"]
    assert (held.solve_rate, held.entropy_nats, held.observation_count) == (0.75, 1.0, 2)
    assert all(answer.advantages()[:24] != 0) and all(answer.advantages()[24:] == 0)
    assert [warning.reason for warning in answer.warnings] == ["SINGLETON_GROUPS", "LOW_COVERAGE"]


def test_case_21_padding_leaves_the_state_as_it_would_be_without(batch: Any) -> None:
    """https://github.com/NVIDIA-NeMo/RL/pull/3837"""
    padded, _ = observe(RunConfig(), EMPTY_STATE, batch([1, 0, 1, 0, 0], [0, 0, 0, 0, 0], statuses=[1, 1, 1, 1, 5]))
    plain, _ = observe(RunConfig(), EMPTY_STATE, batch([1, 0, 1, 0], [0] * 4))
    assert padded == plain


def test_case_14_a_batch_of_filtered_groups_alone_moves_the_averages_from_counts(batch: Any) -> None:
    """https://github.com/areal-project/AReaL/issues/450"""
    report = {"default": EnvironmentReport(filtered_all_solved=3, filtered_all_failed=1)}
    state, answer = observe(RunConfig(ema_weight=1.0), EMPTY_STATE, batch([], [], reports=report))
    assert state.environments["default"].solve_rate == 0.75 and answer.outcome == "applied"
    diagnostics = answer.environments["default"].diagnostics
    assert (diagnostics.filtered_all_solved, diagnostics.filtered_all_failed, diagnostics.coverage) == (3, 1, 1.0)


def test_case_23_a_partial_group_is_warned_about_where_the_size_is_declared(batch: Any) -> None:
    """https://github.com/huggingface/trl/issues/5030"""
    _, answer = observe(RunConfig(group_size=4), EMPTY_STATE, batch([1, 0, 1, 0, 1, 0], [0, 0, 0, 0, 1, 1]))
    assert [(warning.reason, warning.message.split()[0]) for warning in answer.warnings] == [("PARTIAL_GROUPS", "1/2")]


def test_case_24_masked_micro_batches_are_no_zero_entropy(batch: Any) -> None:
    """https://github.com/huggingface/trl/pull/6439"""
    state, _ = observe(RunConfig(), EMPTY_STATE, batch([1, 0], [0, 0], entropy=Entropy(sum_nats=31.14, token_count=9)))
    assert state.environments["default"].entropy_nats == pytest.approx(3.46, rel=1e-12)
    after, answer = observe(RunConfig(), state, batch([1, 0], [0, 0], entropy=Entropy(sum_nats=0.0, token_count=0)))
    assert after.environments["default"].entropy_nats == state.environments["default"].entropy_nats
    assert answer.environments["default"].schedule.delta == 1.0


def test_case_26_another_definition_of_entropy_is_no_rise(batch: Any) -> None:
    """https://github.com/thunlp/JustRL/issues/5"""
    state = EMPTY_STATE
    for _ in range(20):
        entropy = Entropy(sum_nats=0.6, token_count=1, kind="A")
        state, _ = observe(RunConfig(), state, batch([1, 0], [0, 0], entropy=entropy))
    with pytest.raises(EntropyKindError):
        observe(RunConfig(), state, batch([1, 0], [0, 0], entropy=Entropy(sum_nats=1.0, token_count=1, kind="B")))


def test_case_28_delta_follows_entropy_up_and_down_inside_its_bounds(batch: Any) -> None:
    """https://github.com/rllm-org/rllm/issues/116"""
    config = RunConfig(target_entropy_nats=1.0)
    up = np.linspace(0.4, 2.0, 20)
    state, deltas, averages = EMPTY_STATE, [], []
    for value in [*up, *up[::-1], *([0.4] * 200)]:
        entropy = Entropy(sum_nats=float(value), token_count=1)
        state, answer = observe(config, state, batch([1, 0], [0, 0], entropy=entropy))
        deltas.append(answer.environments["default"].schedule.delta)
        averages.append(state.environments["default"].entropy_nats)
    assert all(0.3 <= delta <= 1.0 for delta in deltas)
    assert np.array_equal(np.sign(np.diff(averages)), np.sign(np.diff(deltas))), "delta moves with the average, never against"
    assert max(np.abs(np.diff(deltas))) <= 0.02 * 1.6 + 1e-12, "no step is larger than the average's weight times the jump"
    assert abs(deltas[-1] - deltas[0]) < 0.02, "and it returns"
