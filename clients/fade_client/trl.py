"""TRL: a GRPOTrainer whose advantages are FADE's.

::

    from fade_client.trl import FadeGRPOTrainer

    trainer = FadeGRPOTrainer(..., fade=FadeClient("localhost:50051", run="qwen-math"))

Over a GRPOTrainer of your own: ``class Mine(FadeGRPOMixin, YourGRPOTrainer)``. Written against TRL 1.16 (docs/trainers/trl.md).
"""

from __future__ import annotations

import logging
import secrets
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate.utils import gather, gather_object  # type: ignore[import-not-found]
from trl import GRPOTrainer  # type: ignore[import-not-found]

from fade_client import checkpoint
from fade_client.client import FadeClient
from fade_client.distributed import on_first_rank
from fade_client.errors import TrainerError
from fade_client.schedule import Schedule
from fade_client.shim import append_numbers, client_from_environment, say_undivided, send_the_rest, step_on_line
from fade_client.trl_lr import LrScale
from fade_core import Entropy, RowStatus

ENTROPY_KIND = "trl/full vocabulary"
"""Over the whole vocabulary at the sampling temperature, of the completion tokens in the loss passes since the last report."""

_log = logging.getLogger(__name__)


class FadeGRPOMixin:
    """In front of a GRPOTrainer: replaces the advantages of each batch that is trained on, and those that are logged.

    Every rank has all ranks' rewards, as TRL does it; the first one reports, and all weigh by the schedule that it got. An
    evaluation keeps TRL's own advantages and is not reported.

    Args:
        fade: The client; None makes one from the environment (:func:`fade_client.shim.client_from_environment`). The run's
            ``reward_min`` and ``reward_max`` are the bounds of the weighted sum of the reward functions.
        apply_lr_scale: Multiply the learning rate of each optimizer step by the schedule's ``lr_scale`` (``RunConfig.lr_rule``).

    Raises:
        TrainerError: TRL would make something else of the rewards or the advantages; says what to change to what.
    """

    accelerator: Any
    args: Any
    model: Any
    state: Any
    num_generations: int
    reward_weights: torch.Tensor
    _metrics: Any
    _logs: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in cls.__mro__[: cls.__mro__.index(FadeGRPOMixin)]:
            if issubclass(base, GRPOTrainer) and not issubclass(base, FadeGRPOMixin):
                raise TrainerError(
                    f"class {cls.__name__} would train on {base.__name__}'s advantages: name FadeGRPOMixin before it, as in"
                    f" class {cls.__name__}(FadeGRPOMixin, {base.__name__})"
                )

    def __init__(self, *args: Any, fade: FadeClient | None = None, apply_lr_scale: bool = False, **kwargs: Any) -> None:
        if not isinstance(self, GRPOTrainer):
            raise TrainerError(
                f"{type(self).__name__} is no GRPOTrainer; build on that one (RLOOTrainer takes a KL penalty off the rewards, so"
                " that they are no longer on the run's declared scale)"
            )
        parent: Any = super()
        parent.__init__(*args, **kwargs)
        _check(self.args)
        self.fade = client_from_environment() if fade is None else fade
        self._fade_rewards = torch.empty(0, 0)
        self._fade_token_entropies: torch.Tensor | None = None
        self._fade_entropy = torch.zeros(2, dtype=torch.float64)  # nats and tokens of this rank since the last report
        self._fade_name = secrets.token_hex(4)  # another trainer with this client reports other batches
        self._fade_reports = 0
        self._fade_reasons: set[str] = set()
        self._fade_lr = LrScale() if apply_lr_scale else None
        if self._fade_lr is not None:
            trainer: Any = self
            trainer.add_callback(self._fade_lr)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As TRL's; in the end gives reports that wait up to the client's ``timeout_seconds``, and says which were not sent."""
        parent: Any = super()
        try:
            return parent.train(*args, **kwargs)
        finally:
            send_the_rest(self.fade)

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """(N, functions) of all ranks' rows; NaN where a function has no reward for a row."""
        parent: Any = super()
        self._fade_rewards = parent._calculate_rewards(*args, **kwargs)
        return self._fade_rewards

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """As TRL's, with FADE's advantages where the batch is to be trained on."""
        parent: Any = super()
        output: dict[str, Any] = parent._generate_and_score_completions(inputs)
        if not self.model.training:
            return output
        if output["advantages"].dim() != 1:
            raise TrainerError(
                f"{type(self).__name__} makes advantages of shape {tuple(output['advantages'].shape)}, and the schedule would"
                " replace them by one for each completion; build on a trainer that leaves them at TRL's (B,)"
            )
        rewards = (self._fade_rewards * self.reward_weights.to(self._fade_rewards.device)).nansum(dim=1)
        rewards[self._fade_rewards.isnan().all(dim=1)] = torch.nan  # missing is not 0
        groups = np.arange(len(rewards)) // self.num_generations
        statuses = self._fade_statuses(output)
        schedule = self._fade_observe(rewards, groups, statuses)
        advantages: torch.Tensor = schedule.advantages(rewards, groups, statuses=statuses)
        if self._fade_lr is not None:
            self._fade_lr.scale = schedule.lr_scale
        first = self.accelerator.process_index * len(inputs)
        output["advantages"] = advantages[first : first + len(inputs)]
        self._fade_log(schedule, advantages)
        return output

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
        """As TRL's; keeps the entropies where TRL computes them, for :meth:`_compute_loss`."""
        parent: Any = super()
        result = parent._get_per_token_logps_and_entropies(*args, **kwargs)
        self._fade_token_entropies = result[1]
        return result

    def _compute_loss(self, model: Any, inputs: dict[str, torch.Tensor]) -> Any:
        """As TRL's; adds the pass's entropy to what the next report carries."""
        parent: Any = super()
        loss = parent._compute_loss(model, inputs)
        entropies, self._fade_token_entropies = self._fade_token_entropies, None
        if entropies is not None and self.model.training:
            mask = inputs["completion_mask"] * inputs["tool_mask"] if "tool_mask" in inputs else inputs["completion_mask"]
            counted = entropies.detach()[mask.bool()].cpu().double()  # not all devices have float64
            self._fade_entropy += torch.stack([counted.sum(), counted.new_tensor(len(counted))])
        return loss

    def _save_checkpoint(self, model: Any, trial: Any) -> None:
        """As TRL's, with the run's state and the entropy that is not reported yet in the checkpoint's folder."""
        parent: Any = super()
        parent._save_checkpoint(model, trial)
        entropy = self._fade_all_entropy().tolist()
        first = on_first_rank(_process_group(), lambda: (self.fade.state_dict(), self._fade_name, self._fade_reports))
        if self.args.should_save:
            folder = Path(parent._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            state, name, reports = first
            checkpoint.write_file(folder / checkpoint.FILE, state, entropy=entropy, name=name, reports=reports)

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        """As TRL's; goes on from the state in the checkpoint, as the first rank sees it.

        Raises:
            CheckpointError: The state is damaged.
        """
        parent: Any = super()
        parent._load_optimizer_and_scheduler(folder)
        if folder is not None:
            self._fade_entropy = torch.zeros_like(self._fade_entropy)
            on_first_rank(_process_group(), lambda: self._fade_go_on_from(Path(folder) / checkpoint.FILE))

    def _fade_go_on_from(self, path: Path) -> None:
        kept = checkpoint.read_file(path, entropy=_pair, name=str, reports=int)
        if kept is not None:
            self.fade.load_state_dict(kept["state"])
            self._fade_entropy, self._fade_name, self._fade_reports = kept["entropy"], kept["name"], kept["reports"]

    def _fade_observe(self, rewards: torch.Tensor, groups: Any, statuses: torch.Tensor) -> Schedule:
        nats, tokens = self._fade_all_entropy().tolist()
        self._fade_reports += 1
        step = self.state.global_step
        schedule = self.fade.observe(
            f"{self._fade_name}-report-{self._fade_reports}-step-{step}",  # a step may generate several times
            rewards=rewards,
            groups=groups,
            statuses=statuses,
            entropy=Entropy(sum_nats=nats, token_count=int(tokens), kind=ENTROPY_KIND) if tokens else None,
            trainer_step=step_on_line(self.fade, step),
            process_group=_process_group(),
        )
        if schedule.rejection is None:  # else the next report carries it
            self._fade_entropy = torch.zeros_like(self._fade_entropy)
        return schedule

    def _fade_statuses(self, output: dict[str, Any]) -> torch.Tensor:
        """(N,) of all ranks' rows: TRUNCATED where TRL masks the whole completion for it."""
        truncated = output["completion_mask"].sum(dim=1) == 0
        statuses = torch.where(truncated, int(RowStatus.TRUNCATED), int(RowStatus.SCORED))
        gathered: torch.Tensor = gather(statuses)
        return gathered

    def _fade_all_entropy(self) -> torch.Tensor:
        """Nats and tokens of all ranks."""
        return torch.tensor(gather_object([self._fade_entropy.tolist()]), dtype=torch.float64).sum(dim=0)

    def _fade_log(self, schedule: Schedule, advantages: torch.Tensor) -> None:
        self._logs["advantages"].extend(advantages.tolist())  # it holds one generation batch: TRL's own drop out
        append_numbers(self._metrics["train"], schedule, self._fade_reasons)


class FadeGRPOTrainer(FadeGRPOMixin, GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPOTrainer under the FADE schedule; see :class:`FadeGRPOMixin`."""


def _check(args: Any) -> None:
    if args.multi_objective_aggregation != "sum_then_normalize":
        raise TrainerError(
            f"multi_objective_aggregation is {args.multi_objective_aggregation!r}: it normalises each reward function by itself,"
            " and the schedule weighs their sum; set it to 'sum_then_normalize'"
        )
    if args.scale_rewards != "none":
        say_undivided(f"scale_rewards={args.scale_rewards!r}")
    if args.off_policy_mask_threshold is not None:
        _log.warning(
            "off_policy_mask_threshold=%r drops failures and never successes: less of their mass is trained on than delta says;"
            " set it to None if that is not wanted",
            args.off_policy_mask_threshold,
        )


def _pair(values: Any) -> torch.Tensor:
    nats, tokens = values
    return torch.tensor([nats, tokens], dtype=torch.float64)


def _process_group() -> bool | None:
    return True if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else None
