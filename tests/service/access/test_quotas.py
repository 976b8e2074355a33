"""Quotas: what one project uses is refused past its share, with a time to come back, and takes nothing from others."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.service.access.parts import Place, at_once
from tests.service.conftest import Refusal

from fade_client import FadeClient, RejectedError, RunConfig
from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CreateRunRequest,
    DeleteRunRequest,
    ListObservationsRequest,
    ListRunsRequest,
    ObserveRequest,
)
from fade_service.access.quotas import Quotas


def create(stub: Any, project: str, run: str, **more: Any) -> None:
    """CreateRun."""
    request = CreateRunRequest(parent=f"projects/{project}", run_id=run, run=run_pb2.Run(), **more)
    stub.CreateRun(request, timeout=10, wait_for_ready=True)


def observe(stub: Any, project: str, observation_id: str, run: str = "r") -> None:
    """Observe."""
    request = ObserveRequest(name=f"projects/{project}/runs/{run}", observation_id=observation_id, writer="w")
    request.rows.rewards.extend([1.0, 0.0])
    request.rows.group_index.extend([0, 0])
    request.groups.count = 1
    stub.Observe(request, timeout=10, wait_for_ready=True)


def refusal_of(make: Callable[[], Any]) -> Refusal:
    """What the refused call said."""
    with pytest.raises(grpc.RpcError) as caught:
        make()
    return Refusal(caught.value)


def test_observations_past_the_quota_are_refused_until_the_time_told_and_change_nothing(limited: Callable[..., Place]) -> None:
    with limited(max_observations_per_second=0.5).stub() as stub:
        for project in ("lab", "other"):
            create(stub, project, "r")
            create(stub, project, "s")
        observe(stub, "lab", "b1")
        refusal = refusal_of(lambda: observe(stub, "lab", "b2"))
        assert (refusal.code, refusal.reason) == ("RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED")
        assert refusal.metadata == {"project": "lab", "limit": "0.5"}
        wait = refusal.retry.retry_delay.ToTimedelta().total_seconds()
        assert 0 < wait <= 2  # one in two seconds
        assert refusal_of(lambda: observe(stub, "lab", "b1", run="s")).reason == "QUOTA_EXCEEDED"  # the project's, not the run's
        observe(stub, "other", "b1")
        time.sleep(wait)
        observe(stub, "lab", "b2")
        history = stub.ListObservations(ListObservationsRequest(parent="projects/lab/runs/r"), timeout=10)
        assert [item.observation_id for item in history.observations] == ["b1", "b2"]


def test_a_seconds_worth_of_observations_may_come_at_once(limited: Callable[..., Place]) -> None:
    with limited(max_observations_per_second=20).stub() as stub:
        create(stub, "lab", "r")

        def attempt(number: int) -> bool:
            try:
                observe(stub, "lab", f"b{number}")
            except grpc.RpcError as error:
                assert Refusal(error).reason == "QUOTA_EXCEEDED"
                return False
            return True

        started = time.monotonic()
        accepted = sum(at_once(60, attempt))
        seconds = time.monotonic() - started
    assert 20 <= accepted <= 20 * (1 + seconds) + 1


def test_a_client_keeps_what_the_quota_refuses_and_its_history_ends_complete_and_in_order(limited: Callable[..., Place]) -> None:
    place = limited(max_observations_per_second=1)
    with FadeClient(place.address, run="r", project="lab", config=RunConfig(), timeout_seconds=5) as fade:
        sources = [fade.observe(f"b{number}", rewards=[1, 0], groups=[0, 0]).source for number in range(4)]
        assert sources[0] == "SERVER" and "LOCAL" in sources
        assert fade.flush(60)
    with place.stub() as stub:
        history = stub.ListObservations(ListObservationsRequest(parent="projects/lab/runs/r"), timeout=10)
    assert [item.observation_id for item in history.observations] == ["b0", "b1", "b2", "b3"]


def test_runs_past_the_quota_are_refused_and_those_that_exist_are_joined(limited: Callable[..., Place]) -> None:
    with limited(max_runs_per_project=2).stub() as stub:
        create(stub, "lab", "a")
        create(stub, "lab", "b")
        for more in ({}, {"validate_only": True}):
            refusal = refusal_of(lambda more=more: create(stub, "lab", "c", **more))
            assert (refusal.code, refusal.reason) == ("RESOURCE_EXHAUSTED", "RUN_QUOTA_EXCEEDED")
            assert refusal.has_retry and refusal.metadata == {"project": "lab", "limit": "2"}
        create(stub, "lab", "b")
        create(stub, "other", "c")
        create(stub, "lab-2", "c")  # whose name begins alike
        stub.DeleteRun(DeleteRunRequest(name="projects/lab/runs/a"), timeout=10)
        create(stub, "lab", "c")


def test_runs_created_at_once_do_not_slip_past_the_quota(limited: Callable[..., Place]) -> None:
    with limited(max_runs_per_project=3).stub() as stub:

        def attempt(number: int) -> None:
            try:
                create(stub, "lab", f"run-{number}")
            except grpc.RpcError as error:
                assert Refusal(error).reason == "RUN_QUOTA_EXCEEDED"

        at_once(12, attempt)
        assert len(stub.ListRuns(ListRunsRequest(parent="projects/lab"), timeout=10).runs) == 3


def test_a_client_whose_run_has_no_room_is_told_at_once(limited: Callable[..., Place]) -> None:
    place = limited(max_runs_per_project=1)
    with place.stub() as stub:
        create(stub, "lab", "a")
    with FadeClient(place.address, run="b", project="lab") as fade, pytest.raises(RejectedError) as caught:
        fade.observe("b1", rewards=[1, 0], groups=[0, 0])
    assert caught.value.reason == "RUN_QUOTA_EXCEEDED"


@pytest.mark.parametrize(
    "quota",
    [
        {"max_observations_per_second": 0},
        {"max_observations_per_second": -1},
        {"max_observations_per_second": float("nan")},
        {"max_observations_per_second": float("inf")},
        {"max_runs_per_project": 0},
    ],
)
def test_a_quota_of_nothing_is_refused(quota: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(quota))):
        Quotas(**quota)
