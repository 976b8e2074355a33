"""From reported rows to groups: validation, mapping to [0, 1], row statuses, fan-out (FADE.md, section 4)."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from fade_core.config import RunConfig
from fade_core.errors import InvalidBatchError
from fade_core.exact import group_sums

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

CLAMP_TOLERANCE = 1e-6
"""Rewards up to this fraction of the range's width outside it are clamped: ten float32 tenths sum to 1.0000001."""

DEFAULT_ENVIRONMENT = "default"


class RowStatus(enum.IntEnum):
    """What a row is; the numbers are the contract's."""

    SCORED = 1
    TRUNCATED = 2
    MISSING = 3
    ERROR = 4
    PADDING = 5
    STALE = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Entropy:
    """Token entropy as a sum, so that pieces add up.

    Attributes:
        sum_nats: Sum over tokens, in nats.
        token_count: Tokens summed over; 0 means that none was measured.
        kind: How it was measured; averages never mix kinds.
    """

    sum_nats: float
    token_count: int
    kind: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentReport:
    """What a batch reports of one environment beside its rows.

    Attributes:
        filtered_all_solved: Groups dropped before the report because all their rollouts solved.
        filtered_all_failed: Groups dropped before the report because all their rollouts failed.
        prefiltered: Groups were dropped by their rewards and not counted.
        entropy: This environment's entropy; None takes the batch's.
    """

    filtered_all_solved: int = 0
    filtered_all_failed: int = 0
    prefiltered: bool = False
    entropy: Entropy | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Batch:
    """One generation batch as reported: N rows, M groups. A column is None or has one entry per row.

    Attributes:
        rewards: float64 (N,), on the declared scale; NaN is missing.
        group_index: int (N,), into ``environments``.
        environments: M environment names, one per group.
        rollout_index: int (N,); rows with the same index are one rollout and count once.
        statuses: int (N,), values of :class:`RowStatus`; 0 is SCORED.
        solved: bool (N,); wins over the threshold.
        policy_versions: int (N,), the policy version that generated the row.
        current_policy_version: The version that this batch will update; needed with ``policy_versions``.
        reports: What else is reported, by environment.
        entropy: The batch's entropy, for each environment without its own.
    """

    rewards: Floats
    group_index: npt.NDArray[np.signedinteger]
    environments: tuple[str, ...]
    rollout_index: Integers | None = None
    statuses: npt.NDArray[np.signedinteger] | None = None
    solved: Booleans | None = None
    policy_versions: Integers | None = None
    current_policy_version: int | None = None
    reports: Mapping[str, EnvironmentReport] = field(default_factory=dict)
    entropy: Entropy | None = None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Groups:
    """A validated batch: N rows on the mapped scale, M groups.

    Attributes:
        row_group: intp (N,).
        rewards: float64 (N,), mapped to [0, 1]; 0 where the row has none.
        scored: bool (N,): the row has a reward, so it is in its group's baseline and gets an advantage.
        once: bool (N,) or None: the row stands for its rollout; None means that every row does.
        solved: bool (N,): scored and solved, by flag or threshold.
        flagged: Whether ``solved`` came from flags.
        scored_count, solved_count: int64 (M,): scored and solved rollouts.
        stale_count, stale_solved_count: int64 (M,): those of them that are too stale for the averages.
        rollout_count, missing_count: int64 (M,): rollouts without padding; those of them without a reward.
        padding_count, clamped_count: int64 (M,): rows.
        mean: float64 (M,): the baseline rbar; 0 where nothing was scored.
        spread: float64 (M,): sum of r - rbar over the rollouts above rbar, which is that of rbar - r over the others.
        zero_variance: bool (M,): two or more scored rollouts, all of one reward.
        has_signal: bool (M,): its advantages are not exactly zero by rule (FADE.md, section 2).
    """

    row_group: npt.NDArray[np.intp]
    rewards: Floats
    scored: Booleans
    once: Booleans | None
    solved: Booleans
    flagged: bool
    scored_count: Integers
    solved_count: Integers
    stale_count: Integers
    stale_solved_count: Integers
    rollout_count: Integers
    missing_count: Integers
    padding_count: Integers
    clamped_count: Integers
    mean: Floats
    spread: Floats
    zero_variance: Booleans
    has_signal: Booleans

    @property
    def difficulty(self) -> Floats:
        """float64 (M,): the solve rate where flags are carried, else the mapped mean (FADE.md, section 4)."""
        if not self.flagged:
            return self.mean
        return self.solved_count / np.maximum(self.scored_count, 1)


