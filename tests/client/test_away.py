"""The service is away: what trains on, what is kept, and that nothing shows of it afterwards."""

from __future__ import annotations

import json
import random
import socket
from collections.abc import Callable
from typing import Any

import pytest

from fade_client import FadeClient, RejectedError, RunConfig, Schedule, UnavailableError

Connect = Callable[..., FadeClient]
Batch = Callable[[int], dict[str, Any]]


def weights(schedules: list[Schedule]) -> list[tuple[float, float]]:
    return [(schedule.alpha, schedule.delta) for schedule in schedules]


def test_local_goes_on_and_the_service_ends_bit_equal_to_an_undisturbed_run(
    server: str, front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    client = connect(front.address)
    schedules = [client.observe(**batch(number)) for number in range(2)]
    front.mode = "down"
    schedules += [client.observe(**batch(number)) for number in range(2, 6)]
    assert schedules[-1].metrics()["fade/unsent"] == 4
    front.mode = "pass"
    assert client.flush(20)
    schedules.append(client.observe(**batch(6)))
    assert [schedule.source for schedule in schedules] == ["SERVER"] * 2 + ["LOCAL"] * 4 + ["SERVER"]
    expected = undisturbed(7)
    assert weights(schedules) == weights(expected)
    assert [schedule.metrics()["fade/p_hat"] for schedule in schedules] == [
        schedule.metrics()["fade/p_hat"] for schedule in expected
    ]
    run = history("r")
    observations = run.observations()
    assert [item.observation_id for item in observations] == [f"batch-{number}" for number in range(7)]
    assert [item.late.source for item in observations] == ["", "", "LOCAL", "LOCAL", "LOCAL", "LOCAL", ""]
    assert [(item.late.config_revision, len(item.late.schedules)) for item in observations[2:6]] == [(1, 1)] * 4
    assert observations[3].late.schedules[0].schedule.alpha == schedules[3].alpha
    twin = connect(server, "undisturbed")
    for number in range(7):
        twin.observe(**batch(number))
    assert run.digest() == client.state_dict()["state_digest"] == history("undisturbed").digest()


def test_new_observations_stay_local_while_earlier_reports_wait(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))
    calls = front.calls["Observe"]
    for number in range(2, 30):
        assert client.observe(**batch(number)).source == "LOCAL"
    front.mode = "pass"
    assert client.flush(20)
    assert front.calls["Observe"] >= calls + 29
    assert history("r").ids() == [f"batch-{number}" for number in range(30)]


def test_a_lost_answer_is_fetched_by_sending_the_report_again(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "lose"
    schedule = client.observe(**batch(1))
    assert schedule.source == "LOCAL"
    assert history("r").ids() == ["batch-0", "batch-1"]  # applied, and the client does not know
    front.mode = "pass"
    assert client.flush(20)
    last = client.observe(**batch(2))
    assert (last.source, last.revision) == ("SERVER", 3)
    assert weights([schedule, last]) == weights(undisturbed(3)[1:])
    assert history("r").ids() == ["batch-0", "batch-1", "batch-2"]


def test_no_answer_before_the_deadline_counts_as_away(front: Any, connect: Connect, batch: Batch) -> None:
    client = connect(front.address, timeout_seconds=0.3)
    client.observe(**batch(0))
    front.mode = "hang"
    assert client.observe(**batch(1)).source == "LOCAL"
    front.mode = "pass"
    assert client.flush(20)


def test_an_address_that_swallows_everything_ends_at_the_deadline(connect: Connect, batch: Batch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = connect(f"127.0.0.1:{silent.getsockname()[1]}", on_unavailable="raise", timeout_seconds=0.3)
        with pytest.raises(UnavailableError) as caught:
            client.observe(**batch(0))
        assert caught.value.code == "DEADLINE_EXCEEDED"
        client.close()


def test_hold_keeps_the_last_schedule_and_the_reports(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address, on_unavailable="hold")
    first = [client.observe(**batch(number)) for number in range(2)][-1]
    front.mode = "down"
    held = [client.observe(**batch(number)) for number in range(2, 5)]
    assert {schedule.source for schedule in held} == {"HELD"}
    assert weights(held) == weights([first] * 3)
    assert "fade/mass_success" not in held[0].metrics()
    front.mode = "pass"
    assert client.flush(20)
    observations = history("r").observations()
    assert [item.late.source for item in observations] == ["", "", "HELD", "HELD", "HELD"]
    assert {item.late.schedules[0].schedule.alpha for item in observations[2:]} == {first.alpha}
    assert client.observe(**batch(5)).source == "SERVER"


def test_hold_makes_the_match_grpo_factor_anew(front: Any, connect: Connect, batch: Batch) -> None:
    config = RunConfig(ema_weight=0.25, entropy_warmup=2, scale="match_grpo")
    client = connect(front.address, on_unavailable="hold", config=config)
    client.observe(**batch(0))
    front.mode = "down"
    report = batch(1)
    advantages = client.observe(**report).advantages(report["rewards"], report["groups"])
    plain = FadeClient.local(RunConfig(mode="shadow")).observe(**report).advantages(report["rewards"], report["groups"])
    assert abs(advantages).sum() == pytest.approx(abs(plain).sum(), rel=1e-12)
    front.mode = "pass"


def test_neutral_weights_and_the_reports_are_kept(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address, on_unavailable="neutral")
    client.observe(**batch(0))
    front.mode = "down"
    neutral = client.observe(**batch(1))
    assert neutral.source == "NEUTRAL" and weights([neutral]) == [(1.0, 1.0)] and neutral.rejection is None
    front.mode = "pass"
    assert client.flush(20)
    assert [item.late.source for item in history("r").observations()] == ["", "NEUTRAL"]


def test_raise_raises_keeps_nothing_and_the_breaker_stops_calling(
    front: Any, connect: Connect, batch: Batch, history: Any
) -> None:
    client = connect(front.address, on_unavailable="raise")
    client.observe(**batch(0))
    front.mode = "down"
    for _ in range(3):
        with pytest.raises(UnavailableError):
            client.observe(**batch(1))
    calls = front.calls["Observe"]
    for _ in range(50):
        with pytest.raises(UnavailableError, match="in the background"):
            client.observe(**batch(1))
    assert front.calls["Observe"] == calls
    front.mode = "pass"
    assert client.flush(20)  # the background thread found the service again
    assert client.observe(**batch(1)).source == "SERVER"
    assert history("r").ids() == ["batch-0", "batch-1"]


@pytest.mark.parametrize("policy", ["local", "hold", "neutral"])
def test_a_service_never_seen_gives_neutral_weights_and_a_recorded_gap(
    policy: str, front: Any, connect: Connect, batch: Batch, history: Any
) -> None:
    front.mode = "down"
    client = connect(front.address, on_unavailable=policy, timeout_seconds=0.2)
    for number in range(5):
        schedule = client.observe(**batch(number))
        assert schedule.source == "NEUTRAL" and schedule.metrics()["fade/lost"] == number + 1
    front.mode = "pass"
    client.flush(20)
    schedule = client.observe(**batch(5))
    assert (schedule.source, schedule.revision) == ("SERVER", 1)
    client.observe(**batch(6))
    assert [(item.observation_id, item.lost_reports) for item in history("r").observations()] == [
        ("batch-5", 5),
        ("batch-6", 0),
    ]


def test_reports_past_the_limit_train_neutral_and_are_counted(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address, unsent_limit_bytes=1000)
    client.observe(**batch(0))
    front.mode = "down"
    sources = [client.observe(**batch(number)).source for number in range(1, 9)]
    kept = sources.index("NEUTRAL")
    assert kept > 0 and sources == ["LOCAL"] * kept + ["NEUTRAL"] * (8 - kept)
    front.mode = "pass"
    assert client.flush(20)
    assert client.observe(**batch(9)).source == "SERVER"
    observations = history("r").observations()
    assert [item.observation_id for item in observations] == [*[f"batch-{number}" for number in range(kept + 1)], "batch-9"]
    assert observations[-1].lost_reports == 8 - kept


def test_a_late_report_that_is_refused_is_dropped(front: Any, connect: Connect, batch: Batch, server: str, history: Any) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))
    client.observe(**batch(2))
    other = connect(server, writer="the job's next attempt")
    other.restore()
    front.mode = "pass"
    assert client.flush(20)
    assert history("r").ids() == ["batch-0"]
    fenced = client.observe(**batch(3))
    assert fenced.source == "NEUTRAL" and fenced.rejection == "WRITER_FENCED"
    assert fenced.metrics()["fade/dropped"] == 2
    client.restore()
    assert client.observe(**batch(3)).revision == 2


