"""Supervised warm-up: the policy that every method starts from, made once per seed and cached."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from platformdirs import user_cache_path
from torch import Tensor

from fade_trainer.checkpoint import save_atomically
from fade_trainer.model import PrefixLM, answer_mask
from fade_trainer.randomness import torch_stream
from fade_trainer.rules import Rules
from fade_trainer.task import Countdown

BATCH = 256
LEARNING_RATE = 1e-3

_RECIPE = 1
"""Goes into the cache key; raise it whenever the model or this recipe changes."""


def warmed_up_model(task: Countdown, seed: int, steps: int, cache_dir: Path | None) -> PrefixLM:
    """A policy after `steps` Adam steps on the demonstrations, read from `cache_dir` if it was made before.

    None stands for the user's cache directory.

    The cache key covers data, seed, steps and torch's version, so a cached policy has the bits of a fresh one.
    """
    digest = hashlib.sha256(f"{_RECIPE} {seed} {steps} {torch.__version__}".encode())
    digest.update(task.demonstration_prompts.tobytes())
    digest.update(task.demonstrations.tobytes())
    path = (cache_dir or user_cache_path("fade-scheduler")) / f"warmup-{digest.hexdigest()[:24]}.pt"
    model = _initial_model(task.rules, seed)
    if path.exists():
        model.load_state_dict(torch.load(path, weights_only=True))
    else:
        _imitate(model, task, seed, steps)
        save_atomically(model.state_dict(), path)
    return model


def _initial_model(rules: Rules, seed: int) -> PrefixLM:
    """Random weights that depend on the seed alone; torch's global generator is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(torch_stream(seed, "weights").initial_seed())
        return PrefixLM(rules)


def _imitate(model: PrefixLM, task: Countdown, seed: int, steps: int) -> None:
    """Minimises the mean negative log-probability of the demonstrations' tokens, on batches drawn with replacement."""
    prompts, answers = torch.from_numpy(task.demonstration_prompts), torch.from_numpy(task.demonstrations)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)
    generator = torch_stream(seed, "warm-up order")
    for _ in range(steps):
        batch = torch.randint(len(prompts), (BATCH,), generator=generator)
        shown = answers[batch].unsqueeze(1)
        mask: Tensor = answer_mask(shown, task.rules.end)
        loss = -(model.logprobs(prompts[batch], shown) * mask).sum() / mask.sum()
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        optimizer.step()
