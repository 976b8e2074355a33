"""Batches from plain lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from fade_core import Batch


def make_batch(rewards: Sequence[float], groups: Sequence[int], **fields: Any) -> Batch:
    """A batch of one environment unless ``environments`` says otherwise; columns may be lists."""
    dtypes = {"rollout_index": np.int64, "statuses": np.int32, "solved": np.bool_, "policy_versions": np.int64}
    columns = {name: np.array(fields.pop(name), dtype) for name, dtype in dtypes.items() if name in fields}
    environments = fields.pop("environments", ("default",) * (max(groups, default=-1) + 1))
    return Batch(
        rewards=np.array(rewards, np.float64),
        group_index=np.array(groups, np.int32),
        environments=tuple(environments),
        **columns,
        **fields,
    )


@pytest.fixture(scope="session")
def batch() -> Callable[..., Batch]:
    """See :func:`make_batch`."""
    return make_batch
