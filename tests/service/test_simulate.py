"""SimulateRun: what alpha and delta would have been, along what the run reported."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import grpc
import pytest
from tests.service.conftest import Client, Refusal

from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import (
    RestoreRunRequest,
    SimulateRunRequest,
    SimulateRunResponse,
    UpdateRunRequest,
)


def reported(client: Client, count: int, seed: int = 3, first: int = 0) -> None:
    """Batches of four groups, entropy falling."""
    draw = random.Random(seed)
    for number in range(first, first + count):
        rewards = [float(draw.random() < 0.4) for _ in range(16)]
        client.observe(f"b{number}", rewards, [row // 4 for row in range(16)], 1.2 * 0.97**number)


def simulated(client: Client, *settings: dict[str, Any], **fields: Any) -> SimulateRunResponse:
    """The answer for configurations by field."""
    request = SimulateRunRequest(name=client.name, **fields)
    for values in settings:
        request.settings.add(config=run_pb2.RunConfig(**values)).update_mask.paths.extend(values)
    response: SimulateRunResponse = client.stub.SimulateRun(request, timeout=60)
    return response


def refused(client: Client, *settings: dict[str, Any], **fields: Any) -> Refusal:
    """Why it is refused."""
    with pytest.raises(grpc.RpcError) as caught:
        simulated(client, *settings, **fields)
    return Refusal(caught.value)


def columns(trajectory: Any) -> tuple[list[float], ...]:
    """Revision, alpha, delta."""
    return list(trajectory.revision), list(trajectory.alpha), list(trajectory.delta)


def test_it_gives_what_another_run_under_those_settings_recorded_on_the_same_batches(connect: Callable[..., Client]) -> None:
    one, other = connect(), connect()
    one.create()
    other.create(alpha_max=5, ema_weight=0.1, target_entropy_nats=0.9)
    for client in (one, other):
        reported(client, 30)
    answer = simulated(one, {}, {"alpha_max": 5, "ema_weight": 0.1, "target_entropy_nats": 0.9})
    same, changed = answer.simulations
    (told,) = answer.recorded
    assert columns(same.trajectories[0]) == columns(told) and told.environment == "default"
    assert columns(changed.trajectories[0]) == columns(simulated(other).recorded[0])
    history = other.history()
    assert list(changed.trajectories[0].alpha) == [entry.schedules[0].schedule.alpha for entry in history]
    assert (answer.branch, answer.revision) == ("main", 30)
    assert [warning.reason for warning in answer.warnings] == ["TELEMETRY_AS_RECORDED"]


def test_it_goes_along_restored_lines_and_over_configuration_changes(connect: Callable[..., Client]) -> None:
    one, other = connect(), connect()
    one.create()
    other.create(alpha_max=2)
    reported(one, 10)
    update = UpdateRunRequest(run=run_pb2.Run(name=one.name, config=run_pb2.RunConfig(alpha_max=2)))
    update.update_mask.paths.append("config.alpha_max")
    one.stub.UpdateRun(update, timeout=10)
    one.stub.RestoreRun(
        RestoreRunRequest(name=one.name, writer="second", branch_id="b", point=run_pb2.HistoryPoint(revision=6)), timeout=10
    )
    one.writer = "second"
    reported(other, 6)
    for client in (one, other):
        reported(client, 5, seed=9, first=20)
    found = simulated(one, {}).simulations[0].trajectories[0]
    assert columns(found) == columns(simulated(other).recorded[0]) and list(found.revision) == list(range(1, 12))
    assert list(simulated(one, branch="main").recorded[0].revision) == list(range(1, 11))


def test_environments_have_trajectories_of_their_own(connect: Callable[..., Client]) -> None:
    client = connect()
    client.create()
    for number in range(4):
        report = client.report(f"b{number}", [1, 0, 0, 0], [0, 0, 1, 1], 1.0)
        report.groups.environments.extend(["math", "code"])
        client.stub.Observe(report, timeout=10)
    trajectories = simulated(client, {"alpha_max": 4}).simulations[0].trajectories
    assert [item.environment for item in trajectories] == ["code", "math"]
    assert trajectories[0].solve_rate[-1] == pytest.approx(0.5 * 0.98**4) and trajectories[1].solve_rate[-1] == 0.5


def test_long_lines_are_thinned_and_end_with_the_newest(connect: Callable[..., Client]) -> None:
    client = connect()
    client.create()
    reported(client, 25)
    whole, thin = simulated(client, {}), simulated(client, {}, max_points=10)
    revisions = list(thin.recorded[0].revision)
    assert revisions == list(thin.simulations[0].trajectories[0].revision) == [1, 4, 7, 10, 13, 16, 19, 22, 25]
    assert list(thin.recorded[0].alpha) == [whole.recorded[0].alpha[revision - 1] for revision in revisions]


def test_a_run_without_observations_has_no_trajectory(connect: Callable[..., Client]) -> None:
    client = connect()
    client.create()
    answer = simulated(client, {"alpha_max": 4})
    assert not answer.recorded and not answer.simulations[0].trajectories and answer.revision == 0


def test_what_cannot_be_simulated_is_refused_by_name(connect: Callable[..., Client]) -> None:
    client = connect()
    client.create()
    assert refused(client, {}, {"strict_rewards": True}).field == "settings[1].update_mask"
    assert refused(client, {"alpha_max": 0.5}).field == "settings[0].config.alpha_max"
    assert refused(client, *[{}] * 17).field == "settings"
    assert refused(client, max_points=-1).field == "max_points"
    assert refused(client, branch="nowhere").reason == "BRANCH_NOT_FOUND"
    assert client.get().config_revision == 1
