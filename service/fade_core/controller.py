"""The controller: one observation moves the averages of its environments once, and gives their schedules."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np

from fade_core.advantages import group_masses, subset_covers
from fade_core.config import RunConfig
from fade_core.errors import EntropyKindError, InvalidBatchError
from fade_core.rewards import Batch, Booleans, Entropy, EnvironmentReport, Floats, Groups, group_rows
from fade_core.schedule import Schedule, apply_schedules, schedule_of
from fade_core.state import ControllerState, EnvironmentState

Outcome = Literal["applied", "frozen"]
HoldReason = Literal["quorum", "prefiltered", "eval"]

LARGEST_ENTROPY_NATS = 1000.0
"""Per token; ln of any vocabulary is far below it, and averages of such values never overflow."""

_NO_REPORT = EnvironmentReport()


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Counts and masses of one environment in one observation.

    Attributes:
        rollout_count, scored_count, missing_count, stale_count: Rollouts, fan-out rows once, no padding.
        padding_count, clamped_count: Rows.
        mixed_group_count, all_solved_group_count, all_failed_group_count: Groups of two or more scored rollouts.
        singleton_group_count: Groups with fewer than two scored rollouts.
        zero_variance_group_count: Groups of two or more scored rollouts with all rewards equal.
        effective_group_count: Groups with a non-zero advantage.
        plug_in_group_count: Groups too small for the subset estimator, under ``estimator = subset``.
        filtered_all_solved, filtered_all_failed: Groups that the trainer dropped before the report.
        coverage: scored / rollouts; 1 where there are none.
        solve_rate: p_step; None where no group has a solve rate.
        entropy_nats: h_step, nats per token; None where none came.
        mass_success, mass_failure: Mean over scored rollouts of the positive and of the negative part of A, as scheduled.
        mass_vs_grpo: sum |A| / sum |r - rbar| on this batch; None where the latter is 0.
        sign_ratio: mass_success / mass_failure; None where there is no mass.
        difficulty_centre: Mean of the groups' solve rates, weighted by their mass; None where there is none.
    """

    rollout_count: int
    scored_count: int
    missing_count: int
    stale_count: int
    padding_count: int
    clamped_count: int
    mixed_group_count: int
    all_solved_group_count: int
    all_failed_group_count: int
    singleton_group_count: int
    zero_variance_group_count: int
    effective_group_count: int
    plug_in_group_count: int
    filtered_all_solved: int
    filtered_all_failed: int
    coverage: float
    solve_rate: float | None
    entropy_nats: float | None
    mass_success: float
    mass_failure: float
    mass_vs_grpo: float | None
    sign_ratio: float | None
    difficulty_centre: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """Something that a person should look at; never an error.

    Attributes:
        reason: UPPER_SNAKE, from a closed set.
        message: One sentence.
        subject: The environment or field that it is about; empty means all.
    """

    reason: str
    message: str
    subject: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentAnswer:
    """The answer for one environment: its schedule, its averages after the observation, and what was seen."""

    schedule: Schedule
    state: EnvironmentState
    outcome: Outcome
    hold_reasons: tuple[HoldReason, ...]
    diagnostics: Diagnostics


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Answer:
    """What one observation is answered with.

    Attributes:
        environments: One answer per environment that the observation has, in the order of their names.
        groups: The validated rows.
        group_environments: The environment of each group.
        outcome: ``frozen`` if any environment's averages were held.
        degraded: Any environment's coverage was under the quorum.
        warnings: What the caller should look at.
    """

    environments: Mapping[str, EnvironmentAnswer]
    groups: Groups
    group_environments: tuple[str, ...]
    outcome: Outcome
    degraded: bool
    warnings: tuple[Warning, ...]

    def advantages(self) -> Floats:
        """float64 (N,), in request order, under the schedules as applied."""
        schedules = {name: item.schedule for name, item in self.environments.items()}
        for name in set(self.group_environments) - schedules.keys():  # groups of padding only
            schedules[name] = Schedule()
        return apply_schedules(self.groups, self.group_environments, schedules)


