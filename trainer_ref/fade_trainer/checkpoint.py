"""Checkpoints: everything that decides the rest of a run, in one file that is either the old one or the new one."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from fade_trainer.config import TrainConfigError


@dataclass(frozen=True, kw_only=True, slots=True)
class Checkpoint:
    """A run after `step` steps; tensors and plain values only, so that it loads without running code."""

    identity: dict[str, Any]
    """`TrainConfig.identity()` of the run."""

    step: int
    """Steps done."""

    prompts_seen: int
    """Cursor into the endless stream of training prompts."""

    model: dict[str, Any]
    """Parameters by name."""

    optimizer: dict[str, Any]
    """Adam's state."""

    generators: dict[str, torch.Tensor]
    """State of each of training's generators by name."""

    schedules: dict[str, int]
    """Batches so far per schedule source."""

    before: dict[int, float]
    """pass@k of the warmed-up policy on the held-out prompts."""

    fade: dict[str, Any] | None
    """`FadeClient.state_dict()`; None without a scheduler."""

    metrics_bytes: int
    """Length of metrics.jsonl at this step; what was written later belongs to steps that are trained again."""

    def save(self, path: Path) -> None:
        """Replaces the checkpoint at `path`."""
        save_atomically({item.name: getattr(self, item.name) for item in fields(self)}, path)

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Reads what `save` wrote; code in the file is not run.

        Raises:
            TrainConfigError: The file is no checkpoint, or damaged.
        """
        try:
            return cls(**torch.load(path, weights_only=True))
        except (UnpicklingError, EOFError, RuntimeError, TypeError) as error:
            raise TrainConfigError(f"{path} cannot be read as a checkpoint: {error}") from error


def save_atomically(content: object, path: Path) -> None:
    """torch.save to a file beside `path`, flushed to disk and then renamed onto it: a kill leaves no half a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("wb") as file:
            torch.save(content, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
