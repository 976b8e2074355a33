"""tunix: the advantage estimator and the reward manager ``fade``, registered when this module is imported.

The reward manager is tunix's own, and tells the estimator what tunix does not: which batch it is, whether it evaluates, and which
rewards are missing. The client comes from the environment (:func:`fade_client.shim.client_from_environment`). Written against
google-tunix 0.1.7; docs/trainers/tunix.md says how.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np
from tunix.rl.function_registry import (  # type: ignore[import-not-found]
    register_advantage_estimator,
    register_reward_manager,
)
from tunix.rl.reward_manager import SequenceRewardManager  # type: ignore[import-not-found]

from fade_client.errors import TrainerError
from fade_client.schedule import Schedule
from fade_client.shim import numbers, shared_client

_batches = count()
_reasons: set[str] = set()


@dataclass
class _Batch(threading.local):
    """The batch whose rewards this thread computed last; tunix asks for its advantages next, in the same thread."""

    trajectory: str | None = None
    evaluation: bool = False
    schedule: Schedule | None = None


_batch = _Batch()


@register_reward_manager("fade")
class FadeRewardManager(SequenceRewardManager):  # type: ignore[misc]
    """The sum of the reward functions, where a row that all of them gave NaN stays NaN: missing is not 0."""

    def __call__(self, prompts: list[str], completions: list[str], **kwargs: Any) -> dict[str, Any]:
        """As tunix's own."""
        info: dict[str, Any] = super().__call__(prompts, completions, **kwargs)
        means, _ = info["log_metrics"]["rewards/mean"]  # (B,), NaN where no function gave a number
        info["rewards"] = np.where(np.isnan(means), np.nan, info["rewards"])
        _batch.evaluation = kwargs["mode"] == "eval"
        trajectories = kwargs.get("trajectory_ids")
        _batch.trajectory = None if trajectories is None else trajectories[0]
        return info


@register_advantage_estimator("fade")  # type: ignore[untyped-decorator]
def fade_advantages(rewards: Any, num_generations: int) -> Any:
    """One batch of rollouts: reported, and weighed by the schedule that comes back.

    Args:
        rewards: (B,) numpy or JAX; each ``num_generations`` consecutive ones are one prompt's.
        num_generations: Rollouts per prompt.

    Returns:
        Advantages (B,), as the rewards: numpy or JAX, of their dtype.

    Raises:
        TrainerError: ``rewards`` are not whole groups.
        RejectedError: The first report was refused; see :class:`fade_client.FadeClient`.
    """
    values = np.asarray(rewards, np.float64)
    if len(values) % num_generations:
        raise TrainerError(f"{len(values)} rewards are no whole groups of num_generations = {num_generations}")
    groups = np.arange(len(values)) // num_generations
    evaluation, trajectory = _batch.evaluation, _batch.trajectory
    _batch.evaluation, _batch.trajectory = False, None
    if trajectory is None or evaluation:  # tunix numbers the trajectories of each evaluation from 0
        name = f"{'evaluation' if evaluation else 'batch'}-{next(_batches)}"
    else:
        name = f"trajectory-{trajectory}"
    schedule = shared_client().observe(name, rewards=values, groups=groups, evaluation=evaluation)
    _batch.schedule = schedule
    advantages = schedule.advantages(values, groups)
    if isinstance(rewards, np.ndarray):
        return advantages.astype(rewards.dtype) if rewards.dtype.kind == "f" else advantages
    import jax.numpy as jnp  # type: ignore[import-not-found]

    return jnp.asarray(advantages, rewards.dtype if jnp.issubdtype(rewards.dtype, jnp.floating) else None)


def metrics(**_: Any) -> dict[str, tuple[float, Any]]:
    """One of a learner's ``metric_fns``: the schedule of the batch, for tunix's logs."""
    known = {} if _batch.schedule is None else numbers(_batch.schedule, _reasons)
    return {name: (value, np.mean) for name, value in known.items()}


def keep_state(learner: Any) -> None:
    """Keeps the run's state in the actor's checkpoints, and goes on from it where the learner was restored from one.

    Call it once, before ``learner.train``.

    Args:
        learner: A tunix learner; its ``rl_cluster.actor_trainer`` writes and reads the checkpoints.
    """
    trainer = learner.rl_cluster.actor_trainer
    own = trainer.custom_checkpoint_metadata_fn
    trainer.custom_checkpoint_metadata_fn = lambda: {**own(), "fade": shared_client().state_dict()}
    state = trainer._restored_custom_metadata.get("fade")  # tunix reads its own global_step from there
    if state is not None:
        shared_client().load_state_dict(state)