def observe(
    config: RunConfig, state: ControllerState, batch: Batch, *, evaluation: bool = False
) -> tuple[ControllerState, Answer]:
    """Moves the averages of each environment in the batch once and schedules this same batch. Pure.

    Args:
        config: The run's configuration.
        state: The state before.
        batch: The report.
        evaluation: Answer from the averages as they are and move nothing.

    Returns:
        The state after, bit-equal for the same rows in any order and on any machine, and the answer.

    Raises:
        InvalidBatchError: A value is wrong, by field and row; also a batch in which nothing counts.
        EntropyKindError: Entropy of another kind than the average is made of.
    """
    _check_reports(config, batch)
    groups = group_rows(config, batch)
    members = _members(batch, groups)
    if not members:
        problem = (
            "no row counts and no filtered groups are reported; report rollouts, or filtered_all_solved and filtered_all_failed"
        )
        raise InvalidBatchError("rewards", problem)

    moved = dict(state.environments)
    seen: dict[str, _Seen] = {}
    for name, inside in members.items():
        report = batch.reports.get(name, _NO_REPORT)
        seen[name] = _look(config, groups, inside, report, batch.entropy if report.entropy is None else report.entropy)
        before = state.environments.get(name, EnvironmentState())
        holds = ("eval",) if evaluation else seen[name].holds
        step = seen[name]
        moved[name] = move_averages(config, name, before, step.solve_rate, step.entropy_nats, step.entropy_kind, holds)
    unscaled = {name: schedule_of(config, moved[name]) for name in members}
    schedules, masses = _scale(config, groups, unscaled, members)

    answers: dict[str, EnvironmentAnswer] = {}
    warnings: list[Warning] = []
    for name, inside in members.items():
        holds = ("eval",) if evaluation else seen[name].holds
        diagnostics = _diagnose(
            config, groups, inside, batch.reports.get(name, _NO_REPORT), seen[name], schedules[name], masses[name]
        )
        answers[name] = EnvironmentAnswer(
            schedule=schedules[name],
            state=moved[name],
            outcome="frozen" if holds else "applied",
            hold_reasons=holds,
            diagnostics=diagnostics,
        )
        warnings += _warn(config, name, groups, inside, diagnostics)
    answer = Answer(
        environments=answers,
        groups=groups,
        group_environments=batch.environments,
        outcome="frozen" if any(item.hold_reasons for item in answers.values()) else "applied",
        degraded=any(item.diagnostics.coverage < config.quorum for item in answers.values()),
        warnings=tuple(warnings),
    )
    return (state if evaluation else ControllerState(moved)), answer


class _Totals(NamedTuple):
    """Counts over one environment's groups, as in :class:`Diagnostics`."""

    rollouts: int
    scored: int
    missing: int
    stale: int
    padding: int
    clamped: int


class _Masses(NamedTuple):
    """Sums over one environment's rollouts: of A where it is positive, of -A where it is negative, of |r - rbar|.

    ``centre`` is the mass's mean solve rate. ``groups`` counts the groups with a non-zero advantage: subset finds none where no
    more than alpha - 1 rollouts failed.
    """

    success: float
    failure: float
    plain: float
    centre: float
    groups: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """One environment's step values: p_step, h_step with its kind, counts, coverage, and what they hold."""

    solve_rate: float | None
    entropy_nats: float | None
    entropy_kind: str
    totals: _Totals
    coverage: float
    holds: tuple[HoldReason, ...]


def _check_reports(config: RunConfig, batch: Batch) -> None:
    _check_entropy(config, "entropy", batch.entropy)
    for name, report in batch.reports.items():
        for count in ("filtered_all_solved", "filtered_all_failed"):
            if getattr(report, count) < 0:
                raise InvalidBatchError(
                    f"environments[{name}].{count}", f"is {getattr(report, count)}; give a count of 0 or more"
                )
        _check_entropy(config, f"environments[{name}].entropy", report.entropy)


def _check_entropy(config: RunConfig, field: str, entropy: Entropy | None) -> None:
    if entropy is None:
        return
    if entropy.token_count < 0:
        raise InvalidBatchError(f"{field}.token_count", f"is {entropy.token_count}; give a count of 0 or more")
    if entropy.token_count == 0:
        return  # nothing was measured, whatever the sum says
    if not (0 <= entropy.sum_nats < math.inf):
        raise InvalidBatchError(f"{field}.sum_nats", f"is {entropy.sum_nats}; give a finite sum in nats, 0 or more")
    mean = entropy.sum_nats / entropy.token_count
    if mean > LARGEST_ENTROPY_NATS:
        problem = f"gives {mean} nats per token, which no policy has; give a sum over tokens in nats with their count"
        raise InvalidBatchError(f"{field}.sum_nats", problem)
    if config.vocabulary_size is not None and mean > math.log(config.vocabulary_size) * (1 + 1e-6):
        most = math.log(config.vocabulary_size)
        problem = (
            f"gives {mean} nats per token, above ln({config.vocabulary_size}) = {most}; give nats, summed over the counted tokens"
        )
        raise InvalidBatchError(f"{field}.sum_nats", problem)


