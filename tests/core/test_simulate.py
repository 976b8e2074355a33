"""What-if along recorded telemetry."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import (
    EMPTY_STATE,
    Batch,
    ControllerState,
    Entropy,
    EnvironmentReport,
    EnvironmentState,
    RunConfig,
    Telemetry,
    observe,
    simulate,
)


def recorded(config: RunConfig, seed: int, length: int) -> tuple[list[Telemetry], list[tuple[float, float]]]:
    """A run of batches with gaps in their entropy, missing rewards and dropped groups; its telemetry, and alpha and delta."""
    draw = random.Random(seed)
    state: ControllerState = EMPTY_STATE
    line, weights = [], []
    for _ in range(length):
        rewards = np.array([draw.choice([0.0, 1.0, 1.0, math.nan]) for _ in range(16)])
        prefiltered = draw.random() < 0.2
        batch = Batch(
            rewards=rewards,
            group_index=np.arange(16, dtype=np.int32) // 4,
            environments=("default",) * 4,
            entropy=None if draw.random() < 0.2 else Entropy(sum_nats=draw.uniform(0, 50), token_count=40),
            reports={"default": EnvironmentReport(prefiltered=prefiltered)},
        )
        state, answer = observe(config, state, batch)
        item = answer.environments["default"]
        seen = item.diagnostics
        line.append(
            Telemetry(solve_rate=seen.solve_rate, entropy_nats=seen.entropy_nats, coverage=seen.coverage, prefiltered=prefiltered)
        )
        weights.append((item.schedule.alpha, item.schedule.delta))
    return line, weights


@given(
    st.integers(0, 2**32),
    st.builds(
        RunConfig,
        ema_weight=st.floats(0.01, 1),
        quorum=st.floats(0, 1),
        entropy_warmup=st.integers(1, 5),
        delta_rule=st.sampled_from(["additive", "ratio", "log_decay"]),
        alpha_rule=st.sampled_from(["solve_rate", "log_decay", "entropy"]),
    ),
)
def test_under_the_runs_own_settings_it_is_what_was_recorded_bit_for_bit(seed: int, config: RunConfig) -> None:
    line, weights = recorded(config, seed, 30)
    found = simulate(config, EnvironmentState(), line)
    assert list(zip(found.alpha, found.delta, strict=True)) == weights


def test_other_settings_give_what_a_run_under_them_would_have_given_on_the_same_batches() -> None:
    other = RunConfig(alpha_max=5, ema_weight=0.1, target_entropy_nats=0.9)
    line, _ = recorded(RunConfig(), 7, 40)
    _, weights = recorded(other, 7, 40)
    found = simulate(other, EnvironmentState(), line)
    assert list(zip(found.alpha, found.delta, strict=True)) == weights


def test_averages_are_those_of_the_formula() -> None:
    rates, entropies = [0.2, 0.9, 0.4], [1.0, None, 0.4]
    line = [Telemetry(solve_rate=rate, entropy_nats=entropy) for rate, entropy in zip(rates, entropies, strict=True)]
    found = simulate(RunConfig(ema_weight=0.5), EnvironmentState(), line)
    assert found.solve_rate == [0.35, 0.625, 0.5125]
    assert found.entropy_nats == [1.0, 1.0, 0.7] and found.target_entropy_nats == [0.5] * 3
    assert found.alpha == pytest.approx([1.5 * 0.65 / 0.35, 1, 1.5 * 0.4875 / 0.5125]) and found.delta == [1.0, 1.0, 1.0]


def test_entropy_starts_anew_where_the_run_was_told_to() -> None:
    line = [Telemetry(solve_rate=0.5, entropy_nats=1.0), Telemetry(solve_rate=0.5, entropy_nats=0.2, entropy_baseline=1)]
    assert simulate(RunConfig(), EnvironmentState(), line).entropy_nats == [1.0, 0.2]
    same = [replace(seen, entropy_baseline=0) for seen in line]
    assert simulate(RunConfig(), EnvironmentState(), same).entropy_nats == [1.0, pytest.approx(0.984)]


def test_what_is_not_known_yet_is_nan() -> None:
    found = simulate(RunConfig(), EnvironmentState(), [Telemetry(solve_rate=None, entropy_nats=None)])
    assert found.solve_rate == [0.5] and math.isnan(found.entropy_nats[0]) and math.isnan(found.target_entropy_nats[0])
