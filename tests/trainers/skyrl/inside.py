"""The shim inside SkyRL: its registry, its configuration and its training loop, on stand-ins for GPU workers and generation."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from skyrl.backends.skyrl_train.utils.ppo_utils import compute_advantages_and_returns
from skyrl.train.config import SkyRLTrainConfig

import fade_client.shim
from fade_client import CheckpointError, TrainerError
from fade_client.shim import client_from_environment
from fade_client.skyrl import check
from fade_proto.v1 import observation_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

ROOT = Path(__file__).parents[3]
WEIGHT = 0.5  # of a new value in the averages: they move visibly in a few steps
ENTROPIES = [1.25, 0.05, 0.05, 0.4]


def guide() -> Any:
    """The program of docs/trainers/skyrl.md, imported."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/trainers/skyrl.md").read_text(), re.DOTALL)
    module = ModuleType("main_fade")
    exec(program, module.__dict__)
    return module


GUIDE = guide()


class Fade:
    """FADE.md, sections 2 and 3, written down once more: 0/1 rewards, defaults but for the weight."""

    def __init__(self) -> None:
        self.solve_rate, self.entropy, self.target = 0.5, np.nan, np.nan

    def observe(self, rewards: np.ndarray, groups: np.ndarray, entropy: float | None) -> np.ndarray:
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


class Service:
    """A server, and what a process that trains starts with."""

    def __init__(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stub = SchedulerServiceStub(grpc.insecure_channel(address))
        self._patch = monkeypatch
        self._patch.setenv("FADE_ADDRESS", address)

    def new_process(self, run: str, **config: Any) -> None:
        """The environment variables of a run, and a client that has not called yet; a slow machine is no service away."""
        self._patch.setenv("FADE_RUN", run)
        self._patch.setenv("FADE_CONFIG", json.dumps({"ema_weight": WEIGHT, **config}))
        self._patch.setattr("fade_client.shim._shared", client_from_environment(timeout_seconds=30))
        self._patch.setattr("fade_client.skyrl._trainer", fade_client.skyrl._Trainer())

    def observations(self, run: str) -> list[Any]:
        """Along the run's current line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(parent=f"projects/default/runs/{run}", page_size=1000)
        return list(self.stub.ListObservations(request, timeout=10).observations)

    def digest(self, run: str) -> str:
        """Of the run's newest state."""
        request = scheduler_pb2.GetScheduleRequest(name=f"projects/default/runs/{run}")
        return str(self.stub.GetSchedule(request, timeout=10).state_digest)


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Service]:
    """A server on its own file, and this process as that of a run named r."""
    with FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as server:
        made = Service(f"127.0.0.1:{server.grpc_port}", monkeypatch)
        made.new_process("r")
        yield made


class Workers:
    """In place of the GPU workers: takes what would be trained on."""

    def __init__(self, entropies: Sequence[float]) -> None:
        self.trained: list[Any] = []
        self.entropies = entropies

    def get_lcm_dp_size(self) -> int:
        return 2

    def stage_data(self, model: str, data: Any, boundaries: Any) -> list[Any]:
        self.trained.append(data)
        return [None]

    def forward_backward_from_staged(self, model: str, chunk: Any) -> Any:
        return SimpleNamespace(metrics={"policy_entropy": self.entropies[len(self.trained) - 1]})

    async def save_weights_for_sampler(self) -> None: ...

    def save_checkpoint(self, model: str, folder: str, tokenizer: Any) -> None: ...

    def load_checkpoint(self, model: str, folder: str, **_: Any) -> None: ...

    def get_timing_metrics(self) -> dict[str, float]:
        return {}

    def get_node_ids(self) -> list[str]:
        return []

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None


