"""What a training run is told and what it hands back. Needs no torch, so that the command line does not either."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fade_trainer.rules import TASKS, TaskName

if TYPE_CHECKING:
    from fade_core import RunConfig

SCHEDULED = ("fade", "grpo", "asym", "power")
"""Advantages that are the server's schedule; all but `fade` keep alpha and delta fixed."""

_RUN_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


class TrainConfigError(ValueError):
    """A run cannot be trained as told: a setting is wrong, or its folder holds something else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """One training run. Equal configurations (paths aside) give equal bits."""

    advantage: str
    """How rollouts are weighted: the FADE schedule, or fixed: grpo alpha 1 delta 1, asym `delta`, power `alpha`; or any other
    registered advantage by its name, which the server's ComputeAdvantages gives."""

    server: str
    """The scheduler: HOST:PORT, `local` (one in this process) or `none` (grpo only: reward minus the group's mean)."""

    out: Path
    """Folder for metrics.jsonl and checkpoint.pt; the command line adds curves.png."""

    run: str
    """Name of the run on the server."""

    seed: int = 0
    """Fixes prompts, split, warm-up, sampling and order."""

    alpha: float = 2.0
    """Difficulty exponent of `power`."""

    delta: float = 2.0
    """Failure divisor of `asym`: failures weigh 1 / delta."""

    parameters: Mapping[str, float] = field(default_factory=dict)
    """Of a registered advantage; its defaults where they are not given."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the run on the server, by the names of `RunConfig`; they win over what `advantage` sets."""

    apply_lr_scale: bool = False
    """Multiply the learning rate by the schedule's `lr_scale`."""

    task: TaskName = "countdown"
    """Which countdown, see `rules.py`."""

    steps: int = 450
    """Generation batches to train on, counted from the start of the run."""

    learning_rate: float = 5e-4
    """Adam's step size in RL."""

    prompts: int = 32
    """Prompts (groups) per step."""

    rollouts: int = 16
    """Answers sampled per prompt."""

    minibatches: int = 2
    """Optimizer updates per step; each sees every rollout of its share of the prompts, once."""

    clip_range: float = 0.2
    """PPO keeps the probability ratio's incentive within 1 - clip_range .. 1 + clip_range."""

    gradient_norm_max: float = 1.0
    """Gradients are scaled down to this global L2 norm."""

    eval_every: int = 25
    """Steps between evaluations on the validation prompts."""

    checkpoint_every: int = 50
    """Steps between checkpoints; one is also written before the first step and after the last."""

    resume: bool = False
    """Continue from the checkpoint in `out`; without one there, start at the beginning."""

    cache_dir: Path | None = None
    """Folder for warmed-up models; None: the user's cache directory."""

    warmup_steps: int = 200
    """Supervised Adam steps before RL."""

    training_prompts: int = 8000
    """Size of the training split."""

    evaluation_prompts: int = 300
    """Size of the validation split, and of the held-out split."""

    curve_samples: int = 64
    """Answers to each validation prompt in the evaluations along the way; those on held-out prompts take 64."""

    def __post_init__(self) -> None:
        """Refuses, with TrainConfigError, a run that could not be trained."""
        from fade_core import advantage_names  # here, as it brings numpy, which `fade --help` can do without

        names = (*SCHEDULED, *(name for name in advantage_names() if name not in SCHEDULED))
        if self.advantage not in names:
            raise TrainConfigError(f"advantage must be one of {', '.join(names)}, not {self.advantage!r}")
        if self.task not in TASKS:
            raise TrainConfigError(f"task must be one of {', '.join(TASKS)}, not {self.task!r}")
        if self.parameters and self.advantage in SCHEDULED:
            raise TrainConfigError(f"parameters go with a registered advantage, not with {self.advantage}")
        if self.server not in ("local", "none") and not re.fullmatch(r"\S+:\d{1,5}", self.server):
            raise TrainConfigError(f"server must be HOST:PORT, 'local' or 'none', not {self.server!r}")
        if not _RUN_ID.fullmatch(self.run):
            raise TrainConfigError(f"run must be 1 to 63 lower-case letters, digits and inner hyphens, not {self.run!r}")
        if self.server == "none" and self.advantage != "grpo":
            raise TrainConfigError(f"server 'none' goes with advantage grpo only, not {self.advantage}")
        if self.server == "none" and (self.settings or self.apply_lr_scale):
            raise TrainConfigError("server 'none' gives no schedule: settings and apply_lr_scale need another")
        if self.server == "local" and self.advantage not in SCHEDULED:
            raise TrainConfigError(f"server 'local' goes with {', '.join(SCHEDULED)} only, not {self.advantage}")
        for name in ("alpha", "delta", "learning_rate", "clip_range", "gradient_norm_max"):
            if not 0 < getattr(self, name) < math.inf:
                raise TrainConfigError(f"{name} must be a finite number above 0, not {getattr(self, name)}")
        least = {"seed": 0, "steps": 0, "warmup_steps": 0, "rollouts": 2, "prompts": self.minibatches, "minibatches": 1}
        least |= {"eval_every": 1, "checkpoint_every": 1, "training_prompts": 1, "evaluation_prompts": 1, "curve_samples": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise TrainConfigError(f"{name} must be at least {bound}, not {getattr(self, name)}")

        self.run_config()

    def run_config(self) -> RunConfig:
        """The run on the server: `fade` is its default; the static methods fix alpha and delta, registered advantages at 1.

        Raises:
            TrainConfigError: `settings` is no configuration of a run.
        """
        from fade_core import InvalidConfigError, RunConfig

        fixed = {
            "alpha_rule": "fixed",
            "delta_rule": "fixed",
            "alpha": self.alpha if self.advantage == "power" else 1.0,
            "delta": self.delta if self.advantage == "asym" else 1.0,
        }
        settings = {"vocabulary_size": TASKS[self.task].vocabulary_size, **({} if self.advantage == "fade" else fixed)}
        try:
            return RunConfig.from_dict({**settings, **self.settings})
        except InvalidConfigError as error:
            raise TrainConfigError(f"settings: {error}") from error

    def identity(self) -> dict[str, Any]:
        """The fields that decide a run's bits, but for its length: a checkpoint only continues under the same ones."""
        apart = ("server", "out", "run", "resume", "cache_dir", "steps", "eval_every", "checkpoint_every", "curve_samples")
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name not in apart}


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainResult:
    """What a run came to; pass@k is on the held-out prompts, a probability in [0, 1]."""

    run: str
    """Name of the run."""

    steps: int
    """Steps trained, those before a resume included."""

    interrupted: bool
    """A signal stopped the run before its last step."""

    observations: int
    """Generation batches reported to the scheduler, those before a resume included."""

    server_schedules: int
    """Batches trained on what the server answered, a schedule pinned by an operator included."""

    fallback_schedules: int
    """Batches trained on less than `server` promised: this process's own controller in the service's place, neutral weights."""

    schedules: dict[str, int]
    """Batches per schedule source, as in `schedule.source`."""

    pass_at_1_before: float
    """pass@1 after warm-up."""

    pass_at_1_after: float
    """pass@1 at the end."""

    pass_at_16_before: float
    """pass@16 after warm-up."""

    pass_at_16_after: float
    """pass@16 at the end."""

    seconds: float
    """Wall time of this process's part, warm-up and evaluations included."""

    warmup_seconds: float
    """Wall time of the warm-up; near 0 from the cache."""
