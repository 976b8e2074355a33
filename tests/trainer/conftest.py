"""Small runs of the real trainer: real model, real task, a short warm-up that all tests share."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fade_trainer import TrainConfig

torch.set_num_threads(1)

SIZES: dict[str, Any] = {
    "server": "local",
    "run": "small",
    "steps": 6,
    "prompts": 12,
    "rollouts": 16,
    "eval_every": 3,
    "checkpoint_every": 3,
    "warmup_steps": 40,
    "evaluation_prompts": 4,
}
"""After this warm-up about one answer in seventy is right: enough for groups that have both."""


def lines(folder: Path, kind: str) -> list[dict[str, Any]]:
    """The lines of one kind in a run's metrics, without their timings; one that is just being written does not count."""
    path = folder / "metrics.jsonl"
    text = path.read_text() if path.exists() else ""
    read = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [{name: item for name, item in line.items() if not name.endswith("seconds")} for line in read if line["kind"] == kind]


def held(folder: Path) -> dict[str, Any]:
    """What a run's checkpoint holds."""
    content: dict[str, Any] = torch.load(folder / "checkpoint.pt", weights_only=True)
    return content


def bits(value: Any) -> Any:
    """The same with each tensor as its bytes, so that == means equal bits."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes()
    if isinstance(value, dict):
        return {name: bits(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [bits(item) for item in value]
    return value


class Reader:
    """Reads what a run left."""

    lines = staticmethod(lines)
    held = staticmethod(held)
    bits = staticmethod(bits)


@pytest.fixture
def read() -> type[Reader]:
    """See :class:`Reader`."""
    return Reader


@pytest.fixture(scope="session")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the warmed-up policy is kept for all tests."""
    return tmp_path_factory.mktemp("warmed-up")


@pytest.fixture
def configure(tmp_path: Path, cache_dir: Path) -> Callable[..., TrainConfig]:
    """Makes the configuration of a small run in a folder of the test's own."""

    def make(folder: str = "run", **changes: Any) -> TrainConfig:
        values = {"advantage": "fade", "out": tmp_path / folder, "cache_dir": cache_dir, **SIZES, **changes}
        return TrainConfig(**values)

    return make


@pytest.fixture
def options(tmp_path: Path, cache_dir: Path) -> Callable[..., list[str]]:
    """The same as a command line."""

    def make(folder: str = "run", **changes: Any) -> list[str]:
        values = {"out": tmp_path / folder, "cache_dir": cache_dir, **SIZES, **changes}
        return [f"--{name.replace('_', '-')}={value}" for name, value in values.items()]

    return make


@pytest.fixture
def spawn() -> Iterator[Callable[[list[str]], subprocess.Popen[str]]]:
    """Starts `python -m fade_trainer` with these words in a process that does not outlive the test."""
    started: list[subprocess.Popen[str]] = []

    def start(words: list[str]) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fade_trainer", *words]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()
