"""One cell: a server of its own, a training through it, and what is read off afterwards."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fade_service import FadeServer
from fade_trainer.checkpoint import Checkpoint
from fade_trainer.compare.cells import LR_MIN, REGIMES, Cell
from fade_trainer.compare.methods import METHODS
from fade_trainer.compare.results import Result
from fade_trainer.config import TrainConfig
from fade_trainer.evaluation import evaluate
from fade_trainer.metrics import read_metrics
from fade_trainer.model import PrefixLM
from fade_trainer.task import Countdown, make_countdown
from fade_trainer.train import CHECKPOINT_NAME, SAMPLES, train
from fade_trainer.warmup import warmed_up_model

EVERY = 25
"""Steps between the points of curves."""

CURVE_SAMPLES = 16

_TRAINING = {
    "solve_rate": "solve_rate",
    "entropy_nats": "entropy_nats",
    "alpha": "fade/alpha",
    "delta": "fade/delta",
    "lr_scale": "fade/lr_scale",
    "success_mass": "success_mass",
    "failure_mass": "failure_mass",
    "informative_groups": "informative_groups",
}
"""What a result keeps of each step, by its name in metrics.jsonl."""


class FallbackError(RuntimeError):
    """A batch was trained on something else than the service's answer, so that the result would not be the method's."""


def run_cell(cell: Cell, folder: Path, cache_dir: Path | None, sizes: dict[str, int]) -> Result | None:
    """Trains a cell, going on from what an earlier attempt left in the folder; None if a signal stopped it.

    Args:
        folder: For metrics and checkpoint; removed when the cell is done.
        cache_dir: For warmed-up policies, shared by all cells.
        sizes: Fields of `TrainConfig` that are made smaller for a trial, for example `evaluation_prompts`.

    Raises:
        FallbackError: The service did not answer a batch.
    """
    started = time.perf_counter()
    with FadeServer("memory://", grpc_port=0, http_port=0) as server:
        config = _train_config(cell, f"localhost:{server.grpc_port}", folder, cache_dir, sizes)
        done = train(config)
    if done.interrupted:
        return None
    if done.fallback_schedules:
        raise FallbackError(f"{cell}: {done.fallback_schedules} of {done.observations} batches had no answer of the service")
    method = METHODS[cell.method]
    result = Result(
        regime=cell.regime,
        method=cell.method,
        learning_rate=cell.learning_rate,
        decay=cell.decay,
        seed=cell.seed,
        steps=cell.steps,
        family=method.family,
        title=method.title,
        seconds=time.perf_counter() - started,
        **_readings(config),
    )
    shutil.rmtree(folder)
    return result


def _train_config(cell: Cell, server: str, folder: Path, cache_dir: Path | None, sizes: dict[str, int]) -> TrainConfig:
    method, regime = METHODS[cell.method], REGIMES[cell.regime]
    settings: dict[str, Any] = {"decay_observations": cell.steps, **method.settings}
    if cell.decay:
        settings |= {"lr_rule": "linear", "lr_min": LR_MIN, "lr_observations": cell.steps}
    values: dict[str, Any] = {
        "advantage": method.advantage,
        "parameters": method.parameters,
        "settings": settings,
        "apply_lr_scale": cell.decay,
        "server": server,
        "out": folder,
        "run": str(cell),
        "seed": cell.seed,
        "steps": cell.steps,
        "learning_rate": cell.learning_rate,
        "task": regime.task,
        "warmup_steps": regime.warmup_steps,
        "eval_every": EVERY,
        "curve_samples": CURVE_SAMPLES,
        "cache_dir": cache_dir,
        "resume": True,
    }
    return TrainConfig(**{**values, **sizes})


def _readings(config: TrainConfig) -> dict[str, Any]:
    """What a result keeps of the metrics and of the policy that a training left."""
    task = make_countdown(config.task, config.seed, config.training_prompts, config.evaluation_prompts)
    model = PrefixLM(task.rules)
    model.load_state_dict(Checkpoint.load(config.out / CHECKPOINT_NAME).model)
    lines = read_metrics(config.out / "metrics.jsonl")
    first, last = (_split(line) for line in lines if line["kind"] == "evaluation" and line["split"] == "held_out")
    validated = evaluate(model, task.validation, SAMPLES, config.seed, config.steps)
    validation = {f"pass@{k}": value for k, value in validated.pass_at.items()} | {"entropy_nats": validated.entropy_nats}
    return {
        "before": {"held_out": first},
        "after": {"held_out": last, "validation": validation},
        "curve": _curve(lines),
        "training": _training(lines, config.eval_every),
        "spectrum": _spectrum(config, task, model),
    }


def _split(line: dict[str, Any]) -> dict[str, float]:
    return {name: value for name, value in line.items() if name.startswith("pass@") or name == "entropy_nats"}


def _curve(lines: list[dict[str, Any]]) -> dict[str, list[float]]:
    points = [line for line in lines if line["kind"] == "evaluation" and line["split"] == "validation"]
    names = ("step", "pass@1", "pass@4", "pass@16", "entropy_nats")
    return {name: [_rounded(point[name]) for point in points] for name in names}


def _training(lines: list[dict[str, Any]], every: int) -> dict[str, list[float | None]]:
    steps = [line for line in lines if line["kind"] == "step"]
    pieces = [steps[start : start + every] for start in range(0, len(steps), every)]
    means: dict[str, list[float | None]] = {"step": [piece[-1]["step"] for piece in pieces]}
    for name, logged in _TRAINING.items():
        values = [[line[logged] for line in piece if line.get(logged) is not None] for piece in pieces]
        means[name] = [_rounded(float(np.mean(piece))) if piece else None for piece in values]
    return means


def _spectrum(config: TrainConfig, task: Countdown, model: PrefixLM) -> dict[str, Any]:
    """Of the output head's weight [vocabulary, 64] minus what it was after warm-up."""
    start = warmed_up_model(task, config.seed, config.warmup_steps, config.cache_dir)
    with torch.no_grad():
        values = torch.linalg.svdvals((model.head.weight - start.head.weight).double()).numpy()
    squared = values**2
    total = float(squared.sum())
    shares = {"stable_rank": total / float(squared[0]), "top_share": float(squared[0]) / total} if total else {}
    return {"singular_values": [_rounded(float(value)) for value in values], **shares}


def _rounded(value: float) -> float:
    """To six digits: files of results stay small, and noise starts at the third."""
    return float(f"{value:.6g}")
