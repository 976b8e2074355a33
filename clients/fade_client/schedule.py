"""The schedule that an observation is answered with, applied and told."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

import fade_core
from fade_client import arrays, columns
from fade_client.arrays import Column
from fade_client.columns import Environments, Grouping
from fade_core import (
    DEFAULT_ENVIRONMENT,
    Batch,
    Diagnostics,
    EnvironmentState,
    InvalidBatchError,
    RunConfig,
    Warning,
    apply_schedules,
    group_rows,
)

Source = Literal["SERVER", "LOCAL", "HELD", "NEUTRAL", "PINNED"]
"""Where a schedule came from: the service, the client's own controller, the last schedule, nowhere (alpha = delta = 1), or an
operator by way of the service."""

AdvantageUnits = Literal["unit", "declared"]
"""Advantages on the mapped [0, 1] reward scale, or times ``reward_max - reward_min``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One environment of a schedule.

    Attributes:
        schedule: The weights.
        state: The averages after the observation; None where none are known.
        diagnostics: What was seen in the batch; None where the batch was not looked at.
    """

    schedule: fade_core.Schedule
    state: EnvironmentState | None = None
    diagnostics: Diagnostics | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class Schedule:
    """The weights of one generation batch, per environment. ``schedule["code"]`` is that of one environment.

    Attributes:
        observation_id: The batch.
        parts: By environment.
        source: Where it came from. A fallback never looks like the service's answer.
        revision: Observations along the run's line after this one; None where the line is not known.
        outcome: ``"applied"``, ``"frozen"`` (averages held), or None where the report moved nothing anywhere.
        degraded: Too few rollouts were scored, in any environment.
        warnings: What a person should look at.
        rejection: The reason that the report was refused for; None where it was not.
        counters: What happened to this client's reports so far, by name.
    """

    observation_id: str
    parts: Mapping[str, Part]
    source: Source
    revision: int | None = None
    outcome: Literal["applied", "frozen"] | None = None
    degraded: bool = False
    warnings: tuple[Warning, ...] = ()
    rejection: str | None = None
    counters: Mapping[str, int] = field(default_factory=dict)
    config: RunConfig
    units: AdvantageUnits
    group_environments: Environments | None = None
    grouping: Grouping | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Without the labels of all rows: other ranks read their own."""
        return {**self.__dict__, "grouping": None}

    def __getitem__(self, environment: str) -> Schedule:
        """The schedule of one environment.

        Raises:
            KeyError: The batch has no such environment.
        """
        return replace(self, parts={environment: self.parts[environment]})

    @property
    def alpha(self) -> float:
        """Difficulty exponent as scheduled, also in mode ``shadow``."""
        return self._only("alpha").alpha

    @property
    def delta(self) -> float:
        """Failure divisor as scheduled, also in mode ``shadow``."""
        return self._only("delta").delta

    @property
    def scale(self) -> float:
        """Factor on every advantage of this batch."""
        return self._only("scale").scale

    @property
    def lr_scale(self) -> float:
        """What the trainer may multiply its learning rate by (``lr_rule``), as applied: 1 in mode ``shadow``."""
        return self._only("lr_scale").applied().lr_scale

    @property
    def phase(self) -> str:
        """``"exploring"``, ``"exploiting"`` or ``"floor"``."""
        return self._only("phase").phase

    @property
    def mode(self) -> str:
        """``"active"``, ``"shadow"`` (neutral weights are applied) or ``"pinned"``."""
        return self._only("mode").mode

    def _only(self, name: str) -> fade_core.Schedule:
        if len(self.parts) != 1:
            known = ", ".join(sorted(self.parts))
            raise AttributeError(f"{name} is one environment's, and this schedule has {known}; take schedule[environment].{name}")
        return next(iter(self.parts.values())).schedule

    def advantages(
        self,
        rewards: Column,
        groups: Column,
        *,
        solved: Column | None = None,
        statuses: Column | None = None,
        rollouts: Column | None = None,
        environments: Environments | None = None,
    ) -> Any:
        """The advantages of the observed batch, computed here in float64.

        Args:
            rewards: (N,), as observed: numpy, torch, or a list in which None is missing.
            groups: (N,), labels as observed.
            solved: (N,) flags, as observed.
            statuses: (N,) :class:`~fade_core.RowStatus`, as observed.
            rollouts: (N,) labels, as observed.
            environments: The environment of each group; None means as given to ``observe``.

        Returns:
            (N,) in request order, on the scale of ``advantage_units``: a torch tensor of the rewards' device and dtype (torch's
            default dtype for integers) for torch rewards, else numpy float64. 0 for rows without a reward.

        Raises:
            InvalidBatchError: A column cannot be read, or holds a value that the run refuses; names field and row. Neutral
                weights take rewards outside the declared range, and do without flags and rollouts where a row's is refused.
        """
        known = self.group_environments if environments is None else environments
        single = next(iter(self.parts)) if len(self.parts) == 1 else DEFAULT_ENVIRONMENT
        read = partial(
            columns.report,
            rewards=rewards,
            groups=groups,
            statuses=statuses,
            environments=None if self.source == "NEUTRAL" else known,
            default_environment=single,
            known=self.grouping,
            config=self.config,
        )
        if self.source != "NEUTRAL":
            values = self._weigh(read(solved=solved, rollouts=rollouts).batch)
        else:
            try:
                values = _neutral(self.config, read(solved=solved, rollouts=rollouts).batch)
            except InvalidBatchError as error:
                if error.row is None:
                    raise
                # one row's flag or rollout must not stop the training: r - rbar does without
                values = _neutral(self.config, read().batch)
        if self.units == "declared":
            values = values * (self.config.reward_max - self.config.reward_min)
        return _like(rewards, values)

    def _weigh(self, batch: Batch) -> npt.NDArray[np.float64]:
        rows = group_rows(self.config, batch)
        schedules = {name: part.schedule for name, part in self.parts.items()}
        for name in set(batch.environments) - schedules.keys():
            inside = np.array([environment == name for environment in batch.environments])
            if rows.rollout_count[inside].any():  # padding alone has no schedule and needs none
                answered = ", ".join(sorted(self.parts))
                raise InvalidBatchError("environments", f"names {name!r}, but this schedule is for {answered}")
            schedules[name] = fade_core.Schedule()
        return apply_schedules(rows, batch.environments, schedules)

    def metrics(self) -> dict[str, float | int | str]:
        """For a logger: flat, without the values that are not known.

        Per environment (``fade/<name>``, or ``fade/<environment>/<name>`` where there are several): alpha, delta, scale, phase,
        mode, applied_alpha, applied_delta, likelihood, lr_scale, p_hat, h_hat, h_target, p_step, h_step (entropies in nats per
        token), mass_success, mass_failure, mass_vs_grpo, sign_ratio, difficulty_centre, coverage, observations. Once: source,
        revision, rejection, and the counters rejected, unsent, lost, dropped.
        """
        values: dict[str, float | int | str | None] = {}
        for name, part in self.parts.items():
            prefix = "fade/" if len(self.parts) == 1 else f"fade/{name}/"
            values.update({prefix + key: value for key, value in _part_metrics(part, self.source).items()})
        values.update({"fade/source": self.source, "fade/revision": self.revision, "fade/rejection": self.rejection})
        values.update({f"fade/{name}": count for name, count in self.counters.items()})
        return {key: value for key, value in values.items() if value is not None}


