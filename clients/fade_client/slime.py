"""slime: rewards become FADE advantages in ``--custom-reward-post-process-path fade_client.slime.post_process_rewards``.

With the estimators ``grpo``, ``gspo`` and ``cispo`` the post-processed reward is the advantage of all the sample's tokens. The
hook runs once per rollout, in the rollout manager. The client comes from the environment
(:func:`fade_client.shim.client_from_environment`). Written against slime 0.3.1; docs/trainers/slime.md says how.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

from fade_client import checkpoint
from fade_client.errors import TrainerError
from fade_client.shim import say_undivided, shared_client
from fade_core import RowStatus

ESTIMATORS = ("grpo", "gspo", "cispo")
"""Those that take the reward as the advantage as it is."""

_log = logging.getLogger(__name__)
_batches = count()


def post_process_rewards(args: Any, samples: Sequence[Any]) -> tuple[list[float], list[float]]:
    """One rollout: reported, and weighed by the schedule that comes back.

    Groups are those of ``group_index``, of any sizes. Samples that share a ``rollout_id`` are one rollout. A sample that the
    trainer masks (truncated, or ``remove_sample``) keeps its reward; one that it aborted, or without a reward, is none of its
    group's baseline and gets 0.

    Args:
        args: slime's arguments.
        samples: (N,) of slime's ``Sample``.

    Returns:
        The rewards as they were (NaN where there is none), and the advantages: two lists (N,).

    Raises:
        TrainerError: slime would change the advantages, or a sample has no group; says what to change.
        RejectedError: The first report was refused; see :class:`fade_client.FadeClient`.
    """
    check(args)
    rewards = [math.nan if sample.reward is None else float(sample.get_reward_value(args)) for sample in samples]
    groups = [_group(row, sample) for row, sample in enumerate(samples)]
    rollouts = [("row", row) if sample.rollout_id is None else sample.rollout_id for row, sample in enumerate(samples)]
    statuses = [_status(sample) for sample in samples]
    schedule = shared_client().observe(
        _name(samples),
        rewards=rewards,
        groups=groups,
        rollouts=rollouts,
        statuses=statuses,
        prefiltered=args.dynamic_sampling_filter_path is not None,
    )
    _log.info("%s", schedule.metrics())
    return rewards, schedule.advantages(rewards, groups, rollouts=rollouts, statuses=statuses).tolist()


def check(args: Any) -> None:
    """Whether the advantages reach the gradient as they are.

    Args:
        args: slime's arguments.

    Raises:
        TrainerError: They do not; says which argument to change.
    """
    if args.advantage_estimator not in ESTIMATORS:
        raise TrainerError(
            f"--advantage-estimator is {args.advantage_estimator}: slime would compute other advantages from these rewards; "
            f"choose one of {', '.join(ESTIMATORS)}"
        )
    if args.normalize_advantages:
        raise TrainerError("--normalize-advantages would whiten the advantages, which undoes the schedule; leave it out")
    if args.custom_advantage_function_path is not None:
        raise TrainerError("--custom-advantage-function-path would replace the advantages; leave it out")
    if getattr(args, "rewards_normalization", False) and getattr(args, "grpo_std_normalization", False):
        say_undivided("slime's normalisation by the standard deviation (on without --disable-grpo-std-normalization)")


class FadeState:
    """Keeps the run's state beside that of slime's data source: put it before the data source among a class's bases.

    The state of rollout n is ``rollout/fade_n.json`` in the folder of ``--save``, and is read from that of ``--load``.
    """

    args: Any

    def save(self, rollout_id: int) -> None:
        """Writes the state, after the data source's own."""
        super().save(rollout_id)  # type: ignore[misc]
        checkpoint.write_file(_path(self.args.save, rollout_id), shared_client().state_dict())

    def load(self, rollout_id: int | None = None) -> None:
        """Goes on from the state, where there is one.

        Raises:
            CheckpointError: It is damaged, or of another version; names the file.
        """
        super().load(rollout_id)  # type: ignore[misc]
        if self.args.load is None or rollout_id is None or rollout_id < 0:
            return
        kept = checkpoint.read_file(_path(self.args.load, rollout_id))
        if kept is not None:
            shared_client().load_state_dict(kept["state"])


def _path(folder: str, rollout_id: int) -> Path:
    return Path(folder) / "rollout" / f"fade_{rollout_id}.json"


def _name(samples: Sequence[Any]) -> str:
    """slime numbers samples over the whole run, and keeps the number in its checkpoints: the same samples get the same name."""
    indices = [sample.index for sample in samples]
    if None in indices:
        return f"batch-{next(_batches)}"
    return f"samples-{min(indices)}-{max(indices)}"


def _group(row: int, sample: Any) -> int:
    if sample.group_index is None:
        raise TrainerError(f"sample {row} has no group_index; let the rollout function set it, one number per prompt")
    return int(sample.group_index)


def _status(sample: Any) -> RowStatus:
    status = sample.status.value
    if status == "aborted":
        return RowStatus.ERROR
    if sample.reward is None:
        return RowStatus.MISSING
    if status == "truncated" or sample.remove_sample:
        return RowStatus.TRUNCATED
    return RowStatus.SCORED
