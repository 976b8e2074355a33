"""From what a trainer holds (numpy, torch, lists; any labels) to the columns of a batch. No Python loop over rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fade_client import arrays
from fade_client.arrays import Column
from fade_core import DEFAULT_ENVIRONMENT, Batch, Entropy, EnvironmentReport, InvalidBatchError, RunConfig

Environments: TypeAlias = Mapping[Any, str]
"""The environment of each group, by the group's label."""

EntropyLike: TypeAlias = "Entropy | tuple[Any, Any]"
"""Token entropy as a sum in nats with its token count."""

LABEL_LENGTH = 80
"""Group labels go to the service for messages to people only; longer ones (whole prompts) are cut to this many characters."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Grouping:
    """Which group each row is in.

    Attributes:
        labels: The distinct labels, in the order of the group table.
        index: int32 (N,), into ``labels``.
        given: A copy of the list or array that it was read from; None for other sequences.
    """

    labels: Sequence[Hashable]
    index: npt.NDArray[np.int32]
    given: list[Any] | npt.NDArray[Any] | None


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Report:
    """A batch and how its rows were grouped."""

    batch: Batch
    grouping: Grouping

    def label_texts(self) -> list[str]:
        """The groups' labels as they go to the service."""
        return [str(label)[:LABEL_LENGTH].encode("utf-8", "replace").decode() for label in self.grouping.labels]


def report(
    *,
    rewards: Column,
    groups: Column,
    entropy: EntropyLike | Mapping[str, EntropyLike] | None = None,
    environments: Environments | None = None,
    rollouts: Column | None = None,
    statuses: Column | None = None,
    solved: Column | None = None,
    policy_versions: Column | None = None,
    current_policy_version: int | None = None,
    filtered_all_solved: int | Mapping[str, int] = 0,
    filtered_all_failed: int | Mapping[str, int] = 0,
    prefiltered: bool = False,
    default_environment: str = DEFAULT_ENVIRONMENT,
    known: Grouping | None = None,
    config: RunConfig | None = None,
) -> Report:
    """The report of one generation batch; the arguments are those of :meth:`FadeClient.observe`.

    ``known`` is taken where ``groups`` equals what it was read from: comparing 65,536 strings is 100 times faster than hashing.
    ``config`` is the run's as far as it is known, for :func:`fade_client.arrays.rewards`.

    Raises:
        InvalidBatchError: A column cannot be read as what it should hold, or a group has no environment; names the field.
    """
    values = arrays.rewards(rewards, config)
    grouping = _group(groups, known)
    if len(grouping.index) != len(values):
        problem = f"has {len(grouping.index)} entries for {len(values)} rewards; give one label per row"
        raise InvalidBatchError("groups", problem)
    names = _environments_of(grouping.labels, environments, default_environment)
    own_entropy = entropy if isinstance(entropy, Mapping) else {}
    batch_entropy = None if isinstance(entropy, Mapping) else _entropy("entropy", entropy)
    inside = dict.fromkeys(names) or {default_environment: None}
    solved_counts = _counts("filtered_all_solved", filtered_all_solved, inside)
    failed_counts = _counts("filtered_all_failed", filtered_all_failed, inside)
    reported = [*solved_counts, *failed_counts, *own_entropy, *(inside if prefiltered else ())]
    reports = {
        name: EnvironmentReport(
            filtered_all_solved=solved_counts.get(name, 0),
            filtered_all_failed=failed_counts.get(name, 0),
            prefiltered=prefiltered,
            entropy=_entropy(f"environments[{name}].entropy", own_entropy.get(name)),
        )
        for name in dict.fromkeys(reported)
    }
    batch = Batch(
        rewards=values,
        group_index=grouping.index,
        environments=names,
        rollout_index=None if rollouts is None else _rollout_index(rollouts),
        statuses=None if statuses is None else arrays.integers("statuses", statuses, np.int32),
        solved=None if solved is None else arrays.flags("solved", solved),
        policy_versions=None if policy_versions is None else arrays.integers("policy_versions", policy_versions, np.int64),
        current_policy_version=(
            None if current_policy_version is None else arrays.whole("current_policy_version", current_policy_version)
        ),
        reports=reports,
        entropy=batch_entropy,
    )
    return Report(batch=batch, grouping=grouping)


