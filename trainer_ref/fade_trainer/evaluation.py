"""pass@k: the chance that at least one of k answers is right, estimated without bias from n >= k answers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from fade_trainer import task
from fade_trainer.model import PrefixLM
from fade_trainer.randomness import torch_stream

PASS_AT = (1, 2, 4, 8, 16, 32, 64)

_CHUNK = 32
"""Prompts sampled at a time: their activations stay in the processor's cache, which halves the time."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One measurement of a policy."""

    pass_at: dict[int, float]
    """k -> mean over prompts of pass@k, in [0, 1], for each k of `PASS_AT` up to the number of samples."""

    entropy_nats: float
    """Mean entropy per generated token."""


def pass_at_k(correct: task.IntArray, samples: int, k: int) -> float:
    """Mean over prompts of 1 - C(n - c, k) / C(n, k), of n = `samples` answers c = `correct` being right.

    Chen et al., "Evaluating Large Language Models Trained on Code", arXiv 2107.03374.

    Args:
        correct: [prompts] integers in 0..samples.
        samples: answers per prompt.
        k: 1..samples.
    """
    if not 1 <= k <= samples:
        raise ValueError(f"k must be in 1..{samples}, not {k}")
    by_count = [1 - math.comb(samples - count, k) / math.comb(samples, k) for count in range(samples + 1)]
    return float(np.mean(np.array(by_count)[correct]))


def evaluate(model: PrefixLM, prompts: task.IntArray, samples: int, seed: int, step: int) -> Evaluation:
    """Samples answers to each prompt [prompts, 5] from a generator of its own: training's generators do not move."""
    generator = torch_stream(seed, "evaluation", step)
    correct: list[task.IntArray] = []
    entropy_nats, tokens = 0.0, 0
    for chunk in torch.split(torch.from_numpy(prompts), _CHUNK):
        rollouts = model.sample(chunk, samples, generator)
        answers = rollouts.answers.flatten(0, 1).numpy()
        right = task.solved(model.rules, chunk.repeat_interleave(samples, dim=0).numpy(), answers)
        correct.append(right.reshape(len(chunk), samples).sum(axis=1))
        entropy_nats += float(rollouts.entropy.sum(dtype=torch.float64))
        tokens += int(rollouts.mask.sum())
    solves = np.concatenate(correct)
    return Evaluation({k: pass_at_k(solves, samples, k) for k in PASS_AT if k <= samples}, entropy_nats / tokens)
