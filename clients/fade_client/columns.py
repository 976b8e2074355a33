"""From what a trainer holds (numpy, torch, lists; any labels) to the columns of a batch. No Python loop over rows."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fade_core import DEFAULT_ENVIRONMENT, Batch, Entropy, EnvironmentReport, InvalidBatchError

if TYPE_CHECKING:
    import torch

    Column: TypeAlias = "Sequence[Any] | npt.NDArray[Any] | torch.Tensor"
else:
    Column = Any

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
        return [str(label)[:LABEL_LENGTH] for label in self.grouping.labels]


def is_torch(value: object) -> bool:
    """Whether it is a torch tensor; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


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
) -> Report:
    """The report of one generation batch; the arguments are those of :meth:`FadeClient.observe`.

    ``known`` is taken where ``groups`` equals what it was read from: comparing 65,536 strings is 100 times faster than hashing.

    Raises:
        InvalidBatchError: A column cannot be read as what it should hold, or a group has no environment; names the field.
    """
    values = reward_column(rewards)
    grouping = _group(groups, known)
    if len(grouping.index) != len(values):
        problem = f"has {len(grouping.index)} entries for {len(values)} rewards; give one label per row"
        raise InvalidBatchError("groups", problem)
    names = _environments_of(grouping.labels, environments, default_environment)
    own_entropy = entropy if isinstance(entropy, Mapping) else {}
    batch_entropy = None if isinstance(entropy, Mapping) else _entropy(entropy)
    inside = dict.fromkeys(names) or {default_environment: None}
    solved_counts = _counts("filtered_all_solved", filtered_all_solved, inside)
    failed_counts = _counts("filtered_all_failed", filtered_all_failed, inside)
    reported = [*solved_counts, *failed_counts, *own_entropy, *(inside if prefiltered else ())]
    reports = {
        name: EnvironmentReport(
            filtered_all_solved=solved_counts.get(name, 0),
            filtered_all_failed=failed_counts.get(name, 0),
            prefiltered=prefiltered,
            entropy=_entropy(own_entropy.get(name)),
        )
        for name in dict.fromkeys(reported)
    }
    batch = Batch(
        rewards=values,
        group_index=grouping.index,
        environments=names,
        rollout_index=None if rollouts is None else _rollout_index(rollouts),
        statuses=_column("statuses", statuses, np.int32),
        solved=_column("solved", solved, np.bool_),
        policy_versions=_column("policy_versions", policy_versions, np.int64),
        current_policy_version=None if current_policy_version is None else int(current_policy_version),
        reports=reports,
        entropy=batch_entropy,
    )
    return Report(batch=batch, grouping=grouping)


def reward_column(rewards: Column) -> npt.NDArray[np.float64]:
    """float64 (N,); None entries become NaN, which is missing.

    Raises:
        InvalidBatchError: They are not one number per row.
    """
    column = _column("rewards", rewards, np.float64)
    assert column is not None
    return column


def _column(name: str, values: Column | None, dtype: Any) -> npt.NDArray[Any] | None:
    if values is None:
        return None
    try:
        array = np.asarray(_to_numpy(values), dtype)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidBatchError(name, f"cannot be read as one {np.dtype(dtype).name} per row: {error}") from error
    if array.ndim != 1:
        raise InvalidBatchError(name, f"has shape {array.shape}; give one entry per row, shape (N,)")
    return array


def _to_numpy(values: Any) -> Any:
    if not is_torch(values):
        return values
    values = values.detach().cpu()
    return (values.double() if values.is_floating_point() else values).numpy()  # numpy knows no bfloat16


def _group(groups: Column, known: Grouping | None) -> Grouping:
    values = _to_numpy(groups)
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
    return _distinct("rollouts", _to_numpy(rollouts))[1].astype(np.int64, copy=False)


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
    try:
        return tuple([environments[label] for label in labels])
    except KeyError as error:
        raise InvalidBatchError("environments", f"has no entry for group {error.args[0]!r}; name every group's") from error


def _counts(name: str, counts: int | Mapping[str, int], inside: Mapping[str, None]) -> dict[str, int]:
    if isinstance(counts, Mapping):
        return {environment: int(count) for environment, count in counts.items()}
    if not counts:
        return {}
    if len(inside) > 1:
        known = ", ".join(sorted(inside))
        raise InvalidBatchError(name, f"is one number for a batch of {known}; give a mapping from environment to count")
    return {next(iter(inside)): int(counts)}


def _entropy(value: EntropyLike | None) -> Entropy | None:
    if value is None or isinstance(value, Entropy):
        return value
    try:
        sum_nats, token_count = value
        return Entropy(sum_nats=float(sum_nats), token_count=int(token_count))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidBatchError("entropy", f"is {value!r}; give (sum_nats, token_count): {error}") from error
