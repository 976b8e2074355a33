"""The methods under comparison: each a configuration of the service's run, or an advantage that the service computes by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Family = Literal["static", "schedule", "ours"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """How rollouts are weighted; see the fields of the same names in `TrainConfig`."""

    title: str
    """What people read."""

    family: Family
    """`static` weightings are the baselines, `schedule` is FADE with its ablations, `ours` what this project found."""

    advantage: str = "grpo"
    settings: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, float] = field(default_factory=dict)


def _static(title: str, advantage: str = "grpo", **settings: Any) -> Method:
    return Method(title=title, family="static", advantage=advantage, settings=settings)


def _registered(title: str, advantage: str, **parameters: float) -> Method:
    return Method(title=title, family="static", advantage=advantage, parameters=parameters)


def _fade(title: str, **settings: Any) -> Method:
    return Method(title=title, family="schedule", advantage="fade", settings=settings)


METHODS: dict[str, Method] = {
    "grpo-mean": _static("GRPO, mean only"),
    "grpo-std": _registered("GRPO, mean and std", "grpo_std"),
    "reinforce": _registered("REINFORCE", "reinforce"),
    "rloo": _registered("RLOO", "rloo"),
    "asym-half": _static("AsymGRPO, delta 1/2", delta=0.5),
    "asym-2": _static("AsymGRPO, delta 2", delta=2.0),
    "power-2": _static("Power, alpha 2", alpha=2.0),
    "pass-at-4": _registered("pass@4 training", "pass_at_k_training", k=4),
    "maxrl": _static("MaxRL", likelihood=1.0),
    "beta-quarter": _static("beta(1/4, 1)", alpha=1.25, likelihood=1.0),
    "beta-half": _static("beta(1/2, 1)", alpha=1.5, likelihood=1.0),
    "log-mean-exp": _registered("log-mean-exp, b = 4", "log_mean_exp", b=4.0),
    "w-reinforce": _registered("W-REINFORCE, lambda 0.1", "w_reinforce"),
    "fade": _fade("FADE (paper)"),
    "fade-alpha-only": _fade("FADE, alpha only", delta_rule="fixed"),
    "fade-delta-only": _fade("FADE, delta only", alpha_rule="fixed"),
    "fade-entropy": _fade("FADE, both from entropy", alpha_rule="entropy"),
    "fade-log-decay": _fade("FADE, log decay", alpha_rule="log_decay", delta_rule="log_decay"),
    "fade-ema-98": _fade("FADE, EMA 0.98 on the new value", ema_weight=0.98),
    "fade-subset": _fade("FADE, unbiased estimator", estimator="subset"),
}
"""By the name that stands in results; `decay_observations` and `lr_observations` are the length of the training."""

HEADLINE = ("grpo-mean", "asym-2", "pass-at-4", "beta-quarter", "beta-half", "fade")
"""The six that get the whole grid of learning rates."""
