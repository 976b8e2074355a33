"""Environments in one batch: averages, counts, masses and warnings of their own."""

from __future__ import annotations

from typing import Any

import pytest

from fade_core import EMPTY_STATE, ControllerState, Entropy, EnvironmentReport, EnvironmentState, RowStatus, RunConfig, observe

NEUTRAL = RunConfig(alpha_rule="fixed", delta_rule="fixed", ema_weight=1.0)


def test_answers_are_in_the_order_of_the_names_wherever_they_come_from(batch: Any) -> None:
    counted = {"geometry": EnvironmentReport(filtered_all_solved=1), "idle": EnvironmentReport(prefiltered=True)}
    rows = batch([1, 0, 1, 0, 1, 0], [0, 0, 1, 1, 2, 2], environments=("math", "code", "algebra"), reports=counted)
    state, answer = observe(NEUTRAL, EMPTY_STATE, rows)
    assert list(answer.environments) == ["algebra", "code", "geometry", "math"], "nothing was seen of idle"
    assert state.environments["geometry"].solve_rate == 1.0


def test_filtered_groups_of_another_environment_count_beside_the_rows_of_one(batch: Any) -> None:
    rows = batch([1, 0], [0, 0], reports={"code": EnvironmentReport(filtered_all_failed=2)})
    state, answer = observe(NEUTRAL, EMPTY_STATE, rows)
    assert {name: item.solve_rate for name, item in state.environments.items()} == {"code": 0.0, "default": 0.5}
    assert answer.environments["code"].diagnostics.rollout_count == 0
    assert answer.environments["default"].diagnostics.filtered_all_failed == 0


def test_an_environments_own_entropy_wins_over_the_batchs(batch: Any) -> None:
    own = {"code": EnvironmentReport(entropy=Entropy(sum_nats=6.0, token_count=2))}
    shared = Entropy(sum_nats=1.0, token_count=2)
    rows = batch([1, 0, 1, 0], [0, 0, 1, 1], environments=("code", "math"), reports=own, entropy=shared)
    state, answer = observe(NEUTRAL, EMPTY_STATE, rows)
    assert {name: item.entropy_nats for name, item in state.environments.items()} == {"code": 3.0, "math": 0.5}
    assert answer.environments["code"].diagnostics.entropy_nats == 3.0


def test_each_environment_is_weighed_by_its_own_schedule(batch: Any) -> None:
    state = ControllerState(
        {
            "hard": EnvironmentState(solve_rate=0.2, entropy_nats=0.5, initial_entropy_nats=2.0),
            "easy": EnvironmentState(solve_rate=0.8, entropy_nats=2.0, initial_entropy_nats=2.0),
        }
    )
    rows = batch([1, 0, 1, 0], [0, 0, 1, 1], environments=("easy", "hard"))
    _, answer = observe(RunConfig(), state, rows, evaluation=True)
    assert answer.advantages() == pytest.approx([0.5, -0.5, 0.5**3, -(0.5**3) / 0.5], rel=1e-14)
    masses = {
        name: (item.diagnostics.mass_success, item.diagnostics.mass_failure, item.diagnostics.mass_vs_grpo)
        for name, item in answer.environments.items()
    }
    assert masses["easy"] == pytest.approx((0.25, 0.25, 1.0), rel=1e-12)
    assert masses["hard"] == pytest.approx((0.0625, 0.125, (0.125 + 0.25) / 1.0), rel=1e-12)


def test_counts_and_warnings_are_of_one_environment(batch: Any) -> None:
    rewards, index = [1, 0, 1, 1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 2, 2, 3, 4, 4]
    statuses = [RowStatus.SCORED] * 7 + [RowStatus.MISSING] * 2
    rows = batch(rewards, index, statuses=statuses, environments=("a", "a", "b", "b", "b"))
    _, answer = observe(RunConfig(group_size=2), EMPTY_STATE, rows)
    seen = {name: item.diagnostics for name, item in answer.environments.items()}
    assert (seen["a"].mixed_group_count, seen["a"].all_solved_group_count, seen["a"].all_failed_group_count) == (1, 1, 0)
    assert (seen["b"].mixed_group_count, seen["b"].all_solved_group_count, seen["b"].all_failed_group_count) == (0, 0, 1)
    assert (seen["a"].singleton_group_count, seen["b"].singleton_group_count) == (0, 2)
    assert (seen["a"].zero_variance_group_count, seen["b"].zero_variance_group_count) == (1, 1)
    assert (seen["a"].effective_group_count, seen["b"].effective_group_count) == (1, 0)
    assert (seen["a"].rollout_count, seen["b"].rollout_count, seen["b"].scored_count) == (4, 5, 3)
    assert (seen["a"].coverage, seen["b"].coverage) == (1.0, 0.6)
    warned = {(item.subject, item.reason): item.message.split()[0] for item in answer.warnings}
    assert warned == {("b", "SINGLETON_GROUPS"): "2/3", ("b", "PARTIAL_GROUPS"): "1/3"}


@pytest.mark.parametrize("padding", ["default", "elsewhere"])
def test_a_group_of_padding_alone_is_no_group(batch: Any, padding: str) -> None:
    rows = batch([1, 0, 0], [0, 0, 1], statuses=[1, 1, 5], environments=("default", padding))
    _, answer = observe(RunConfig(group_size=2), EMPTY_STATE, rows)
    assert list(answer.environments) == ["default"] and answer.warnings == ()
    assert answer.environments["default"].diagnostics.singleton_group_count == 0
    assert answer.advantages()[2] == 0.0


def test_a_group_of_padding_alone_leaves_the_others_to_their_estimator(batch: Any) -> None:
    config = RunConfig(estimator="subset", alpha_rule="fixed", delta_rule="fixed")
    padded = batch([0, 1, 0, 0, 0], [0, 1, 1, 1, 1], statuses=[5, 1, 1, 1, 1], environments=("elsewhere", "default"))
    _, answer = observe(config, EMPTY_STATE, padded)
    assert answer.advantages() == pytest.approx([0.0, 1.0, -1 / 3, -1 / 3, -1 / 3], rel=1e-14), "leave one out"


def test_evaluation_of_an_environment_never_seen_adds_none(batch: Any) -> None:
    after, answer = observe(RunConfig(), EMPTY_STATE, batch([1, 0], [0, 0]), evaluation=True)
    assert after == EMPTY_STATE and answer.environments["default"].schedule.alpha == 1.5
