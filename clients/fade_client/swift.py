"""ms-swift: a GRPO trainer whose advantages are FADE's, put in place of ms-swift's own when this module is imported.

Import it from a file of yours that ``--external_plugins`` names (not by this one's path: ms-swift would put this folder, with its
``swift.py``, on the import path). The client comes from the environment (:func:`fade_client.shim.client_from_environment`).
Written against ms-swift 4.6.0; docs/trainers/ms-swift.md says how.
"""

from __future__ import annotations

import secrets
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from accelerate.utils import gather_object  # type: ignore[import-not-found]
from swift.rlhf_trainers import GRPOTrainer  # type: ignore[import-not-found]
from swift.trainers import TrainerFactory  # type: ignore[import-not-found]

from fade_client import checkpoint
from fade_client.distributed import on_first_rank
from fade_client.errors import TrainerError
from fade_client.shim import append_numbers, say_undivided, shared_client, step_on_line
from fade_core import Entropy

ENTROPY_KIND = "ms-swift/full vocabulary"
"""Over the whole vocabulary, of the completion tokens of the generation batch before."""


class FadeGRPOTrainer(GRPOTrainer):  # type: ignore[misc]
    """Every rank computes the advantages of all ranks' rows; the first one reports them.

    Raises:
        TrainerError: ms-swift would change rewards or advantages; says which argument.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _check(kwargs["args"])
        super().__init__(*args, **kwargs)
        self._fade_entropy: list[float] = [0.0, 0]  # nats and tokens of this rank since the last report
        self._fade_name = secrets.token_hex(4)  # another trainer in this process reports other batches
        self._fade_evaluations = count()
        self._fade_reasons: set[str] = set()

    def _compute_advantages(self, samples: Any, rewards_per_func: torch.Tensor, batch_encoded_inputs: Any) -> torch.Tensor:
        """(N,) of all ranks' rows, from their rewards (N, functions); NaN where a function has no reward for a row."""
        own: torch.Tensor = super()._compute_advantages(samples, rewards_per_func, batch_encoded_inputs)  # and its metrics
        if not rewards_per_func.shape[1]:
            return own  # pure distillation: no rewards, nothing to weigh
        training = self.model.training
        rewards = (rewards_per_func * self.reward_weights).nansum(dim=1)
        rewards[rewards_per_func.isnan().all(dim=1)] = torch.nan  # missing is not 0
        rollouts = None
        if self.dynamic_num_samples:
            groups = gather_object([sample.prompt_id for sample in samples])
            rollouts = gather_object([sample.request_id for sample in samples])
        else:
            groups = np.arange(len(rewards)) // (self.num_generations if training else self.num_generations_eval)
        client, step = shared_client(), self.state.global_step
        schedule = client.observe(
            f"{self._fade_name}-step-{step}-{self._step}" if training else f"evaluation-{next(self._fade_evaluations)}",
            rewards=rewards,
            groups=groups,
            rollouts=rollouts,
            entropy=self._fade_known_entropy() if training else None,
            trainer_step=step_on_line(client, step),
            prefiltered=training and self.dynamic_sample,
            evaluation=not training,
            process_group=_process_group(),
        )
        if training and schedule.rejection is None:  # else the next report carries it
            self._fade_entropy = [0.0, 0]
        append_numbers(self._metrics["train" if training else "eval"], schedule, self._fade_reasons)
        advantages: torch.Tensor = schedule.advantages(rewards, groups, rollouts=rollouts)
        return advantages

    def _get_per_token_logps_and_entropies(
        self, model: Any, model_inputs: Any, grpo_batch: Any, compute_entropy: bool = False, origin_data: Any = None
    ) -> tuple[torch.Tensor, torch.Tensor | None]:
        """As ms-swift's; where it computes entropies (``--log_entropy true``), adds them up for the next report."""
        logps, entropies = super()._get_per_token_logps_and_entropies(
            model, model_inputs, grpo_batch, compute_entropy=compute_entropy, origin_data=origin_data
        )
        if entropies is not None and self.model.training:
            mask = grpo_batch.completion_mask.bool()
            self._fade_entropy[0] += entropies.detach()[mask].double().sum().item()
            self._fade_entropy[1] += int(mask.sum())
        return logps, entropies

    def _fade_known_entropy(self) -> Entropy | None:
        nats, tokens = self._fade_all_entropy()
        return Entropy(sum_nats=nats, token_count=int(tokens), kind=ENTROPY_KIND) if tokens else None

    def _fade_all_entropy(self) -> list[float]:
        """Nats and tokens of all ranks."""
        total: list[float] = np.sum(gather_object([self._fade_entropy]), axis=0).tolist()
        return total

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> Any:
        """As ms-swift's, with the run's state and the entropy not yet reported in the checkpoint's ``fade.json``."""
        result = super()._save_checkpoint(*args, **kwargs)
        entropy = self._fade_all_entropy()
        if self.args.should_save:
            path = Path(self.state.last_model_checkpoint) / checkpoint.FILE
            checkpoint.write_file(path, shared_client().state_dict(), entropy=entropy, name=self._fade_name)
        return result

    def _load_optimizer_and_scheduler(self, folder: str | None) -> None:
        """As ms-swift's; goes on from the state in the checkpoint.

        Raises:
            CheckpointError: The state is damaged.
        """
        super()._load_optimizer_and_scheduler(folder)
        if folder is None or self.args.resume_only_model:
            return
        on_first_rank(_process_group(), lambda: self._fade_go_on_from(Path(folder) / checkpoint.FILE))

    def _fade_go_on_from(self, path: Path) -> None:
        """As the first rank sees the file: whether it is there must not divide the ranks."""
        kept = checkpoint.read_file(path, entropy=_pair, name=str)
        if kept is not None:
            shared_client().load_state_dict(kept["state"])
            self._fade_entropy, self._fade_name = kept["entropy"], kept["name"]  # entropy of all ranks


def _pair(values: Any) -> list[float]:
    nats, tokens = values
    return [float(nats), int(tokens)]


def _check(args: Any) -> None:
    if args.kl_in_reward and args.beta != 0.0:
        raise TrainerError(
            "--kl_in_reward is true: the rewards would carry a KL penalty, so that they are no longer on the run's declared "
            "scale; set it to false (the penalty is then in the loss)"
        )
    if args.advantage_reweight == "rlsd":
        raise TrainerError("--advantage_reweight rlsd would weigh the advantages once more; leave it out")
    if args.scale_rewards != "none":
        say_undivided(f"--scale_rewards {args.scale_rewards}")


def _process_group() -> bool | None:
    return True if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1 else None


TrainerFactory.TRAINER_MAPPING["grpo"] = f"{__name__}.{FadeGRPOTrainer.__name__}"
