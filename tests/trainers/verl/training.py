"""verl's configuration as the guide has it, and its synchronous trainer on stand-ins for GPU workers and generation."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hydra
import numpy as np
import torch
import transfer_queue as tq
import verl
from torchdata.stateful_dataloader import StatefulDataLoader
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

ROOT = Path(__file__).parents[3]
WEIGHT = 0.5  # of a new value in the averages: they move visibly in a few steps
ENTROPIES = [1.25, 0.05, 0.05, 0.4, 0.3, 0.2, 0.1, 0.1]


def guide() -> list[str]:
    """The settings of docs/trainers/verl.md."""
    (command,) = re.findall(r"```sh\n(.*?)```", (ROOT / "docs/trainers/verl.md").read_text(), re.DOTALL)
    python, module, name, rest, *lines = shlex.split(command.replace("\\\n", ""))
    assert (python, module, name, rest) == ("python", "-m", "verl.trainer.main_ppo", "...")
    return lines


def settings(address: str, *more: str) -> Any:
    """verl's configuration with the guide's lines, a server's address, and ``more``."""
    changes = [f"algorithm.fade.address='{address}'", "algorithm.fade.config.mode=active"]
    changes += [f"+algorithm.fade.config.ema_weight={WEIGHT}", *more]
    with hydra.initialize_config_dir(str(Path(verl.__file__).parent / "trainer/config"), version_base=None):
        return hydra.compose("ppo_trainer", overrides=[*guide(), *changes])


class Fade:
    """FADE.md, sections 2 and 3, written down once more: 0/1 rewards, defaults but for the weight."""

    def __init__(self) -> None:
        self.solve_rate, self.entropy, self.target = 0.5, np.nan, np.nan

    def observe(self, rewards: np.ndarray, groups: np.ndarray, entropy: float | None = None) -> np.ndarray:
        means = {group: rewards[groups == group].mean() for group in np.unique(groups)}
        self.solve_rate += WEIGHT * (np.mean(list(means.values())) - self.solve_rate)
        if entropy is not None and np.isnan(self.entropy):
            self.entropy, self.target = entropy, 0.5 * entropy
        elif entropy is not None:
            self.entropy += WEIGHT * (entropy - self.entropy)
        alpha = np.clip(1.5 * (1 - self.solve_rate) / self.solve_rate, 1, 3)
        delta = 1.0 if np.isnan(self.entropy) else np.clip(1 + self.entropy - self.target, 0.3, 1)
        mean = np.array([means[group] for group in groups])
        centred = rewards - mean
        return np.where(mean < 1, 1 - mean, 0.0) ** (alpha - 1) * np.where(centred < 0, centred / delta, centred)


class Workers:
    """In place of the GPU workers, two of them: their forward pass writes entropies; what would be trained on is kept."""

    _dispatch_info = {"actor": [0, 1]}

    def __init__(self) -> None:
        self.trained: list[dict[str, np.ndarray]] = []
        self.passes = 0

    def compute_log_prob(self, batch: Any) -> Any:
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["prompts", "responses"])
        rows = []
        for prompt, response in zip(data["prompts"].unbind(), data["responses"].unbind(), strict=True):
            # shifted by one: the entropy of a response's token stands at the place before; 100 where none may be read
            entropy = torch.full((len(prompt) + len(response),), 100.0)
            entropy[len(prompt) - 1 : -1] = torch.where(response == TOOL, 100.0, response * ENTROPIES[self.passes])
            rows.append({"entropy": entropy, "log_probs": torch.zeros_like(entropy)})
        self.passes += 1
        return tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=list_of_dict_to_tensordict(rows))

    def update_actor(self, batch: Any) -> Any:
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["advantages"])
        rows = [row.numpy() for row in data["advantages"].unbind()]
        self.trained.append(dict(zip(batch.keys, rows, strict=True)))
        return {"metrics": {"mfu": [0.0]}}

    def save_checkpoint(self, *_: Any, **__: Any) -> None: ...

    def load_checkpoint(self, **_: Any) -> None: ...


TOOL = 9  # a token that a tool wrote: masked


