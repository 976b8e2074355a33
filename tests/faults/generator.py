"""Every decision of a run with a seed: reports, configurations, what clients do next, and which fault comes when."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fade_proto.v1.observation_pb2 import ROW_STATUS_ERROR, ROW_STATUS_SCORED, ROW_STATUS_TRUNCATED
from fade_proto.v1.run_pb2 import RunConfig
from fade_proto.v1.scheduler_pb2 import ObserveRequest

GROUP_SIZE = 4

_STATUSES = (ROW_STATUS_SCORED, ROW_STATUS_SCORED, ROW_STATUS_TRUNCATED, ROW_STATUS_ERROR)

STEPS = {
    "report": 30, "repeat": 8, "contradict": 4, "intrude": 5, "reconfigure": 6, "resume": 6, "take_over": 4, "race": 3,
}  # fmt: skip
"""What a run's clients do, by name, and how often."""

FAULTS = {
    "server killed": 10, "server drained": 6, "server paused": 8, "clock jumped": 8,
    "network cut": 14, "network slowed": 8, "requests muted": 10, "replies muted": 14,
}  # fmt: skip
"""What happens to servers and network, by name, and how often."""

STORE_FAULT_WEIGHT = 8
"""How often each of a store's own faults comes."""


class Fault(NamedTuple):
    """What happens next: for how many seconds, to which of the servers or links, and how many seconds of peace follow."""

    kind: str
    seconds: float
    victim: float
    peace_seconds: float


def report(draws: random.Random) -> ObserveRequest:
    """A generation batch of 1 to 5 groups: the content of an observation, without its id."""
    request = ObserveRequest(return_advantages=draws.random() < 0.5)
    groups = draws.randint(1, 5)
    rows = groups * GROUP_SIZE
    skill = draws.random()
    request.rows.rewards.extend(float(draws.random() < skill) for _ in range(rows))
    request.rows.group_index.extend(row // GROUP_SIZE for row in range(rows))
    request.groups.count = groups
    if draws.random() < 0.3:
        request.rows.statuses.extend(draws.choices(_STATUSES, k=rows))
    if draws.random() < 0.3:
        request.groups.environments.extend(draws.choices(("code", "math"), k=groups))
    if draws.random() < 0.8:
        request.entropy.token_count = draws.randint(1, 10_000)
        request.entropy.sum_nats = draws.random() * request.entropy.token_count
    return request


def config(draws: random.Random) -> RunConfig:
    """A configuration for a new run."""
    return RunConfig(ema_weight=draws.uniform(0.01, 1), alpha_max=draws.uniform(2, 6), entropy_warmup=draws.randint(1, 3))


def step(draws: random.Random) -> str:
    """What a run's clients do next."""
    return draws.choices(list(STEPS), list(STEPS.values()))[0]


def fault(draws: random.Random, of_store: Sequence[str]) -> Fault:
    """What goes wrong next."""
    weights: Mapping[str, int] = FAULTS | dict.fromkeys(of_store, STORE_FAULT_WEIGHT)
    kind = draws.choices(list(weights), list(weights.values()))[0]
    return Fault(kind, draws.uniform(0.02, 0.3), draws.random(), draws.uniform(0, 0.2))
