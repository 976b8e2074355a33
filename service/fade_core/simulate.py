"""What-if: the controller along recorded telemetry, under other settings than the run had."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from fade_core.config import RunConfig
from fade_core.controller import HoldReason, move_averages
from fade_core.schedule import schedule_of
from fade_core.state import EnvironmentState


@dataclass(frozen=True, slots=True, kw_only=True)
class Telemetry:
    """What an observation recorded of an environment, as far as the controller looks at it.

    Attributes:
        solve_rate: p_step; None where no group had a solve rate.
        entropy_nats: h_step, in nats per token; None where none came.
        coverage: Scored rollouts over rollouts.
        prefiltered: Groups had been dropped by their rewards and not counted.
        entropy_baseline: The ``entropy_baseline`` in force: the average starts anew where it grows.
    """

    solve_rate: float | None
    entropy_nats: float | None
    coverage: float = 1.0
    prefiltered: bool = False
    entropy_baseline: int = 0


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Averages and schedule of an environment after each observation.

    Attributes:
        alpha, delta, solve_rate: One value each.
        entropy_nats, target_entropy_nats: In nats per token; NaN until they are known.
    """

    alpha: list[float] = field(default_factory=list)
    delta: list[float] = field(default_factory=list)
    solve_rate: list[float] = field(default_factory=list)
    entropy_nats: list[float] = field(default_factory=list)
    target_entropy_nats: list[float] = field(default_factory=list)


def simulate(config: RunConfig, start: EnvironmentState, line: Iterable[Telemetry]) -> Trajectory:
    """The trajectory that a configuration gives along an environment's observations. Pure.

    With the configuration that they were recorded under it is the one that was recorded, bit for bit. The telemetry stays as it
    is, although a policy trained on another schedule would have reported another.

    Args:
        config: The configuration; each observation's ``entropy_baseline`` takes the place of its own.
        start: The averages that the line starts from.
        line: Oldest first.
    """
    trajectory, state = Trajectory(), start
    known = {config.entropy_baseline: config}
    for seen in line:
        then = known.get(seen.entropy_baseline)
        if then is None:
            then = known[seen.entropy_baseline] = replace(config, entropy_baseline=seen.entropy_baseline)
        state = _moved(then, state, seen)
        _add(trajectory, then, state)
    return trajectory


def _moved(config: RunConfig, before: EnvironmentState, seen: Telemetry) -> EnvironmentState:
    holds: tuple[HoldReason, ...] = ("quorum",) if seen.coverage < config.quorum else ()
    if seen.prefiltered:
        holds += ("prefiltered",)
    kind = before.entropy_kind or ""  # the kinds were checked when the line was recorded
    return move_averages(config, "", before, seen.solve_rate, seen.entropy_nats, kind, holds)


def _add(trajectory: Trajectory, config: RunConfig, state: EnvironmentState) -> None:
    schedule = schedule_of(config, state)
    trajectory.alpha.append(schedule.alpha)
    trajectory.delta.append(schedule.delta)
    trajectory.solve_rate.append(state.solve_rate)
    trajectory.entropy_nats.append(math.nan if state.entropy_nats is None else state.entropy_nats)
    target = schedule.target_entropy_nats
    trajectory.target_entropy_nats.append(math.nan if target is None else target)
