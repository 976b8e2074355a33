"""The schedule: alpha and delta from a state, and their application to grouped rows (FADE.md, section 3)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Context, Decimal
from typing import Literal

import numpy as np

from fade_core.advantages import fade_advantages
from fade_core.config import Estimator, Mode, RunConfig
from fade_core.rewards import Floats, Groups
from fade_core.state import EnvironmentState

Phase = Literal["exploring", "exploiting", "floor"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The weights of one environment.

    Attributes:
        alpha: Difficulty exponent as scheduled, also in mode ``shadow``.
        delta: Failure divisor as scheduled, also in mode ``shadow``.
        scale: Factor on every advantage of one observation; 1 unless ``match_grpo``.
        mode: What is done with it.
        estimator: How the difficulty factor is estimated from a group.
        phase: What delta is doing, for people.
        target_entropy_nats: h_target in nats per token; None until it is known.
        likelihood: Exponent of 1 / solve rate in the difficulty factor.
        lr_scale: What the trainer may multiply its learning rate by, in (0, 1].
    """

    alpha: float = 1.0
    delta: float = 1.0
    scale: float = 1.0
    mode: Mode = "active"
    estimator: Estimator = "plug_in"
    phase: Phase = "exploring"
    target_entropy_nats: float | None = None
    likelihood: float = 0.0
    lr_scale: float = 1.0

    def applied(self) -> Schedule:
        """The schedule whose weights are trained on: neutral in mode ``shadow``, else itself."""
        if self.mode != "shadow":
            return self
        return replace(self, alpha=1.0, delta=1.0, scale=1.0, estimator="plug_in", likelihood=0.0, lr_scale=1.0)


def schedule_of(config: RunConfig, state: EnvironmentState) -> Schedule:
    """The schedule that a state gives; pure, with only + - * / on floats (and an exact logarithm in ``log_decay``).

    ``scale`` is 1: a ``match_grpo`` factor belongs to one observation.
    """
    target = target_entropy(config, state)
    alpha, delta = _alpha(config, state, target), _delta(config, state, target)
    if config.mode == "pinned":
        alpha, delta = config.pinned_alpha, config.pinned_delta
    phase: Phase = "exploring" if delta >= config.delta_max else "floor" if delta <= config.delta_min else "exploiting"
    return Schedule(
        alpha=alpha,
        delta=delta,
        mode=config.mode,
        estimator=config.estimator,
        phase=phase,
        target_entropy_nats=target,
        likelihood=0.0 if config.mode == "pinned" else config.likelihood,
        lr_scale=_lr_scale(config, state),
    )


def target_entropy(config: RunConfig, state: EnvironmentState) -> float | None:
    """h_target in nats per token: absolute, or a fraction of the declared or measured initial entropy; None until known."""
    if config.target_entropy_nats is not None:
        return config.target_entropy_nats
    initial = _initial_entropy(config, state)
    return None if initial is None else config.target_entropy_fraction * initial


def apply_schedules(groups: Groups, environments: Sequence[str], schedules: Mapping[str, Schedule]) -> Floats:
    """Advantages under the schedules as applied.

    Args:
        groups: N rows in M groups.
        environments: The environment of each group, length M.
        schedules: One per environment that occurs.

    Returns:
        float64 (N,), on the mapped reward scale.
    """
    applied = {name: schedules[name].applied() for name in set(environments)}
    if len(applied) == 1:
        (one,) = applied.values()
        advantages = fade_advantages(groups, one.alpha, one.delta, one.estimator, one.likelihood)
        return advantages if one.scale == 1 else advantages * one.scale
    if not applied:
        return np.zeros(len(groups.rewards))
    own = [applied[name] for name in environments]
    alpha = np.array([schedule.alpha for schedule in own])
    delta = np.array([schedule.delta for schedule in own])
    scale = np.array([schedule.scale for schedule in own])
    subset = any(schedule.estimator == "subset" for schedule in applied.values())  # one run has one estimator
    likelihood = np.array([schedule.likelihood for schedule in own])
    advantages = fade_advantages(groups, alpha, delta, "subset" if subset else "plug_in", likelihood)
    advantages *= scale[groups.row_group]
    return advantages


def _initial_entropy(config: RunConfig, state: EnvironmentState) -> float | None:
    """In nats per token: declared, or measured, or not known yet."""
    return state.initial_entropy_nats if config.initial_entropy_nats is None else config.initial_entropy_nats


def _alpha(config: RunConfig, state: EnvironmentState, target: float | None) -> float:
    if config.alpha_rule == "fixed":
        return config.alpha
    if config.alpha_rule == "log_decay":
        return config.alpha_max - (config.alpha_max - config.alpha_min) * _decay(config, state)
    if config.alpha_rule == "entropy":
        initial = _initial_entropy(config, state)
        if initial is None or target is None or state.entropy_nats is None:
            return config.alpha_max
        left = _clip((state.entropy_nats - target) / (initial - target), 0.0, 1.0) if initial > target else 0.0
        return config.alpha_min + (config.alpha_max - config.alpha_min) * left
    if state.solve_rate <= 0:
        return config.alpha_max
    return _clip(1.5 * (1 - state.solve_rate) / state.solve_rate, config.alpha_min, config.alpha_max)


def _delta(config: RunConfig, state: EnvironmentState, target: float | None) -> float:
    if config.delta_rule == "fixed":
        return config.delta
    if config.delta_rule == "log_decay":
        return config.delta_max - (config.delta_max - config.delta_min) * _decay(config, state)
    if target is None or state.entropy_nats is None:
        return config.delta_max
    if config.delta_rule == "additive":
        raw = 1 + state.entropy_nats - target
    else:
        raw = state.entropy_nats / target if target > 0 else math.inf  # a run that starts without entropy cannot fall under it
    return _clip(raw, config.delta_min, config.delta_max)


def _lr_scale(config: RunConfig, state: EnvironmentState) -> float:
    """Only here a cosine is taken, which other machines may round otherwise: no state and no advantage depends on it."""
    if config.lr_rule == "none":
        return 1.0
    if config.lr_rule == "entropy":
        initial = _initial_entropy(config, state)
        if initial is None or state.entropy_nats is None:
            return 1.0
        return _clip(state.entropy_nats / initial, config.lr_min, 1.0) if initial > 0 else 1.0
    done = min(1.0, state.observation_count / config.lr_observations)
    left = 1 - done if config.lr_rule == "linear" else (1 + math.cos(math.pi * done)) / 2
    return config.lr_min + (1 - config.lr_min) * left


def _decay(config: RunConfig, state: EnvironmentState) -> float:
    """ln(count) / ln(decay_observations), from 0 at the first observation to 1; ``decimal`` rounds alike on every machine."""
    count = max(1, state.observation_count)
    if count >= config.decay_observations:
        return 1.0
    context = Context(prec=30)
    return float(context.divide(Decimal(count).ln(context), Decimal(config.decay_observations).ln(context)))


def _clip(value: float, smallest: float, largest: float) -> float:
    return min(max(value, smallest), largest)