_MASSES = ("mass_success", "mass_failure", "mass_vs_grpo", "sign_ratio", "difficulty_centre")


def _part_metrics(part: Part, source: Source) -> dict[str, float | int | str | None]:
    applied, seen, state = part.schedule.applied(), part.diagnostics, part.state
    values: dict[str, float | int | str | None] = {
        "alpha": part.schedule.alpha,
        "delta": part.schedule.delta,
        "scale": part.schedule.scale,
        "phase": part.schedule.phase,
        "mode": part.schedule.mode,
        "applied_alpha": applied.alpha,
        "applied_delta": applied.delta,
        "likelihood": applied.likelihood,
        "lr_scale": applied.lr_scale,
        "h_target": part.schedule.target_entropy_nats,
    }
    if state is not None:
        values.update(p_hat=state.solve_rate, h_hat=state.entropy_nats, observations=state.observation_count)
    if seen is not None:
        values.update(p_step=seen.solve_rate, h_step=seen.entropy_nats, coverage=seen.coverage)
    if seen is not None and source not in ("HELD", "NEUTRAL"):  # the masses are those of the controller's own schedule
        values.update({name: getattr(seen, name) for name in _MASSES})
    return values


def _neutral(config: RunConfig, batch: Batch) -> npt.NDArray[np.float64]:
    """r - rbar on the mapped scale, also for rewards that the run refuses: the last resort must not stop the training.

    Rewards in the declared range give the same bits as a schedule with alpha = delta = 1; what is not finite is missing.
    """
    finite = np.isfinite(batch.rewards)
    rewards = np.where(finite, batch.rewards, np.nan)
    low = min(config.reward_min, float(rewards[finite].min(initial=config.reward_min)))
    high = max(config.reward_max, float(rewards[finite].max(initial=config.reward_max)))
    rows = group_rows(RunConfig(reward_min=low, reward_max=high), replace(batch, rewards=rewards))
    values = apply_schedules(rows, batch.environments, dict.fromkeys(batch.environments, fade_core.Schedule()))
    return values * ((high - low) / (config.reward_max - config.reward_min))


def _like(rewards: Column, values: npt.NDArray[np.float64]) -> Any:
    if not arrays.is_torch(rewards):
        return values
    torch: Any = sys.modules["torch"]
    tensor: Any = rewards
    dtype = tensor.dtype if tensor.is_floating_point() else torch.get_default_dtype()
    return torch.from_numpy(values).to(device=tensor.device, dtype=dtype)
