"""The digest of a report: what makes two reports under one id the same."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from fade_core import Batch, Entropy

_VERSION = b"fade report 1\n"


def report_digest(batch: Batch) -> bytes:
    """SHA-256 over a canonical encoding of the report's content.

    Rows stand in request order; floats are little-endian float64 with -0 as 0 and one NaN; the lengths of all parts stand in
    front. What a retry may change is left out: writer, trainer_step, return_advantages, late, lost_reports, and the labels of
    groups, which are words to people.

    Returns:
        32 bytes.
    """
    reports = [
        [name, item.filtered_all_solved, item.filtered_all_failed, item.prefiltered, _entropy(item.entropy)]
        for name, item in sorted(batch.reports.items())
    ]
    beside = json.dumps([reports, _entropy(batch.entropy), batch.current_policy_version])
    parts = (
        _floats(batch.rewards),
        _column(batch.group_index, "<i4"),
        _column(batch.rollout_index, "<i8"),
        _column(batch.statuses, "<i4"),
        _column(batch.solved, "<i1"),
        _column(batch.policy_versions, "<i8"),
        *_texts(batch.environments),
        beside.encode(),
    )
    lengths = struct.pack(f"<{len(parts)}Q", *map(len, parts))
    return hashlib.sha256(b"".join((_VERSION, lengths, *parts))).digest()


def _floats(values: npt.NDArray[np.float64]) -> bytes:
    canonical = values + 0.0  # -0 + 0 is 0
    nan = canonical != canonical
    if np.count_nonzero(nan):
        canonical[nan] = np.nan
    return canonical.astype("<f8", copy=False).tobytes()


def _texts(values: Sequence[str]) -> tuple[bytes, bytes]:
    """Their lengths and themselves, so that no two sequences have one encoding."""
    return np.fromiter(map(len, values), "<i4", len(values)).tobytes(), "".join(values).encode()


def _column(values: npt.NDArray[np.generic] | None, dtype: str) -> bytes:
    return b"" if values is None else values.astype(dtype, copy=False).tobytes()


def _entropy(entropy: Entropy | None) -> list[object] | None:
    if entropy is None:
        return None
    return [(entropy.sum_nats + 0.0).hex(), entropy.token_count, entropy.kind]
