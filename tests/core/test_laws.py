"""Laws: the same rows in any order give the same bits; sums are exact; configurations check themselves."""

from __future__ import annotations

import json
import math
import struct
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fade_core import EMPTY_STATE, Answer, ControllerState, Diagnostics, Entropy, InvalidConfigError, RunConfig, observe
from fade_core.exact import group_sums


def bits(state: ControllerState) -> list[tuple[str, bytes, int]]:
    """Every float of a state as its bytes."""
    return [
        (
            name,
            struct.pack("<3d", item.solve_rate, item.entropy_nats or -1.0, item.initial_entropy_nats or -1.0),
            item.observation_count,
        )
        for name, item in sorted(state.environments.items())
    ]


@given(
    rows=st.lists(
        st.tuples(st.floats(0, 1, allow_subnormal=False), st.integers(0, 4), st.sampled_from([1, 1, 1, 2, 3, 5, 6])),
        min_size=4,
        max_size=60,
    ),
    seed=st.integers(0, 2**32 - 1),
    estimated=st.sampled_from(["none", "match_grpo"]),
)
def test_rows_and_groups_in_any_order_give_the_same_bits(batch: Any, rows: Any, seed: int, estimated: Any) -> None:
    rows = [*rows, (0.25, 0, 1), (1.0, 1, 1)]  # something always counts
    config = RunConfig(quorum=0.0, scale=estimated)
    environments = ("a", "b", "a", "b", "a")
    entropy = Entropy(sum_nats=1.3, token_count=3)

    def run(order: Any, relabel: Any) -> tuple[Any, Any]:
        columns = [rows[place] for place in order]
        table = [""] * 5
        for old, new in enumerate(relabel):
            table[new] = environments[old]
        state = EMPTY_STATE
        for _ in range(2):
            state, answer = observe(
                config,
                state,
                batch(
                    [row[0] for row in columns],
                    [relabel[row[1]] for row in columns],
                    statuses=[row[2] for row in columns],
                    environments=tuple(table),
                    entropy=entropy,
                ),
            )
        advantages = np.empty(len(rows))
        advantages[list(order)] = answer.advantages()
        weights = [(item.schedule.alpha, item.schedule.delta) for item in answer.environments.values()]
        return (bits(state), state.digest(), weights), advantages

    plain, advantages = run(range(len(rows)), range(5))
    random = np.random.default_rng(seed)
    shuffled, moved = run(random.permutation(len(rows)).tolist(), random.permutation(5).tolist())
    assert shuffled == plain
    assert moved == pytest.approx(advantages, rel=1e-12, abs=1e-300)


