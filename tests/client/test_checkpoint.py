"""A trainer's checkpoint with its client in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fade_client import CheckpointError, FadeClient, RejectedError, RunConfig, UnavailableError

Connect = Callable[..., FadeClient]
Batch = Callable[[int], dict[str, Any]]


def through_json(state: dict[str, Any]) -> dict[str, Any]:
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


def test_a_killed_trainer_goes_on_from_its_checkpoint_on_a_new_branch(
    server: str, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    first = connect(server)
    for number in range(3):
        first.observe(**batch(number))
    saved = through_json(first.state_dict())
    for number in range(3, 5):
        first.observe(**batch(number))  # and killed
    second = connect(server)
    second.load_state_dict(saved)
    expected = undisturbed(6)
    for number in range(3, 6):
        schedule = second.observe(**batch(number))
        assert schedule.source == "SERVER" and schedule.revision == number + 1
        assert (schedule.alpha, schedule.delta) == (expected[number].alpha, expected[number].delta)
    run = history("r")
    assert run.get().branch == second.state_dict()["branch"] != "main"
    assert run.ids() == [f"batch-{number}" for number in range(6)]
    assert run.ids("main") == [f"batch-{number}" for number in range(5)]
    assert first.observe(**batch(5)).rejection == "WRITER_FENCED"


def test_unsent_reports_are_sent_again_on_the_new_branch(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    first = connect(front.address, timeout_seconds=0.3)
    first.observe(**batch(0))
    front.mode = "down"
    first.observe(**batch(1))
    first.observe(**batch(2))
    saved = through_json(first.state_dict())
    assert (saved["revision"], len(saved["unsent"])) == (1, 2)
    first.close()
    front.mode = "pass"
    second = connect(front.address, timeout_seconds=5.0)
    second.load_state_dict(saved)
    schedule = second.observe(**batch(3))
    assert schedule.source == "SERVER" and schedule.revision == 4 and schedule.alpha == undisturbed(4)[3].alpha
    assert history("r").ids() == [f"batch-{number}" for number in range(4)]


def test_a_fresh_service_takes_the_checkpoint(
    server: str, connect: Connect, batch: Batch, history: Any, undisturbed: Any, tmp_path: Path
) -> None:
    from fade_service.server import FadeServer

    elsewhere = f"sqlite:///{tmp_path / 'elsewhere.db'}"
    with FadeServer(store=elsewhere, host="127.0.0.1", grpc_port=0, http_port=0) as other:
        old = connect(f"127.0.0.1:{other.grpc_port}")
        for number in range(3):
            old.observe(**batch(number))
        saved = through_json(old.state_dict())
        old.close()
    new = connect(server, config=None)
    new.load_state_dict(saved)
    schedule = new.observe(**batch(3))
    assert schedule.source == "SERVER" and schedule.alpha == undisturbed(4)[3].alpha and schedule.revision == 4
    assert new.state_dict()["config"] == saved["config"]


def test_a_checkpoint_loads_while_the_service_is_away_and_the_run_is_restored_later(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    first = connect(front.address)
    for number in range(3):
        first.observe(**batch(number))
    saved = through_json(first.state_dict())
    first.observe(**batch(3))
    first.close()
    front.mode = "down"
    second = connect(front.address, timeout_seconds=0.3)
    second.load_state_dict(saved)
    expected = undisturbed(6)
    for number in range(3, 5):
        schedule = second.observe(**batch(number))
        assert schedule.source == "LOCAL" and schedule.alpha == expected[number].alpha
    again = through_json(second.state_dict())
    assert (again["branch"], again["revision"], len(again["unsent"])) == ("main", 3, 2)
    front.mode = "pass"
    assert second.flush(20)
    last = second.observe(**batch(5))
    assert last.source == "SERVER" and last.alpha == expected[5].alpha and last.revision == 6
    run = history("r")
    assert run.ids() == [f"batch-{number}" for number in range(6)]
    assert len(run.get().branches) == 2


def test_loading_raises_while_the_service_is_away_where_it_is_to(front: Any, connect: Connect, batch: Batch) -> None:
    client = connect(front.address, on_unavailable="raise", timeout_seconds=0.3)
    client.observe(**batch(0))
    saved = client.state_dict()
    front.mode = "down"
    with pytest.raises(UnavailableError):
        client.load_state_dict(saved)
    front.mode = "pass"
    assert client.flush(20)
    assert client.observe(**batch(1)).revision == 2


def test_a_checkpoint_from_before_the_first_observation_starts_over(
    server: str, connect: Connect, batch: Batch, history: Any, undisturbed: Any
) -> None:
    first = connect(server)
    saved = through_json(first.state_dict())
    fresh = connect(server)
    fresh.load_state_dict(saved)
    assert fresh.observe(**batch(0)).revision == 1
    assert [branch.id for branch in history("r").get().branches] == ["main"]  # nothing to leave behind
    fresh.observe(**batch(1))
    second = connect(server)
    second.load_state_dict(saved)
    schedule = second.observe(**batch(0))
    assert schedule.revision == 1 and schedule.alpha == undisturbed(1)[0].alpha
    assert history("r").ids() == ["batch-0"]


def test_a_checkpoint_of_another_run_may_be_gone_on_from(server: str, connect: Connect, batch: Batch, undisturbed: Any) -> None:
    first = connect(server, "stage-one")
    for number in range(2):
        first.observe(**batch(number))
    second = connect(server, "stage-two")
    second.load_state_dict(first.state_dict())
    assert second.observe(**batch(2)).alpha == undisturbed(3)[2].alpha
    assert first.observe(**batch(2)).source == "SERVER"


def test_a_local_clients_checkpoint_goes_on_with_a_service_and_back(
    server: str, connect: Connect, batch: Batch, undisturbed: Any
) -> None:
    expected = undisturbed(3)
    local = FadeClient.local(RunConfig(ema_weight=0.25, entropy_warmup=2))
    local.observe(**batch(0))
    client = connect(server)
    client.load_state_dict(through_json(local.state_dict()))
    assert client.observe(**batch(1)).alpha == expected[1].alpha
    back = FadeClient.local()
    back.load_state_dict(through_json(client.state_dict()))
    assert back.observe(**batch(2)).alpha == expected[2].alpha


def test_a_refused_restore_raises_and_nothing_is_observed_until_another(server: str, connect: Connect, batch: Batch) -> None:
    client = connect(server)
    client.observe(**batch(0))
    saved = client.state_dict()
    other = connect(server, "Not A Run")
    for _ in range(2):
        with pytest.raises(RejectedError):
            other.load_state_dict(saved)
        with pytest.raises(RejectedError):
            other.observe(**batch(1))


@pytest.mark.parametrize(
    ("entry", "value"),
    [
        ("revision", 2**70),
        ("revision", "3"),
        ("revision", -1),
        ("branch", 5),
        ("trainer_step", "abc"),
        ("trainer_step", 2.5),
        ("trainer_step", 2**63),
        ("config_revision", None),
        ("lost_reports", 2**70),
        ("lost_reports", -1),
        ("lost_reports", True),
    ],
)
def test_an_entry_of_the_wrong_kind_is_refused_and_changes_nothing(
    server: str, connect: Callable[..., FadeClient], batch: Callable[[int], dict[str, Any]], entry: str, value: Any
) -> None:
    client = connect(server)
    client.observe(**batch(0))
    before = client.state_dict()
    with pytest.raises(CheckpointError, match=entry):
        client.load_state_dict({**before, entry: value})
    assert client.state_dict() == before
    assert client.observe(**batch(1)).source == "SERVER"
