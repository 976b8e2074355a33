"""When a refusal stops a training, and when it does not: only before the first schedule, which says that the set-up is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.client.conftest import Front
from tests.service.access.parts import make_server, tokens_json

from fade_client import FadeClient, RejectedError, RunConfig
from fade_service.access.policy import Access
from fade_service.access.tokens import Tokens

Batch = Callable[[int], dict[str, Any]]
Connect = Callable[..., FadeClient]

OFF_THE_SCALE: dict[str, Any] = {"rewards": [7.0, 0.0], "groups": ["g", "g"]}


@pytest.fixture
def guarded() -> Iterator[Front]:
    """The front of a server that wants a token, down at first."""
    with make_server(Access(tokens=Tokens(tokens_json()))) as running:
        front = Front(f"127.0.0.1:{running.grpc_port}")
        front.mode = "down"
        yield front
        front.close()


def test_a_service_that_comes_back_with_another_writers_run_stops_nothing(
    server: str, front: Any, connect: Connect, batch: Batch, history: Any
) -> None:
    connect(server).observe(**batch(0))
    front.mode = "down"
    late = connect(front.address, timeout_seconds=2.0)
    assert late.observe(**batch(1)).source == "NEUTRAL"
    front.mode = "pass"
    late.flush(20)
    fenced = [late.observe(**batch(number)) for number in (2, 3)]
    assert [(item.source, item.rejection) for item in fenced] == [("NEUTRAL", "WRITER_FENCED")] * 2
    assert history("r").ids() == ["batch-0"]


def test_a_service_that_comes_back_and_wants_a_token_stops_nothing(guarded: Front, connect: Connect, batch: Batch) -> None:
    client = connect(guarded.address, timeout_seconds=2.0)
    assert client.observe(**batch(0)).source == "NEUTRAL"
    guarded.mode = "pass"
    client.flush(20)
    assert client.observe(**batch(1)).rejection == "TOKEN_MISSING"


def test_a_resumed_training_that_went_on_alone_is_not_stopped_by_a_refused_restore(
    guarded: Front, server: str, connect: Connect, batch: Batch
) -> None:
    first = connect(server)
    first.observe(**batch(0))
    resumed = connect(guarded.address, timeout_seconds=2.0)
    resumed.load_state_dict(first.state_dict())
    assert resumed.observe(**batch(1)).source == "LOCAL"
    guarded.mode = "pass"
    resumed.flush(20)
    assert resumed.observe(**batch(2)).rejection == "TOKEN_MISSING"


def test_a_restore_makes_the_next_observation_a_first_one(server: str, connect: Connect, batch: Batch) -> None:
    client = connect(server)
    client.observe(**batch(0))
    client.restore()
    with pytest.raises(RejectedError, match="reward_max"):
        client.observe("bad", **OFF_THE_SCALE)


@pytest.mark.parametrize("policy", ["local", "hold", "neutral"])
def test_the_first_batch_is_checked_against_the_configuration_passed_while_the_service_is_away(
    policy: str, front: Any, connect: Connect, batch: Batch
) -> None:
    front.mode = "down"
    client = connect(front.address, timeout_seconds=2.0, on_unavailable=policy)
    with pytest.raises(RejectedError) as caught:
        client.observe("bad", **OFF_THE_SCALE)
    assert (caught.value.reason, caught.value.field, caught.value.row) == ("INVALID_FIELD", "rewards", 0)
    assert client.observe(**batch(0)).metrics()["fade/lost"] == 1, "what was refused is no lost report"
    later = client.observe("bad", **OFF_THE_SCALE)
    assert (later.source, later.rejection, later.metrics()["fade/lost"]) == ("NEUTRAL", "INVALID_FIELD", 1)


def test_without_a_configuration_of_ones_own_the_runs_may_hold_any_range(
    server: str, front: Any, connect: Connect, history: Any
) -> None:
    connect(server, config=RunConfig(reward_max=10), writer="w").observe("first", **OFF_THE_SCALE)
    front.mode = "down"
    client = connect(front.address, config=None, writer="w", timeout_seconds=2.0)
    assert client.observe("second", **OFF_THE_SCALE).rejection is None
    front.mode = "pass"
    client.flush(20)
    assert client.observe("third", **OFF_THE_SCALE).source == "SERVER"
    assert history("r").ids() == ["first", "third"]


def test_refusals_that_go_on_are_said_at_times(
    server: str, connect: Connect, batch: Batch, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> int:
        return sum("was refused" in record.getMessage() for record in caplog.records)

    client = connect(server)
    client.observe(**batch(0))
    for number in range(3):
        client.observe(f"bad-{number}", **OFF_THE_SCALE)
    assert said() == 1
    monkeypatch.setattr("fade_client.reminder.AGAIN_SECONDS", 0.0)
    client.observe("bad-3", **OFF_THE_SCALE)
    assert said() == 2


def test_fencing_names_another_run_as_a_way_out(server: str, connect: Connect, batch: Batch) -> None:
    first, second = connect(server, on_rejected="raise"), connect(server)
    first.observe(**batch(0))
    with pytest.raises(RejectedError, match=r"another run name \(FADE_RUN\).*restore\(\)"):
        second.observe(**batch(1))
    second.restore()
    with pytest.raises(RejectedError, match=r"another run name \(FADE_RUN\).*restore\(\)"):
        first.observe(**batch(1))


def test_a_first_batch_that_the_configuration_cannot_take_makes_no_run(server: str, connect: Connect) -> None:
    for config in (None, RunConfig(reward_max=5.0)):
        with pytest.raises(RejectedError, match="reward_max"):
            connect(server, "mistaken", config=config).observe("first", **OFF_THE_SCALE)
    wide = connect(server, "mistaken", config=RunConfig(reward_max=7.0))
    assert wide.observe("first", **OFF_THE_SCALE).source == "SERVER"


def test_a_run_that_exists_says_itself_what_it_takes(server: str, connect: Connect) -> None:
    connect(server, "wide", config=RunConfig(reward_max=7.0), writer="w").observe("first", **OFF_THE_SCALE)
    assert connect(server, "wide", config=None, writer="w").observe("second", **OFF_THE_SCALE).revision == 2


def test_a_joiner_with_another_configuration_learns_the_way_out(server: str, connect: Connect, caplog: Any) -> None:
    connect(server, "narrow", writer="w").observe("first", rewards=[1.0, 0.0], groups=["g", "g"])
    with pytest.raises(RejectedError, match="reward_max"):
        connect(server, "narrow", writer="w", config=RunConfig(reward_max=7.0)).observe("second", **OFF_THE_SCALE)
    assert "fade runs delete" in caplog.text