def test_evaluation_is_answered_while_away_and_not_kept(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address)
    first = client.observe(**batch(0))
    front.mode = "down"
    schedule = client.observe(**{**batch(1), "evaluation": True})
    assert schedule.source == "LOCAL" and weights([schedule]) == weights([first])
    front.mode = "pass"
    assert client.flush(20)
    assert history("r").ids() == ["batch-0"]


def test_bad_reports_are_refused_while_away_too(front: Any, connect: Connect, batch: Batch) -> None:
    client = connect(front.address, on_rejected="raise")
    client.observe(**batch(0))
    front.mode = "down"
    with pytest.raises(RejectedError) as caught:
        client.observe("bad", rewards=[1.0, 9.0], groups=["a", "a"])
    assert (caught.value.field, caught.value.row) == ("rewards", 1)
    front.mode = "pass"
    assert client.flush(20)


def test_the_same_id_while_away_counts_once(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    assert client.observe(**batch(1)) is client.observe(**batch(1))
    front.mode = "pass"
    assert client.flush(20)
    assert history("r").ids() == ["batch-0", "batch-1"]


def test_what_was_not_sent_is_told_on_close(front: Any, connect: Connect, batch: Batch, caplog: Any) -> None:
    client = connect(front.address, timeout_seconds=0.3)
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))
    client.close()
    assert any("1 reports" in record.getMessage() for record in caplog.records)
    assert len(client.state_dict()["unsent"]) == 1


@pytest.mark.parametrize("seed", range(2))
def test_whatever_fails_when_the_history_is_that_of_an_undisturbed_run(
    seed: int, front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    dice = random.Random(seed)
    client = connect(front.address, timeout_seconds=0.15)
    client.observe(**batch(0))
    schedules = []
    for number in range(1, 40):
        front.mode = dice.choice(["pass", "pass", "down", "lose", "hang"])
        if dice.random() < 0.3:
            client.flush(dice.random())
        if dice.random() < 0.1:
            saved = json.loads(json.dumps(client.state_dict()))
            front.mode = dice.choice([front.mode, "pass"])
            client.close()  # the trainer died, and its next attempt goes on
            client = connect(front.address, timeout_seconds=0.15)
            client.load_state_dict(saved)
        schedules.append(client.observe(**batch(number)))
    front.mode = "pass"
    assert client.flush(30)
    assert weights(schedules) == weights(undisturbed(40)[1:])
    assert history("r").ids() == [f"batch-{number}" for number in range(40)]
    twin = FadeClient.local(RunConfig(ema_weight=0.25, entropy_warmup=2))
    for number in range(40):
        twin.observe(**batch(number))
    assert history("r").digest() == twin.state_dict()["state_digest"]
