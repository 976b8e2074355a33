"""What trainings came to: one JSON object a line, one line a cell."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from fade_trainer.compare.cells import Cell


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One finished cell. pass@k is a probability in [0, 1], an entropy is in nats per token."""

    regime: str
    method: str
    learning_rate: float
    decay: bool
    seed: int
    steps: int

    family: str
    """`static`, `schedule` or `ours`."""

    title: str
    """The method as people read it."""

    seconds: float
    """Wall time of the training with its evaluations, warm-up included if it was not cached."""

    before: dict[str, dict[str, float]]
    """After warm-up, by split: pass@1 .. pass@64 and entropy_nats."""

    after: dict[str, dict[str, float]]
    """At the end, by split (held_out, validation), from 64 answers to each prompt."""

    curve: dict[str, list[float]]
    """Validation prompts along the way, 16 answers each: step, pass@1, pass@4, pass@16, entropy_nats."""

    training: dict[str, list[float | None]]
    """Means over the steps since the one before: step, solve_rate, entropy_nats, alpha, delta, lr_scale, success_mass,
    failure_mass, informative_groups; null where the schedule has none."""

    spectrum: dict[str, Any]
    """Of the output head's change since warm-up: singular_values, stable_rank, top_share (of the squared sum)."""

    @property
    def cell(self) -> Cell:
        """Its key."""
        return Cell(**{item.name: getattr(self, item.name) for item in fields(Cell)})


def read_results(path: Path) -> list[Result]:
    """All results of a file, in the order of their first lines. Of one cell the last line counts; a torn last line does not.

    Raises:
        ValueError: A line that is not the last is no result.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    found: dict[Cell, Result] = {}
    for number, line in enumerate(lines, start=1):
        try:
            result = Result(**json.loads(line))
        except (ValueError, TypeError) as error:
            if number == len(lines):
                break
            raise ValueError(f"{path}, line {number} is no result: {error}") from error
        found[result.cell] = result
    return list(found.values())


def append_result(path: Path, result: Result) -> None:
    """Adds a line to the file, on a line of its own even behind a torn one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        end = file.tell()
        file.seek(max(end - 1, 0))
        if file.read(1) not in (b"", b"\n"):
            torn = path.read_bytes().rpartition(b"\n")
            file.truncate(len(torn[0]) + len(torn[1]))
        file.write(json.dumps(asdict(result)).encode() + b"\n")