def group_rows(config: RunConfig, batch: Batch) -> Groups:
    """Validates a batch and gathers its rows into groups; any order of the rows gives the same groups.

    Raises:
        InvalidBatchError: A column has another length, an index lies outside its table, a reward is infinite or out of the
            declared range (or NaN under ``strict_rewards``), or rows of one rollout disagree. Names field and row.
    """
    n, m = len(batch.rewards), len(batch.environments)
    _check_lengths(batch, n)
    row_group = _row_groups(batch, m)
    statuses = _statuses(batch, n)
    scored, padding, stale = _classify(config, batch, statuses)
    won = _won(config, batch) if statuses is None else None
    rewards, clamped = _map_rewards(config, batch.rewards, scored) if won is None else (won.astype(np.float64), None)
    solved = _solved(config, batch, scored) if won is None else won
    once = None
    if batch.rollout_index is not None:
        once, stale = _one_row_per_rollout(batch.rollout_index, ~padding if padding is not None else np.ones(n, bool), {
            "rewards": np.where(scored, rewards, -1.0), "group_index": row_group, "solved": solved
        }, stale)  # fmt: skip

    counts = scored if once is None else scored & once
    index, values = (row_group, rewards) if _all(counts) else (row_group[counts], rewards[counts])

    def per_group(mask: Booleans | None) -> Integers:
        if mask is None:
            return np.zeros(m, np.int64)
        return np.bincount(row_group[mask], minlength=m)

    def rollouts(mask: Booleans | None) -> Integers:
        return per_group(mask if mask is None or once is None else mask & once)

    scored_count = np.bincount(index, minlength=m)
    solved_count = rollouts(solved)
    if won is None:
        mean, spread, varied = _baseline(values, index, scored_count)
    else:
        mean, varied = solved_count / np.maximum(scored_count, 1), (solved_count > 0) & (solved_count < scored_count)
        spread = solved_count * (1 - mean)
    enough = scored_count >= 2
    has_signal = enough & varied
    flagged = batch.solved is not None
    if flagged:
        has_signal &= (solved_count > 0) & (solved_count < scored_count)
    unscored = None if _all(scored) else (~scored if padding is None else ~scored & ~padding)
    missing_count = rollouts(unscored)
    return Groups(
        row_group=row_group,
        rewards=rewards,
        scored=scored,
        once=once,
        solved=solved,
        flagged=flagged,
        scored_count=scored_count,
        solved_count=solved_count,
        stale_count=rollouts(stale),
        stale_solved_count=rollouts(None if stale is None else stale & solved),
        rollout_count=scored_count + missing_count,
        missing_count=missing_count,
        padding_count=per_group(padding),
        clamped_count=per_group(clamped),
        mean=mean,
        spread=spread,
        zero_variance=enough & ~varied,
        has_signal=has_signal,
    )


def _check_lengths(batch: Batch, n: int) -> None:
    columns = {
        "group_index": batch.group_index,
        "rollout_index": batch.rollout_index,
        "statuses": batch.statuses,
        "solved": batch.solved,
        "policy_versions": batch.policy_versions,
    }
    for name, column in columns.items():
        if column is not None and len(column) != n:
            raise InvalidBatchError(name, f"has {len(column)} entries for {n} rewards; give one per row")
    if batch.policy_versions is not None and batch.current_policy_version is None:
        raise InvalidBatchError(
            "current_policy_version", "is needed with policy_versions; give the version that this batch will update"
        )


def _won(config: RunConfig, batch: Batch) -> Booleans | None:
    """Which rewards are the largest, where each is the largest or the smallest and nothing else decides what is solved.

    With such rewards, the common case, counts are all there is to a group, and the same bits come out of a third of the work.
    """
    if batch.solved is not None:
        return None
    won: Booleans = batch.rewards == config.reward_max
    lost = batch.rewards == config.reward_min
    return won if np.count_nonzero(won) + np.count_nonzero(lost) == len(won) else None


def _baseline(values: Floats, index: npt.NDArray[np.intp], counts: Integers) -> tuple[Floats, Floats, Booleans]:
    """Per group the mean of the values (0 where it has none), their spread, and whether they differ at all."""
    mean = group_sums(values, index, len(counts)) / np.maximum(counts, 1)
    spread = np.bincount(index, np.maximum(values - mean[index], 0.0), len(counts)).astype(np.float64, copy=False)
    some_value = np.zeros(len(counts))
    some_value[index] = values
    varied = np.zeros(len(counts), bool)
    varied[index[values != some_value[index]]] = True
    return mean, spread, varied


def _row_groups(batch: Batch, m: int) -> npt.NDArray[np.intp]:
    index = batch.group_index
    if len(index) and (index.min() < 0 or index.max() >= m):
        row = _first((index < 0) | (index >= m))
        raise InvalidBatchError("group_index", f"is {index[row]}, outside the table of {m} groups", row=row)
    return index.astype(np.intp)