class Generator:
    """In place of generation: rewards by prompt and repetition, responses of different lengths, one or two steps each."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.batches: list[list[Any]] = []  # (trajectory, length, reward of the trajectory) of each row

    async def generate(self, batch: Any) -> dict[str, Any]:
        rows, made = [], []
        for trajectory in batch["trajectory_ids"]:
            prompt, repetition = int(trajectory.instance_id), trajectory.repetition_id
            reward = float(repetition < 1 + prompt % 3)
            turns = 1 + repetition % self.steps
            made += [(trajectory, 2 + prompt % 2, reward)] * turns
            rows += [
                (trajectory, 2 + prompt % 2, reward if turn == turns - 1 else 0.0, turn == turns - 1) for turn in range(turns)
            ]
        self.batches.append(made)
        output = {
            "prompt_token_ids": [[1, 2]] * len(rows),
            "response_ids": [[3] * length for _, length, _, _ in rows],
            "rewards": [reward for *_, reward, _ in rows],
            "loss_masks": [[1] * length for _, length, _, _ in rows],
            "stop_reasons": ["stop"] * len(rows),
            "rollout_metrics": None,
            "rollout_logprobs": None,
        }
        if self.steps > 1:
            output["trajectory_ids"] = [trajectory for trajectory, *_ in rows]
            output["is_last_step"] = [last for *_, last in rows]
        return output


class Prompts(torch.utils.data.Dataset):
    """Eight prompts."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, item: int) -> Any:
        return {"prompt": [{"role": "user", "content": str(item)}], "env_class": None, "env_extras": {}, "uid": str(item)}

    def collate_fn(self, items: list[Any]) -> list[Any]:
        return items


def without_forward_pass(training_input: Any) -> Any:
    """In place of the forward pass on the GPU workers."""
    training_input["values"] = None
    return training_input


def settings(folder: Path, steps: int, *more: str) -> Any:
    return SkyRLTrainConfig.from_cli_overrides(
        [
            "trainer.algorithm.advantage_estimator=fade",
            "trainer.train_batch_size=2",
            "trainer.policy_mini_batch_size=2",
            "generator.n_samples_per_prompt=4",
            "data.dataloader.num_workers=0",
            "data.dataloader.persistent_workers=false",
            "trainer.eval_interval=0",
            "trainer.ckpt_interval=2",
            "generator.inference_engine.enable_ray_prometheus_stats=false",
            "trainer.enable_ray_gpu_monitor=false",
            "trainer.logger=console",
            "trainer.hf_save_interval=0",
            "trainer.epochs=1",
            "trainer.placement.colocate_all=false",
            f"trainer.ckpt_path={folder / 'checkpoints'}",
            f"generator.step_wise_trajectories={str(steps > 1).lower()}",
            *more,
        ]
    )


def train(
    folder: Path, steps: int, *more: str, entropies: Sequence[float] = ENTROPIES
) -> tuple[list[np.ndarray], list[np.ndarray], list[dict[str, Any]]]:
    """The advantages (N, T) of each step as they went to the workers; those of FADE.md; what was logged."""
    logged: list[dict[str, Any]] = []
    tracker = SimpleNamespace(log=lambda values, **_: logged.append(values), finish=lambda: None)
    tokenizer = SimpleNamespace(pad_token_id=0, decode=str)
    generator = Generator(steps)
    experiment = GUIDE.FadeExp.__new__(GUIDE.FadeExp)  # its __init__ loads a model's tokenizer
    trainer = experiment.get_trainer(
        settings(folder, steps, *more), tracker, tokenizer, Prompts(), None, Workers([]), generator, colocate_pg=None
    )
    trainer.dispatch = workers = Workers(entropies)
    trainer.fwd_logprobs_values_reward = without_forward_pass
    asyncio.run(trainer.train())
    # the loss is a sum over tokens of what SkyRL divided by the batch's trained tokens (loss_reduction=token_mean)
    trained = [(batch["advantages"] * batch["loss_mask"].sum()).double().numpy() for batch in workers.trained]
    return trained, [*by_hand(generator.batches, [batch["loss_mask"].shape for batch in workers.trained])], logged


