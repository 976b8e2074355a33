"""What a report may be made of: columns and numbers of the wrong kind are refused by name, and never read as other ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fade_client import Entropy, FadeClient, RejectedError, RunConfig

ROWS: dict[str, Any] = {"rewards": [1.0, 0.0, 1.0, 0.0], "groups": [0, 0, 1, 1]}
ALONE = RunConfig(ema_weight=1.0)


def p_step(config: RunConfig = ALONE, **report: Any) -> Any:
    """The solve rate that the report gives."""
    return FadeClient.local(config).observe("a", **{**ROWS, **report}).metrics()["fade/p_step"]


WRONG: list[tuple[str, Any, str, int | None]] = [
    ("solved", [0.9, 0.1, 0.8, 0.2], "solved", 0),
    ("solved", [True, True, float("nan"), False], "solved", 2),
    ("solved", np.array([1.0, 0.0, np.nan, 0.0]), "solved", 2),
    ("solved", ["False", "True", "True", "False"], "solved", None),
    ("solved", [True, None, True, False], "solved", None),
    ("solved", [0, 1, 2, 1], "solved", 2),
    ("solved", torch.tensor([0.0, 1.0, 0.5, 1.0]), "solved", 2),
    ("solved", np.ma.array([True, False, True, False], mask=[False, False, False, True]), "solved", 3),
    ("statuses", [1, 0.5, 1, 1], "statuses", 1),
    ("statuses", np.array([1.0, np.nan, 1.0, 1.0]), "statuses", 1),
    ("statuses", np.array([1, 2**40, 1, 1]), "statuses", 1),
    ("statuses", ["SCORED"] * 4, "statuses", None),
    ("policy_versions", [1, 1.7, 1, 1], "policy_versions", 1),
    ("policy_versions", [float("inf"), 1, 1, 1], "policy_versions", 0),
    ("current_policy_version", "x", "current_policy_version", None),
    ("current_policy_version", 1.5, "current_policy_version", None),
    ("trainer_step", "x", "trainer_step", None),
    ("trainer_step", "3", "trainer_step", None),
    ("trainer_step", float("nan"), "trainer_step", None),
    ("trainer_step", 1.5, "trainer_step", None),
    ("trainer_step", 2**70, "trainer_step", None),
    ("trainer_step", torch.tensor([1, 2]), "trainer_step", None),
    ("trainer_step", torch.empty((), device="meta"), "trainer_step", None),
    ("filtered_all_solved", "x", "filtered_all_solved", None),
    ("filtered_all_solved", 1.5, "filtered_all_solved", None),
    ("filtered_all_failed", {"default": None}, "environments[default].filtered_all_failed", None),
    ("entropy", (9.0, 7.5), "entropy.token_count", None),
    ("entropy", (torch.tensor([1.0, 2.0]), 3), "entropy", None),
    ("entropy", (torch.empty((), device="meta"), 3), "entropy", None),
    ("entropy", Entropy(sum_nats="x", token_count=3), "entropy", None),  # type: ignore[arg-type]
    ("entropy", Entropy(sum_nats=1.0, token_count=3, kind=5), "entropy.kind", None),  # type: ignore[arg-type]
    ("entropy", {"default": "x"}, "environments[default].entropy", None),
    ("environments", ["math", "code"], "environments", None),
    ("groups", np.ma.array([0, 0, 1, 1], mask=[False, True, False, False]), "groups", 1),
    ("groups", [torch.tensor([0]), torch.tensor([0]), torch.tensor([1]), torch.tensor([1])], "groups", 0),
    ("groups", torch.empty(4, device="meta"), "groups", None),
    ("rollouts", np.ma.array([0, 1, 2, 3], mask=[True, False, False, False]), "rollouts", 0),
    ("rollouts", [[1], [2], [3], [4]], "rollouts", None),
    ("rewards", torch.empty(4, device="meta"), "rewards", None),
    ("rewards", torch.eye(4).to_sparse(), "rewards", None),
    ("rewards", np.array([1j, 0, 1, 0]), "rewards", None),
    ("rewards", np.array(["2026-01-01"] * 4, "datetime64[D]"), "rewards", None),
    ("observation_id", "a\ud800", "observation_id", None),
]


@pytest.mark.parametrize(("name", "value", "field", "row"), WRONG)
@pytest.mark.parametrize("first", [True, False], ids=["first", "later"])
def test_what_cannot_be_read_is_refused_by_field_and_row(name: str, value: Any, field: str, row: int | None, first: bool) -> None:
    client = FadeClient.local(on_rejected="raise" if not first else "neutral")
    if not first:
        client.observe("first", **ROWS)
    versions = {"policy_versions": [1] * 4} if name == "current_policy_version" else {}
    current = {"current_policy_version": 2} if name == "policy_versions" else {}
    with pytest.raises(RejectedError) as caught:
        client.observe(**{"observation_id": "a", **ROWS, **versions, **current, name: value})
    assert (caught.value.reason, caught.value.field, caught.value.row) == ("INVALID_FIELD", field, row)


@pytest.mark.parametrize(
    "report", [{"trainer_step": "x"}, {"filtered_all_solved": "x"}, {"solved": [0.9, 0.1, 0.8, 0.2]}, {"rollouts": [5, 5, 6, 7]}]
)
def test_a_later_one_trains_on_reward_minus_mean(report: dict[str, Any]) -> None:
    client = FadeClient.local(ALONE)
    client.observe("first", **ROWS)
    schedule = client.observe("a", **ROWS, **report)
    columns = {name: value for name, value in report.items() if name in ("solved", "rollouts")}
    assert schedule.rejection == "INVALID_FIELD"
    assert schedule.advantages(ROWS["rewards"], ROWS["groups"], **columns).tolist() == [0.5, -0.5, 0.5, -0.5]


@pytest.mark.parametrize(
    "solved",
    [
        [True, False, False, False],
        [1, 0, 0, 0],
        [1.0, 0.0, 0.0, 0.0],
        np.array([1, 0, 0, 0], np.uint8),
        np.array([True, False, False, False], object),
        torch.tensor([True, False, False, False]),
        torch.tensor([1.0, 0, 0, 0], dtype=torch.bfloat16),
        list(torch.tensor([True, False, False, False])),
        np.ma.array([True, False, False, False]),
    ],
    ids=str,
)
def test_flags_are_true_and_false_or_1_and_0(solved: Any) -> None:
    assert p_step(solved=solved) == 0.25


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int8, np.uint64, np.float16, np.float32, object])
def test_whole_numbers_may_come_in_any_type(kind: type) -> None:
    ones = np.ones(4, kind)
    versions: dict[str, Any] = {"policy_versions": ones, "current_policy_version": ones[0]}
    schedule = FadeClient.local(ALONE).observe("a", **ROWS, statuses=ones, **versions)
    assert schedule.metrics()["fade/p_step"] == 0.5


def test_masked_rewards_are_missing() -> None:
    rewards = np.ma.array([1.0, 0.0, 1.0, 0.0], mask=[False, False, True, False])
    schedule = FadeClient.local(ALONE).observe("a", rewards=rewards, groups=[0, 0, 0, 0])
    assert schedule.metrics()["fade/p_step"] == 1 / 3
    assert schedule.metrics()["fade/coverage"] == 0.75
    assert schedule.advantages(rewards, [0, 0, 0, 0])[2] == 0


@pytest.mark.parametrize(
    "groups",
    [
        list(torch.tensor([0, 0, 1, 1])),
        tuple(torch.tensor([0, 0, 1, 1])),
        [np.array(0), np.array(0), np.array(1), np.array(1)],
        np.array(list(torch.tensor([0, 0, 1, 1])), object),
        np.array([0, 0, 1, 1], object),
        np.ma.array([0, 0, 1, 1]),
    ],
    ids=lambda groups: type(groups).__name__,
)
def test_labels_count_by_their_value(groups: Any) -> None:
    schedule = FadeClient.local().observe("a", rewards=[1.0, 0, 1, 0], groups=groups)
    assert "SINGLETON_GROUPS" not in [warning.reason for warning in schedule.warnings]
    for again in (groups, [0, 0, 1, 1]):
        advantages = schedule.advantages([1.0, 0, 1, 0], again)
        assert advantages.tolist() == pytest.approx([0.5**1.5, -(0.5**1.5)] * 2)


def test_rollouts_and_numbers_may_be_tensors_of_one_number() -> None:
    rollouts = list(torch.tensor([0, 0, 1, 2]))
    entropy = (torch.tensor(6.0), torch.tensor(3))
    client = FadeClient.local(ALONE)
    rewards, groups = list(torch.tensor([1.0, 1.0, 0.0, 0.0])), [0] * 4
    schedule = client.observe(
        "a", rewards=rewards, groups=groups, rollouts=rollouts, entropy=entropy, trainer_step=torch.tensor(3)
    )
    assert (schedule.metrics()["fade/p_step"], schedule.metrics()["fade/h_step"]) == (1 / 3, 2.0)
    assert client.state_dict()["trainer_step"] == client.trainer_step == 3


def test_labels_that_are_no_text_for_a_message_are_labels_all_the_same(server: str, connect: Callable[..., FadeClient]) -> None:
    schedule = connect(server).observe("a", rewards=[1.0, 0, 1, 0], groups=["\ud800", "\ud800", "b", "b"])
    assert schedule.source == "SERVER" and schedule.metrics()["fade/p_step"] == 0.5


NARROW = [
    *(torch.tensor([1.1, 0.0], dtype=dtype) for dtype in (torch.bfloat16, torch.float16, torch.float32)),
    *(np.array([1.1, 0.0], dtype) for dtype in (np.float16, np.float32)),
]


@pytest.mark.parametrize("rewards", NARROW, ids=lambda rewards: str(rewards.dtype))
def test_a_bound_in_a_narrower_type_is_that_bound(rewards: Any) -> None:
    config = RunConfig(reward_max=1.1, alpha_rule="fixed", delta_rule="fixed", alpha=1, delta=1)
    client = FadeClient.local(config, on_rejected="raise")
    schedule = client.observe("a", rewards=rewards, groups=[0, 0])
    assert schedule.metrics()["fade/p_step"] == 0.5
    values = schedule.advantages(rewards, [0, 0])
    assert [float(value) for value in values] == [0.5, -0.5], "as of 1.1 and 0 exactly"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_so_is_the_solve_threshold(dtype: torch.dtype) -> None:
    rewards = torch.tensor([0.7, 0.0, 0.9, 0.0], dtype=dtype)
    assert p_step(RunConfig(solve_threshold=0.7, ema_weight=1.0), rewards=rewards) == 0.5


def test_what_lies_further_off_is_refused() -> None:
    with pytest.raises(RejectedError, match="reward_max"):
        FadeClient.local(RunConfig(reward_max=1.1)).observe(
            "a", rewards=torch.tensor([1.125, 0.0], dtype=torch.bfloat16), groups=[0, 0]
        )
    with pytest.raises(RejectedError, match="finite"):
        FadeClient.local(RunConfig(reward_max=1e6)).observe(
            "a", rewards=torch.tensor([float("inf"), 0.0], dtype=torch.float16), groups=[0, 0]
        )


def test_a_service_takes_a_bound_in_a_narrower_type(server: str, connect: Callable[..., FadeClient]) -> None:
    rewards = torch.tensor([1.1, 0.0], dtype=torch.bfloat16)
    schedule = connect(server, config=RunConfig(reward_max=1.1)).observe("a", rewards=rewards, groups=[0, 0])
    assert schedule.source == "SERVER" and schedule.metrics()["fade/p_step"] == 0.5


def test_warnings_are_said_once_per_reason_and_environment(
    server: str, connect: Callable[..., FadeClient], caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(server)
    for number in range(3):
        environments = {0: "math", 1: "math", 2: "code", 3: "code"} if number else {0: "math", 1: "math", 2: "math", 3: "math"}
        client.observe(f"b-{number}", rewards=[1.0, 0, 1, 0], groups=[0, 1, 2, 3], environments=environments)
    said = [record.getMessage() for record in caplog.records if "SINGLETON_GROUPS" in record.getMessage()]
    assert [("math" in text, "code" in text) for text in said] == [(True, False), (False, True)]
    assert "share a group" in said[0]
