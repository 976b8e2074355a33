"""Where a run's controller stands, as the client knows it, and how it goes on from there without the service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

import fade_core
from fade_client.errors import RejectedError
from fade_core import (
    EMPTY_STATE,
    Answer,
    Batch,
    ControllerState,
    RunConfig,
    apply_schedules,
    schedule_of,
)
from fade_proto import convert
from fade_proto.v1 import run_pb2, scheduler_pb2

FIRST_BRANCH = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """A point on a line of history, complete: a controller can go on from it.

    Attributes:
        branch: The line.
        revision: Observations along it so far.
        trainer_step: The trainer's step of the last one that carried one.
        config: The configuration in force.
        config_revision: Its version.
        state: The averages.
    """

    branch: str = FIRST_BRANCH
    revision: int = 0
    trainer_step: int | None = None
    config: RunConfig
    config_revision: int = 1
    state: ControllerState = EMPTY_STATE

    @classmethod
    def of_run(cls, run: run_pb2.Run, branch: str, revision: int, state: ControllerState) -> Position:
        """A run's position under its configuration in force."""
        return cls(
            branch=branch,
            revision=revision,
            trainer_step=run.trainer_step if run.HasField("trainer_step") else None,
            config=convert.config_from_proto(run.config),
            config_revision=run.config_revision,
            state=state,
        )

    def after(self, batch: Batch, trainer_step: int | None, *, evaluation: bool = False) -> tuple[Position, Answer]:
        """The position after one more observation, as the service would have it, and the answer; pure.

        Raises:
            InvalidBatchError: A value is wrong, by field and row.
            RejectedError: The trainer's step decreased.
            EntropyKindError: Entropy of another kind than the average is made of.
        """
        decreased = trainer_step is not None and self.trainer_step is not None and trainer_step < self.trainer_step
        if decreased and not evaluation:
            problem = f"trainer_step is {trainer_step}, below the {self.trainer_step} of the observation before"
            raise RejectedError(problem, "TRAINER_STEP_DECREASED", "trainer_step", code="FAILED_PRECONDITION")
        state, answer = fade_core.observe(self.config, self.state, batch, evaluation=evaluation)
        if evaluation:
            return self, answer
        step = self.trainer_step if trainer_step is None else trainer_step
        return replace(self, revision=self.revision + 1, trainer_step=step, state=state), answer

    def acknowledged(self, trainer_step: int | None, response: scheduler_pb2.ObserveResponse) -> Position:
        """The position after an answer of the service; a replayed answer from further back moves nothing."""
        if response.revision <= self.revision:
            return self
        step = self.trainer_step if trainer_step is None else trainer_step
        state = convert.state_from_proto(response.state)
        return replace(self, revision=response.revision, trainer_step=step, state=state)

    def held_schedules(self, batch: Batch) -> dict[str, fade_core.Schedule]:
        """The schedules that the averages gave last, for the batch's environments; an environment never seen is neutral.

        A ``match_grpo`` factor belongs to one observation, so it is made anew for this one.
        """
        held = {
            name: schedule_of(self.config, self.state.environments[name])
            if name in self.state.environments
            else fade_core.Schedule()
            for name in dict.fromkeys(batch.environments)
        }
        factor = _grpo_factor(self.config, batch, held) if self.config.scale == "match_grpo" else 1.0
        return {name: replace(schedule, scale=factor) for name, schedule in held.items()}

    def snapshot(self, name: str) -> run_pb2.Snapshot:
        """What RestoreRun goes on from."""
        return run_pb2.Snapshot(
            name=name,
            branch=self.branch,
            revision=self.revision,
            trainer_step=self.trainer_step,
            config_revision=self.config_revision,
            state=convert.state_to_proto(self.state),
            state_digest=self.state.digest(),
        )


def _grpo_factor(config: RunConfig, batch: Batch, schedules: Mapping[str, fade_core.Schedule]) -> float:
    """sum |r - rbar| / sum |A| over the batch (FADE.md, section 3); 1 where nothing has an advantage."""
    rows = fade_core.group_rows(config, batch)
    once = 1.0 if rows.once is None else rows.once
    active = {name: replace(schedule, mode="active") for name, schedule in schedules.items()}
    weighed = np.abs(apply_schedules(rows, batch.environments, active) * once).sum()
    plain = np.abs(apply_schedules(rows, batch.environments, dict.fromkeys(active, fade_core.Schedule())) * once).sum()
    return float(plain / weighed) if weighed > 0 else 1.0
