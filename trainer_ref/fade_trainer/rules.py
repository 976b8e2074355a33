"""The rules of each countdown task: which numbers and targets there are, and the tokens that stand for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TaskName = Literal["countdown", "countdown-hard"]


@dataclass(frozen=True, slots=True)
class Rules:
    """Output tokens 0 .. number_max - 1 are the numbers 1 .. number_max; the operators and the end follow."""

    number_max: int
    """Numbers are 1 .. number_max."""

    target_max: int
    """Targets are 1 .. target_max."""

    fewest_numbers: int
    """A prompt gives this many numbers, up to four."""

    @property
    def plus(self) -> int:
        """Token of +; those of - and * are the next two."""
        return self.number_max

    @property
    def minus(self) -> int:
        """Token of -."""
        return self.number_max + 1

    @property
    def times(self) -> int:
        """Token of *."""
        return self.number_max + 2

    @property
    def end(self) -> int:
        """Token that ends an answer, and fills what follows."""
        return self.number_max + 3

    @property
    def vocabulary_size(self) -> int:
        """Output tokens."""
        return self.number_max + 4


TASKS: dict[TaskName, Rules] = {
    "countdown": Rules(number_max=10, target_max=60, fewest_numbers=3),
    "countdown-hard": Rules(number_max=12, target_max=99, fewest_numbers=4),
}
"""By the name that `--task` takes."""