def _members(batch: Batch, groups: Groups) -> dict[str, Booleans | None]:
    """The environments in the order of their names, with bool (M,) of their groups that count; None means all groups."""
    live = groups.rollout_count > 0
    names = {name for name in batch.reports if _has_content(batch.reports[name])}
    if len(set(batch.environments)) == 1 and live.all() and names <= set(batch.environments):
        return {batch.environments[0]: None}
    of_group = np.array(batch.environments, dtype=object)
    names |= {name for name, counts in zip(batch.environments, live, strict=True) if counts}
    return {name: (of_group == name) & live for name in sorted(names)}


def _has_content(report: EnvironmentReport) -> bool:
    return bool(report.filtered_all_solved or report.filtered_all_failed)


def _totals(groups: Groups, inside: Booleans | None) -> _Totals:
    per_group = np.array(
        (
            groups.rollout_count,
            groups.scored_count,
            groups.missing_count,
            groups.stale_count,
            groups.padding_count,
            groups.clamped_count,
        )
    )
    return _Totals(*np.add.reduce(per_group if inside is None else per_group[:, inside], axis=1).tolist())


def _look(
    config: RunConfig, groups: Groups, inside: Booleans | None, report: EnvironmentReport, entropy: Entropy | None
) -> _Seen:
    scored = groups.scored_count - groups.stale_count
    rated = scored > 0 if inside is None else inside & (scored > 0)
    rates = (groups.solved_count - groups.stale_solved_count)[rated] / scored[rated]
    filtered = report.filtered_all_solved + report.filtered_all_failed
    count = len(rates) + filtered
    solve_rate = (math.fsum(rates.tolist()) + report.filtered_all_solved) / count if count else None
    totals = _totals(groups, inside)
    coverage = totals.scored / totals.rollouts if totals.rollouts else 1.0
    measured = entropy is not None and entropy.token_count > 0
    holds: tuple[HoldReason, ...] = ("quorum",) if coverage < config.quorum else ()
    if report.prefiltered:
        holds += ("prefiltered",)
    return _Seen(
        solve_rate,
        entropy.sum_nats / entropy.token_count if entropy is not None and measured else None,
        entropy.kind if entropy is not None else "",
        totals,
        coverage,
        holds,
    )


def move_averages(
    config: RunConfig,
    name: str,
    before: EnvironmentState,
    solve_rate: float | None,
    entropy_nats: float | None,
    entropy_kind: str,
    holds: tuple[HoldReason, ...],
) -> EnvironmentState:
    """The averages of an environment after one observation (FADE.md, section 3).

    Args:
        config: The run's configuration.
        name: The environment.
        before: Its averages before.
        solve_rate: p_step; None where there is none.
        entropy_nats: h_step, in nats per token; None where there is none.
        entropy_kind: How that was measured.
        holds: Why averages are held.

    Raises:
        EntropyKindError: Entropy of another kind than the average is made of.
    """
    if "eval" in holds:
        return before
    moved: dict[str, Any] = {"observation_count": before.observation_count + 1}
    fresh = before.entropy_kind is None or before.entropy_baseline != config.entropy_baseline
    if entropy_nats is not None and not fresh and before.entropy_kind != entropy_kind:
        raise EntropyKindError(name, str(before.entropy_kind), entropy_kind)
    if "quorum" not in holds:
        if solve_rate is not None and "prefiltered" not in holds:
            moved["solve_rate"] = _average(config, before.solve_rate, solve_rate)
        if entropy_nats is not None:
            moved |= _moved_entropy(config, EnvironmentState() if fresh else before, entropy_nats)
            moved |= {"entropy_kind": entropy_kind, "entropy_baseline": config.entropy_baseline}
    return replace(before, **moved)


def _moved_entropy(config: RunConfig, before: EnvironmentState, entropy_nats: float) -> dict[str, Any]:
    """The entropy's average, initial value and warm-up after one more value."""
    if before.entropy_nats is not None:
        return {"entropy_nats": _average(config, before.entropy_nats, entropy_nats)}
    warmup = (*before.warmup_entropy_nats, entropy_nats)
    if len(warmup) < config.entropy_warmup:
        return {"entropy_nats": None, "initial_entropy_nats": None, "warmup_entropy_nats": warmup}
    initial = math.fsum(warmup) / len(warmup)
    return {"entropy_nats": initial, "initial_entropy_nats": initial, "warmup_entropy_nats": ()}


def _average(config: RunConfig, old: float, new: float) -> float:
    return (1 - config.ema_weight) * old + config.ema_weight * new