class Generation:
    """In place of the agent loops: rewards by prompt and session, one or two outputs for each, a tool's token in the first."""

    def __init__(self, outputs: int) -> None:
        self.outputs = outputs
        self.made: dict[str, tuple[float, list[int]]] = {}  # by key: reward of the rollout, mask

    def generate_sequences(self, batch: Any) -> None:
        for uid, prompt in zip(batch["uid"], batch["index"].tolist(), strict=True):
            keys, fields, tags = [], [], []
            for session in range(4):
                reward = float(session < 1 + prompt % 3)
                outputs = 1 + session % self.outputs
                for output in range(outputs):
                    response = [1, TOOL, 1] if output == 0 else [1, 1]
                    self.made[f"{uid}_{session}_{output}"] = reward, [int(token != TOOL) for token in response]
                    keys.append(f"{uid}_{session}_{output}")
                    fields.append(self._fields(uid, response, reward if output == outputs - 1 else 0.0))
                    size = {"prompt_len": 2, "response_len": len(response), "seq_len": 2 + len(response)}
                    step = dict.fromkeys(["global_steps", "min_global_steps", "max_global_steps"], batch["global_steps"])
                    tags.append({"status": "success", **size, **step})
            tq.kv_batch_put(keys=keys, fields=list_of_dict_to_tensordict(fields), tags=tags, partition_id="train")
            tq.kv_put(key=uid, partition_id="train", tag={"status": "finished"})

    def _fields(self, uid: str, response: list[int], reward: float) -> dict[str, Any]:
        ids = torch.tensor([1, 2, *response])
        mask = torch.tensor([int(token != TOOL) for token in response])
        scores = torch.zeros(len(response))
        scores[-1] = reward
        return {
            "uid": uid,
            "prompts": ids[:2],
            "responses": ids[2:],
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "position_ids": torch.arange(len(ids)),
            "response_mask": mask,
            "loss_mask": mask,
            "rm_scores": scores,
            "rollout_log_probs": scores,
            "num_turns": 1,
        }


class Training:
    """A run of verl's synchronous trainer: what it logged, what its workers were given, what was generated."""

    def __init__(self, address: str, folder: Path, steps: int, *more: str, outputs: int = 1, passes: int = 0) -> None:
        changes = [
            "data.train_batch_size=4",
            "actor_rollout_ref.rollout.n=4",
            "actor_rollout_ref.actor.ppo_mini_batch_size=4",
            "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum",
            "actor_rollout_ref.rollout.calculate_log_probs=false",
            "trainer.logger=[console]",
            "trainer.val_before_train=false",
            "trainer.test_freq=-1",
            "trainer.save_freq=2",
            "trainer.total_epochs=10",
            f"trainer.default_local_dir={folder}",
        ]
        config = settings(address, *changes, *more)
        trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
        rows = [{"raw_prompt": f"prompt {number}", "index": number} for number in range(100)]
        trainer.train_dataloader = StatefulDataLoader(rows, batch_size=4, collate_fn=self._collate)
        trainer.train_dataloader_it = None
        trainer.steps_per_epoch, trainer.total_training_steps = 25, steps
        trainer.tokenizer = SimpleNamespace(eos_token_id=0)
        trainer.reward_loop_manager = SimpleNamespace(reward_loop_worker_handles=[])
        trainer.resource_pool_manager = SimpleNamespace(get_n_gpus=lambda: 2)
        trainer.checkpoint_manager = SimpleNamespace(update_weights=lambda steps: None, sleep_replicas=lambda: None)
        trainer.actor_rollout_wg = self.workers = Workers()
        self.workers.passes = passes
        self.generation = Generation(outputs)
        trainer._init_dump_executor()
        trainer._load_checkpoint()
        trainer.fit(self.generation)

    @staticmethod
    def _collate(rows: list[Any]) -> dict[str, Any]:
        prompts = np.array([row["raw_prompt"] for row in rows], dtype=object)
        return {"raw_prompt": prompts, "index": torch.tensor([row["index"] for row in rows])}

    def expected(self) -> Iterator[dict[str, np.ndarray]]:
        """Advantages of FADE.md by key: a rollout counts once, and each of its outputs gets its advantage; padding gets 0."""
        fade = Fade()
        for step, batch in enumerate(self.workers.trained):
            real = [key for key in batch if key in self.generation.made]
            rollouts = sorted({key.rpartition("_")[0] for key in real})
            rewards = np.array([self.generation.made[f"{rollout}_0"][0] for rollout in rollouts])
            groups = np.array([rollout.rpartition("_")[0] for rollout in rollouts])
            advantage = dict(zip(rollouts, fade.observe(rewards, groups, ENTROPIES[step]), strict=True))
            masks = {key: np.array(self.generation.made[key][1]) for key in real}
            yield {key: advantage[key.rpartition("_")[0]] * masks[key] if key in masks else np.zeros(1) for key in batch}