def _group(groups: Column, known: Grouping | None) -> Grouping:
    values = arrays.plain("groups", groups)
    if known is not None and _same(values, known.given):
        return known
    labels, index = _distinct("groups", values)
    given = values.copy() if isinstance(values, (list, np.ndarray)) else None
    return Grouping(labels=labels, index=index.astype(np.int32, copy=False), given=given)


def _same(values: Any, given: Any) -> bool:
    if isinstance(values, np.ndarray) and isinstance(given, np.ndarray):
        return values.shape == given.shape and bool((values == given).all())
    return isinstance(values, list) and isinstance(given, list) and values == given


def _rollout_index(rollouts: Column) -> npt.NDArray[np.int64]:
    return _distinct("rollouts", arrays.plain("rollouts", rollouts))[1].astype(np.int64, copy=False)


def _distinct(name: str, values: Any) -> tuple[list[Hashable], npt.NDArray[Any]]:
    """The distinct labels, and integers (N,) into them."""
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InvalidBatchError(name, f"has shape {values.shape}; give one label per row, shape (N,)")
        if values.dtype.kind in "iu":
            return _distinct_integers(values)
        values = values.tolist()
    places: defaultdict[Hashable, int] = defaultdict(count().__next__)  # numbers labels as it meets them
    try:
        index = np.fromiter(map(places.__getitem__, values), np.int32, len(values))
    except TypeError as error:
        raise InvalidBatchError(name, f"cannot be read as one hashable label per row: {error}") from error
    return list(places), index


def _distinct_integers(values: npt.NDArray[np.integer[Any]]) -> tuple[list[Hashable], npt.NDArray[np.integer[Any]]]:
    """As :func:`_distinct`, in ascending order; a table instead of a sort where the labels lie close together."""
    if not len(values):
        return [], np.zeros(0, np.int32)
    low, high = int(values.min()), int(values.max())
    if high - low > 4 * len(values) + 1024:
        distinct, index = np.unique(values, return_inverse=True)
        return [*distinct.tolist()], index
    wide = values if values.dtype.itemsize == 8 else values.astype(np.int64)  # int8 labels would overflow
    shifted = (wide - wide.dtype.type(low)).astype(np.intp, copy=False)
    present = np.zeros(high - low + 1, np.bool_)
    present[shifted] = True
    numbers = np.cumsum(present, dtype=np.int32) - np.int32(1)
    return [low + place for place in np.flatnonzero(present).tolist()], numbers[shifted]


def _environments_of(labels: Sequence[Hashable], environments: Environments | None, default: str) -> tuple[str, ...]:
    if environments is None:
        return (default,) * len(labels)
    if not isinstance(environments, Mapping):
        problem = f"is a {type(environments).__name__}; give a mapping from group label to environment"
        raise InvalidBatchError("environments", problem)
    try:
        return tuple([environments[label] for label in labels])
    except KeyError as error:
        raise InvalidBatchError("environments", f"has no entry for group {error.args[0]!r}; name every group's") from error


def _counts(name: str, counts: int | Mapping[str, int], inside: Mapping[str, None]) -> dict[str, int]:
    if isinstance(counts, Mapping):
        return {environment: arrays.whole(f"environments[{environment}].{name}", count) for environment, count in counts.items()}
    count = arrays.whole(name, counts)
    if not count:
        return {}
    if len(inside) > 1:
        known = ", ".join(sorted(inside))
        raise InvalidBatchError(name, f"is one number for a batch of {known}; give a mapping from environment to count")
    return {next(iter(inside)): count}


def _entropy(name: str, value: EntropyLike | None) -> Entropy | None:
    if value is None:
        return None
    try:
        given = (value.sum_nats, value.token_count) if isinstance(value, Entropy) else value
        sum_nats, token_count = given
        nats = float(sum_nats)
    except Exception as error:  # torch's own, or of whatever else the value is
        raise InvalidBatchError(name, f"is {value!r:.80}; give (sum_nats, token_count): {error}") from error
    kind = value.kind if isinstance(value, Entropy) else ""
    if not isinstance(kind, str):
        raise InvalidBatchError(f"{name}.kind", f"is {kind!r:.80}; give a string")
    return Entropy(sum_nats=nats, token_count=arrays.whole(f"{name}.token_count", token_count), kind=kind)
