"""SkyRL: the advantage estimator ``fade``, and a callback for its checkpoints, entropy and logs.

Importing this module registers the estimator; import it in the driver and in the task that trains. The client comes from the
environment (:func:`fade_client.shim.client_from_environment`). Written against skyrl 0.4.0; docs/trainers/skyrl.md says how.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

from skyrl.backends.skyrl_train.utils.io import io  # type: ignore[import-not-found]
from skyrl.backends.skyrl_train.utils.ppo_utils import AdvantageEstimatorRegistry  # type: ignore[import-not-found]
from skyrl.train.utils.callbacks import TrainingCallback  # type: ignore[import-not-found]

from fade_client import checkpoint
from fade_client.errors import TrainerError
from fade_client.schedule import Schedule
from fade_client.shim import say_undivided, send_the_rest, shared_client, step_on_line
from fade_core import Entropy, RowStatus

ENTROPY_KIND = "skyrl/policy_entropy"
"""The trainer's metric: the mean over micro-batches of each one's token mean, of the step before."""


@dataclass
class _Trainer:
    """What the callback last saw of this process's trainer; the estimator is told none of it."""

    step: int | None = None
    entropy: Entropy | None = None
    schedule: Schedule | None = None


_trainer = _Trainer()
_batches = count()


def fade_advantages(
    token_level_rewards: Any, response_mask: Any, index: Sequence[str], config: Any = None, **_: Any
) -> tuple[Any, Any]:
    """One generation batch: reported, weighed, and spread over its tokens. SkyRL calls it with keywords.

    Args:
        token_level_rewards: Tensor (N, T); a row's reward is its sum.
        response_mask: Tensor (N, T); all ones in step-wise mode, where each row is the last step of its trajectory.
        index: (N,) prompt ids, a list or an array. SkyRL names the rows that it pads with ``pad0``, ``pad1``, ...
        config: ``trainer.algorithm`` of SkyRL's configuration.

    Returns:
        Advantages and returns, one tensor (N, T) for both.

    Raises:
        TrainerError: SkyRL would change rewards or advantages; says which setting.
        RejectedError: The first report was refused; see :class:`fade_client.FadeClient`.
    """
    check(config)
    rewards = token_level_rewards.sum(dim=-1)
    groups = [str(uid) for uid in index]
    statuses = [RowStatus.PADDING if re.fullmatch(r"pad\d+", uid) else RowStatus.SCORED for uid in groups]
    name = f"batch-{next(_batches)}" if _trainer.step is None else f"step-{_trainer.step}"
    client = shared_client()
    schedule = client.observe(
        name,
        rewards=rewards,
        groups=groups,
        statuses=statuses,
        entropy=_trainer.entropy,
        trainer_step=None if _trainer.step is None else step_on_line(client, _trainer.step),
        prefiltered=_value(config, "dynamic_sampling.type") is not None,
    )
    _trainer.schedule = schedule
    advantages = schedule.advantages(rewards, groups, statuses=statuses).unsqueeze(-1) * response_mask
    return advantages, advantages


def check(config: Any) -> None:
    """Whether what this estimator returns reaches the gradient as it is.

    Args:
        config: ``trainer.algorithm`` of SkyRL's configuration; None is not checked.

    Raises:
        TrainerError: It does not; says which setting to change.
    """
    if _value(config, "advantage_batch_normalize"):
        raise TrainerError(
            "trainer.algorithm.advantage_batch_normalize is true: SkyRL would whiten the advantages over the batch, which undoes "
            "the schedule; set it to false"
        )
    if _value(config, "use_kl_in_reward"):
        raise TrainerError(
            "trainer.algorithm.use_kl_in_reward is true: the rewards would carry a KL penalty, so that they are no longer on the "
            "run's declared scale; set it to false, and use_kl_loss to true if you want the penalty"
        )
    if _value(config, "grpo_norm_by_std"):
        say_undivided("trainer.algorithm.grpo_norm_by_std=true")


class FadeCallback(TrainingCallback):  # type: ignore[misc]
    """Gives the estimator the trainer's step and entropy, logs the schedule, and keeps the run's state in the checkpoints.

    State and entropy are in ``fade.json`` in the checkpoint's folder.
    """

    def on_train_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Checks the configuration; goes on from the checkpoint where the trainer does."""
        check(trainer.cfg.trainer.algorithm)
        if not callback_input.global_step:
            return
        settings = trainer.cfg.trainer
        folder = settings.resume_path if str(settings.resume_mode) == "from_path" else None
        folder = folder or os.path.join(settings.ckpt_path, f"global_step_{callback_input.global_step}")
        path = os.path.join(folder, checkpoint.FILE)
        if not io.exists(path):
            checkpoint.missing(path)
            return
        with io.open_file(path, "r") as file:
            text = file.read()
        kept = checkpoint.from_text(path, text, entropy=lambda values: None if values is None else Entropy(**values))
        shared_client().load_state_dict(kept["state"])
        _trainer.entropy = kept["entropy"]

    def on_step_start(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Names the batch to come by its step."""
        _trainer.step = callback_input.global_step

    def on_step_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Keeps the entropy of this step for the report of the next."""
        mean = (callback_input.metrics or {}).get("policy_entropy")
        tokens = int(callback_input.batch["loss_mask"].sum())
        _trainer.entropy = None if mean is None else Entropy(sum_nats=mean * tokens, token_count=tokens, kind=ENTROPY_KIND)

    def on_save(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Writes the state into the checkpoint, and the entropy that the next step will report."""
        entropy = None if _trainer.entropy is None else asdict(_trainer.entropy)
        path = os.path.join(callback_input.ckpt_path, checkpoint.FILE)
        with checkpoint.writing(path), io.open_file(path, "w") as file:
            file.write(checkpoint.to_text(shared_client().state_dict(), entropy=entropy))

    def on_log(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Adds the schedule to what is logged."""
        if _trainer.schedule is not None:
            callback_input.logs.update(_trainer.schedule.metrics())

    def on_train_end(self, trainer: Any, callback_input: Any, control: Any) -> None:
        """Sends what still waits for the service, and says what was not sent."""
        send_the_rest(shared_client())


def _value(config: Any, path: str) -> Any:
    """A setting by its path; None where it or a part of its path is not there."""
    for name in path.split("."):
        config = getattr(config, name, None)
    return config


AdvantageEstimatorRegistry.register("fade", fade_advantages)
