"""The averages and the schedule that follows from them (arXiv 2607.01490, section on the schedule)."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest

from fade_core import EMPTY_STATE, ControllerState, Entropy, EntropyKindError, EnvironmentState, RunConfig, observe, schedule_of

MIXED = ([1.0, 0.0], [0, 0])


def nats(mean: float, tokens: int = 8, kind: str = "") -> Entropy:
    """An entropy of that many nats per token."""
    return Entropy(sum_nats=mean * tokens, token_count=tokens, kind=kind)


def follow(batch: Any, config: RunConfig, *entropies: float | None, state: ControllerState = EMPTY_STATE) -> EnvironmentState:
    """The state of the default environment after batches of solve rate 1/2 with these entropies."""
    for entropy in entropies:
        state, _ = observe(config, state, batch(*MIXED, entropy=None if entropy is None else nats(entropy)))
    return state.environments["default"]


@pytest.mark.parametrize(
    ("solve_rate", "alpha"),
    [(0.0, 3.0), (0.2, 3.0), (1 / 3, 3.0), (0.4, 2.25), (0.5, 1.5), (0.6, 1.0), (0.9, 1.0), (1.0, 1.0)],
)
def test_alpha_at_known_solve_rates(solve_rate: float, alpha: float) -> None:
    assert schedule_of(RunConfig(), EnvironmentState(solve_rate=solve_rate)).alpha == pytest.approx(alpha, rel=1e-12)


@pytest.mark.parametrize(
    ("entropy", "delta", "phase"),
    [(2.0, 1.0, "exploring"), (0.5, 1.0, "exploring"), (0.2, 0.7, "exploiting"), (0.0, 0.5, "exploiting")],
)
def test_delta_at_known_entropies_with_the_default_target(entropy: float, delta: float, phase: str) -> None:
    schedule = schedule_of(RunConfig(), EnvironmentState(entropy_nats=entropy, initial_entropy_nats=1.0))
    assert (schedule.delta, schedule.phase, schedule.target_entropy_nats) == (pytest.approx(delta, rel=1e-12), phase, 0.5)


def test_delta_stops_at_its_floor() -> None:
    schedule = schedule_of(RunConfig(target_entropy_nats=1.0), EnvironmentState(entropy_nats=0.1, initial_entropy_nats=2.0))
    assert (schedule.delta, schedule.phase) == (0.3, "floor")


@pytest.mark.parametrize(
    ("config", "target"),
    [
        (RunConfig(), 0.4),
        (RunConfig(target_entropy_fraction=0.25), 0.2),
        (RunConfig(target_entropy_nats=1.0), 1.0),
        (RunConfig(initial_entropy_nats=2.0), 1.0),
        (RunConfig(initial_entropy_nats=2.0, target_entropy_fraction=0.75), 1.5),
    ],
)
def test_the_target_is_absolute_or_a_fraction_of_the_measured_or_declared_start(config: RunConfig, target: float) -> None:
    state = EnvironmentState(entropy_nats=0.3, initial_entropy_nats=0.8)
    assert schedule_of(config, state).target_entropy_nats == pytest.approx(target, rel=1e-15)


def test_the_ratio_rule_is_scale_free() -> None:
    config = RunConfig(delta_rule="ratio")
    for scale in (0.01, 1.0, 7.0):
        state = EnvironmentState(entropy_nats=0.2 * scale, initial_entropy_nats=scale)
        assert schedule_of(config, state).delta == pytest.approx(0.4, rel=1e-12)


def test_the_ratio_rule_stays_at_its_largest_where_the_run_started_without_entropy(batch: Any) -> None:
    config = RunConfig(delta_rule="ratio")
    state = follow(batch, config, 0.0, 0.0)
    assert state.initial_entropy_nats == 0.0 and schedule_of(config, state).delta == 1.0
    assert schedule_of(config, follow(batch, config, 0.0, 0.7)).delta == 1.0


def test_averages_follow_their_recurrence_exactly(batch: Any) -> None:
    config, weight = RunConfig(), Fraction(0.02)
    state, p_hat, h_hat = EMPTY_STATE, Fraction(1, 2), None
    for number in range(1, 30):
        rewards = [1.0] * (number % 4) + [0.0] * (4 - number % 4)
        state, _ = observe(config, state, batch(rewards, [0] * 4, entropy=nats(1 / number, 4)))
        entropy = Fraction(4 * (1 / number)) / 4
        p_hat = (1 - weight) * p_hat + weight * Fraction(number % 4, 4)
        h_hat = entropy if h_hat is None else (1 - weight) * h_hat + weight * entropy
    seen = state.environments["default"]
    assert seen.solve_rate == pytest.approx(float(p_hat), rel=1e-14)
    assert seen.entropy_nats == pytest.approx(float(h_hat or 0), rel=1e-14)
    assert seen.observation_count == 29 and seen.initial_entropy_nats == 1.0


def test_the_solve_rate_of_a_step_is_the_mean_over_groups_not_over_rows(batch: Any) -> None:
    state, answer = observe(RunConfig(ema_weight=1.0), EMPTY_STATE, batch([1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 1, 1]))
    assert answer.environments["default"].diagnostics.solve_rate == 0.5 == state.environments["default"].solve_rate


def test_the_entropy_starts_at_the_mean_of_its_warm_up_and_delta_waits_for_it(batch: Any) -> None:
    config = RunConfig(entropy_warmup=3)
    state = follow(batch, config, 0.9, None, 0.3)
    assert (state.entropy_nats, state.warmup_entropy_nats) == (None, (0.9, 0.3)) and schedule_of(config, state).delta == 1.0
    state = follow(batch, config, 0.9, None, 0.3, 0.6)
    assert state.entropy_nats == state.initial_entropy_nats == pytest.approx(0.6, rel=1e-15)
    assert state.warmup_entropy_nats == ()
    assert follow(batch, config, 0.9, 0.3, 0.6, 0.0).entropy_nats == pytest.approx(0.98 * 0.6, rel=1e-14)


def test_absent_entropy_and_entropy_over_no_tokens_hold_the_average(batch: Any) -> None:
    config = RunConfig()
    state, _ = observe(config, EMPTY_STATE, batch(*MIXED, entropy=nats(1.0)))
    for entropy in (None, Entropy(sum_nats=0.0, token_count=0), Entropy(sum_nats=math.nan, token_count=0)):
        after, answer = observe(config, state, batch(*MIXED, entropy=entropy))
        assert after.environments["default"].entropy_nats == 1.0
        assert answer.environments["default"].diagnostics.entropy_nats is None


def test_entropy_of_another_kind_is_an_error_until_the_baseline_is_raised(batch: Any) -> None:
    state, _ = observe(RunConfig(), EMPTY_STATE, batch(*MIXED, entropy=nats(0.6, kind="first")))
    other = batch(*MIXED, entropy=nats(1.0, kind="second"))
    with pytest.raises(EntropyKindError) as caught:
        observe(RunConfig(), state, other)
    assert (caught.value.environment, caught.value.known, caught.value.reported) == ("default", "first", "second")
    state, _ = observe(RunConfig(entropy_baseline=1), state, other)
    seen = state.environments["default"]
    assert (seen.entropy_nats, seen.initial_entropy_nats, seen.entropy_kind, seen.entropy_baseline) == (1.0, 1.0, "second", 1)


def test_fixed_rules_and_the_ablations_move_one_knob_alone(batch: Any) -> None:
    state = EnvironmentState(solve_rate=0.4, entropy_nats=0.2, initial_entropy_nats=1.0)
    weights = {
        "fixed": RunConfig(alpha_rule="fixed", alpha=0.5, delta_rule="fixed", delta=2.0),
        "alpha alone": RunConfig(delta_rule="fixed"),
        "delta alone": RunConfig(alpha_rule="fixed"),
    }
    seen = {name: (schedule_of(config, state).alpha, schedule_of(config, state).delta) for name, config in weights.items()}
    assert seen["fixed"] == (0.5, 2.0)
    assert seen["alpha alone"] == (pytest.approx(2.25), 1.0)
    assert seen["delta alone"] == (1.0, pytest.approx(0.7))


def test_log_decay_goes_from_one_end_to_the_other_with_the_logarithm_of_the_count() -> None:
    config = RunConfig(alpha_rule="log_decay", delta_rule="log_decay", decay_observations=100)
    for count, share in ((0, 0.0), (1, 0.0), (10, 0.5), (50, math.log(50) / math.log(100)), (100, 1.0), (5000, 1.0)):
        schedule = schedule_of(config, EnvironmentState(observation_count=count))
        assert schedule.alpha == pytest.approx(3 - 2 * share, rel=1e-14)
        assert schedule.delta == pytest.approx(1 - 0.7 * share, rel=1e-14)


@pytest.mark.parametrize(
    ("entropy", "initial", "alpha"),
    [(1.0, 1.0, 3.0), (0.75, 1.0, 2.0), (0.5, 1.0, 1.0), (0.1, 1.0, 1.0), (1.4, 1.0, 3.0), (None, None, 3.0), (None, 1.0, 3.0)],
)
def test_alpha_from_entropy_falls_from_the_start_to_the_target(
    entropy: float | None, initial: float | None, alpha: float
) -> None:
    state = EnvironmentState(solve_rate=0.9, entropy_nats=entropy, initial_entropy_nats=initial)
    assert schedule_of(RunConfig(alpha_rule="entropy"), state).alpha == pytest.approx(alpha, rel=1e-14)
    declared = RunConfig(alpha_rule="entropy", initial_entropy_nats=0.4, target_entropy_nats=0.5)
    assert schedule_of(declared, state).alpha == (3.0 if entropy is None else 1.0)  # it starts below its target


def test_pinned_and_shadow_modes() -> None:
    state = EnvironmentState(solve_rate=0.2, entropy_nats=0.1, initial_entropy_nats=1.0)
    pinned = schedule_of(RunConfig(mode="pinned", pinned_alpha=1.75, pinned_delta=0.6), state)
    assert (pinned.alpha, pinned.delta, pinned.applied()) == (1.75, 0.6, pinned)
    shadow = schedule_of(RunConfig(mode="shadow", estimator="subset"), state)
    neutral = shadow.applied()
    assert shadow.alpha == 3.0 and (neutral.alpha, neutral.delta, neutral.scale, neutral.estimator) == (1.0, 1.0, 1.0, "plug_in")


def test_shadow_records_what_it_would_do_and_weighs_neutrally(batch: Any) -> None:
    config = RunConfig(mode="shadow", alpha_rule="fixed", alpha=3.0, delta_rule="fixed", delta=0.5, scale="match_grpo")
    _, answer = observe(config, EMPTY_STATE, batch([1, 0, 0, 0], [0] * 4))
    seen = answer.environments["default"]
    assert answer.advantages().tolist() == [0.75, -0.25, -0.25, -0.25]
    assert (seen.schedule.alpha, seen.schedule.delta) == (3.0, 0.5)
    assert seen.schedule.scale == pytest.approx(2 / ((1 + 2) * 0.75**2), rel=1e-12)
    assert (seen.diagnostics.mass_success, seen.diagnostics.mass_failure) == (pytest.approx(0.125), pytest.approx(0.25))


@pytest.mark.parametrize("estimator", ["plug_in", "subset"])
@pytest.mark.parametrize("environments", [("default",) * 3, ("a", "b", "a")])
def test_match_grpo_keeps_the_steps_total_mass_at_that_of_reward_minus_mean(
    batch: Any, estimator: Any, environments: tuple[str, ...]
) -> None:
    config = RunConfig(scale="match_grpo", estimator=estimator, ema_weight=0.5, target_entropy_nats=2.0)
    rewards, index = [1, 0, 0, 0, 0, 1, 1, 0, 0, 1, 1, 1], [0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2]
    _, answer = observe(config, EMPTY_STATE, batch(rewards, index, entropy=nats(1.0), environments=environments))
    plain = (0.8 + 4 * 0.2) + (4 * 0.5)
    assert sum(abs(answer.advantages())) == pytest.approx(plain, rel=1e-12)
    assert len({item.schedule.scale for item in answer.environments.values()}) == 1
    masses = [
        (item.diagnostics.mass_success + item.diagnostics.mass_failure) * item.diagnostics.scored_count
        for item in answer.environments.values()
    ]
    assert sum(masses) == pytest.approx(plain, rel=1e-12)


def test_match_grpo_over_no_mass_is_one(batch: Any) -> None:
    _, answer = observe(RunConfig(scale="match_grpo"), EMPTY_STATE, batch([1.0, 1.0], [0, 0]))
    assert answer.environments["default"].schedule.scale == 1.0


@pytest.mark.parametrize("alpha", [1070.0, 1e6])
def test_match_grpo_over_a_mass_that_underflows_is_one(batch: Any, alpha: float) -> None:
    config = RunConfig(scale="match_grpo", alpha_rule="fixed", alpha=alpha)
    _, answer = observe(config, EMPTY_STATE, batch([1.0, 0.0], [0, 0]))
    assert answer.environments["default"].schedule.scale == 1.0
    assert answer.advantages() == pytest.approx([0.0, 0.0], abs=1e-300)


def test_masses_in_the_diagnostics_are_those_of_the_advantages(batch: Any) -> None:
    config = RunConfig(ema_weight=0.5, target_entropy_nats=2.0)
    rewards, index = [1, 0, 0, 0.5, 0.25, 1, 1, 0], [0, 0, 0, 0, 1, 1, 1, 1]
    _, answer = observe(config, EMPTY_STATE, batch(rewards, index, entropy=nats(1.5)))
    seen, advantages = answer.environments["default"].diagnostics, answer.advantages()
    assert seen.mass_success == pytest.approx(advantages[advantages > 0].sum() / 8, rel=1e-12)
    assert seen.mass_failure == pytest.approx(-advantages[advantages < 0].sum() / 8, rel=1e-12)
    plain = sum(abs(r - m) for r, m in zip(rewards, [0.375] * 4 + [0.5625] * 4, strict=True))
    assert seen.mass_vs_grpo == pytest.approx(abs(advantages).sum() / plain, rel=1e-12)
    assert seen.sign_ratio == pytest.approx(seen.mass_success / seen.mass_failure, rel=1e-12)
    assert seen.difficulty_centre == pytest.approx(0.5)  # half of each group's rewards reach the threshold


def test_the_difficulty_centre_is_the_mean_solve_rate_of_the_mass(batch: Any) -> None:
    rewards, index = [1, 0, 0, 0, 1, 1, 1, 0, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    _, answer = observe(RunConfig(alpha_rule="fixed", alpha=2.0), EMPTY_STATE, batch(rewards, index))
    # alpha = 2: masses of success 1 * (3/4)^2 and 3 * (1/4)^2, at solve rates 1/4 and 3/4; the solved group has none
    assert answer.environments["default"].diagnostics.difficulty_centre == pytest.approx((9 / 4 * 1 / 4 + 3 / 4 * 3 / 4) / 3)
    _, answer = observe(RunConfig(), EMPTY_STATE, batch([1.0, 1.0], [0, 0]))
    seen = answer.environments["default"].diagnostics
    assert seen.difficulty_centre is None and seen.sign_ratio is None


def test_evaluation_answers_from_the_averages_and_moves_nothing(batch: Any) -> None:
    state, _ = observe(RunConfig(), EMPTY_STATE, batch(*MIXED, entropy=nats(1.0)))
    after, answer = observe(RunConfig(), state, batch([0.0, 0.0, 1.0], [0, 0, 0], entropy=nats(0.1)), evaluation=True)
    assert after == state and answer.environments["default"].hold_reasons == ("eval",)
    assert answer.environments["default"].schedule == schedule_of(RunConfig(), state.environments["default"])
