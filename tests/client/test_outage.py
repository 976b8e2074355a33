"""What else happens while the service is away: its configuration changes, the run is restored, environments come and go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from fade_client import FadeClient, RejectedError

Batch = Callable[[int], dict[str, Any]]
Connect = Callable[..., FadeClient]


def mixed(number: int) -> dict[str, Any]:
    """A batch of two environments, or of one, or of a third that was never seen."""
    report: dict[str, Any] = {
        "observation_id": f"batch-{number}",
        "rewards": [float((number + row) % 3 == 0) for row in range(8)],
        "groups": [row // 2 for row in range(8)],
        "entropy": (5.0 + number, 10),
    }
    if number % 3 == 2:
        return {**report, "environments": dict.fromkeys(range(4), "late-comer" if number == 5 else "code")}
    return {**report, "environments": {0: "math", 1: "code", 2: "math", 3: "code"}}


def test_a_configuration_changed_meanwhile_holds_from_the_first_batch_that_is_trained_under_it(
    front: Any, server: str, connect: Connect, batch: Batch, history: Any
) -> None:
    client = connect(front.address)
    schedules = [client.observe(**batch(0))]
    front.mode = "down"
    schedules += [client.observe(**batch(number)) for number in (1, 2)]
    history("r").update(alpha_max=2.0)
    schedules += [client.observe(**batch(3))]
    front.mode = "pass"
    assert client.flush(20)
    schedules += [client.observe(**batch(number)) for number in (4, 5)]
    twin = connect(server, run="twin", timeout_seconds=10.0)
    expected = [twin.observe(**batch(number)) for number in range(4)]
    history("twin").update(alpha_max=2.0)
    expected += [twin.observe(**batch(number)) for number in (4, 5)]
    assert [(item.alpha, item.delta) for item in schedules] == [(item.alpha, item.delta) for item in expected]
    assert history("r").digest() == history("twin").digest()
    assert [item.config_revision for item in history("r").observations()] == [1, 1, 1, 1, 2, 2]


def test_environments_that_come_and_go_meanwhile_end_as_if_nothing_had_happened(
    front: Any, server: str, connect: Connect, history: Any
) -> None:
    client, twin = connect(front.address), connect(server, run="twin", timeout_seconds=10.0)
    for number in range(8):
        front.mode = "down" if 2 <= number < 6 else "pass"
        if number == 6:
            assert client.flush(20)
        ours, theirs = client.observe(**mixed(number)), twin.observe(**mixed(number))
        assert {name: (part.schedule, part.state) for name, part in ours.parts.items()} == {
            name: (part.schedule, part.state) for name, part in theirs.parts.items()
        }
        assert ours.source == ("LOCAL" if 2 <= number < 6 else "SERVER")
    assert history("r").digest() == history("twin").digest()


def test_a_run_that_another_took_over_meanwhile_takes_no_late_reports(
    front: Any, server: str, connect: Connect, batch: Batch, history: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(front.address, on_rejected="raise")
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))
    other = connect(server)
    other.restore()
    other.observe(**batch(7))
    front.mode = "pass"
    client.flush(20)
    assert "batch-1" in caplog.text and "WRITER_FENCED" in caplog.text
    with pytest.raises(RejectedError, match="load_state_dict"):
        client.observe(**batch(2))
    assert history("r").ids() == ["batch-0", "batch-7"]


def test_the_clients_own_restore_meanwhile_is_done_when_the_service_is_back(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    checkpoint = client.state_dict()
    client.observe(**batch(1))
    front.mode = "down"
    client.observe(**batch(2))
    client.load_state_dict(checkpoint)
    schedules = [client.observe(**batch(number)) for number in (1, 2)]
    front.mode = "pass"
    assert client.flush(20)
    schedules.append(client.observe(**batch(3)))
    assert [item.source for item in schedules] == ["LOCAL", "LOCAL", "SERVER"]
    assert [(item.alpha, item.delta) for item in schedules] == [(item.alpha, item.delta) for item in undisturbed(4)[1:]]
    assert history("r").ids() == [f"batch-{number}" for number in range(4)]
    assert history("r").ids("main") == ["batch-0", "batch-1"]


def test_after_an_overflow_the_gap_is_told_and_the_rest_is_sent(front: Any, connect: Connect, batch: Batch, history: Any) -> None:
    client = connect(front.address, unsent_limit_bytes=900)
    client.observe(**batch(0))
    front.mode = "down"
    sources = [client.observe(**batch(number)).source for number in range(1, 6)]
    kept = sources.count("LOCAL")
    assert 1 <= kept < 5 and sources == ["LOCAL"] * kept + ["NEUTRAL"] * (5 - kept)
    front.mode = "pass"
    assert client.flush(20)
    client.observe(**batch(6))
    told = history("r").observations()
    assert [item.observation_id for item in told] == [f"batch-{number}" for number in (*range(kept + 1), 6)]
    assert [item.lost_reports for item in told] == [0] * (kept + 1) + [5 - kept]
