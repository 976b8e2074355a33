"""One client, one healthy service."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from fade_client import FadeClient, RejectedError, RunConfig, SettingsError, UnavailableError
from fade_proto.v1 import observation_pb2, scheduler_pb2

Connect = Callable[..., FadeClient]
Batch = Callable[[int], dict[str, Any]]


def test_the_service_answers_bit_for_bit_what_the_maths_in_process_gives(
    server: str, connect: Connect, batch: Batch, undisturbed: Any
) -> None:
    client = connect(server)
    for number, expected in enumerate(undisturbed(5)):
        report = batch(number)
        schedule = client.observe(**report)
        assert schedule.source == "SERVER" and schedule.revision == number + 1 and schedule.outcome == "applied"
        got, wanted = schedule.metrics(), expected.metrics()
        assert got.keys() == wanted.keys()
        assert {key: got[key] for key in got if key != "fade/source"} == {
            key: wanted[key] for key in wanted if key != "fade/source"
        }
        ours = schedule.advantages(report["rewards"], report["groups"])
        assert ours.tolist() == expected.advantages(report["rewards"], report["groups"]).tolist()


def test_the_environment_stands_for_arguments(server: str, batch: Batch, monkeypatch: pytest.MonkeyPatch, history: Any) -> None:
    monkeypatch.setenv("FADE_ADDRESS", server)
    monkeypatch.setenv("FADE_RUN", "from-environment")
    with FadeClient() as client:
        assert client.observe(**batch(0)).source == "SERVER"
    assert history("from-environment").ids() == ["batch-0"]


def test_missing_and_wrong_settings_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FADE_ADDRESS", "FADE_RUN", "FADE_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(SettingsError, match="FADE_ADDRESS"):
        FadeClient(run="r")
    with pytest.raises(SettingsError, match="FADE_RUN"):
        FadeClient("localhost:1")
    wrongs: list[dict[str, Any]] = [
        {"on_unavailable": "wait"},
        {"on_rejected": "ignore"},
        {"advantage_units": "points"},
        {"writer": ""},
        {"timeout_seconds": 0},
        {"unsent_limit_bytes": -1},
    ]
    for wrong in wrongs:
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            FadeClient("localhost:1", run="r", **wrong)


def test_the_token_goes_along(front: Any, connect: Connect, batch: Batch) -> None:
    connect(front.address, token="secret").observe(**batch(0))
    assert ("authorization", "Bearer secret") in front.metadata


def test_a_run_that_exists_is_joined_and_its_configuration_wins(
    server: str, connect: Connect, batch: Batch, caplog: pytest.LogCaptureFixture
) -> None:
    connect(server, writer="w").observe(**batch(0))
    client = connect(server, writer="w", config=RunConfig(ema_weight=0.5, entropy_warmup=2))
    schedule = client.observe(**batch(1))
    assert schedule.revision == 2
    assert client.state_dict()["config"]["ema_weight"] == 0.25
    assert any("ema_weight" in record.getMessage() for record in caplog.records)


def test_a_joined_run_goes_on_locally_from_its_own_state(
    server: str, front: Any, connect: Connect, batch: Batch, undisturbed: Any
) -> None:
    first = connect(server, writer="w")
    for number in range(3):
        first.observe(**batch(number))
    second = connect(front.address, writer="w")
    second.observe(**{**batch(9), "evaluation": True})
    front.mode = "down"
    schedule = second.observe(**batch(3))
    assert schedule.source == "LOCAL" and schedule.alpha == undisturbed(4)[3].alpha
    front.mode = "pass"
    assert second.flush(20)


def test_the_same_report_twice_counts_once(server: str, connect: Connect, batch: Batch, history: Any) -> None:
    client, again = connect(server, writer="w"), connect(server, writer="w")
    schedules = [client.observe(**batch(0)), client.observe(**batch(1)), client.observe(**batch(0)), again.observe(**batch(1))]
    assert [schedule.revision for schedule in schedules] == [1, 2, 1, 2]
    assert schedules[2].metrics() == schedules[0].metrics()
    assert history("r").ids() == ["batch-0", "batch-1"]
    assert client.state_dict()["revision"] == 2


def test_another_writer_is_fenced_and_told_both_ways_out(server: str, connect: Connect, batch: Batch, history: Any) -> None:
    first, second = connect(server), connect(server)
    first.observe(**batch(0))
    with pytest.raises(RejectedError, match=r"load_state_dict.*restore\(\)") as caught:
        second.observe(**batch(1))
    assert caught.value.reason == "WRITER_FENCED" and caught.value.code == "FAILED_PRECONDITION"
    second.restore()
    assert second.observe(**batch(1)).revision == 2
    assert history("r").ids() == ["batch-0", "batch-1"]


def test_restore_goes_back_to_a_revision(server: str, connect: Connect, batch: Batch, history: Any, undisturbed: Any) -> None:
    client = connect(server)
    for number in range(4):
        client.observe(**batch(number))
    client.restore(2)
    schedule = client.observe(**batch(2))
    assert schedule.revision == 3 and schedule.alpha == undisturbed(3)[2].alpha
    run = history("r")
    assert run.ids() == ["batch-0", "batch-1", "batch-2"]
    assert run.ids("main") == ["batch-0", "batch-1", "batch-2", "batch-3"]
    with pytest.raises(RejectedError) as caught:
        client.restore(99)
    assert caught.value.reason == "REVISION_NOT_FOUND"
    assert client.observe(**batch(3)).revision == 4


def test_restore_changes_nothing_while_the_service_is_away(front: Any, connect: Connect, batch: Batch) -> None:
    client = connect(front.address, timeout_seconds=0.3)
    client.observe(**batch(0))
    front.mode = "down"
    with pytest.raises(UnavailableError):
        client.restore()
    assert client.observe(**batch(1)).source == "LOCAL"
    front.mode = "pass"
    assert client.flush(20)
    assert client.observe(**batch(2)).revision == 3


def test_the_first_refusal_raises_with_field_and_row(server: str, connect: Connect) -> None:
    client = connect(server)
    with pytest.raises(RejectedError) as caught:
        client.observe("b", rewards=[1.0, 0.0, 3.0], groups=["a"] * 3)
    error = caught.value
    assert (error.reason, error.field, error.row, error.code) == ("INVALID_FIELD", "rewards", 2, "INVALID_ARGUMENT")
    with pytest.raises(RejectedError) as caught:
        client.observe("b", rewards=[1.0, 0.0], groups=["a"] * 2, entropy=(-4.0, 2))
    assert "entropy" in caught.value.field


def test_a_bad_run_id_raises_at_once(server: str, connect: Connect, batch: Batch) -> None:
    with pytest.raises(RejectedError) as caught:
        connect(server, "Not A Run").observe(**batch(0))
    assert caught.value.code == "INVALID_ARGUMENT"


def test_later_refusals_train_neutral_with_the_reason(server: str, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(server)
    client.observe(**batch(0))
    rewards, groups = [5.0, 0.0], ["a", "a"]
    schedule = client.observe("bad", rewards=rewards, groups=groups)
    assert schedule.source == "NEUTRAL" and schedule.rejection == "INVALID_FIELD"
    assert schedule.advantages(rewards, groups).tolist() == [2.5, -2.5]
    conflict = client.observe("batch-0", rewards=[1.0, 0.0], groups=groups)
    assert conflict.rejection == "OBSERVATION_CONFLICT" and conflict.metrics()["fade/rejected"] == 2
    assert client.observe(**batch(1)).source == "SERVER"
    assert history("r").ids() == ["batch-0", "batch-1"]


def test_on_rejected_raise_raises_always(server: str, connect: Connect, batch: Batch) -> None:
    client = connect(server, on_rejected="raise")
    client.observe(**batch(0))
    with pytest.raises(RejectedError):
        client.observe("bad", rewards=[5.0, 0.0], groups=["a", "a"])


def test_a_message_over_the_limit_is_refused_by_name(server: str, connect: Connect) -> None:
    rows = 2_200_000  # 8 bytes each
    with pytest.raises(RejectedError) as caught:
        connect(server, timeout_seconds=30).observe("big", rewards=np.zeros(rows), groups=np.zeros(rows, int))
    assert caught.value.reason == "MESSAGE_TOO_LARGE" and caught.value.code == "RESOURCE_EXHAUSTED"


def test_shadow_applies_neutral_weights(server: str, connect: Connect, batch: Batch) -> None:
    schedule = connect(server, config=RunConfig(mode="shadow", ema_weight=1.0)).observe(**batch(0))
    report = batch(0)
    assert schedule.source == "SERVER" and schedule.mode == "shadow" and schedule.alpha != 1.0
    rewards, groups = np.array(report["rewards"]), np.array(report["groups"])
    means = np.array([rewards[groups == group].mean() for group in groups])
    np.testing.assert_allclose(schedule.advantages(rewards, groups), rewards - means, rtol=0, atol=1e-15)


def test_a_live_pin_shows_in_the_next_schedule_and_in_local_ones(
    front: Any, connect: Connect, batch: Batch, history: Any
) -> None:
    client = connect(front.address)
    assert client.observe(**batch(0)).source == "SERVER"
    history("r").update(mode=observation_pb2.MODE_PINNED, pinned_alpha=2.0, pinned_delta=0.5)
    schedule = client.observe(**batch(1))
    assert (schedule.source, schedule.alpha, schedule.delta) == ("PINNED", 2.0, 0.5)
    assert client.state_dict()["config_revision"] == 2
    front.mode = "down"
    local = client.observe(**batch(2))
    assert (local.source, local.mode, local.alpha, local.delta) == ("LOCAL", "pinned", 2.0, 0.5)
    front.mode = "pass"
    assert client.flush(20)
    assert history("r").observations()[-1].config_revision == 2


def test_reports_made_under_the_old_configuration_are_applied_under_it(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    local = client.observe(**batch(1))
    history("r").update(alpha_max=1.25)
    front.mode = "pass"
    assert client.flush(20)
    late = history("r").observations()[1]
    assert late.config_revision == 1 and late.schedules[0].schedule.alpha == local.alpha == undisturbed(2)[1].alpha
    assert client.observe(**batch(2)).alpha <= 1.25


def test_a_run_that_the_service_lost_is_made_anew_from_here(
    server: str, connect: Connect, batch: Batch, history: Any, undisturbed: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(server, on_rejected="raise")
    for number in range(2):
        client.observe(**batch(number))
    run = history("r")
    run.stub.DeleteRun(scheduler_pb2.DeleteRunRequest(name=run.name), timeout=10)
    local = client.observe(**batch(2))
    assert (local.source, local.alpha) == ("LOCAL", undisturbed(3)[2].alpha)
    assert "made anew from revision 2" in caplog.text
    assert client.flush(20)
    schedule = client.observe(**batch(3))
    assert (schedule.source, schedule.revision, schedule.alpha) == ("SERVER", 4, undisturbed(4)[3].alpha)
    assert [entry.observation_id for entry in run.observations()] == [batch(number)["observation_id"] for number in (2, 3)]


@pytest.mark.parametrize("reason", ["TOKEN_INVALID", "INTERNAL", "UNIMPLEMENTED"])
def test_reports_wait_where_a_refusal_says_nothing_of_them(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any, reason: str
) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    for number in (1, 2, 3):
        assert client.observe(**batch(number)).source == "LOCAL"
    front.mode = reason
    assert not client.flush(1.5)
    assert client.observe(**batch(4)).source == "LOCAL"
    front.mode = "pass"
    assert client.flush(20)
    assert client.observe(**batch(5)).alpha == undisturbed(6)[5].alpha
    assert [entry.lost_reports for entry in history("r").observations()] == [0] * 6


def test_a_late_report_that_is_refused_for_good_is_told_as_lost(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))
    front.mode = "INVALID_FIELD"
    assert client.flush(20)
    front.mode = "pass"
    schedule = client.observe(**batch(2))
    assert schedule.metrics()["fade/dropped"] == 1
    assert [entry.lost_reports for entry in history("r").observations()] == [0, 1]


def test_environments_are_kept_apart(server: str, connect: Connect) -> None:
    client = connect(server, config=RunConfig(ema_weight=1.0))
    schedule = client.observe(
        "b",
        rewards=[1.0, 0, 1, 1, 0, 0, 0, 1],
        groups=["m"] * 4 + ["c"] * 4,
        environments={"m": "math", "c": "code"},
        filtered_all_failed={"code": 1},
    )
    metrics = schedule.metrics()
    assert (metrics["fade/math/p_hat"], metrics["fade/code/p_hat"]) == (0.75, 0.125)
    only = client.observe("c", rewards=[1.0, 0], groups=["m", "m"], environments={"m": "math"})
    assert set(only.parts) == {"math"} and only.alpha == 1.5
    assert set(client.state_dict()["state"]["environments"]) == {"math", "code"}


def test_coverage_under_the_quorum_is_told(server: str, connect: Connect) -> None:
    schedule = connect(server).observe("b", rewards=[1.0, 0, None, None, None], groups=["g"] * 5)
    assert schedule.degraded and schedule.outcome == "frozen"
    assert "LOW_COVERAGE" in [warning.reason for warning in schedule.warnings]
    assert schedule.advantages([1.0, 0, None, None, None], ["g"] * 5)[2:].tolist() == [0, 0, 0]
