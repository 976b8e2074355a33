"""Warnings over many observations: each is given where it should be, and not where it should not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from fade_core import EMPTY_STATE, Batch, ControllerState, Entropy, RunConfig, Watch, observe, watch

MIXED = [1.0, 0, 0, 1, 0, 1, 0, 0]
FAILED = [0.0] * 8


class Run:
    """A run whose batches have two groups of four."""

    def __init__(self, **config: Any) -> None:
        self.config = RunConfig(**config)
        self.state: ControllerState = EMPTY_STATE
        self.watches: dict[str, Watch] = {}

    def step(self, entropy: float | None = 1.0, rewards: list[float] | None = None) -> set[str]:
        """One more batch; the reasons of its warnings."""
        batch = Batch(
            rewards=np.array(MIXED if rewards is None else rewards),
            group_index=np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32),
            environments=("default", "default"),
            entropy=None if entropy is None else Entropy(sum_nats=100 * entropy, token_count=100),
        )
        self.state, answer = observe(self.config, self.state, batch)
        self.watches, warnings = watch(self.config, self.watches, answer)
        return {warning.reason for warning in warnings}

    def steps(self, entropies: Iterable[float | None]) -> list[set[str]]:
        """One batch for each."""
        return [self.step(entropy) for entropy in entropies]


def first(reason: str, told: list[set[str]]) -> int | None:
    """The number of the first batch that was warned of it, from 1."""
    return next((number for number, reasons in enumerate(told, 1) if reason in reasons), None)


def test_a_steady_run_is_warned_of_nothing() -> None:
    assert not any(Run().steps(1 - 0.002 * number for number in range(150)))


def test_entropy_under_a_quarter_of_its_target_has_collapsed() -> None:
    # Target 0.5: the average over about ten, 0.1 * 0.9^n * 9 + ..., passes 0.125 where 0.1 + 0.9 * 0.9^n does.
    told = Run().steps([1.0] + [0.1] * 60)
    expected = 1 + next(n for n in range(1, 60) if 0.1 + 0.9 * 0.9**n < 0.125)
    assert first("ENTROPY_COLLAPSED", told) == expected
    assert all("ENTROPY_COLLAPSED" in reasons for reasons in told[expected:])


def test_a_low_entropy_that_is_the_target_has_not_collapsed() -> None:
    assert first("ENTROPY_COLLAPSED", Run(target_entropy_nats=0.2).steps([1.0] + [0.1] * 60)) is None


@pytest.mark.parametrize(("half_life", "warned"), [(30, True), (50, True), (80, False), (200, False)])
def test_entropy_that_halves_within_sixty_observations_falls(half_life: int, warned: bool) -> None:
    told = Run(target_entropy_nats=1e-6).steps(0.5 ** (number / half_life) for number in range(400))
    assert (first("ENTROPY_FALLING", told) is not None) == warned


def test_a_new_kind_of_entropy_is_not_compared_with_the_old() -> None:
    run = Run()
    run.steps([1.0] * 60)
    run.config = RunConfig(entropy_baseline=1)
    assert not any(run.steps([0.1] * 10))


@pytest.mark.parametrize(("delta", "warned"), [(0.2, True), (0.3, False), (1.0, False), (3.9, False), (4.1, True)])
def test_signs_that_weigh_over_four_times_each_other_are_unbalanced(delta: float, warned: bool) -> None:
    assert ("SIGN_IMBALANCE" in Run(delta_rule="fixed", delta=delta).step()) == warned


def test_groups_without_signal_starve_a_run_after_ten_batches() -> None:
    run = Run()
    told = [run.step(rewards=FAILED) for _ in range(12)]
    assert first("SIGNAL_STARVED", told) == 10
    told = [run.step() for _ in range(3)]  # the average share is 1 - 0.9^n then
    assert [bool("SIGNAL_STARVED" in reasons) for reasons in told] == [False, False, False]


def test_a_schedule_that_does_not_move_for_two_hundred_batches_is_stuck() -> None:
    run = Run()
    told = [run.step(rewards=FAILED) for _ in range(260)]  # the solve rate passes 1/3 after 21, and alpha is 3 from then on
    start = next(n for n in range(1, 100) if 1.5 * (1 - 0.5 * 0.98**n) / (0.5 * 0.98**n) >= 3)
    assert first("SCHEDULE_STUCK", told) == start + 200


@pytest.mark.parametrize(
    "config",
    [{"mode": "pinned"}, {"alpha_rule": "fixed", "delta_rule": "fixed"}, {"alpha_rule": "fixed", "delta_rule": "log_decay"}],
)
def test_a_schedule_that_nobody_asked_to_follow_the_run_is_not_stuck(config: dict[str, Any]) -> None:
    run = Run(**config)
    assert first("SCHEDULE_STUCK", [run.step(rewards=FAILED) for _ in range(230)]) is None


def test_twenty_batches_in_a_row_without_entropy_are_missing_it() -> None:
    told = Run().steps([None] * 19 + [1.0] + [None] * 25)
    assert first("ENTROPY_MISSING", told) == 40


@pytest.mark.parametrize("config", [{"mode": "pinned"}, {"delta_rule": "fixed"}, {"delta_rule": "log_decay"}])
def test_a_run_whose_delta_does_not_follow_entropy_misses_none(config: dict[str, Any]) -> None:
    assert first("ENTROPY_MISSING", Run(**config).steps([None] * 30)) is None


def test_environments_are_watched_apart() -> None:
    config, state, watches, warned = RunConfig(), EMPTY_STATE, {}, set()
    for _ in range(12):
        batch = Batch(
            rewards=np.array(MIXED[:4] + FAILED[:4]),
            group_index=np.array([0, 0, 0, 0, 1, 1, 1, 1], np.int32),
            environments=("math", "code"),
        )
        state, answer = observe(config, state, batch)
        watches, warnings = watch(config, watches, answer)
        warned = {(warning.reason, warning.subject) for warning in warnings}
    assert warned == {("SIGNAL_STARVED", "code")}
