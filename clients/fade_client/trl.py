"""TRL: a GRPOTrainer whose advantages are FADE's.

::

    from fade_client.trl import FadeGRPOTrainer

    trainer = FadeGRPOTrainer(..., fade=FadeClient("localhost:50051", run="qwen-math"))

Over a GRPOTrainer of your own: ``class Mine(FadeGRPOMixin, YourGRPOTrainer)``. Written against TRL 1.16 (docs/trainers/trl.md).
"""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
import torch.distributed as dist
from accelerate.utils import gather, gather_object  # type: ignore[import-not-found]
from trl import GRPOTrainer  # type: ignore[import-not-found]

from fade_client.client import FadeClient
from fade_client.distributed import on_first_rank
from fade_client.errors import CheckpointError, TrainerError
from fade_client.schedule import Schedule, Source
from fade_client.shim import client_from_environment
from fade_core import Entropy, RowStatus
from fade_core.schedule import Phase

ENTROPY_KIND = "trl/full vocabulary"
"""Over the whole vocabulary at the sampling temperature, of the completion tokens in the loss passes since the last report."""

STATE_FILE = "fade.json"
"""In each checkpoint's folder."""

_log = logging.getLogger(__name__)


class FadeGRPOMixin:
    """In front of a GRPOTrainer: replaces the advantages of each batch that is trained on, and those that are logged.

    Every rank has all ranks' rewards, as TRL does it; the first one reports, and all weigh by the schedule that it got. An
    evaluation keeps TRL's own advantages and is not reported.

    Args:
        fade: The client; None makes one from the environment (:func:`fade_client.shim.client_from_environment`). The run's
            ``reward_min`` and ``reward_max`` are the bounds of the weighted sum of the reward functions.

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
        order = cls.__mro__
        if GRPOTrainer in order and order.index(GRPOTrainer) < order.index(FadeGRPOMixin):
            raise TrainerError(f"class {cls.__name__} would train on TRL's advantages: name FadeGRPOMixin before the trainer")

    def __init__(self, *args: Any, fade: FadeClient | None = None, **kwargs: Any) -> None:
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
        self._fade_reports = 0
        self._fade_step = 0  # of the last report

    def train(self, *args: Any, **kwargs: Any) -> Any:
        """As TRL's; in the end gives reports that are still to be sent up to the client's ``timeout_seconds``."""
        parent: Any = super()
        try:
            return parent.train(*args, **kwargs)
        finally:
            self.fade.flush()

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
        kept = on_first_rank(
            _process_group(), lambda: {"state": self.fade.state_dict(), "entropy": entropy, "reports": self._fade_reports}
        )
        if self.args.should_save:
            folder = Path(parent._get_output_dir(trial=trial)) / f"checkpoint-{self.state.global_step}"
            (folder / STATE_FILE).write_text(json.dumps(kept), encoding="utf-8")

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        """As TRL's; goes on from the state in the checkpoint, as the first rank sees it.

        Raises:
            CheckpointError: The state is damaged.
        """
        parent: Any = super()
        parent._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            path = Path(checkpoint) / STATE_FILE
            self._fade_entropy = torch.zeros_like(self._fade_entropy)
            on_first_rank(_process_group(), lambda: self._fade_go_on_from(path))

    def _fade_go_on_from(self, path: Path) -> None:
        if not path.exists():
            _log.warning("%s is missing: the checkpoint is from before FADE was used, and the run starts from nothing", path)
            return
        try:
            kept = json.loads(path.read_text(encoding="utf-8"))
            entropy = torch.tensor(kept["entropy"], dtype=torch.float64)  # of all ranks
            state, reports = kept["state"], int(kept["reports"])
        except (ValueError, TypeError, KeyError) as error:
            raise CheckpointError(f"{path} is damaged ({error!r}); resume from another checkpoint") from error
        self.fade.load_state_dict(state)
        self._fade_entropy, self._fade_reports, self._fade_step = entropy, reports, 0

    def _fade_observe(self, rewards: torch.Tensor, groups: Any, statuses: torch.Tensor) -> Schedule:
        nats, tokens = self._fade_all_entropy().tolist()
        self._fade_entropy = torch.zeros_like(self._fade_entropy)
        self._fade_reports += 1
        step = self.state.global_step
        went_back = step < self._fade_step  # a second train() counts from 0 again, on the same line of history
        self._fade_step = max(step, self._fade_step)
        return self.fade.observe(
            f"report-{self._fade_reports}-step-{step}",  # a step may generate several times
            rewards=rewards,
            groups=groups,
            statuses=statuses,
            entropy=Entropy(sum_nats=nats, token_count=int(tokens), kind=ENTROPY_KIND) if tokens else None,
            trainer_step=None if went_back else step,
            process_group=_process_group(),
        )

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
        metrics = self._metrics["train"]
        for name, value in schedule.metrics().items():
            if not isinstance(value, str):
                metrics[name].append(float(value))
        for source in get_args(Source):  # TRL averages what it logs: so each is the share of the batches since the last line
            metrics[f"fade/source/{source.lower()}"].append(float(schedule.source == source))
        for phase in get_args(Phase):
            metrics[f"fade/phase/{phase}"].append(float(schedule.phase == phase))


class FadeGRPOTrainer(FadeGRPOMixin, GRPOTrainer):  # type: ignore[misc]
    """TRL's GRPOTrainer under the FADE schedule; see :class:`FadeGRPOMixin`."""


def _check(args: Any) -> None:
    if args.multi_objective_aggregation != "sum_then_normalize":
        raise TrainerError(
            f"multi_objective_aggregation is {args.multi_objective_aggregation!r}: it normalises each reward function by itself,"
            " and the schedule weighs their sum; set it to 'sum_then_normalize'"
        )
    if args.scale_rewards != "none":
        _log.warning(
            "scale_rewards=%r has no effect: the schedule's advantages are not divided by a standard deviation. Set it to 'none'"
            " to say so, and expect another size of steps than before (docs/trainers/trl.md)",
            args.scale_rewards,
        )
    if args.off_policy_mask_threshold is not None:
        _log.warning(
            "off_policy_mask_threshold=%r drops failures and never successes: less of their mass is trained on than delta says;"
            " set it to None if that is not wanted",
            args.off_policy_mask_threshold,
        )


def _process_group() -> bool | None:
    return True if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else None
