"""The shim inside ms-swift: `swift rlhf` trains a tiny model on a CPU, in processes of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from fade_proto.v1 import scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

ROOT = Path(__file__).parents[3]
WEIGHT = 0.5  # of a new value in the averages: they move visibly in a few steps
GENERATIONS = 4


class Fade:
    """FADE.md, sections 2 and 3, written down once more: rewards in [0, 1], defaults but for the weight."""

    def __init__(self) -> None:
        self.solve_rate, self.entropy, self.target = 0.5, np.nan, np.nan

    def observe(self, batch: dict[str, Any], entropy: float | None) -> np.ndarray:
        """A recorded batch; NaN rewards are missing."""
        rewards = np.array(batch["rewards"], float).reshape(-1, GENERATIONS)
        scored = ~np.isnan(rewards)
        enough = scored.mean() >= 0.5
        if batch["training"] and enough:
            rates = [row[kept].mean() for row, kept in zip(rewards, scored, strict=True) if kept.any()]
            self.solve_rate += WEIGHT * (np.mean(rates) - self.solve_rate)
        if batch["training"] and enough and entropy is not None:
            if np.isnan(self.entropy):
                self.entropy, self.target = entropy, 0.5 * entropy
            else:
                self.entropy += WEIGHT * (entropy - self.entropy)
        alpha = np.clip(1.5 * (1 - self.solve_rate) / self.solve_rate, 1, 3)
        delta = 1.0 if np.isnan(self.entropy) else np.clip(1 + self.entropy - self.target, 0.3, 1)
        mean = np.array([[row[kept].mean() if kept.any() else 0.0] for row, kept in zip(rewards, scored, strict=True)])
        centred = np.where(scored, rewards - mean, 0.0)
        weight = np.where(mean < 1, 1 - mean, 0.0) ** (alpha - 1)
        return (weight * np.where(centred < 0, centred / delta, centred)).reshape(-1)


class Service:
    """A server, read directly."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.stub = SchedulerServiceStub(grpc.insecure_channel(address))

    def observations(self, run: str) -> list[Any]:
        """Along the run's current line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(parent=f"projects/default/runs/{run}", page_size=1000)
        return list(self.stub.ListObservations(request, timeout=10).observations)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """A server on its own file."""
    with FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as server:
        yield Service(f"127.0.0.1:{server.grpc_port}")


@pytest.fixture(scope="session")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A one-layer Qwen2 with a byte tokenizer."""
    folder = tmp_path_factory.mktemp("model")
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: number for number, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    special = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "additional_special_tokens": ["<|im_start|>"]}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = Qwen2Config(vocab_size=len(fast), num_key_value_heads=2, eos_token_id=fast.eos_token_id, **sizes)
    Qwen2ForCausalLM(config).save_pretrained(folder)
    return folder


