"""ComputeAdvantages: weights applied to rows, nothing moved."""

from __future__ import annotations

from typing import Any

import pytest

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import ComputeAdvantagesRequest

REWARDS, GROUPS = [1.0, 0.0, 0.0, 0.0], [0, 0, 0, 0]


def compute(client: Any, rewards: list[float] = REWARDS, groups: list[int] = GROUPS, **fields: Any) -> list[float]:
    """ComputeAdvantages."""
    request = ComputeAdvantagesRequest(name=client.name, **fields)
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


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        (named("no_such"), "INVALID_FIELD", "advantage.name"),
        (named("power", beta=1.0), "INVALID_FIELD", "advantage.parameters"),
        (named("power", alpha=0.1), "INVALID_FIELD", "advantage.parameters"),
        ({"schedule": observation_pb2.Schedule(delta=1.0, scale=1.0)}, "INVALID_FIELD", "schedule.alpha"),
        ({"schedule": observation_pb2.Schedule(alpha=1.0, scale=1.0)}, "INVALID_FIELD", "schedule.delta"),
        ({"observation_id": "unknown"}, "OBSERVATION_NOT_FOUND", ""),
        ({"rewards": [2.0, 0.0], "groups": [0, 0]}, "INVALID_FIELD", "rows.rewards[0]"),
    ],
)
def test_what_cannot_be_computed_is_refused(client: Any, refused: Any, fields: Any, reason: str, field: str) -> None:
    refusal = refused(lambda: compute(client, **fields))
    assert (refusal.reason, refusal.field) == (reason, field)
