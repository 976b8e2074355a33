"""The client in process, and what it refuses, by field and row."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fade_client import CheckpointError, ClosedError, Entropy, FadeClient, RejectedError, RunConfig

ROWS: dict[str, Any] = {"rewards": [1.0, 0, 0, 0], "groups": ["g"] * 4}


def test_the_averages_move_by_the_formula() -> None:
    client = FadeClient.local(RunConfig(ema_weight=0.1))
    p_hat, h_hat = 0.5, 2.0
    for step in range(5):
        schedule = client.observe(f"b{step}", **ROWS, entropy=(20.0 - step, 10), trainer_step=step)
        p_hat = 0.9 * p_hat + 0.1 * 0.25
        h_hat = 2.0 if step == 0 else 0.9 * h_hat + 0.1 * (20.0 - step) / 10
        assert schedule.source == "LOCAL" and schedule.outcome == "applied" and schedule.revision == step + 1
        metrics = schedule.metrics()
        assert metrics["fade/p_hat"] == pytest.approx(p_hat, rel=1e-14)
        assert metrics["fade/h_hat"] == pytest.approx(h_hat, rel=1e-14)
        assert schedule.delta == 1.0 and metrics["fade/h_target"] == 1.0


def test_the_same_id_counts_once_and_other_content_is_a_conflict() -> None:
    client = FadeClient.local()
    first = client.observe("b", **ROWS)
    assert client.observe("b", **ROWS) is first
    assert client.observe("c", **ROWS).revision == 2
    refused = client.observe("b", rewards=[1, 1, 0, 0], groups=["g"] * 4)
    assert refused.source == "NEUTRAL" and refused.rejection == "OBSERVATION_CONFLICT"


def test_evaluation_moves_nothing() -> None:
    client = FadeClient.local(RunConfig(ema_weight=1.0))
    assert client.observe("e", **ROWS, evaluation=True).alpha == 1.5
    assert client.observe("b", **ROWS).revision == 1
    assert client.observe("e", rewards=[1, 1, 1, 0], groups=["g"] * 4, evaluation=True).alpha == 3.0
    assert client.state_dict()["revision"] == 1


def test_filtered_groups_count_and_prefiltered_holds() -> None:
    config = RunConfig(ema_weight=1.0)
    schedule = FadeClient.local(config).observe("b", **ROWS, filtered_all_solved=1, filtered_all_failed={"default": 2})
    assert schedule.metrics()["fade/p_step"] == (0.25 + 1) / 4
    alone = FadeClient.local(config).observe("b", rewards=[], groups=[], filtered_all_solved=3, filtered_all_failed=1)
    assert alone.metrics()["fade/p_hat"] == 0.75
    held = FadeClient.local(config).observe("b", **ROWS, prefiltered=True)
    assert held.outcome == "frozen" and held.metrics()["fade/p_hat"] == 0.5


@pytest.mark.parametrize(
    ("report", "reason", "field", "row"),
    [
        ({"rewards": [1.0, float("inf")], "groups": [0, 0]}, "INVALID_FIELD", "rewards", 1),
        ({"rewards": [1.0, 0.0, 2.5], "groups": [0, 0, 0]}, "INVALID_FIELD", "rewards", 2),
        ({"rewards": [1.0, 0.0], "groups": [0]}, "INVALID_FIELD", "groups", None),
        ({"rewards": [[1.0, 0.0]], "groups": [0]}, "INVALID_FIELD", "rewards", None),
        ({"rewards": ["good", "bad"], "groups": [0, 0]}, "INVALID_FIELD", "rewards", None),
        ({"rewards": [1.0, 0.0], "groups": [[0], [0]]}, "INVALID_FIELD", "groups", None),
        ({"rewards": [1.0, 0.0], "groups": 7}, "INVALID_FIELD", "groups", None),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "solved": [True]}, "INVALID_FIELD", "solved", None),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "statuses": [1, 9]}, "INVALID_FIELD", "statuses", 1),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "rollouts": [5, 5]}, "INVALID_FIELD", "rewards", 1),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "entropy": 1.5}, "INVALID_FIELD", "entropy", None),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "entropy": (-1.0, 4)}, "INVALID_FIELD", "entropy.sum_nats", None),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "entropy": (50.0, 10)}, "INVALID_FIELD", "entropy.sum_nats", None),
        ({"rewards": [1.0, 0.0], "groups": ["a", "a"], "environments": {}}, "INVALID_FIELD", "environments", None),
        ({"rewards": [1.0, 0.0], "groups": ["a", "a"], "environments": {"a": 3}}, "INVALID_FIELD", "environments", None),
        ({"rewards": [], "groups": []}, "INVALID_FIELD", "rewards", None),
        (
            {"rewards": [1.0, 0.0], "groups": [0, 1], "environments": {0: "x", 1: "y"}, "filtered_all_solved": 2},
            "INVALID_FIELD",
            "filtered_all_solved",
            None,
        ),
        (
            {"rewards": [1.0, 0.0], "groups": [0, 0], "filtered_all_failed": -1},
            "INVALID_FIELD",
            "environments[default].filtered_all_failed",
            None,
        ),
        ({"rewards": [1.0, 0.0], "groups": [0, 0], "policy_versions": [1, 1]}, "INVALID_FIELD", "current_policy_version", None),
    ],
)
def test_bad_reports_are_refused_with_field_and_row_and_change_nothing(
    report: dict[str, Any], reason: str, field: str, row: int | None
) -> None:
    client = FadeClient.local(RunConfig(vocabulary_size=100))
    before = client.state_dict()
    with pytest.raises(RejectedError) as caught:
        client.observe("bad", **report)
    assert (caught.value.reason, caught.value.field, caught.value.row) == (reason, field, row)
    assert client.state_dict() == before


@pytest.mark.parametrize("observation_id", ["", "x" * 129, 17])
def test_bad_ids_are_refused(observation_id: Any) -> None:
    with pytest.raises(RejectedError) as caught:
        FadeClient.local().observe(observation_id, **ROWS)
    assert caught.value.field == "observation_id"


def test_entropy_of_another_kind_is_refused() -> None:
    client = FadeClient.local(on_rejected="raise")
    client.observe("a", **ROWS, entropy=Entropy(sum_nats=9.0, token_count=9, kind="full_vocabulary"))
    with pytest.raises(RejectedError) as caught:
        client.observe("b", **ROWS, entropy=Entropy(sum_nats=9.0, token_count=9, kind="sampled_nll"))
    assert caught.value.reason == "ENTROPY_KIND_CHANGED"


def test_a_decreasing_trainer_step_is_refused() -> None:
    client = FadeClient.local(on_rejected="raise")
    client.observe("a", **ROWS, trainer_step=5)
    with pytest.raises(RejectedError) as caught:
        client.observe("b", **ROWS, trainer_step=4)
    assert caught.value.reason == "TRAINER_STEP_DECREASED"
    assert client.observe("c", **ROWS, trainer_step=5).revision == 2


def test_after_a_first_good_observation_refused_ones_train_on_neutral_weights(caplog: pytest.LogCaptureFixture) -> None:
    client = FadeClient.local(RunConfig(ema_weight=1.0))
    assert client.observe("a", **ROWS).alpha == 3.0
    rewards = [3.0, 0.0, float("inf"), 0.0]
    for number in range(3):
        schedule = client.observe(f"bad{number}", rewards=rewards, groups=["g"] * 4)
    assert schedule.source == "NEUTRAL" and schedule.rejection == "INVALID_FIELD" and schedule.outcome is None
    assert (schedule.alpha, schedule.delta, schedule.scale) == (1.0, 1.0, 1.0)
    assert schedule.warnings[0].subject == "rewards"
    assert schedule.metrics()["fade/rejected"] == 3 and schedule.metrics()["fade/rejection"] == "INVALID_FIELD"
    np.testing.assert_allclose(schedule.advantages(rewards, ["g"] * 4), [2.0, -1.0, 0.0, -1.0], rtol=1e-15)
    assert sum("refused" in record.message for record in caplog.records) == 1
    assert client.observe("b", **ROWS).revision == 2


def test_a_checkpoint_goes_on_bit_equal_also_through_json() -> None:
    config = RunConfig(ema_weight=0.3, entropy_warmup=2)
    whole, half = FadeClient.local(config), FadeClient.local(config)
    reports: list[dict[str, Any]] = [
        {"rewards": [1.0, 0, 0, number % 2], "groups": ["g"] * 4, "entropy": (7.0 + number, 10)} for number in range(6)
    ]
    for number, report in enumerate(reports):
        whole.observe(str(number), **report, trainer_step=number)
    for number, report in enumerate(reports[:3]):
        half.observe(str(number), **report, trainer_step=number)
    resumed = FadeClient.local()
    resumed.load_state_dict(json.loads(json.dumps(half.state_dict())))
    for number, report in enumerate(reports[3:], 3):
        resumed.observe(str(number), **report, trainer_step=number)
    assert resumed.state_dict() == whole.state_dict()


@pytest.mark.parametrize(
    "damage",
    [
        lambda d: {},
        lambda d: {**d, "format_version": 2},
        lambda d: {key: value for key, value in d.items() if key != "config"},
        lambda d: {**d, "state_digest": "0" * 64},
        lambda d: {**d, "config": {**d["config"], "alpha_max": 0.1}},
        lambda d: {**d, "unsent": ["?"]},
        lambda d: {**d, "state": {**d["state"], "maths_version": "0"}},
    ],
)
def test_damaged_checkpoints_are_refused(damage: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    client = FadeClient.local()
    client.observe("a", **ROWS)
    before = client.state_dict()
    with pytest.raises(CheckpointError):
        client.load_state_dict(damage(client.state_dict()))
    assert client.state_dict() == before


def test_a_closed_client_says_so() -> None:
    with FadeClient.local() as client:
        client.observe("a", **ROWS)
    client.close()
    with pytest.raises(ClosedError):
        client.observe("b", **ROWS)
