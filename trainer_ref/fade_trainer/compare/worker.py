"""What runs in the processes of the pool. It imports the trainer late, once its surroundings are set."""

from __future__ import annotations

import os
from pathlib import Path

from fade_trainer.compare.cells import Cell
from fade_trainer.compare.results import Result


def prepare() -> None:
    """One thread, and no progress bar: there is one for all cells."""
    os.environ["TQDM_DISABLE"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"


def run(cell: Cell, folder: Path, cache_dir: Path | None, sizes: dict[str, int]) -> Result | None:
    """See `run_cell`."""
    from fade_trainer.compare.work import run_cell

    return run_cell(cell, folder, cache_dir, sizes)