def by_hand(batches: list[list[Any]], shapes: list[Any]) -> Iterator[np.ndarray]:
    """Each step's advantages (N, T): one per trajectory, on each of its tokens, which SkyRL aligns to the right; 0 on padding."""
    fade = Fade()
    for step, (rows, shape) in enumerate(zip(batches, shapes, strict=True)):
        trajectories = {row[0].to_string(): row for row in rows}
        groups = np.array([trajectory.instance_id for trajectory, *_ in trajectories.values()])
        rewards = np.array([reward for *_, reward in trajectories.values()])
        values = fade.observe(rewards, groups, ENTROPIES[step - 1] if step else None)
        advantage = dict(zip(trajectories, values, strict=True))
        result = np.zeros(shape)
        for row, (trajectory, length, _) in enumerate(rows):
            result[row, -length:] = advantage[trajectory.to_string()]
        yield result


@pytest.mark.parametrize("steps", [1, 2], ids=["normal", "step-wise"])
def test_training_takes_the_advantages_of_fade(service: Service, tmp_path: Path, steps: int) -> None:
    trained, expected, logged = train(tmp_path, steps)
    assert len(trained) == 4
    for step, values in zip(trained, expected, strict=True):
        np.testing.assert_allclose(step, values, atol=1e-6)
    observations = service.observations("r")
    assert [item.observation_id for item in observations] == ["step-1", "step-2", "step-3", "step-4"]
    assert [item.trainer_step for item in observations] == [1, 2, 3, 4]
    assert min(values["fade/delta"] for values in logged) < 1  # the entropy arrived
    assert [values["fade/source"] for values in logged] == ["SERVER"] * 4


def test_skyrl_accepts_the_name_in_its_configuration(tmp_path: Path) -> None:
    GUIDE.validate_cfg(settings(tmp_path, 1))
    with pytest.raises(AssertionError, match="invalid advantage_estimator"):
        GUIDE.validate_cfg(settings(tmp_path, 1, "trainer.algorithm.advantage_estimator=fad"))


def test_case_21_padding_rows_move_nothing(service: Service) -> None:
    rewards, mask = torch.tensor([[0.0, 1], [0, 0], [0, 1], [0, 1]]), torch.ones(4, 2)
    config = settings(Path("/none"), 1).trainer.algorithm
    plain, _ = compute_advantages_and_returns(rewards, mask, ["a", "a", "b", "b"], "fade", config)
    service.new_process("padded")
    padded, _ = compute_advantages_and_returns(
        torch.cat([rewards, rewards[:2]]), torch.ones(6, 2), np.array(["a", "a", "b", "b", "pad0", "pad1"]), "fade", config
    )
    assert padded.tolist() == [*plain.tolist(), [0, 0], [0, 0]]
    assert service.digest("r") == service.digest("padded")


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(service: Service, tmp_path: Path) -> None:
    whole, _, _ = train(tmp_path / "whole", 1)
    service.new_process("cut")
    first, _, _ = train(tmp_path / "cut", 1, "trainer.max_training_steps=2")
    path = f"trainer.resume_path={tmp_path}/cut/checkpoints/global_step_2"
    for mode in (["trainer.resume_mode=latest"], ["trainer.resume_mode=from_path", path]):
        service.new_process("cut")
        second, _, _ = train(tmp_path / "cut", 1, *mode, entropies=ENTROPIES[2:])
        assert [step.tolist() for step in [*first, *second]] == [step.tolist() for step in whole]
        assert service.digest("r") == service.digest("cut")


@pytest.mark.parametrize("damage", ["cut off", "empty", "no entry"])
def test_a_damaged_state_stops_the_resume_and_names_its_file(service: Service, tmp_path: Path, damage: str) -> None:
    train(tmp_path, 1, "trainer.max_training_steps=2")
    path = tmp_path / "checkpoints/global_step_2/fade.json"
    text = path.read_text()
    path.write_text({"cut off": text[:-20], "empty": "", "no entry": json.dumps({"state": json.loads(text)["state"]})}[damage])
    service.new_process("r")
    with pytest.raises(CheckpointError, match="global_step_2/fade.json"):
        train(tmp_path, 1, "trainer.resume_mode=latest", entropies=ENTROPIES[2:])


