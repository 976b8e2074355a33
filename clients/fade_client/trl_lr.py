"""TRL: the learning rate under the schedule's multiplier, for one optimizer step at a time."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback  # type: ignore[import-not-found]


class LrScale(TrainerCallback):  # type: ignore[misc]
    """Multiplies every learning rate for the step, and puts back what TRL's own scheduler set, which it goes on from.

    Attributes:
        scale: The newest schedule's ``lr_scale``.
    """

    def __init__(self) -> None:
        self.scale = 1.0
        self._own: list[Any] = []

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before the step."""
        groups = kwargs["optimizer"].param_groups
        self._own = [group["lr"] for group in groups]
        for group in groups:
            group["lr"] = group["lr"] * self.scale

    def on_optimizer_step(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """After it."""
        for group, own in zip(kwargs["optimizer"].param_groups, self._own, strict=True):
            group["lr"] = own
