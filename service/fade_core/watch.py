"""Warnings about how a run goes, over many observations. What one observation alone shows is the controller's to warn of.

A watch per environment remembers a few numbers; it takes no part in the schedule, so that the controller's state and its bits
are the same with it or without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from fade_core.config import RunConfig
from fade_core.controller import Answer, EnvironmentAnswer, Warning

WATCHED = (
    "ENTROPY_COLLAPSED",
    "ENTROPY_FALLING",
    "SIGN_IMBALANCE",
    "SIGNAL_STARVED",
    "SCHEDULE_STUCK",
    "ENTROPY_MISSING",
)
"""The reasons of all warnings given here."""

FAST_WEIGHT = 0.1
SLOW_WEIGHT = 0.02
"""Averages over about the last 10 and the last 50 observations, whatever ``ema_weight`` is."""

COLLAPSED_ENTROPY = 0.25
"""Of the target: an eighth of the initial entropy under the defaults. On the countdown task FADE's runs ended at 0.30 of theirs,
plain GRPO's at 0.21."""

FALLING_ENTROPY = 0.5
"""Fast average over slow. Entropy that decays as exp(-l n) has 5 (0.02 - l) / (0.1 - l) there: l = 0.011, a half-life of 62
observations, gives 0.5."""

SIGN_IMBALANCE = 4.0
"""FADE's own floor, delta = 0.3, gives 3.3."""

STARVED_SIGNAL = 0.1

SETTLED_OBSERVATIONS = 10
"""One batch without signal is no starvation."""

UNMOVED_OBSERVATIONS = 200

MISSING_ENTROPY_OBSERVATIONS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """What is remembered of one environment.

    Attributes:
        fast_entropy_nats: Average over about the last 10 entropies, in nats per token; None before the first.
        slow_entropy_nats: Over about the last 50.
        entropy_baseline: The configuration's ``entropy_baseline`` that both belong to.
        missing_entropy_count: Observations in a row without entropy.
        signal_ratio: Average share of the groups with signal, filtered groups included; None before the first.
        alpha, delta: The newest schedule.
        unmoved_count: Observations in a row that left it as it was.
    """

    fast_entropy_nats: float | None = None
    slow_entropy_nats: float | None = None
    entropy_baseline: int = 0
    missing_entropy_count: int = 0
    signal_ratio: float | None = None
    alpha: float = 0.0
    delta: float = 0.0
    unmoved_count: int = 0


def watch(config: RunConfig, before: Mapping[str, Watch], answer: Answer) -> tuple[dict[str, Watch], list[Warning]]:
    """Looks at one more observation.

    Args:
        config: The run's configuration.
        before: What is remembered, by environment.
        answer: What the observation is answered with.

    Returns:
        What to remember, and the warnings, with the reasons of :data:`WATCHED`.
    """
    after = dict(before)
    warnings: list[Warning] = []
    for name, item in answer.environments.items():
        after[name] = _remember(config, before.get(name, Watch()), item)
        warnings += (Warning(reason=reason, message=text, subject=name) for reason, text in _look(config, after[name], item))
    return after, warnings


def _remember(config: RunConfig, before: Watch, item: EnvironmentAnswer) -> Watch:
    seen, schedule = item.diagnostics, item.schedule
    if before.entropy_baseline != config.entropy_baseline:
        before = replace(before, fast_entropy_nats=None, slow_entropy_nats=None, entropy_baseline=config.entropy_baseline)
    fast, slow, missing = before.fast_entropy_nats, before.slow_entropy_nats, before.missing_entropy_count + 1
    if seen.entropy_nats is not None:
        fast, slow, missing = _average(fast, seen.entropy_nats, FAST_WEIGHT), _average(slow, seen.entropy_nats, SLOW_WEIGHT), 0
    groups = seen.mixed_group_count + seen.all_solved_group_count + seen.all_failed_group_count + seen.singleton_group_count
    groups += seen.filtered_all_solved + seen.filtered_all_failed
    unmoved = (schedule.alpha, schedule.delta) == (before.alpha, before.delta)
    return Watch(
        fast_entropy_nats=fast,
        slow_entropy_nats=slow,
        entropy_baseline=before.entropy_baseline,
        missing_entropy_count=missing,
        signal_ratio=_average(before.signal_ratio, seen.effective_group_count / groups, FAST_WEIGHT)
        if groups
        else before.signal_ratio,
        alpha=schedule.alpha,
        delta=schedule.delta,
        unmoved_count=before.unmoved_count + 1 if unmoved else 0,
    )


