"""An ms-swift plugin for the tests: a reward function, and a record of what each batch came to (RECORD names the file)."""

from __future__ import annotations

import json
import os
from typing import Any

from swift.rewards import ORM, orms
from swift.rlhf_trainers import GRPOTrainer
from swift.trainers import TrainerFactory

import fade_client.shim

# a slow machine is no service away
fade_client.shim._shared = fade_client.shim.client_from_environment(timeout_seconds=30)

ENTROPY = [0.0, 0]  # nats and tokens since the last batch, as ms-swift's own method returned them


class Odd(ORM):
    """1 where the completion's characters sum to an odd number, 0 where not, None for each fifth length."""

    def __call__(self, completions: list[str], **_: Any) -> list[float | None]:
        return [None if len(text) % 5 == 0 else float(sum(map(ord, text)) % 2) for text in completions]


orms["odd"] = Odd
trainer: Any = TrainerFactory.get_cls(type("Arguments", (), {"rlhf_type": "grpo"}), TrainerFactory.TRAINER_MAPPING)
compute_advantages = trainer._compute_advantages
entropies_of = GRPOTrainer._get_per_token_logps_and_entropies


def recorded_advantages(self: Any, samples: Any, rewards: Any, batches: Any) -> Any:
    step, training, entropy = self.state.global_step, self.model.training, list(ENTROPY)
    advantages = compute_advantages(self, samples, rewards, batches)
    record = {"step": step, "training": training, "rewards": rewards[:, 0].tolist(), "advantages": advantages.tolist()}
    with open(f"{os.environ['RECORD']}.{self.accelerator.process_index}", "a") as file:
        file.write(json.dumps({**record, "entropy": entropy}) + "\n")
    if training:
        ENTROPY[:] = [0.0, 0]
    return advantages


def recorded_entropies(self: Any, model: Any, inputs: Any, batch: Any, *args: Any, **kwargs: Any) -> Any:
    logps, entropies = entropies_of(self, model, inputs, batch, *args, **kwargs)
    if entropies is not None and self.model.training:
        for row, mask in zip(entropies, batch.completion_mask, strict=True):
            ENTROPY[0] += sum(row[mask.bool()].tolist())
            ENTROPY[1] += int(mask.sum())
    return logps, entropies


trainer._compute_advantages = recorded_advantages
GRPOTrainer._get_per_token_logps_and_entropies = recorded_entropies
