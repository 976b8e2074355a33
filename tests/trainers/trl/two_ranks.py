"""One of two processes: trains with the shim, and leaves what it trained on. Arguments: address, folder."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import torch.distributed as dist
from tiny import trainer

from fade_client import FadeClient, RunConfig
from fade_client.trl import FadeGRPOTrainer

address, folder = sys.argv[1], Path(sys.argv[2])


class Recording(FadeGRPOTrainer):
    batches: list[dict[str, Any]] = []

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.batches.append({"advantages": output["advantages"].tolist(), "rewards": self._fade_rewards[:, 0].tolist()})
        return output


fade = FadeClient(address, run="two-ranks", config=RunConfig(ema_weight=0.5), timeout_seconds=30)
running = trainer(Recording, folder / "out", fade=fade, per_device_train_batch_size=8, max_steps=3)
running.train()
weights = [round(float(parameter.double().sum()), 12) for parameter in running.model.parameters()]
result = {"batches": Recording.batches, "weights": weights, "history": running.state.log_history}
(folder / f"rank-{dist.get_rank()}.json").write_text(json.dumps(result))
