"""One rank of docs/trainers/areal.md against stand-ins with the signatures of AReaL 1.0; prints JSON.

Arguments: rank, ranks, the rendezvous file, the guide's snippet as a file, a folder for the checkpoint.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
import torch.distributed as dist


class PPOActor:
    """Puts the clipped reward on every trained token, as AReaL's does under the settings that the guide needs."""

    def __init__(self, config: Any, engine: Any) -> None:
        self.config, self.engine = config, engine

    def compute_advantages(self, data: list[dict[str, Any]]) -> list[dict[str, Any]]:
        done = []
        for item in data:
            reward = item["rewards"].clip(-self.config.reward_clip, self.config.reward_clip)
            mask = torch.roll(item["loss_mask"].float(), -1, -1)
            done.append({**item, "advantages": reward[:, None] * mask, "tot_rewards": reward, "loss_mask": mask})
        return done


class FSDPPPOActor:
    def __init__(self, config: Any) -> None:
        self.version = 0
        self.actor = PPOActor(config, self)

    def create_process_group(self, parallel_strategy: Any = None) -> None:
        self.data_parallel_group = dist.new_group(list(range(dist.get_world_size())))
        self.cpu_group = dist.new_group(backend="gloo")

    def get_version(self) -> int:
        return self.version

    def compute_advantages(self, *arguments: Any, **named: Any) -> Any:
        return self.actor.compute_advantages(*arguments, **named)

    def save(self, meta: Any) -> None:
        dist.barrier()

    def load(self, meta: Any) -> None:
        dist.barrier()


class PPOTrainer:
    def __init__(self, config: Any) -> None:
        self.config, self.scheduler = config, None
        self.actor = self._create_train_engine(config.actor, SimpleNamespace(backend="fsdp", parallel=None))
        self.ref = self._create_train_engine(config.ref, SimpleNamespace(backend="fsdp", parallel=None))

    def _create_train_engine(self, actor_config: Any, alloc: Any) -> Any:
        actor = FSDPPPOActor(actor_config)
        actor.create_process_group(parallel_strategy=alloc.parallel)
        return actor


def place(name: str, **names: Any) -> None:
    module = ModuleType(name)
    module.__dict__.update(names)
    sys.modules[name] = module


def config(**changed: Any) -> Any:
    needed = {"reward_bias": 0.0, "reward_scaling": 1.0, "reward_norm": None, "adv_norm": None, "kl_ctl": 0.0}
    others = {"discount": 1.0, "gae_lambda": 1.0, "overlong_reward_penalty": False, "mask_no_eos_with_zero": False}
    actor = SimpleNamespace(**{**needed, **others, "reward_clip": 20.0, **changed})
    return SimpleNamespace(actor=actor, ref=SimpleNamespace())


def item(rewards: list[float], seed: int) -> dict[str, Any]:
    dice = torch.Generator().manual_seed(seed)
    mask = torch.ones(len(rewards), 5)
    mask[:, :2] = 0  # the prompt
    logprobs = -torch.rand(len(rewards), 5, generator=dice)
    return {"rewards": torch.tensor(rewards), "loss_mask": mask, "logprobs": logprobs, "input_ids": torch.zeros(len(rewards), 5)}


def refusal(trainer: Any, **changed: Any) -> str:
    try:
        trainer(config(**changed))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return ""


def main(rank: int, ranks: int, rendezvous: str, snippet: str, folder: str) -> None:
    dist.init_process_group("gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks)
    for name in ("areal", "areal.trainer", "areal.trainer.ppo"):
        place(name)
    place("areal.engine", FSDPPPOActor=FSDPPPOActor)
    place("areal.trainer.ppo.actor", PPOActor=PPOActor)
    place("areal.trainer.rl_trainer", PPOTrainer=PPOTrainer)
    names: dict[str, Any] = {"__name__": "fade_areal"}
    exec(compile(Path(snippet).read_text(), "areal.md", "exec"), names)

    steps = [[[[1.0, -1, -1, -1], [1.0, 1, -1]], [[-1.0, -1], [1.0, 1, 1, -1, -1]]], [[[1.0, 1, 1, 1]], [[-1.0, 1, -1]]]]
    told: dict[str, Any] = {
        "refused": [refusal(names["FadePPOTrainer"], **wrong) for wrong in ({"reward_bias": -0.5}, {"kl_ctl": 0.1})]
    }
    engine = names["FadePPOTrainer"](config()).actor
    told["classes"] = [type(engine).__name__, type(engine.actor).__name__]
    told["steps"] = []

    def step(number: int) -> None:
        data = [item(rewards, 10 * rank + place) for place, rewards in enumerate(steps[number % 2][rank])]
        done = engine.compute_advantages(data)
        assert all(torch.equal(after["rewards"], before["rewards"]) for after, before in zip(done, data, strict=True))
        told["steps"].append(
            {
                "groups": [before["rewards"].tolist() for before in data],
                "advantages": [after["advantages"].tolist() for after in done],
                "mask": [after["loss_mask"].tolist() for after in done],
                "nats": [-(before["logprobs"].double() * before["loss_mask"]).sum().item() for before in data],
                "tokens": [int(before["loss_mask"].sum()) for before in data],
            }
        )
        engine.version += 1

    step(0)
    step(1)
    checkpoint = SimpleNamespace(path=folder, weight_format="dcp")
    engine.save(checkpoint)
    engine.save(SimpleNamespace(path=f"{folder}/none", weight_format="hf"))  # weights for others carry no state
    step(0)  # the step that the crash loses
    told["steps"].pop()
    engine.actor.fade.close()
    engine = names["FadePPOTrainer"](config()).actor
    engine.load(checkpoint)
    engine.version = 2
    step(2)
    engine.actor.fade.close()
    print(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:])
