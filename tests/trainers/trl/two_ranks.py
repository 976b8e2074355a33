"""One of two processes: trains with the shim, goes on from a checkpoint, is refused. Arguments: address, folder for results."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch.distributed as dist
from tiny import reward, trainer

from fade_client import FadeClient, RejectedError, RunConfig
from fade_client.trl import FadeGRPOTrainer

address, folder = sys.argv[1], Path(sys.argv[2])


class Recording(FadeGRPOTrainer):
    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.batches: list[dict[str, Any]] = []
        super().__init__(*arguments, **options)

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.batches.append({"advantages": output["advantages"].tolist(), "rewards": self._fade_rewards[:, 0].tolist()})
        return output


def make(run: str, rewards: Any = reward) -> Recording:
    fade = FadeClient(address, run=run, config=RunConfig(ema_weight=0.5), timeout_seconds=30)
    options = {"per_device_train_batch_size": 8, "max_steps": 3, "save_strategy": "steps", "save_steps": 1}
    made: Recording = trainer(Recording, folder / "out", fade=fade, rewards=rewards, **options)
    return made


def seen(trained: Recording) -> dict[str, Any]:
    weights = [round(float(parameter.double().sum()), 12) for parameter in trained.model.parameters()]
    return {"batches": trained.batches, "weights": weights, "history": trained.state.log_history}


first = make("two-ranks")
first.train()
resumed = make("two-ranks")
resumed.train(resume_from_checkpoint=str(folder / "out/checkpoint-2"))
refusal = ""
try:
    make("refused", lambda completions, **_: [7.0] * len(completions)).train()
except RejectedError as error:
    refusal = str(error)
result = {"first": seen(first), "resumed": seen(resumed), "refusal": refusal}
(folder / f"rank-{dist.get_rank()}.json").write_text(json.dumps(result))