def _statuses(batch: Batch, n: int) -> npt.NDArray[np.signedinteger] | None:
    statuses = batch.statuses
    if statuses is None or not n:
        return None
    wrong = (statuses < 0) | (statuses > max(RowStatus))
    if wrong.any():
        row = _first(wrong)
        raise InvalidBatchError("statuses", f"is {statuses[row]}, which is no row status", row=row)
    return statuses


def _classify(
    config: RunConfig, batch: Batch, statuses: npt.NDArray[np.signedinteger] | None
) -> tuple[Booleans, Booleans | None, Booleans | None]:
    """Which rows are scored, padding and stale (the last two None where there are none)."""
    scored, padding, stale = batch.rewards == batch.rewards, None, None  # all but NaN
    if statuses is not None:
        padding = statuses == RowStatus.PADDING
        without_reward = padding | (statuses == RowStatus.MISSING) | (statuses == RowStatus.ERROR)
        stale = statuses == RowStatus.STALE
    else:
        without_reward = None
    if config.strict_rewards and not _all(scored):
        unexplained = ~scored if without_reward is None else ~scored & ~without_reward
        if unexplained.any():
            problem = "is NaN, and the run has strict_rewards; give a reward, or the status MISSING"
            raise InvalidBatchError("rewards", problem, row=_first(unexplained))
    if without_reward is not None:
        scored &= ~without_reward
    if batch.policy_versions is not None and config.max_policy_lag is not None:
        assert batch.current_policy_version is not None  # _check_lengths
        old = batch.policy_versions < batch.current_policy_version - config.max_policy_lag
        stale = old if stale is None else stale | old
    return scored, padding, None if stale is None else stale & scored


def _map_rewards(config: RunConfig, rewards: Floats, scored: Booleans) -> tuple[Floats, Booleans | None]:
    """Rewards on [0, 1], 0 where not scored, and which rows were clamped (None: none)."""
    with np.errstate(over="ignore"):  # far outside the range, refused below
        mapped = (rewards - config.reward_min) / (config.reward_max - config.reward_min)
    if not _all(scored):
        mapped = np.where(scored, mapped, 0.0)
    if not len(mapped) or (mapped.min() >= 0 and mapped.max() <= 1):
        return mapped, None
    far = (mapped < -CLAMP_TOLERANCE) | (mapped > 1 + CLAMP_TOLERANCE)
    if far.any():
        row = _first(far)
        value = float(rewards[row])
        if np.isinf(value):
            raise InvalidBatchError("rewards", f"is {value}; give a finite reward, or the status MISSING", row=row)
        problem = f"is {value!r}, outside the declared range [{config.reward_min}, {config.reward_max}]"
        raise InvalidBatchError(
            "rewards", f"{problem}; declare reward_min and reward_max so that they hold every reward", row=row
        )
    return np.clip(mapped, 0.0, 1.0), (mapped < 0) | (mapped > 1)


def _solved(config: RunConfig, batch: Batch, scored: Booleans) -> Booleans:
    if batch.solved is not None:
        return batch.solved & scored
    solved: Booleans = batch.rewards >= config.threshold  # as declared: mapping could round a reward up to the threshold
    return solved & scored


def _one_row_per_rollout(
    rollouts: Integers, counted: Booleans, columns: Mapping[str, npt.NDArray[np.generic]], stale: Booleans | None
) -> tuple[Booleans, Booleans | None]:
    """The first row of each rollout, and staleness spread over each rollout's rows (one stale row makes it stale)."""
    rows = np.flatnonzero(counted)
    _, first, inverse = np.unique(rollouts[rows], return_index=True, return_inverse=True)
    for name, column in columns.items():
        own, of_first = column[rows], column[rows[first]][inverse]
        if (own != of_first).any():
            place = _first(own != of_first)
            problem = f"differs from row {rows[first[inverse[place]]]} of the same rollout {rollouts[rows[place]]}"
            raise InvalidBatchError(
                name, f"{problem}; rows of one rollout share reward, group and solved flag", row=int(rows[place])
            )
    once = np.zeros(len(rollouts), bool)
    once[rows[first]] = True
    if stale is not None:
        any_stale = np.bincount(inverse, stale[rows], len(first)) > 0
        stale = stale.copy()
        stale[rows] = any_stale[inverse]
    return once, stale


def _all(mask: Booleans) -> bool:
    """A tenth of the time of ``mask.all()`` on a few hundred rows."""
    return bool(np.count_nonzero(mask) == len(mask))


def _first(mask: Booleans) -> int:
    return int(np.argmax(mask))