def train(
    service: Service, model: Path, folder: Path, run: str, *arguments: str, processes: int = 1, status: int = 0, times: int = 1
) -> tuple[list[list[dict[str, Any]]], str]:
    """What each rank recorded, and what was printed; ``times`` trainings in one process, one after another."""
    folder.mkdir(exist_ok=True)
    (program,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/trainers/ms-swift.md").read_text(), re.DOTALL)
    (folder / "fade_plugin.py").write_text(program)
    for name in ("train", "test"):
        rows = [{"messages": [{"role": "user", "content": f"{name} {number}"}]} for number in range(16)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    record = folder / f"record-{len(list(folder.glob('record-*')))}"
    options: dict[str, Any] = {
        "rlhf_type": "grpo",
        "model": model,
        "model_type": "qwen2",
        "template": "qwen2_5",
        "tuner_type": "full",
        "torch_dtype": "float32",
        "use_cpu": "true",
        "dataset": folder / "train.jsonl",
        "reward_funcs": "odd",
        "num_generations": GENERATIONS,
        "per_device_train_batch_size": 8 // processes,
        "gradient_accumulation_steps": 2,
        "max_completion_length": 6,
        "max_steps": 3,
        "save_steps": 1,
        "logging_steps": 1,
        "log_entropy": "true",
        "output_dir": folder / "out",
        "add_version": "false",
        "report_to": "none",
        "split_dataset_ratio": 0,
        "dataset_num_proc": 1,
        "dataloader_num_workers": 0,
    }
    if processes > 1:
        options.update(ddp_backend="gloo", ddp_timeout=120)
    launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={processes}", "--standalone"] if processes > 1 else []
    repeated = ["-c", f"from swift.pipelines import rlhf_main\nfor _ in range({times}): rlhf_main()"]
    command = [sys.executable, *launcher, *(repeated if times > 1 else ["-m", "swift.cli.rlhf"])]
    command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
    plugins = ["--external_plugins", str(folder / "fade_plugin.py"), str(Path(__file__).with_name("recording.py"))]
    fade = {"FADE_ADDRESS": service.address, "FADE_RUN": run, "FADE_CONFIG": json.dumps({"ema_weight": WEIGHT})}
    environment = {**os.environ, **fade, "RECORD": str(record), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, *plugins, *arguments], env=environment, cwd=folder, capture_output=True, text=True, timeout=240
    )
    assert (done.returncode != 0) == (status != 0), done.stdout[-4000:] + done.stderr[-4000:]
    files = sorted(folder.glob(f"{record.name}.*"))
    return [[json.loads(line) for line in file.read_text().splitlines()] for file in files], done.stdout + done.stderr


def assert_fade(batches: list[dict[str, Any]], fade: Fade, entropies: list[float | None]) -> None:
    """The advantages are those of FADE.md."""
    for batch, entropy in zip(batches, entropies, strict=True):
        np.testing.assert_allclose(batch["advantages"], fade.observe(batch, entropy), rtol=1e-5, atol=1e-7)


def means(*ranks: list[dict[str, Any]]) -> list[float | None]:
    """Entropy per token before each batch, over all ranks; None before the first."""
    totals = [np.sum([batch["entropy"] for batch in batches], axis=0) for batches in zip(*ranks, strict=True)]
    return [nats / tokens if tokens else None for nats, tokens in totals]


def test_training_takes_the_advantages_of_fade_and_a_resumed_one_goes_on(service: Service, model: Path, tmp_path: Path) -> None:
    evaluation = ("--val_dataset", str(tmp_path / "test.jsonl"), "--eval_steps", "2", "--per_device_eval_batch_size", "8")
    (whole,), printed = train(service, model, tmp_path, "r", *evaluation)
    assert [batch["training"] for batch in whole].count(True) == 3
    assert [batch["training"] for batch in whole].count(False) > 0
    assert any(np.isnan(batch["rewards"]).any() for batch in whole)  # ms-swift alone would have made them 0
    assert_fade(whole, Fade(), means(whole))
    assert [item.trainer_step for item in service.observations("r")] == [0, 1, 2]
    assert "fade/alpha" in printed and "fade/phase/exploring" in printed
    assert "--scale_rewards group has no effect" in printed
    (name,) = {item.observation_id.partition("-step-")[0] for item in service.observations("r")}

    (rest,), _ = train(service, model, tmp_path, "r", "--resume_from_checkpoint", str(tmp_path / "out/checkpoint-2"))
    trained, fade = [batch for batch in whole if batch["training"]], Fade()
    before = [(nats / tokens if tokens else None) for nats, tokens in (batch["entropy"] for batch in trained)]
    assert_fade(trained[:2], fade, before[:2])
    assert_fade(rest, fade, before[2:])  # also the entropy of the step before the checkpoint
    assert {item.observation_id.partition("-step-")[0] for item in service.observations("r")} == {name}
    assert [item.trainer_step for item in service.observations("r")] == [0, 1, 2]


def test_a_second_training_in_one_process_goes_on_with_the_schedule(service: Service, model: Path, tmp_path: Path) -> None:
    (both,), _ = train(service, model, tmp_path, "r", times=2)
    assert [batch["step"] for batch in both] == [0, 1, 2, 0, 1, 2]
    observations = service.observations("r")
    assert [item.revision for item in observations] == [1, 2, 3, 4, 5, 6]
    assert len({item.observation_id for item in observations}) == 6


def test_a_damaged_state_stops_the_resume_and_names_its_file(service: Service, model: Path, tmp_path: Path) -> None:
    train(service, model, tmp_path, "r", "--max_steps", "1")
    path = tmp_path / "out/checkpoint-1/fade.json"
    path.write_text(path.read_text()[:-20])
    _, printed = train(service, model, tmp_path, "r", "--resume_from_checkpoint", str(path.parent), status=1)
    assert "CheckpointError" in printed and "checkpoint-1/fade.json cannot be gone on from" in printed


def test_one_rank_reports_the_rows_of_all(service: Service, model: Path, tmp_path: Path) -> None:
    (first, second), _ = train(service, model, tmp_path, "r", processes=2)
    assert [batch["advantages"] for batch in first] == [batch["advantages"] for batch in second]
    assert_fade(first, Fade(), means(first, second))
    assert len(service.observations("r")) == len(first) == 3


@pytest.mark.parametrize("argument", ["kl_in_reward", "advantage_reweight"])
def test_settings_that_undo_the_schedule_are_refused_before_training(
    service: Service, model: Path, tmp_path: Path, argument: str
) -> None:
    value = {"kl_in_reward": "true", "advantage_reweight": "rlsd"}[argument]
    recorded, printed = train(service, model, tmp_path, "r", f"--{argument}", value, "--beta", "0.04", status=1)
    assert recorded == []
    assert "TrainerError" in printed and argument in printed