def _look(config: RunConfig, now: Watch, item: EnvironmentAnswer) -> Iterator[tuple[str, str]]:
    """Reason and sentence of each warning."""
    seen, target = item.diagnostics, item.schedule.target_entropy_nats
    fast, slow = now.fast_entropy_nats, now.slow_entropy_nats
    follows_entropy = config.delta_rule in ("additive", "ratio") and config.mode != "pinned"
    if fast is not None and target is not None and fast < COLLAPSED_ENTROPY * target:
        yield (
            "ENTROPY_COLLAPSED",
            f"entropy is {fast:.3g} nats per token, under a quarter of its target of {target:.3g}: the policy hardly explores any"
            " more; lower the learning rate or delta_min, or go back to a checkpoint from before",
        )
    if fast is not None and slow is not None and fast < FALLING_ENTROPY * slow:
        yield (
            "ENTROPY_FALLING",
            f"entropy fell to {fast:.3g} nats per token, half of its average over the last 50 observations ({slow:.3g}), so it"
            " halves every 60 observations or faster; a lower learning rate slows it",
        )
    if seen.sign_ratio is not None and not 1 / SIGN_IMBALANCE <= seen.sign_ratio <= SIGN_IMBALANCE:
        heavier, lighter = ("successes", "failures") if seen.sign_ratio > 1 else ("failures", "successes")
        times = max(seen.sign_ratio, 1 / seen.sign_ratio)
        yield (
            "SIGN_IMBALANCE",
            f"{heavier} weigh {times:.3g} times as much as {lighter} (delta = {item.schedule.delta:.3g}); bring delta nearer to 1"
            " unless that is meant",
        )
    settled = item.state.observation_count >= SETTLED_OBSERVATIONS
    if settled and now.signal_ratio is not None and now.signal_ratio < STARVED_SIGNAL:
        solved = seen.all_solved_group_count + seen.filtered_all_solved
        failed = seen.all_failed_group_count + seen.filtered_all_failed
        cure = "harder prompts" if solved >= failed else "easier prompts, or more rollouts per prompt,"
        yield (
            "SIGNAL_STARVED",
            f"only {now.signal_ratio:.0%} of the last groups had any advantage ({solved} all solved, {failed} all failed this"
            f" time); {cure} would give the gradient something to learn from",
        )
    scheduled = config.mode != "pinned" and (config.alpha_rule == "solve_rate" or config.delta_rule in ("additive", "ratio"))
    if scheduled and now.unmoved_count >= UNMOVED_OBSERVATIONS:
        yield (
            "SCHEDULE_STUCK",
            f"alpha {now.alpha:.3g} and delta {now.delta:.3g} have not moved for {now.unmoved_count} observations: solve rate"
            f" {item.state.solve_rate:.3g} and entropy are beyond the bounds of alpha and delta, or the averages are held",
        )
    if follows_entropy and now.missing_entropy_count >= MISSING_ENTROPY_OBSERVATIONS:
        yield (
            "ENTROPY_MISSING",
            f"the last {now.missing_entropy_count} observations came without entropy, so delta stays at {now.delta:.3g}; report"
            " entropy=(sum_nats, token_count)",
        )


def _average(old: float | None, new: float, weight: float) -> float:
    return new if old is None else (1 - weight) * old + weight * new
