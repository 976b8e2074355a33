"""verl: the advantage estimator ``fade``, and a checkpoint callback that adds entropy, logs and the run's state.

Importing this module registers the estimator. The client comes from ``algorithm.fade`` of verl's configuration, or from the
environment (:func:`fade_client.shim.client_from_environment`). Written against verl 0.9.1; docs/trainers/verl.md says how.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf  # type: ignore[import-not-found]
from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, register_adv_est  # type: ignore[import-not-found]

from fade_client import checkpoint
from fade_client.client import FadeClient
from fade_client.errors import SettingsError, TrainerError
from fade_client.schedule import Schedule
from fade_client.shim import numbers, say_undivided, shared_client, step_on_line
from fade_core import Entropy, FadeError, RowStatus, RunConfig

ENTROPY_KIND = "verl/full vocabulary"
"""Over the whole vocabulary at the rollout's temperature, of the tokens in the response mask, before the update."""

SETTINGS = ("address", "run", "project", "config")
"""Of ``algorithm.fade``; each wins over the environment variable of that name. A token is no setting: verl logs its own."""


@dataclass(frozen=True, slots=True)
class _Batch:
    """What the trainer knows of the batch at hand; verl tells the estimator none of it."""

    trainer_step: int | None = None
    entropy: Entropy | None = None
    rollouts: Sequence[str] | None = None  # (N,) of which a row is one output
    last: Sequence[int] | None = None  # (N,) the row of that rollout's last output


@dataclass(slots=True)
class _Trainer:
    """This process's training: the batch at hand, batches reported so far, the last schedule, for what reports were refused."""

    batch: _Batch = field(default_factory=_Batch)
    reported: int = 0
    schedule: Schedule | None = None
    reasons: set[str] = field(default_factory=set)


_trainer = _Trainer()


def fade_advantages(
    token_level_rewards: Any, response_mask: Any, config: Any = None, index: Sequence[Any] | None = None, **_: Any
) -> tuple[Any, Any]:
    """One generation batch: reported, weighed, and spread over its tokens. verl calls it with keywords.

    Args:
        token_level_rewards: Tensor (N, T); a row's reward is its sum, as in verl's ``grpo``.
        response_mask: Tensor (N, T). Rows that verl pads with have none of it and a ``uid`` of ``pad`` and hex digits.
        config: ``algorithm`` of verl's configuration.
        index: (N,) the ``uid`` of each row's prompt.

    Returns:
        Advantages and returns, one tensor (N, T) for both.

    Raises:
        TrainerError: verl would change the rewards, or rows have no group; says what to change.
        RejectedError: The first report was refused; see :class:`fade_client.FadeClient`.
    """
    check(config)
    if index is None:
        raise TrainerError("the batch has no uid, so no row has a group; give each row its prompt's in non_tensor_batch['uid']")
    batch = _trainer.batch
    rewards = token_level_rewards.sum(dim=-1)
    if batch.last is not None:
        rewards = rewards[batch.last]
    groups = [str(uid) for uid in index]
    statuses = [_status(uid, tokens) for uid, tokens in zip(groups, response_mask.sum(dim=-1).tolist(), strict=True)]
    client = _client(config)
    schedule = client.observe(
        f"batch-{_trainer.reported}",
        rewards=rewards,
        groups=groups,
        statuses=statuses,
        rollouts=batch.rollouts,
        entropy=batch.entropy,
        trainer_step=None if batch.trainer_step is None else step_on_line(client, batch.trainer_step),
        prefiltered=bool(_value(config, "filter_groups.enable")),
    )
    _trainer.reported += 1  # not where it raised: the same batch keeps its name
    _trainer.schedule = schedule
    values = schedule.advantages(rewards, groups, statuses=statuses, rollouts=batch.rollouts)
    advantages = values.unsqueeze(-1) * response_mask
    return advantages, advantages


def check(algorithm: Any) -> None:
    """Whether the rewards that the estimator gets are those of the run's declared scale. verl changes no advantages after it.

    Says in the log that ``norm_adv_by_std_in_grpo`` has no effect.

    Args:
        algorithm: ``algorithm`` of verl's configuration; None is not checked.

    Raises:
        TrainerError: They are not; says which setting to change.
    """
    if _value(algorithm, "use_kl_in_reward"):
        raise TrainerError(
            "algorithm.use_kl_in_reward is true: the rewards would carry a KL penalty, so that they are no longer on the run's "
            "declared scale; set it to false, and actor_rollout_ref.actor.use_kl_loss to true if you want the penalty"
        )
    if _value(algorithm, "norm_adv_by_std_in_grpo"):
        say_undivided("algorithm.norm_adv_by_std_in_grpo=true")