def _scale(
    config: RunConfig, groups: Groups, schedules: Mapping[str, Schedule], members: Mapping[str, Booleans | None]
) -> tuple[Mapping[str, Schedule], dict[str, _Masses]]:
    """The schedules with their scale, and the masses of each environment under them."""
    masses: dict[str, _Masses] = {}
    spread = groups.spread * groups.has_signal
    rates = groups.solved_count / np.maximum(groups.scored_count, 1)
    for name, inside in members.items():
        schedule = schedules[name]
        own = group_masses(groups, schedule.alpha, schedule.estimator, schedule.likelihood)
        if inside is not None:
            own = own * inside
        success = float(np.add.reduce(own))
        plain = 2 * float(np.add.reduce(spread if inside is None else spread[inside]))
        centre = float(np.add.reduce(own * rates)) / success if success > 0 else math.nan
        masses[name] = _Masses(success, success / schedule.delta, plain, centre, int(np.count_nonzero(own)))
    if config.scale != "match_grpo":
        return schedules, masses
    total = math.fsum(item.success + item.failure for item in masses.values())
    factor = math.fsum(item.plain for item in masses.values()) / total if total > 0 else 1.0
    if factor == math.inf:  # the masses of a huge alpha underflow
        factor = 1.0
    return (
        {name: replace(schedule, scale=factor) for name, schedule in schedules.items()},
        {name: item._replace(success=factor * item.success, failure=factor * item.failure) for name, item in masses.items()},
    )


def _diagnose(
    config: RunConfig,
    groups: Groups,
    inside: Booleans | None,
    report: EnvironmentReport,
    seen: _Seen,
    schedule: Schedule,
    masses: _Masses,
) -> Diagnostics:
    def count(mask: Booleans) -> int:
        return int(np.count_nonzero(mask if inside is None else mask & inside))

    enough = groups.scored_count >= 2
    group_count = len(enough) if inside is None else count(inside)
    enough_count = count(enough)
    all_solved_count = count(enough & (groups.solved_count == groups.scored_count))
    all_failed_count = count(enough & (groups.solved_count == 0))
    success, failure, plain, centre, effective = masses
    totals = seen.totals
    plug_in = 0
    if config.estimator == "subset":
        plug_in = count(~subset_covers(groups, schedule.alpha) & groups.has_signal)
    return Diagnostics(
        rollout_count=totals.rollouts,
        scored_count=totals.scored,
        missing_count=totals.missing,
        stale_count=totals.stale,
        padding_count=totals.padding,
        clamped_count=totals.clamped,
        mixed_group_count=enough_count - all_solved_count - all_failed_count,
        all_solved_group_count=all_solved_count,
        all_failed_group_count=all_failed_count,
        singleton_group_count=group_count - enough_count,
        zero_variance_group_count=count(groups.zero_variance),
        effective_group_count=effective,
        plug_in_group_count=plug_in,
        filtered_all_solved=report.filtered_all_solved,
        filtered_all_failed=report.filtered_all_failed,
        coverage=seen.coverage,
        solve_rate=seen.solve_rate,
        entropy_nats=seen.entropy_nats,
        mass_success=success / totals.scored if totals.scored else 0.0,
        mass_failure=failure / totals.scored if totals.scored else 0.0,
        mass_vs_grpo=(success + failure) / plain if plain > 0 else None,
        sign_ratio=success / failure if failure > 0 else None,
        difficulty_centre=centre if success > 0 else None,
    )


def _warn(config: RunConfig, name: str, groups: Groups, inside: Booleans | None, seen: Diagnostics) -> list[Warning]:
    warnings: list[Warning] = []
    total = seen.mixed_group_count + seen.all_solved_group_count + seen.all_failed_group_count + seen.singleton_group_count
    if seen.singleton_group_count:
        message = (
            f"{seen.singleton_group_count}/{total} groups have fewer than two scored rollouts and get zero advantages;"
            " check that rows of one prompt share a group"
        )
        warnings.append(Warning(reason="SINGLETON_GROUPS", message=message, subject=name))
    if seen.coverage < config.quorum:
        message = (
            f"only {seen.scored_count} of {seen.rollout_count} rollouts were scored, under the quorum of {config.quorum};"
            " averages held"
        )
        warnings.append(Warning(reason="LOW_COVERAGE", message=message, subject=name))
    if config.group_size is not None:
        sizes = groups.rollout_count if inside is None else groups.rollout_count[inside]
        partial = int(np.count_nonzero(sizes != config.group_size))
        if partial:
            message = (
                f"{partial}/{len(sizes)} groups have other than {config.group_size} rollouts;"
                " gather the rows of all ranks before reporting"
            )
            warnings.append(Warning(reason="PARTIAL_GROUPS", message=message, subject=name))
    if seen.plug_in_group_count:
        message = f"{seen.plug_in_group_count}/{total} groups have no more than alpha scored rollouts and took the plug-in factor"
        warnings.append(Warning(reason="PLUG_IN_GROUPS", message=message, subject=name))
    return warnings