def test_a_state_that_cannot_be_written_is_said_and_stops_nothing(
    service: Service, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "checkpoints/global_step_2/fade.json").mkdir(parents=True)
    trained, _, _ = train(tmp_path, 1, "trainer.max_training_steps=3")
    assert len(trained) == 3
    assert "global_step_2/fade.json was not written" in capfd.readouterr().err  # SkyRL logs with loguru


def test_division_by_the_standard_deviation_is_said_to_have_no_effect(
    service: Service, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for value, said in (("true", 1), ("false", 0)):
        fade_client.shim.say_undivided.cache_clear()
        caplog.clear()
        check(settings(tmp_path, 1, f"trainer.algorithm.grpo_norm_by_std={value}").trainer.algorithm)
        assert caplog.text.count("grpo_norm_by_std") == said


def test_in_shadow_mode_the_advantages_are_those_of_grpo_without_std(service: Service) -> None:
    service.new_process("shadow", mode="shadow")
    rewards, mask, index = torch.tensor([[0.0, 1], [0, 0], [0, 1], [0, 1]]), torch.ones(4, 2), ["a", "a", "b", "b"]
    ours, _ = compute_advantages_and_returns(rewards, mask, index, "fade", None)
    theirs, _ = compute_advantages_and_returns(rewards, mask, index, "grpo", None, grpo_norm_by_std=False)
    assert ours.tolist() == theirs.tolist()


def test_groups_that_were_dropped_before_the_estimator_hold_the_solve_rate(service: Service) -> None:
    rewards, mask = torch.tensor([[0.0], [1], [1], [1]]), torch.ones(4, 1)
    config = settings(Path("/none"), 1, "trainer.algorithm.dynamic_sampling.type=filter").trainer.algorithm
    compute_advantages_and_returns(rewards, mask, list("aaab"), "fade", config)
    (observation,) = service.observations("r")
    assert observation.outcome == observation_pb2.OUTCOME_FROZEN
    assert observation.schedules[0].state.solve_rate == 0.5


@pytest.mark.parametrize("setting", ["advantage_batch_normalize", "use_kl_in_reward"])
def test_settings_that_undo_the_schedule_are_refused_before_training(service: Service, tmp_path: Path, setting: str) -> None:
    with pytest.raises(TrainerError, match=setting):
        train(tmp_path, 1, f"trainer.algorithm.{setting}=true")
    with pytest.raises(TrainerError, match=setting):
        check(settings(tmp_path, 1, f"trainer.algorithm.{setting}=true").trainer.algorithm)
    check(settings(tmp_path, 1).trainer.algorithm)


RAY = """
import json, sys
import ray
import fade_client.skyrl
from skyrl.backends.skyrl_train.utils.ppo_utils import sync_registries

ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False)
sync_registries()

@ray.remote
def task(imports):
    import torch
    if imports:
        import fade_client.skyrl
    from skyrl.backends.skyrl_train.utils.ppo_utils import compute_advantages_and_returns
    advantages, returns = compute_advantages_and_returns(torch.tensor([[1.0], [0.0]]), torch.ones(2, 1), ["a", "a"], "fade", None)
    return advantages.tolist()

print(json.dumps(ray.get(task.remote(sys.argv[1] == "imports"))))
"""


@pytest.mark.parametrize("imports", ["imports", "does not import"])
def test_case_40_a_ray_task_that_imports_the_shim_or_not_has_the_estimator(service: Service, imports: str) -> None:
    done = subprocess.run([sys.executable, "-c", RAY, imports], capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    # both averages are at their start after one group of one half: alpha = 1.5, w = 0.5 ** 0.5
    np.testing.assert_allclose(json.loads(done.stdout.splitlines()[-1]), [[0.5**1.5], [-(0.5**1.5)]], rtol=1e-6)
    assert [item.observation_id for item in service.observations("r")] == ["batch-0"]