class FadeCheckpoint:
    """``trainer.checkpoint_callback_class``: keeps the run's state in verl's checkpoints, and gives the estimator what it lacks.

    Making one hooks the trainers of this process, as verl has no callback for either: each batch is reported with its entropy,
    step and rollouts, the schedule is logged, and resuming from a checkpoint goes on from the state in it.

    Args:
        config: verl's whole configuration.

    Raises:
        TrainerError: Another estimator is chosen, or what :func:`check` raises.
        SettingsError: The client's address or run is missing, or its configuration is wrong.
    """

    def __init__(self, config: Any) -> None:
        from verl.trainer.ppo.v1.trainer_base import PPOTrainer  # type: ignore[import-not-found]

        if config.algorithm.adv_estimator != "fade":
            raise TrainerError(
                f"algorithm.adv_estimator is {config.algorithm.adv_estimator}: set it to fade, or leave out "
                "trainer.checkpoint_callback_class"
            )
        check(config.algorithm)
        _client(config.algorithm)
        _hook(PPOTrainer)

    def on_save(self, trainer: Any, global_step: int, checkpoint_dir: str, **_: Any) -> None:
        """Writes the state into the checkpoint; needs no service."""
        save_state(checkpoint_dir)


def save_state(folder: str | os.PathLike[str]) -> None:
    """Writes the run's state into a checkpoint's folder; needs no service. Where it cannot be written, the log says so."""
    checkpoint.write_file(Path(folder) / checkpoint.FILE, shared_client().state_dict(), reported=_trainer.reported)


def load_state(folder: str | os.PathLike[str]) -> None:
    """Goes on from the state in a checkpoint's folder; a warning where there is none.

    Raises:
        CheckpointError: The file is damaged, or of another version; names it.
        RejectedError: The service refused to restore.
    """
    kept = checkpoint.read_file(Path(folder) / checkpoint.FILE, reported=int)
    if kept is not None:
        shared_client().load_state_dict(kept["state"])
        _trainer.reported = kept["reported"]


def _hook(trainer: Any) -> None:
    compute_advantage, load_checkpoint = trainer._compute_advantage, trainer._load_checkpoint
    if compute_advantage.__module__ == __name__:
        return

    def _compute_advantage(self: Any, batch: Any, metrics: dict[str, Any]) -> Any:
        _trainer.batch = _known(self, batch)
        try:
            batch = compute_advantage(self, batch, metrics)
        finally:
            _trainer.batch = _Batch()
        if _trainer.schedule is not None:
            metrics.update(numbers(_trainer.schedule, _trainer.reasons))
        return batch

    def _load_checkpoint(self: Any) -> None:
        load_checkpoint(self)
        settings = self.config.trainer
        if self.global_steps and settings.resume_mode == "resume_path":
            load_state(settings.resume_from_path)
        elif self.global_steps:
            load_state(Path(settings.default_local_dir) / f"global_step_{self.global_steps}")

    trainer._compute_advantage, trainer._load_checkpoint = _compute_advantage, _load_checkpoint


def _known(trainer: Any, batch: Any) -> _Batch:
    """Of a batch in the queue, whose keys are ``<uid>_<session>_<output>``: a session is a rollout, as in verl's ``grpo``."""
    names = [key.rpartition("_") for key in batch.keys]
    last: dict[str, int] = {}
    for row in sorted(range(len(names)), key=lambda row: int(names[row][2])):
        last[names[row][0]] = row
    rollouts = [rollout for rollout, _, _ in names]
    return _Batch(trainer.global_steps, _entropy(batch), rollouts, [last[rollout] for rollout in rollouts])


def _entropy(batch: Any) -> Entropy | None:
    """From the tokens' own: the metric ``actor/entropy`` is a token mean in one of the loss's aggregation modes only."""
    import transfer_queue  # type: ignore[import-not-found]

    fields = ["entropy", "response_mask"]
    data = transfer_queue.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields).to_padded_tensor()
    if "entropy" not in data:  # bypass mode: there was no forward pass
        return None
    tokens = data["entropy"][data["response_mask"].bool()].double()
    return Entropy(sum_nats=tokens.sum().item(), token_count=tokens.numel(), kind=ENTROPY_KIND)


def _client(algorithm: Any) -> FadeClient:
    given = _value(algorithm, "fade")
    settings: Any = {} if given is None else OmegaConf.to_container(OmegaConf.create(given), resolve=True)
    wrong = [name for name in settings if name not in SETTINGS]
    if wrong:
        known = ", ".join(SETTINGS)
        raise TrainerError(f"algorithm.fade.{wrong[0]} is none of {known}; set FADE_{str(wrong[0]).upper()} or correct it")
    named = {name: str(value) for name, value in settings.items() if value is not None and name != "config"}
    return shared_client(config=_config(settings.get("config")), **named)


def _config(values: Any) -> RunConfig | None:
    try:
        return None if values is None else RunConfig.from_dict(values)
    except (FadeError, TypeError, ValueError, AttributeError) as error:
        raise SettingsError(f"algorithm.fade.config is no configuration of a run: {error}") from error


def _status(uid: str, tokens: float) -> RowStatus:
    empty = RowStatus.PADDING if uid.startswith("pad") else RowStatus.TRUNCATED
    return RowStatus.SCORED if tokens else empty


def _value(config: Any, path: str) -> Any:
    """A setting by its path; None where it or a part of its path is not there."""
    for name in path.split("."):
        config = None if config is None else config.get(name)
    return config


_registered = ADV_ESTIMATOR_REGISTRY.get("fade")
if _registered is None or _registered.__module__ != __name__:  # verl refuses another object of the same name, also a reloaded one
    register_adv_est("fade")(fade_advantages)