@given(
    rollouts=st.lists(
        st.tuples(st.floats(0, 1, allow_subnormal=False), st.integers(0, 3), st.integers(1, 4)), min_size=2, max_size=30
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_rows_of_a_rollout_in_any_number_and_order_give_the_same_bits(batch: Any, rollouts: Any, seed: int) -> None:
    once = batch([reward for reward, _, _ in rollouts], [place for _, place, _ in rollouts], environments=("a", "b", "a", "b"))
    rows = [(reward, place, number) for number, (reward, place, times) in enumerate(rollouts) for _ in range(times)]
    np.random.default_rng(seed).shuffle(rows)
    rewards, index, rollout = zip(*rows, strict=True)
    fanned = batch(rewards, [int(place) for place in index], rollout_index=rollout, environments=("a", "b", "a", "b"))
    plain, of_once = observe(RunConfig(), EMPTY_STATE, once)
    moved, of_rows = observe(RunConfig(), EMPTY_STATE, fanned)
    assert bits(moved) == bits(plain)
    assert of_rows.advantages().tolist() == of_once.advantages()[[int(number) for number in rollout]].tolist()


def counts(answer: Answer) -> Diagnostics:
    """The diagnostics without the masses and what comes of them, whose sums may round otherwise."""
    masses = {"mass_success": 0.0, "mass_failure": 0.0, "mass_vs_grpo": None, "sign_ratio": None, "difficulty_centre": None}
    return replace(answer.environments["default"].diagnostics, **masses)


@given(
    rewards=st.lists(st.sampled_from([-1.0, 3.0]), min_size=1, max_size=40),
    groups=st.integers(1, 5),
    alpha=st.sampled_from([1.0, 1.5, 3.0]),
)
def test_solved_and_failed_rewards_give_the_same_bits_however_they_are_declared(
    batch: Any, rewards: list[float], groups: int, alpha: float
) -> None:
    config = RunConfig(reward_min=-1, reward_max=3, alpha_rule="fixed", alpha=alpha, target_entropy_nats=2.0)
    index, names = [row % groups for row in range(len(rewards))], ("default",) * groups
    entropy = Entropy(sum_nats=1.0, token_count=1)
    declared = [{}, {"statuses": [1] * len(rewards)}, {"solved": [reward == 3 for reward in rewards]}]
    answers = [
        observe(config, EMPTY_STATE, batch(rewards, index, environments=names, entropy=entropy, **how)) for how in declared
    ]
    first, answer = answers[0]
    for state, other in answers[1:]:
        assert bits(state) == bits(first)
        assert other.advantages().tolist() == answer.advantages().tolist()
        assert counts(other) == counts(answer)


@given(values=st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=200))
def test_sums_are_within_a_rounding_of_exact(values: list[float]) -> None:
    index = np.zeros(len(values), np.intp)
    exact = sum(map(Fraction, values))
    summed = Fraction(float(group_sums(np.array(values), index, 1)[0]))
    assert abs(summed - exact) <= Fraction(2, 2**53) * exact + len(values) * Fraction(1, 2**91)


@pytest.mark.parametrize("scale", [0, 20, 50, 62, 75])
def test_sums_of_values_of_any_size_are_the_same_bits_in_any_order(scale: int) -> None:
    random = np.random.default_rng(scale)
    values, index = random.random(3000) * 2.0**-scale, random.integers(0, 3, 3000)
    sums = group_sums(values, index, 3).tobytes()
    for _ in range(20):
        order = random.permutation(3000)
        assert group_sums(values[order], index[order], 3).tobytes() == sums


def test_the_mean_over_groups_is_the_same_bits_in_any_order_of_the_groups(batch: Any) -> None:
    random = np.random.default_rng(0)
    sizes = random.integers(2, 12, 40).tolist()
    groups = [[1.0] * int(random.integers(0, size + 1)) for size in sizes]
    seen = set()
    for _ in range(30):
        order = random.permutation(40).tolist()
        rewards = [reward for place in order for reward in groups[place] + [0.0] * (sizes[place] - len(groups[place]))]
        index = [number for number, place in enumerate(order) for _ in range(sizes[place])]
        seen.add(bits(observe(RunConfig(ema_weight=1.0), EMPTY_STATE, batch(rewards, index))[0])[0])
    assert len(seen) == 1


def test_a_state_survives_json_bit_for_bit(batch: Any) -> None:
    state = EMPTY_STATE
    for number in range(1, 20):
        entropy = Entropy(sum_nats=1 / number, token_count=3, kind="k")
        state, _ = observe(RunConfig(entropy_warmup=30), state, batch([0.1 * (number % 7), 0.3], [0, 0], entropy=entropy))
    again = ControllerState.from_dict(json.loads(json.dumps(state.to_dict())))
    assert again == state and again.digest() == state.digest() and bits(again) == bits(state)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"reward_min": 1.0}, "reward_max"),
        ({"reward_min": math.inf}, "reward_min"),
        ({"solve_threshold": 0.0}, "solve_threshold"),
        ({"solve_threshold": 1.5}, "solve_threshold"),
        ({"alpha": 0.4}, "alpha"),
        ({"alpha_min": 0.9}, "alpha_min"),
        ({"alpha_max": 0.5}, "alpha_max"),
        ({"delta": 0.0}, "delta"),
        ({"delta": 1e-320}, "delta"),
        ({"delta_min": -1.0}, "delta_min"),
        ({"delta_max": 0.1}, "delta_max"),
        ({"ema_weight": 0.0}, "ema_weight"),
        ({"ema_weight": 1.5}, "ema_weight"),
        ({"target_entropy_nats": 0.0}, "target_entropy_nats"),
        ({"target_entropy_fraction": 0.0}, "target_entropy_fraction"),
        ({"initial_entropy_nats": -1.0}, "initial_entropy_nats"),
        ({"entropy_warmup": 0}, "entropy_warmup"),
        ({"vocabulary_size": 1}, "vocabulary_size"),
        ({"quorum": 1.1}, "quorum"),
        ({"max_policy_lag": -1}, "max_policy_lag"),
        ({"group_size": 1}, "group_size"),
        ({"decay_observations": 0}, "decay_observations"),
        ({"pinned_alpha": 0.1}, "pinned_alpha"),
        ({"pinned_delta": 1e-4}, "pinned_delta"),
        ({"entropy_baseline": -1}, "entropy_baseline"),
        ({"entropy_baseline": 2**63 - 1}, "entropy_baseline"),
        ({"mode": "off"}, "mode"),
        ({"alpha_rule": "additive"}, "alpha_rule"),
        ({"strict_rewards": 1}, "strict_rewards"),
        ({"ema_weight": "0.1"}, "ema_weight"),
        ({"ema_weight": math.nan}, "ema_weight"),
        ({"entropy_warmup": True}, "entropy_warmup"),
    ],
)
def test_a_bad_configuration_names_its_field(values: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidConfigError) as caught:
        RunConfig(**values)
    assert caught.value.field == field and str(caught.value).startswith(field)


def test_a_configuration_survives_json_and_takes_whole_numbers_for_floats() -> None:
    config = RunConfig(reward_min=-1, reward_max=2, solve_threshold=1, alpha_rule="log_decay", group_size=8)
    assert RunConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config
    assert isinstance(config.reward_max, float)
    with pytest.raises(InvalidConfigError, match="no_such"):
        RunConfig.from_dict({"no_such": 1})
