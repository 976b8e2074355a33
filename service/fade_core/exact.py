"""Sums per group that are the same bits for any order of the rows and on any machine."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_LIMB = float(2**30)


def group_sums(values: npt.NDArray[np.float64], index: npt.NDArray[np.intp], groups: int) -> npt.NDArray[np.float64]:
    """Sums ``values`` per group, independent of their order.

    Each value is cut into three 30-bit limbs (what lies below 2^-90 is rounded value by value). Sums of limbs are integers
    below 2^53 for up to 2^22 rows per group, hence exact in float64 in any order; only the last two additions round.

    Args:
        values: Shape (N,), in [0, 1].
        index: Shape (N,), the group of each value.
        groups: Number of groups M.

    Returns:
        Shape (M,), float64.
    """
    high, rest = _split(values)
    total = np.bincount(index, high, groups).astype(np.float64, copy=False)
    if np.count_nonzero(rest):  # zero for 0/1 rewards, the common case
        middle, rest = _split(rest)
        low = np.rint(rest * _LIMB)
        total = total + (np.bincount(index, middle, groups) + np.bincount(index, low, groups) / _LIMB) / _LIMB
    return total / _LIMB


def _split(values: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The integer part and the rest of ``values * 2^30``, both exact."""
    scaled = values * _LIMB
    integer = np.floor(scaled)
    return integer, scaled - integer
