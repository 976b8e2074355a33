"""From rows to groups: mapping, statuses, fan-out, environments, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from fade_core import (
    EMPTY_STATE,
    Entropy,
    EnvironmentReport,
    InvalidBatchError,
    RowStatus,
    RunConfig,
    fade_advantages,
    group_rows,
    observe,
)


@pytest.mark.parametrize(
    ("low", "high", "threshold"), [(0.0, 1.0, None), (-1.0, 1.0, None), (0.0, 10.0, 2.0), (-5.0, -3.0, None)]
)
def test_rewards_are_mapped_by_the_declared_range_before_anything_else(
    batch: Any, low: float, high: float, threshold: float | None
) -> None:
    parts = [0.0, 0.25, 0.5, 1.0]
    config = RunConfig(reward_min=low, reward_max=high, solve_threshold=threshold)
    rows = group_rows(config, batch([low + part * (high - low) for part in parts], [0] * 4))
    assert rows.rewards == pytest.approx(parts, rel=1e-15)
    cut = 0.5 if threshold is None else (threshold - low) / (high - low)
    assert rows.solved.tolist() == [part >= cut for part in parts]
    assert rows.mean[0] == pytest.approx(sum(parts) / 4, rel=1e-15)


def test_a_reward_just_below_the_threshold_is_not_solved_however_wide_the_range(batch: Any) -> None:
    config = RunConfig(reward_min=-1e6, reward_max=1e6, solve_threshold=0.1)
    rows = group_rows(config, batch([np.nextafter(0.1, 0.0), 0.1], [0, 0]))
    assert rows.solved.tolist() == [False, True]


def test_flags_win_over_the_threshold_and_drive_difficulty_while_the_baseline_stays_the_mean(batch: Any) -> None:
    rows = group_rows(RunConfig(), batch([0.9, 0.8, 0.1, 0.2], [0] * 4, solved=[False, True, False, False]))
    advantages = fade_advantages(rows, 2.0, 1.0)
    assert advantages == pytest.approx([(1 - 0.25) * (r - 0.5) for r in (0.9, 0.8, 0.1, 0.2)], rel=1e-14)


@pytest.mark.parametrize(
    ("status", "in_baseline", "in_solve_rate", "counts"),
    [
        (RowStatus.SCORED, True, True, True),
        (RowStatus.TRUNCATED, True, True, True),
        (RowStatus.MISSING, False, False, True),
        (RowStatus.ERROR, False, False, True),
        (RowStatus.PADDING, False, False, False),
        (RowStatus.STALE, True, False, True),
        (0, True, True, True),
    ],
)
def test_each_row_status_does_what_the_table_says(
    batch: Any, status: int, in_baseline: bool, in_solve_rate: bool, counts: bool
) -> None:
    config = RunConfig(ema_weight=1.0, alpha_rule="fixed", quorum=0.0)
    rewards, statuses = [1.0, 0.0, 0.0, 1.0], [1, 1, 1, status]
    state, answer = observe(config, EMPTY_STATE, batch(rewards, [0] * 4, statuses=statuses))
    mean = 0.5 if in_baseline else 1 / 3
    last = 1 - mean if in_baseline else 0.0
    assert answer.advantages().tolist() == pytest.approx([1 - mean, -mean, -mean, last], rel=1e-14)
    assert state.environments["default"].solve_rate == pytest.approx(0.5 if in_solve_rate else 1 / 3, rel=1e-15)
    seen = answer.environments["default"].diagnostics
    assert seen.rollout_count == 3 + counts and seen.scored_count == 3 + in_baseline
    assert seen.stale_count == (status == RowStatus.STALE) and seen.padding_count == (status == RowStatus.PADDING)
    assert seen.missing_count == (status in (RowStatus.MISSING, RowStatus.ERROR))


def test_rollouts_of_too_old_a_policy_are_stale(batch: Any) -> None:
    config = RunConfig(ema_weight=1.0, max_policy_lag=2)
    versions = {"policy_versions": [7, 8, 10, 10], "current_policy_version": 10}
    state, answer = observe(config, EMPTY_STATE, batch([1.0, 0.0, 0.0, 0.0], [0] * 4, **versions))
    assert answer.environments["default"].diagnostics.stale_count == 1
    assert state.environments["default"].solve_rate == 0.0 and answer.advantages()[0] > 0


def test_a_row_is_stale_by_its_status_or_its_version_and_only_where_it_has_a_reward(batch: Any) -> None:
    config = RunConfig(ema_weight=1.0, max_policy_lag=2, alpha_rule="fixed")
    versions = {"policy_versions": [10, 7, 7, 10, 10], "current_policy_version": 10}
    statuses = [RowStatus.STALE, RowStatus.SCORED, RowStatus.MISSING, RowStatus.SCORED, RowStatus.SCORED]
    state, answer = observe(config, EMPTY_STATE, batch([1.0, 1.0, 1.0, 1.0, 0.0], [0] * 5, statuses=statuses, **versions))
    seen = answer.environments["default"].diagnostics
    assert (seen.stale_count, seen.missing_count, seen.scored_count, seen.rollout_count) == (2, 1, 4, 5)
    assert state.environments["default"].solve_rate == 0.5
    assert answer.advantages().tolist() == [0.25, 0.25, 0.0, 0.25, -0.75], "the baseline is all four's"


def test_the_quorum_itself_is_enough(batch: Any) -> None:
    _, answer = observe(RunConfig(quorum=0.5), EMPTY_STATE, batch([1.0, 0.0, math.nan, math.nan], [0] * 4))
    assert answer.outcome == "applied" and not answer.degraded


def test_a_solved_flag_on_a_row_without_reward_counts_for_nothing(batch: Any) -> None:
    rows = group_rows(RunConfig(), batch([1.0, 0.0, math.nan], [0] * 3, solved=[True, False, True]))
    assert (rows.solved_count.tolist(), rows.scored_count.tolist()) == ([1], [2])


def test_one_stale_row_makes_its_rollout_stale_and_padding_and_clamping_are_counted_by_rows(batch: Any) -> None:
    config = RunConfig(ema_weight=1.0)
    rewards, rollouts = [1 + 1e-7, 1 + 1e-7, 0.0, 0.0, 0.0, 0.0], [4, 4, 5, 6, 7, 7]
    for stale in (0, 1):
        statuses = [RowStatus.SCORED] * 4 + [RowStatus.PADDING] * 2
        statuses[stale] = RowStatus.STALE
        state, answer = observe(config, EMPTY_STATE, batch(rewards, [0] * 6, rollout_index=rollouts, statuses=statuses))
        seen = answer.environments["default"].diagnostics
        assert (seen.stale_count, seen.scored_count, seen.padding_count, seen.clamped_count) == (1, 3, 2, 2)
        assert state.environments["default"].solve_rate == 0.0


def test_rows_of_one_rollout_count_once_and_share_its_advantage(batch: Any) -> None:
    config = RunConfig(ema_weight=1.0, alpha_rule="fixed")
    fanned = batch([1, 1, 1, 0, 0, 0], [0] * 6, rollout_index=[5, 5, 5, 6, 7, 8])
    state, answer = observe(config, EMPTY_STATE, fanned)
    assert state.environments["default"].solve_rate == 0.25
    assert answer.advantages().tolist() == [0.75] * 3 + [-0.25] * 3
    assert answer.environments["default"].diagnostics.rollout_count == 4
    assert answer.environments["default"].diagnostics.mass_success == pytest.approx(0.75 / 4)


def test_rollouts_with_fewer_than_two_of_a_group_are_singletons_however_many_rows_they_have(batch: Any) -> None:
    _, answer = observe(RunConfig(), EMPTY_STATE, batch([1, 1, 1], [0] * 3, rollout_index=[4, 4, 4]))
    assert answer.environments["default"].diagnostics.singleton_group_count == 1


def test_rewards_a_little_outside_the_range_are_clamped_and_counted(batch: Any) -> None:
    tenths = float(np.float32(0.1) * np.float32(0) + sum([np.float32(0.1)] * 10, np.float32(0)))
    assert tenths > 1
    _, answer = observe(RunConfig(), EMPTY_STATE, batch([tenths, -1e-7, 0.5], [0] * 3))
    assert answer.environments["default"].diagnostics.clamped_count == 2
    assert answer.groups.rewards.tolist() == [1.0, 0.0, 0.5]
    with pytest.raises(InvalidBatchError):
        group_rows(RunConfig(), batch([1 + 3e-6], [0]))


REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], str, int | None]] = {
    "infinite": ({}, {"rewards": [0, math.inf, 1]}, "rewards", 1),
    "above": ({}, {"rewards": [0, 1, 2.5]}, "rewards", 2),
    "far above a narrow range": ({"reward_max": 1e-10}, {"rewards": [0, 1e300, 0]}, "rewards", 1),
    "below": ({}, {"rewards": [-1, 1, 0]}, "rewards", 0),
    "NaN under strict": ({"strict_rewards": True}, {"rewards": [0, 1, math.nan]}, "rewards", 2),
    "group index outside": ({}, {"groups": [0, 0, 1], "environments": ("default",)}, "group_index", 2),
    "negative group index": ({}, {"groups": [0, -1, 0]}, "group_index", 1),
    "lengths": ({}, {"groups": [0, 0]}, "group_index", None),
    "length of statuses": ({}, {"statuses": [1]}, "statuses", None),
    "length of solved": ({}, {"solved": [True] * 4}, "solved", None),
    "length of rollouts": ({}, {"rollout_index": [1]}, "rollout_index", None),
    "length of versions": ({}, {"policy_versions": [1], "current_policy_version": 1}, "policy_versions", None),
    "versions alone": ({}, {"policy_versions": [1, 1, 1]}, "current_policy_version", None),
    "status": ({}, {"statuses": [1, 9, 1]}, "statuses", 1),
    "rollout that disagrees on reward": ({}, {"rollout_index": [1, 1, 2]}, "rewards", 1),
    "rollout that disagrees on having a reward": ({}, {"rewards": [0, math.nan, 1], "rollout_index": [1, 1, 2]}, "rewards", 1),
    "rollout that disagrees on solved": (
        {},
        {"rewards": [1, 0, 0], "solved": [False, True, False], "rollout_index": [1, 2, 2]},
        "solved",
        2,
    ),
    "rollout that disagrees on group": (
        {},
        {"rewards": [0, 0, 1], "groups": [0, 1, 1], "rollout_index": [1, 1, 2]},
        "group_index",
        1,
    ),
    "negative counts": (
        {},
        {"reports": {"a": EnvironmentReport(filtered_all_failed=-1)}},
        "environments[a].filtered_all_failed",
        None,
    ),
    "entropy above ln(vocabulary)": (
        {"vocabulary_size": 8},
        {"entropy": Entropy(sum_nats=21.0, token_count=10)},
        "entropy.sum_nats",
        None,
    ),
    "entropy that no policy has": ({}, {"entropy": Entropy(sum_nats=1e308, token_count=1)}, "entropy.sum_nats", None),
    "negative entropy": ({}, {"entropy": Entropy(sum_nats=-1.0, token_count=10)}, "entropy.sum_nats", None),
    "negative tokens": ({}, {"entropy": Entropy(sum_nats=1.0, token_count=-1)}, "entropy.token_count", None),
    "entropy of one environment": (
        {},
        {"reports": {"a": EnvironmentReport(entropy=Entropy(sum_nats=math.inf, token_count=1))}},
        "environments[a].entropy.sum_nats",
        None,
    ),
    "nothing": ({}, {"rewards": [], "groups": []}, "rewards", None),
    "padding alone": ({}, {"statuses": [5, 5, 5]}, "rewards", None),
}


@pytest.mark.parametrize(("config", "fields", "field", "row"), REFUSED.values(), ids=REFUSED.keys())
def test_bad_rows_are_refused_by_field_and_row(
    batch: Any, config: dict[str, Any], fields: dict[str, Any], field: str, row: int | None
) -> None:
    fields = dict(fields)
    rewards, groups = fields.pop("rewards", [0, 1, 0]), fields.pop("groups", [0, 0, 0])
    with pytest.raises(InvalidBatchError) as caught:
        observe(RunConfig(**config), EMPTY_STATE, batch(rewards, groups, **fields))
    assert (caught.value.field, caught.value.row) == (field, row)
    assert str(caught.value).startswith(field)


def test_a_declared_missing_row_may_be_nan_under_strict(batch: Any) -> None:
    rows = group_rows(RunConfig(strict_rewards=True), batch([math.nan, 1.0, 0.0], [0] * 3, statuses=[3, 1, 1]))
    assert rows.scored_count.tolist() == [2]


def test_environments_have_averages_of_their_own_and_a_batch_moves_only_its_own(batch: Any) -> None:
    config = RunConfig(ema_weight=1.0)
    first = batch([1, 1, 0, 0], [0, 0, 1, 1], environments=("math", "code"), entropy=Entropy(sum_nats=2.0, token_count=2))
    state, answer = observe(config, EMPTY_STATE, first)
    assert list(answer.environments) == ["code", "math"]
    assert {name: item.solve_rate for name, item in state.environments.items()} == {"math": 1.0, "code": 0.0}
    after, answer = observe(config, state, batch([1, 0], [0, 0], environments=("code",)))
    assert list(answer.environments) == ["code"]
    assert after.environments["math"] == state.environments["math"] and after.environments["code"].solve_rate == 0.5


def test_groups_dropped_uncounted_hold_the_solve_rate_alone(batch: Any) -> None:
    report = {"default": EnvironmentReport(prefiltered=True)}
    entropy = Entropy(sum_nats=3.0, token_count=2)
    state, answer = observe(RunConfig(), EMPTY_STATE, batch([1, 0, 0, 0], [0] * 4, reports=report, entropy=entropy))
    seen = state.environments["default"]
    assert (seen.solve_rate, seen.entropy_nats, seen.observation_count) == (0.5, 1.5, 1)
    assert answer.environments["default"].hold_reasons == ("prefiltered",) and answer.outcome == "frozen"


def test_counted_filtered_groups_enter_the_solve_rate(batch: Any) -> None:
    report = {"default": EnvironmentReport(filtered_all_solved=1, filtered_all_failed=2)}
    state, _ = observe(RunConfig(ema_weight=1.0), EMPTY_STATE, batch([1, 0], [0, 0], reports=report))
    assert state.environments["default"].solve_rate == pytest.approx((0.5 + 1) / 4, rel=1e-15)
