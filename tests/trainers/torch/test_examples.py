"""The examples of docs/trainers/torch.md, run."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch

from fade_client import FadeClient
from fade_proto.v1 import scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "clients" / "examples"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    from fade_service import FadeServer

    with FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as running:
        yield f"127.0.0.1:{running.grpc_port}"


def observations(address: str, run: str) -> list[Any]:
    with grpc.insecure_channel(address) as channel:
        request = scheduler_pb2.ListObservationsRequest(parent=f"projects/default/runs/{run}", page_size=1000)
        return list(SchedulerServiceStub(channel).ListObservations(request, timeout=10).observations)


class Fade:
    """FADE.md, sections 2 and 3, written down once more: one environment, 0/1 rewards, defaults."""

    def __init__(self) -> None:
        self.solve_rate, self.entropy, self.target = 0.5, np.nan, np.nan

    def observe(self, rewards: torch.Tensor, groups: torch.Tensor, nats_per_token: float) -> tuple[float, float, torch.Tensor]:
        rates = torch.stack([rewards[groups == group].mean() for group in groups.unique()])
        self.solve_rate = 0.98 * self.solve_rate + 0.02 * rates.double().mean().item()
        if np.isnan(self.entropy):
            self.entropy, self.target = nats_per_token, 0.5 * nats_per_token
        else:
            self.entropy = 0.98 * self.entropy + 0.02 * nats_per_token
        alpha = float(np.clip(1.5 * (1 - self.solve_rate) / self.solve_rate, 1, 3))
        delta = float(np.clip(1 + self.entropy - self.target, 0.3, 1))
        mean = rates.double()[torch.searchsorted(groups.unique(), groups)]
        centred = rewards.double() - mean
        advantages = (1 - mean) ** (alpha - 1) * torch.where(centred < 0, centred / delta, centred)
        advantages[(mean == 0) | (mean == 1)] = 0
        return alpha, delta, advantages.float()


def test_the_loop_trains_as_one_written_without_the_client(server: str) -> None:
    example = runpy.run_path(str(EXAMPLES / "torch_loop.py"))
    with FadeClient(server, run="loop") as client:
        policy = example["train"](client)

    prompts_count, answers_count, rollouts = example["PROMPTS"], example["ANSWERS"], example["ROLLOUTS"]
    fade, weights, solved = Fade(), [], []
    torch.manual_seed(0)
    right, twin = torch.randint(answers_count, (prompts_count,)), torch.nn.Embedding(prompts_count, answers_count)
    optimizer = torch.optim.Adam(twin.parameters(), lr=0.1)
    prompts = torch.arange(prompts_count).repeat_interleave(rollouts)
    for _ in range(example["STEPS"]):
        choice = torch.distributions.Categorical(logits=twin(prompts))
        answers = choice.sample()
        rewards = (answers == right[prompts]).float()
        alpha, delta, advantages = fade.observe(rewards, prompts, choice.entropy().mean().item())
        weights.append((alpha, delta))
        solved.append(rewards.mean().item())
        optimizer.zero_grad()
        (-(advantages * choice.log_prob(answers)).mean()).backward()
        optimizer.step()

    torch.testing.assert_close(policy.weight, twin.weight, rtol=1e-4, atol=1e-4)
    told = observations(server, "loop")
    assert [item.observation_id for item in told] == [f"step-{step}" for step in range(example["STEPS"])]
    schedules = [item.schedules[0].schedule for item in told]
    np.testing.assert_allclose([(schedule.alpha, schedule.delta) for schedule in schedules], weights, rtol=1e-5)
    assert solved[0] < 0.3 and solved[-1] > 0.9


@pytest.mark.heavy
def test_two_processes_make_one_report_per_step_and_stay_alike(server: str, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "FADE_ADDRESS": server, "FADE_RUN": "ddp", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, str(EXAMPLES / "torch_ddp.py")], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert done.returncode == 0, done.stderr
    steps = runpy.run_path(str(EXAMPLES / "torch_ddp.py"))["STEPS"]
    told = observations(server, "ddp")
    assert [item.observation_id for item in told] == [f"step-{step}" for step in range(steps)]
    assert {tuple(item.groups.scored) for item in told} == {(8,) * 16}  # 4 rollouts of every prompt from each process
    solved = [float(line.split()[2]) for line in done.stdout.splitlines() if " solved " in line]
    assert len(solved) == steps and solved[0] < 0.3 and solved[-1] > 0.9
    norms = re.findall(r"rank (\d) ends with weights of norm ([\d.]+)", done.stdout)
    assert {rank for rank, _ in norms} == {"0", "1"} and norms[0][1] == norms[1][1]


def test_the_guide_shows_the_examples_as_they_are() -> None:
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "trainers" / "torch.md").read_text(), re.DOTALL)
    assert [(EXAMPLES / name).read_text() for name in ("torch_loop.py", "torch_ddp.py")] == shown[:2]


def test_the_checkpoint_of_the_guide_is_gone_on_from(server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "trainers" / "torch.md").read_text(), re.DOTALL)
    save, load = shown[2].split("\n\n")
    monkeypatch.chdir(tmp_path)
    policy = torch.nn.Embedding(2, 2)
    optimizer = torch.optim.Adam(policy.parameters())
    with FadeClient(server, run="saved") as fade:
        fade.observe("step-0", rewards=torch.tensor([1.0, 0, 0, 0]), groups=[0, 0, 0, 0], trainer_step=0)
        exec(save, {"torch": torch, "fade": fade, "policy": policy, "optimizer": optimizer, "step": 0})
    with FadeClient(server, run="saved") as fade:
        exec(load, {"torch": torch, "fade": fade, "policy": policy, "optimizer": optimizer})
        resumed = fade.observe("step-1", rewards=torch.tensor([1.0, 1, 1, 0]), groups=[0, 0, 0, 0], trainer_step=1)
    assert (resumed.source, resumed.revision) == ("SERVER", 2)
    assert resumed.metrics()["fade/p_hat"] == pytest.approx(0.98 * (0.98 * 0.5 + 0.02 * 0.25) + 0.02 * 0.75, rel=1e-12)
