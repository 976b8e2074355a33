"""The configuration of a run: how rewards are mapped and how the schedule moves."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, get_args, get_type_hints

from fade_core.errors import InvalidConfigError

AlphaRule = Literal["solve_rate", "fixed", "log_decay", "entropy"]
DeltaRule = Literal["additive", "ratio", "fixed", "log_decay"]
Scale = Literal["none", "match_grpo"]
Estimator = Literal["plug_in", "subset"]
Mode = Literal["active", "shadow", "pinned"]
LrRule = Literal["none", "linear", "cosine", "entropy"]

SMALLEST_ALPHA = 0.5
"""Below it the factor (1 - rbar)^(alpha - 1) explodes near rbar = 1 (FADE.md, section 2)."""

SMALLEST_DELTA = 0.001
"""Failures weigh 1 / delta more: below it there is next to nothing but failures, and soon no finite number."""


def _knob(default: Any, unit: str, doc: str, *, live: bool = True, simulated: bool = True) -> Any:
    """A field with what the configuration table says of it: unit, may it change live, can it be simulated."""
    return field(default=default, metadata={"unit": unit, "doc": doc, "live": live, "simulated": simulated})


@dataclass(frozen=True, slots=True, kw_only=True)
class RunConfig:
    """How a run maps rewards and moves its schedule. The defaults are the paper's (arXiv 2607.01490).

    Raises:
        InvalidConfigError: A value is out of bounds, or contradicts another; names the field.
    """

    reward_min: float = _knob(0.0, "reward", "Smallest reward on the declared scale.", live=False, simulated=False)
    reward_max: float = _knob(1.0, "reward", "Largest reward on the declared scale.", live=False, simulated=False)
    solve_threshold: float | None = _knob(
        None,
        "reward",
        "A rollout is solved at this reward or above; unset means the middle of the range.",
        live=False,
        simulated=False,
    )
    strict_rewards: bool = _knob(False, "", "Refuse NaN rewards instead of taking them as missing.", simulated=False)
    alpha_rule: AlphaRule = _knob(
        "solve_rate",
        "",
        "How alpha follows the run: `solve_rate` (FADE), `fixed` at `alpha`, or from `alpha_max` to `alpha_min`: with the count"
        " (`log_decay`), or as entropy falls from its start to the target (`entropy`).",
    )
    alpha: float = _knob(1.0, "", "Alpha under `alpha_rule = fixed`, 0.5 or more.")
    alpha_min: float = _knob(1.0, "", "Smallest scheduled alpha, 1 or more.")
    alpha_max: float = _knob(3.0, "", "Largest scheduled alpha.")
    delta_rule: DeltaRule = _knob(
        "additive",
        "",
        "How delta follows the run: `additive` (FADE), scale-free `ratio`, `fixed` at `delta`, or `log_decay` from `delta_max` to"
        " `delta_min`.",
    )
    delta: float = _knob(1.0, "", "Delta under `delta_rule = fixed`, 0.001 or more.")
    delta_min: float = _knob(0.3, "", "Smallest scheduled delta, 0.001 or more.")
    delta_max: float = _knob(1.0, "", "Largest scheduled delta.")
    ema_weight: float = _knob(
        0.02, "", "Weight of the new value in both averages, in (0, 1]; 0.02 halves the old in 34 observations."
    )
    target_entropy_nats: float | None = _knob(
        None, "nats/token", "Target entropy; unset means `target_entropy_fraction` of the initial entropy."
    )
    target_entropy_fraction: float = _knob(0.5, "of the initial entropy", "Target entropy where it is not given in nats.")
    initial_entropy_nats: float | None = _knob(
        None,
        "nats/token",
        "Declared initial entropy, for runs that start from a collapsed model; unset means measured.",
    )
    entropy_warmup: int = _knob(1, "observations", "Observations with entropy whose mean starts the entropy average.")
    vocabulary_size: int | None = _knob(
        None, "tokens", "Entropy above its logarithm is refused; unset means not checked.", simulated=False
    )
    scale: Scale = _knob("none", "", "`match_grpo`: one factor per observation keeps its total mass at that of r - rbar.")
    estimator: Estimator = _knob(
        "plug_in",
        "",
        "How the difficulty factor is estimated from a group: `plug_in` (FADE), or the unbiased `subset` (solved/failed only).",
    )
    quorum: float = _knob(0.5, "of rollouts", "Smallest scored fraction that moves the averages.")
    max_policy_lag: int | None = _knob(
        None,
        "policy versions",
        "Rollouts more than this many versions old are stale: no solve rate; unset means never.",
        simulated=False,
    )
    group_size: int | None = _knob(None, "rollouts", "Rollouts a group should have; other sizes give a warning.", simulated=False)
    decay_observations: int = _knob(1000, "observations", "Length of the `log_decay` rules.")
    mode: Mode = _knob(
        "active",
        "",
        "`shadow`: compute and record, clients apply neutral weights; `pinned`: `pinned_alpha`, `pinned_delta`.",
        simulated=False,
    )
    pinned_alpha: float = _knob(1.0, "", "Alpha in mode `pinned`, 0.5 or more.", simulated=False)
    pinned_delta: float = _knob(1.0, "", "Delta in mode `pinned`, 0.001 or more.", simulated=False)
    entropy_baseline: int = _knob(
        0, "", "Counts the restarts of the entropy average; set by `rebaseline_entropy` only.", live=False, simulated=False
    )
    likelihood: float = _knob(
        0.0,
        "",
        "Exponent of 1 / solve rate in the difficulty factor, 0 to 1: 0 trains the solve rate (FADE), 1 its logarithm (MaxRL).",
        simulated=False,
    )
    lr_rule: LrRule = _knob(
        "none",
        "",
        "`lr_scale`, which the trainer may multiply its learning rate by: `none`, `linear` or `cosine` from 1 to `lr_min` over"
        " `lr_observations`, or `entropy` over initial entropy.",
        simulated=False,
    )
    lr_min: float = _knob(0.05, "", "Smallest `lr_scale`.", simulated=False)
    lr_observations: int = _knob(1000, "observations", "Length of the `linear` and `cosine` rules.", simulated=False)

    def __post_init__(self) -> None:
        """Coerces integers to float where a float is declared, and checks every field."""
        for item in fields(self):
            _check_type(self, item.name)
        _check_bounds(self)

    @property
    def threshold(self) -> float:
        """The solve threshold in force, on the declared reward scale."""
        return (self.reward_min + self.reward_max) / 2 if self.solve_threshold is None else self.solve_threshold

    def to_dict(self) -> dict[str, Any]:
        """All fields by name, JSON-able."""
        return {item.name: getattr(self, item.name) for item in fields(self)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RunConfig:
        """The inverse of :meth:`to_dict`; fields that are absent take their defaults.

        Raises:
            InvalidConfigError: A name is unknown or a value is wrong.
        """
        known = {item.name for item in fields(cls)}
        for name in values:
            if name not in known:
                raise InvalidConfigError(name, "is not a configuration field")
        return cls(**values)


_HINTS: dict[str, Any] = get_type_hints(RunConfig)


def _check_type(config: RunConfig, name: str) -> None:
    value, hint = getattr(config, name), _HINTS[name]
    options = get_args(hint)
    if options and isinstance(options[0], str):
        if value not in options:
            raise InvalidConfigError(name, f"is {value!r}; choose one of {', '.join(options)}")
        return
    if type(None) in options:
        if value is None:
            return
        hint = options[0]
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        if not math.isfinite(value):
            raise InvalidConfigError(name, f"is {value}; give a finite number")
        object.__setattr__(config, name, float(value))
    elif hint is not type(value):
        raise InvalidConfigError(name, f"is {value!r}; give a value of type {hint.__name__}")


def _check_bounds(c: RunConfig) -> None:
    def need(holds: bool, name: str, rule: str) -> None:
        if not holds:
            raise InvalidConfigError(name, f"is {getattr(c, name)}; {rule}")

    need(c.reward_max > c.reward_min, "reward_max", f"it must be above reward_min, which is {c.reward_min}")
    need(math.isfinite(c.reward_max - c.reward_min), "reward_max", "the range reward_max - reward_min must be finite")
    need(
        c.reward_min < c.threshold <= c.reward_max,
        "solve_threshold",
        "it must be above reward_min and at most reward_max",
    )
    need(c.alpha >= SMALLEST_ALPHA, "alpha", f"it must be {SMALLEST_ALPHA} or more")
    need(c.alpha_min >= 1, "alpha_min", "a scheduled alpha must be 1 or more; use alpha_rule = fixed for less")
    need(c.alpha_max >= c.alpha_min, "alpha_max", f"it must be at least alpha_min, which is {c.alpha_min}")
    need(c.delta >= SMALLEST_DELTA, "delta", f"it must be {SMALLEST_DELTA} or more")
    need(c.delta_min >= SMALLEST_DELTA, "delta_min", f"it must be {SMALLEST_DELTA} or more")
    need(c.delta_max >= c.delta_min, "delta_max", f"it must be at least delta_min, which is {c.delta_min}")
    need(0 < c.ema_weight <= 1, "ema_weight", "it must be above 0 and at most 1")
    need(c.target_entropy_nats is None or c.target_entropy_nats > 0, "target_entropy_nats", "it must be above 0")
    need(c.target_entropy_fraction > 0, "target_entropy_fraction", "it must be above 0")
    need(c.initial_entropy_nats is None or c.initial_entropy_nats > 0, "initial_entropy_nats", "it must be above 0")
    need(c.entropy_warmup >= 1, "entropy_warmup", "it must be 1 or more")
    need(c.vocabulary_size is None or c.vocabulary_size >= 2, "vocabulary_size", "it must be 2 or more")
    need(0 <= c.quorum <= 1, "quorum", "it must be in [0, 1]")
    need(c.max_policy_lag is None or c.max_policy_lag >= 0, "max_policy_lag", "it must be 0 or more")
    need(c.group_size is None or c.group_size >= 2, "group_size", "it must be 2 or more")
    need(c.decay_observations >= 1, "decay_observations", "it must be 1 or more")
    need(c.pinned_alpha >= SMALLEST_ALPHA, "pinned_alpha", f"it must be {SMALLEST_ALPHA} or more")
    need(c.pinned_delta >= SMALLEST_DELTA, "pinned_delta", f"it must be {SMALLEST_DELTA} or more")
    need(0 <= c.likelihood <= 1, "likelihood", "it must be in [0, 1]")
    need(
        c.likelihood == 0 or c.estimator == "plug_in",
        "likelihood",
        "estimator = subset has no such exponent; leave it 0, or take plug_in",
    )
    need(0 < c.lr_min <= 1, "lr_min", "it must be above 0 and at most 1")
    need(c.lr_observations >= 1, "lr_observations", "it must be 1 or more")
    need(0 <= c.entropy_baseline < 2**62, "entropy_baseline", "it must be 0 or more, with room to count on")
