"""Named streams of random numbers: each use has its own, so that evaluation, say, never moves training's."""

from __future__ import annotations

import zlib

import numpy as np
import torch


def numpy_stream(seed: int, name: str, index: int = 0) -> np.random.Generator:
    """A numpy generator that depends on the run's seed, the use's name and an index (step, pass), on nothing else."""
    return np.random.default_rng(np.random.SeedSequence([seed, zlib.crc32(name.encode()), index]))


def torch_stream(seed: int, name: str, index: int = 0) -> torch.Generator:
    """The same for a torch generator on the CPU."""
    return torch.Generator().manual_seed(int(numpy_stream(seed, name, index).integers(2**63)))
