"""ComputeAdvantages: weights applied to rows, nothing moved."""

from __future__ import annotations

import math
from typing import Any

import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import ComputeAdvantagesRequest, RestoreRunRequest

REWARDS, GROUPS = [1.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]


def compute(
    client: Any, rewards: list[float] = REWARDS, groups: list[int] = GROUPS, groups_table: Any = None, **fields: Any
) -> list[float]:
    """ComputeAdvantages."""
    request = ComputeAdvantagesRequest(name=client.name, groups=groups_table, **fields)
    request.rows.rewards.extend(rewards)
    request.rows.group_index.extend(groups)
    request.groups.count = max(groups) + 1
    return list(client.stub.ComputeAdvantages(request, timeout=10).advantages)


def named(name: str, **parameters: float) -> dict[str, Any]:
    """The field that names an advantage."""
    return {"advantage": observation_pb2.NamedAdvantage(name=name, parameters=parameters)}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (named("grpo_mean"), [0.75, -0.25]),
        (named("asym_grpo", delta=2.0), [0.75, -0.125]),
        (named("power", alpha=3.0), [0.75**3, -0.25 * 0.75**2]),
        (named("fade", alpha=2.0, delta=0.5), [0.75**2, -0.25 * 0.75 / 0.5]),
        ({"schedule": observation_pb2.Schedule(alpha=2.0, delta=0.5, scale=2.0)}, [2 * 0.75**2, -2 * 0.25 * 0.75 / 0.5]),
    ],
)
def test_named_advantages_and_given_schedules_are_the_formulas(client: Any, fields: Any, expected: list[float]) -> None:
    before = client.everything()
    success, failure = expected
    assert compute(client, **fields) == pytest.approx([success] + [failure] * 3, rel=1e-15)
    assert client.everything() == before


def test_the_schedule_of_an_observation_weighs_its_rows_as_it_was_answered(connect: Any) -> None:
    client = connect()
    client.create(scale=run_pb2.SCALE_MATCH_GRPO, ema_weight=1.0)
    rewards, groups = [1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0], [0, 0, 0, 0, 1, 1, 1, 1]
    answer = client.observe("b1", rewards, groups, 1.0, return_advantages=True)
    assert answer.schedules[0].schedule.scale != 1
    assert sum(map(abs, answer.advantages)) == pytest.approx(2 * (0.75 + 3 * 0.25), rel=1e-12)
    client.observe("b2", [1.0, 1.0, 1.0, 0.0], [0] * 4)
    assert compute(client, rewards, groups, observation_id="b1") == list(answer.advantages)


def test_without_weights_the_current_schedule_applies_unscaled(client: Any) -> None:
    client.observe("b1", REWARDS, GROUPS)
    alpha = client.schedule().schedules[0].schedule.alpha
    assert compute(client) == pytest.approx([0.75**alpha] + [-0.25 * 0.75 ** (alpha - 1)] * 3, rel=1e-14)


def test_a_rank_that_asks_for_its_own_groups_gets_its_part_of_the_whole(connect: Any) -> None:
    client = connect()
    client.create(scale=run_pb2.SCALE_MATCH_GRPO)
    rewards, groups = [1.0, 0.0, 0.0, 0.25, 1.0, 1.0, 0.5], [0, 0, 0, 0, 1, 1, 1]
    request = client.report("b1", rewards, groups, return_advantages=True)
    request.groups.environments.extend(["math", "code"])
    whole = list(client.send(request)[0].advantages)
    tables = [observation_pb2.GroupTable(count=1, environments=[name]) for name in ("math", "code")]
    assert compute(client, rewards[:4], [0] * 4, observation_id="b1", groups_table=tables[0]) == whole[:4]
    assert compute(client, rewards[4:], [0] * 3, observation_id="b1", groups_table=tables[1]) == whole[4:]


def test_an_id_that_a_restored_run_used_again_is_looked_up_on_the_branch_asked_for(client: Any) -> None:
    client.observe("b1", REWARDS, GROUPS)
    old = client.observe("b2", [0.0] * 4, GROUPS).schedules[0].schedule.alpha
    point = run_pb2.HistoryPoint(revision=1)
    client.stub.RestoreRun(RestoreRunRequest(name=client.name, writer="writer", branch_id="second", point=point), timeout=10)
    new = client.observe("b2", [1.0] * 4, GROUPS).schedules[0].schedule.alpha
    assert old != new
    for branch, alpha in (("main", old), ("second", new), ("", new)):
        success = compute(client, observation_id="b2", branch=branch)[0]
        assert success == pytest.approx(0.75**alpha, rel=1e-14)
    assert compute(client, observation_id="b1") == compute(client, observation_id="b1", branch="main")


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({"schedule": observation_pb2.Schedule(alpha=1.0, delta=1.0, scale=1.0, mode=9)}, "INVALID_FIELD", "schedule.mode"),
        (
            {"schedule": observation_pb2.Schedule(alpha=1.0, delta=1.0, scale=1.0, estimator=9)},
            "INVALID_FIELD",
            "schedule.estimator",
        ),
        ({"schedule": observation_pb2.Schedule(alpha=1.0, delta=1.0)}, "INVALID_FIELD", "schedule.scale"),
        ({"schedule": observation_pb2.Schedule(alpha=math.nan, delta=1.0, scale=1.0)}, "INVALID_FIELD", "schedule.alpha"),
        ({"branch": "lost"}, "BRANCH_NOT_FOUND", ""),
        (
            {"observation_id": "b1", "groups_table": observation_pb2.GroupTable(count=1, environments=["x"])},
            "INVALID_FIELD",
            "groups.environments[0]",
        ),
        (named("no_such"), "INVALID_FIELD", "advantage.name"),
        (named("power", beta=1.0), "INVALID_FIELD", "advantage.parameters"),
        (named("power", alpha=0.1), "INVALID_FIELD", "advantage.parameters"),
        ({"schedule": observation_pb2.Schedule(delta=1.0, scale=1.0)}, "INVALID_FIELD", "schedule.alpha"),
        ({"schedule": observation_pb2.Schedule(alpha=1.0, scale=1.0)}, "INVALID_FIELD", "schedule.delta"),
        ({"schedule": observation_pb2.Schedule(alpha=1.0, delta=1e-320, scale=1.0)}, "INVALID_FIELD", "schedule.delta"),
        ({"observation_id": "unknown"}, "OBSERVATION_NOT_FOUND", ""),
        ({"rewards": [2.0, 0.0], "groups": [0, 0]}, "INVALID_FIELD", "rows.rewards[0]"),
    ],
)
def test_what_cannot_be_computed_is_refused(client: Any, refused: Any, fields: Any, reason: str, field: str) -> None:
    client.observe("b1", REWARDS, GROUPS)
    refusal = refused(lambda: compute(client, **fields))
    assert (refusal.reason, refusal.field) == (reason, field)
