"""The shim inside tunix: GRPOLearner trains tunix's toy transformer on a CPU."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import grpc
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from flax import nnx
from jax.interpreters import pxla
from orbax import checkpoint as ocp
from tunix.rl import function_registry, rl_cluster
from tunix.rl.rollout import base_rollout
from tunix.tests import test_common

from fade_client import TrainerError
from fade_client.shim import client_from_environment
from fade_proto.v1 import scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

ROOT = Path(__file__).parents[3]
WEIGHT = 0.5  # of a new value in the averages: they move visibly in a few steps


def guide() -> Any:
    """The program of docs/trainers/tunix.md, imported."""
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/trainers/tunix.md").read_text(), re.DOTALL)
    module = ModuleType("guide")
    exec(program, module.__dict__)
    return module


GUIDE = guide()


@pytest.fixture(scope="session", autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory) -> None:
    """What one training compiled, the next one takes: most of the time here is compilation."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path_factory.mktemp("compiled")))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)


class Fade:
    """FADE.md, sections 2 and 3, written down once more: rewards in [0, 1], no entropy, defaults but for the weight."""

    def __init__(self) -> None:
        self.solve_rate = 0.5

    def observe(self, rewards: np.ndarray, moves: bool = True) -> np.ndarray:
        """Rewards (P, G) of P prompts; NaN is missing."""
        solved = np.array([np.mean(row[~np.isnan(row)] > 0.5) for row in rewards])
        if moves:
            self.solve_rate += WEIGHT * (solved.mean() - self.solve_rate)
        alpha = np.clip(1.5 * (1 - self.solve_rate) / self.solve_rate, 1, 3)
        mean = np.nanmean(rewards, axis=1, keepdims=True)
        return np.nan_to_num(np.where(mean < 1, 1 - mean, 0.0) ** (alpha - 1) * (rewards - mean)).reshape(-1)


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

    def ids(self, run: str) -> list[str]:
        """Of the observations along the run's current line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(parent=f"projects/default/runs/{run}", page_size=1000)
        return [item.observation_id for item in self.stub.ListObservations(request, timeout=10).observations]

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


class Watch:
    """A reward function and a metric function, which see what tunix computes between them."""

    def __init__(self) -> None:
        self.mode = ""
        self.batches: list[tuple[str, np.ndarray, np.ndarray]] = []

    def reward(self, prompts: list[str], completions: list[str], mode: str, **_: Any) -> list[float]:
        """0 or 1 by where the row is and what the prompt is; NaN for the last row of each batch."""
        self.mode = mode
        values = [float((row * 7 + len(prompt)) % 3 == 0) for row, prompt in enumerate(prompts)]
        return [*values[:-1], np.nan]

    def metric(self, rewards: Any, advantages: Any, **_: Any) -> dict[str, Any]:
        """The batch's mode, rewards and advantages."""
        self.batches.append((self.mode, np.array(rewards), np.array(advantages)))
        return {}


def train(folder: Path, steps: int, evaluate: bool = False) -> Watch:
    """Trains on batches of two prompts, up to a step, from the newest checkpoint in the folder."""
    vocabulary = test_common.MockVocab()
    config = test_common.ModelConfig(num_layers=1, vocab_size=vocabulary.GetPieceSize())
    actor, reference = (test_common.ToyTransformer(config=config, rngs=nnx.Rngs(0)) for _ in range(2))
    mesh = pxla.thread_resources.env.physical_mesh
    cluster = rl_cluster.RLCluster(
        actor=actor,
        reference=reference,
        tokenizer=vocabulary,
        cluster_config=rl_cluster.ClusterConfig(
            role_to_mesh=dict.fromkeys((rl_cluster.Role.ACTOR, rl_cluster.Role.REFERENCE, rl_cluster.Role.ROLLOUT), mesh),
            rollout_engine="vanilla",
            offload_to_cpu=False,
            training_config=rl_cluster.RLTrainingConfig(
                actor_optimizer=optax.sgd(1e-3),
                eval_every_n_steps=2,
                max_steps=steps,
                checkpoint_root_directory=str(folder),
                checkpointing_options=ocp.CheckpointManagerOptions(save_interval_steps=1, enable_async_checkpointing=False),
            ),
            rollout_config=base_rollout.RolloutConfig(max_tokens_to_generate=4, max_prompt_length=8, kv_cache_size=32),
        ),
    )
    watch = Watch()
    learner = GUIDE.make_learner(cluster, watch.reward)
    learner.metric_fns.append(watch.metric)
    batch = {"prompts": np.array(["input string", "hello"])}
    learner.train([batch] * 3, [batch] if evaluate else None)
    return watch


def test_training_takes_the_advantages_of_fade_and_evaluation_moves_nothing(service: Service, tmp_path: Path) -> None:
    batches, fade = train(tmp_path, 3, evaluate=True).batches, Fade()
    assert [mode for mode, *_ in batches].count("train") == 3
    assert "eval" in [mode for mode, *_ in batches]
    for mode, rewards, advantages in batches:
        assert np.isnan(rewards).sum() == 1  # tunix alone would have made it 0
        np.testing.assert_allclose(advantages, fade.observe(rewards.reshape(2, 4), mode == "train"), rtol=1e-12)
    assert [name.partition("-")[0] for name in service.ids("r")] == ["trajectory"] * 3


def test_a_resumed_training_goes_on_as_if_nothing_had_happened(service: Service, tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", 3).batches
    service.new_process("cut")
    train(tmp_path / "cut", 2)
    service.new_process("cut")
    ((_, _, advantages),) = train(tmp_path / "cut", 3).batches
    assert advantages.tolist() == whole[2][2].tolist()
    assert service.digest("cut") == service.digest("r")
    assert service.ids("cut") == service.ids("r")


def test_advantages_are_arrays_of_the_kind_of_the_rewards(service: Service) -> None:
    estimator = function_registry.get_advantage_estimator("fade")
    rewards = [1.0, 0.0, 0.0, 0.0]
    expected = Fade().observe(np.array([rewards]))
    numpy = estimator(rewards=np.array(rewards, np.float32), num_generations=4)
    assert isinstance(numpy, np.ndarray) and numpy.dtype == np.float32
    np.testing.assert_allclose(numpy, expected, rtol=1e-6)
    service.new_process("jax")
    on_device = estimator(rewards=jnp.array(rewards), num_generations=4)
    assert isinstance(on_device, jax.Array) and on_device.dtype == jnp.float32
    np.testing.assert_allclose(on_device, expected, rtol=1e-6)


def test_in_shadow_mode_the_advantages_are_those_of_drgrpo(service: Service) -> None:
    service.new_process("shadow", mode="shadow")
    rewards = np.array([1.0, 0, 0, 0, 1, 1, 1, 0])
    ours, theirs = (
        function_registry.get_advantage_estimator(name)(rewards=rewards, num_generations=4) for name in ("fade", "drgrpo")
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_rewards_that_are_no_whole_groups_are_refused(service: Service) -> None:
    with pytest.raises(TrainerError, match="7 rewards are no whole groups of num_generations = 4"):
        function_registry.get_advantage_estimator("fade")(rewards=np.zeros(7), num_generations=4)
