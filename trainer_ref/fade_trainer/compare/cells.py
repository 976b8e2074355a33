"""What is trained: one cell is one method at one learning rate, in one regime, from one seed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from fade_trainer.compare.methods import HEADLINE, METHODS
from fade_trainer.rules import TaskName

LEARNING_RATES = (2.5e-4, 5e-4, 1e-3, 2e-3)
COMMON_LEARNING_RATE = 1e-3
LR_MIN = 0.05
"""Where a decayed learning rate ends, of its start; it falls in a straight line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Regime:
    """Where a training starts and how long it goes; see the fields of the same names in `TrainConfig`."""

    title: str
    task: TaskName
    warmup_steps: int
    steps: int


REGIMES: dict[str, Regime] = {
    "standard": Regime(title="countdown", task="countdown", warmup_steps=200, steps=450),
    "weak": Regime(title="a weak start: 4 numbers of 1..12, targets to 99", task="countdown-hard", warmup_steps=200, steps=450),
    "strong": Regime(title="a strong start: 600 warm-up steps", task="countdown", warmup_steps=600, steps=450),
    "long": Regime(title="a long training: 1,000 steps", task="countdown", warmup_steps=200, steps=1000),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One training. Its fields are the key of its result."""

    regime: str
    method: str
    learning_rate: float
    decay: bool
    seed: int
    steps: int

    def __str__(self) -> str:
        """For folders and progress; also a valid name of a run."""
        rate = f"{self.learning_rate:.6f}".rstrip("0").replace(".", "-")
        return f"{self.regime}-{self.method}-{rate}{'-decay' if self.decay else ''}-{self.steps}-{self.seed}"


def cells(
    *,
    methods: Iterable[str],
    regimes: Iterable[str],
    learning_rates: Iterable[float],
    decays: Iterable[bool],
    seeds: Iterable[int],
    steps: int | None = None,
) -> Iterator[Cell]:
    """All combinations; seeds outermost, so that what is done at any time is comparable.

    Args:
        steps: None: the regime's own.

    Raises:
        ValueError: A method or a regime is not known.
    """
    methods, regimes, learning_rates, decays = tuple(methods), tuple(regimes), tuple(learning_rates), tuple(decays)
    for what, given, known in (("method", methods, METHODS), ("regime", regimes, REGIMES)):
        for name in given:
            if name not in known:
                raise ValueError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    for seed in seeds:
        for regime in regimes:
            for decay in decays:
                for learning_rate in learning_rates:
                    for method in methods:
                        yield Cell(
                            regime=regime,
                            method=method,
                            learning_rate=learning_rate,
                            decay=decay,
                            seed=seed,
                            steps=REGIMES[regime].steps if steps is None else steps,
                        )


def evidence_plan(seeds: Iterable[int]) -> list[Cell]:
    """Everything that the evidence rests on, what matters most first: the headline's grid, the other methods, the regimes."""
    seeds = tuple(seeds)
    common: dict[str, Any] = {"regimes": ["standard"], "seeds": seeds}
    others = [name for name in METHODS if name not in HEADLINE]
    planned = [
        *cells(methods=HEADLINE, learning_rates=[COMMON_LEARNING_RATE], decays=[True, False], **common),
        *cells(methods=others, learning_rates=[COMMON_LEARNING_RATE], decays=[True], **common),
        *cells(methods=HEADLINE, learning_rates=LEARNING_RATES, decays=[True, False], **common),
        *cells(methods=others, learning_rates=[COMMON_LEARNING_RATE], decays=[False], **common),
        *cells(
            methods=HEADLINE,
            regimes=["long", "weak", "strong"],
            learning_rates=[COMMON_LEARNING_RATE],
            decays=[True],
            seeds=seeds,
        ),
    ]
    return list(dict.fromkeys(planned))
