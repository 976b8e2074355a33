"""What a client is refused for when it is made, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import pytest

from fade_client import FadeClient, SettingsError
from fade_proto.v1.scheduler_pb2 import GetRunRequest
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

Connect = Callable[..., FadeClient]

SECRET = "s3cr3t"  # pragma: allowlist secret


@pytest.mark.parametrize(
    "address",
    [
        "http://localhost:50051",
        "https://fade.example",
        "localhost",
        "::1:50051",
        ":50051",
        "localhost:0",
        "localhost:70000",
        "localhost:grpc",
        "localhost:50051/v1",
        "dns:///fade.example",
        "localhost:50051\n",
    ],
)
def test_an_address_that_is_none_is_refused_by_name(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="FADE_ADDRESS.*HOST:PORT"):
        FadeClient(address, run="r")
    monkeypatch.setenv("FADE_ADDRESS", address)
    with pytest.raises(SettingsError, match="FADE_ADDRESS.*HOST:PORT"):
        FadeClient(run="r")


@pytest.mark.parametrize(
    "address",
    ["localhost:50051", "[::1]:50051", "dns:///fade.example:50051", "dns:fade:50051", "unix:/run/fade", "unix:///run/fade"],
)
def test_the_addresses_of_grpc_are_taken(address: str) -> None:
    FadeClient(address, run="r").close()


def test_a_service_is_reached_by_a_target_of_grpcs(server: str, connect: Connect, batch: Any) -> None:
    assert connect(f"dns:///{server}").observe(**batch(0)).source == "SERVER"


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("timeout_seconds", float("inf")),
        ("timeout_seconds", float("nan")),
        ("timeout_seconds", 1e12),
        ("timeout_seconds", "2"),
        ("config", {"reward_min": -1}),
        ("config", "shadow"),
        ("unsent_limit_bytes", "64"),
        ("unsent_limit_bytes", 1.5),
        ("writer", 7),
        ("project", 7),
        ("run", 7),
        ("token", b"bytes"),
        ("tls_certificate", "own.pem"),
    ],
)
def test_a_setting_of_the_wrong_kind_is_refused_by_name(setting: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=setting):
        FadeClient("localhost:1", **{"run": "r", setting: value})


def test_the_client_in_process_refuses_them_too() -> None:
    config: Any = {"reward_min": -1}
    with pytest.raises(SettingsError, match="config"):
        FadeClient.local(config)


@pytest.mark.parametrize("seconds", ["inf", "1e12"])
def test_a_time_that_is_too_long_is_refused_from_the_environment_too(seconds: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from fade_client.shim import client_from_environment

    monkeypatch.setenv("FADE_TIMEOUT_SECONDS", seconds)
    with pytest.raises(SettingsError, match="timeout_seconds"):
        client_from_environment(address="localhost:1", run="r")


def test_one_may_wait_for_reports_without_end(front: Any, connect: Connect, batch: Any) -> None:
    client = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))
    front.mode = "pass"
    assert client.flush(float("inf"))


@pytest.mark.parametrize("token", [f"{SECRET}\nx", f"{SECRET}é", f"{SECRET} x", f"{SECRET}\x00"])
def test_a_token_that_no_header_carries_is_refused_and_not_shown(token: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="token") as caught:
        FadeClient("localhost:1", run="r", token=token)
    assert SECRET not in str(caught.value)
    monkeypatch.setenv("FADE_TOKEN", token.replace("\x00", "\x01"))
    with pytest.raises(SettingsError, match="FADE_TOKEN") as caught:
        FadeClient("localhost:1", run="r")
    assert SECRET not in str(caught.value)


def test_the_line_end_of_a_tokens_file_is_no_part_of_it(front: Any, connect: Connect, batch: Any) -> None:
    assert connect(front.address, token=f"  {SECRET}\n").observe(**batch(0)).source == "SERVER"
    assert ("authorization", f"Bearer {SECRET}") in front.metadata


def test_an_address_where_nobody_answers_is_said_with_what_to_check(
    front: Any, connect: Connect, batch: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def said() -> list[str]:
        return [record.getMessage() for record in caplog.records if "unavailable" in record.getMessage()]

    front.mode = "down"
    client = connect(front.address, timeout_seconds=0.2)
    client.observe(**batch(0))
    client.observe(**batch(1))
    (first,) = said()
    assert front.address in first and "check FADE_ADDRESS" in first
    monkeypatch.setattr("fade_client.reminder.AGAIN_SECONDS", 0.0)
    client.observe(**batch(2))
    assert len(said()) > 1, "it is said again at times"
    front.mode = "pass"
    client.flush(20)
    assert client.observe(**batch(3)).source == "SERVER"
    front.mode = "down"
    client.observe(**batch(4))
    assert "check FADE_ADDRESS" not in said()[-1], "somebody did answer there"
    front.mode = "pass"


def test_the_project_comes_from_the_environment_where_it_is_not_given(
    server: str, batch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FADE_PROJECT", "lab")
    with FadeClient(server, run="of-the-environment") as client, FadeClient(server, run="given", project="other") as other:
        for one in (client, other):
            assert one.observe(**batch(0)).source == "SERVER"
    with grpc.insecure_channel(server) as channel:
        for name in ("projects/lab/runs/of-the-environment", "projects/other/runs/given"):
            found = SchedulerServiceStub(channel).GetRun(GetRunRequest(name=name), timeout=10)
            assert found.revision == 1
