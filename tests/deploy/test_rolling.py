"""Calls through the load balancer: spread one by one, and none lost while servers come and go."""

from __future__ import annotations

import signal
import time
from typing import Any

import httpx
import pytest
from tests.deploy.trainers import CONFIG, Trainers, summary

from fade_client import FadeClient

pytestmark = pytest.mark.heavy


def test_calls_of_one_connection_are_spread_over_both_servers(balanced: Any) -> None:
    with FadeClient(balanced.address, run="run", config=CONFIG, token=balanced.token, on_unavailable="raise") as client:
        for number in range(60):
            client.observe(f"batch-{number}", rewards=[1.0, 0.0], groups=[0, 0])
    one, two = balanced.observations()
    assert one + two == 60
    assert min(one, two) >= 10


def test_http_goes_through_the_load_balancer_and_asks_for_the_token(balanced: Any) -> None:
    assert httpx.get(f"{balanced.url}/api/v1/runs").status_code == 401
    answer = httpx.get(f"{balanced.url}/api/v1/runs", headers={"authorization": f"Bearer {balanced.token}"})
    assert answer.json()["runs"] == []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)], ids=["drained", "killed"])
def test_no_report_fails_or_is_lost_while_both_servers_are_restarted_one_after_the_other(
    balanced: Any, number: signal.Signals, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    trainers = Trainers(balanced.address, balanced.token)
    time.sleep(2)
    for server in balanced.servers:
        assert server.end(number) == code
        time.sleep(1)
        server.start()
        time.sleep(2)
    outcomes = trainers.stop()
    with capsys.disabled():
        print(f"\n{summary(outcomes)}")
    for outcome in outcomes:
        assert set(outcome.sources) == {"SERVER"}
        assert outcome.digest == outcome.expected
    assert all(count > 0 for count in balanced.observations()), "the first one came back into use"
