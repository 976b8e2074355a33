"""Columns and numbers as a trainer holds them (numpy, torch, lists), read as numpy; what cannot be read is refused by name."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from fade_core import InvalidBatchError, RunConfig

if TYPE_CHECKING:
    import torch

    Column: TypeAlias = "Sequence[Any] | npt.NDArray[Any] | torch.Tensor"
else:
    Column = Any


def is_torch(value: object) -> bool:
    """Whether it is a torch tensor; never imports torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def plain(name: str, values: Column) -> Any:
    """The values without torch: a tensor as an array, and tensors and arrays of one number inside a list as that number.

    Raises:
        InvalidBatchError: They hold no numbers, more than one per row, or are masked; names ``name``.
    """
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            row = int(np.argmax(np.ma.getmaskarray(values))) if values.ndim == 1 else None
            raise InvalidBatchError(name, "is masked; give every row a value", row=row)
        values = values.data
    try:
        if is_torch(values):
            tensor: Any = values
            tensor = tensor.detach().cpu()
            return (tensor.double() if tensor.is_floating_point() else tensor).numpy()  # numpy knows no bfloat16
        if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
            values = values.tolist()
        return _items(name, values) if isinstance(values, (list, tuple)) else values
    except InvalidBatchError:
        raise
    except Exception as error:  # torch's own, or of whatever else the values are
        raise InvalidBatchError(name, f"cannot be read: {error}") from error


def rewards(values: Column, config: RunConfig | None = None) -> npt.NDArray[np.float64]:
    """float64 (N,); None and masked entries become NaN, which is missing.

    A type narrower than float64 cannot hold every bound: 1.1 is 1.1015625 in bfloat16. So a reward that is ``reward_min``,
    ``reward_max`` or ``solve_threshold`` rounded to its type is taken for that number.

    Raises:
        InvalidBatchError: They are not one number per row.
    """
    given = values
    if isinstance(values, np.ma.MaskedArray):
        values = _real("rewards", values).filled(np.nan)
    found = _array("rewards", values)
    column: npt.NDArray[np.float64] = _real("rewards", found)
    for number in () if config is None else (config.reward_min, config.threshold, config.reward_max):
        rounded = _rounded(number, given if hasattr(given, "dtype") else found)
        if rounded != number and math.isfinite(rounded):
            column = np.where(column == rounded, number, column)
    return column


def flags(name: str, values: Column) -> npt.NDArray[np.bool_]:
    """bool (N,).

    Raises:
        InvalidBatchError: An entry is neither True nor False, 1 nor 0: a score is no flag.
    """
    found = _numbers(name, values, "True or False")
    wrong = (found != 0) & (found != 1)
    _refuse(name, found, wrong, "give True or False")
    return found.astype(np.bool_)


def integers(name: str, values: Column, dtype: type[np.signedinteger[Any]]) -> npt.NDArray[Any]:
    """(N,) of that dtype.

    Raises:
        InvalidBatchError: An entry is no whole number that fits.
    """
    found = _numbers(name, values, "a whole number")
    if found.dtype.kind == "b":
        return found.astype(dtype)
    limits = np.iinfo(dtype)
    wide = found.astype(np.float64) if found.dtype.kind == "f" else found  # float16 does not hold the limits
    wrong = (wide < limits.min) | (wide >= limits.max + 1)
    if found.dtype.kind == "f":
        wrong |= wide != np.floor(wide)  # NaN too
    _refuse(name, found, wrong, f"give a whole number of {limits.bits} bits")
    return found.astype(dtype, copy=False)


def whole(name: str, value: Any) -> int:
    """One whole number, also out of numpy or torch.

    Raises:
        InvalidBatchError: It is none, or has more than 64 bits.
    """
    try:
        number = int(value)
        exact = bool(number == value)
    except Exception as error:  # torch's own, or of whatever else the value is
        raise InvalidBatchError(name, f"is {value!r:.80}; give a whole number") from error
    if not exact or not -(2**63) <= number < 2**63:
        raise InvalidBatchError(name, f"is {value!r:.80}; give a whole number of 64 bits")
    return number


def _items(name: str, values: Sequence[Any]) -> Sequence[Any]:
    """Tensors hash by their identity: as labels, each would be a group of its own."""
    holders = {kind for kind in set(map(type, values)) if hasattr(kind, "ndim") and not issubclass(kind, np.generic)}
    if not holders:
        return values
    for row, value in enumerate(values):
        if type(value) in holders and value.ndim:
            raise InvalidBatchError(name, f"has shape {tuple(value.shape)}; give one value per row", row=row)
    return [value.item() if type(value) in holders else value for value in values]


def _array(name: str, values: Column) -> npt.NDArray[Any]:
    read = plain(name, values)
    try:
        array = np.asarray(read)
    except Exception as error:
        raise InvalidBatchError(name, f"cannot be read as one value per row: {error}") from error
    if array.ndim != 1:
        raise InvalidBatchError(name, f"has shape {array.shape}; give one entry per row, shape (N,)")
    return array


def _numbers(name: str, values: Column, wanted: str) -> npt.NDArray[Any]:
    array = _array(name, values)
    if array.dtype.kind not in "biuf":
        raise InvalidBatchError(name, f"cannot be read as {wanted} for each row; it holds {array.dtype} values")
    return array


def _real(name: str, array: npt.NDArray[Any]) -> Any:
    if array.dtype.kind in "cmM":
        raise InvalidBatchError(name, f"holds {array.dtype} values; give one real number per row")
    try:
        return array.astype(np.float64, copy=False)
    except Exception as error:
        raise InvalidBatchError(name, f"cannot be read as one float64 per row: {error}") from error


def _rounded(number: float, like: Any) -> float:
    """``number`` as the type of an array or a tensor holds it."""
    if is_torch(like):
        return float(like.new_tensor(number, device="cpu")) if like.is_floating_point() else number
    with np.errstate(over="ignore"):
        return float(like.dtype.type(number)) if getattr(like.dtype, "kind", "") == "f" else number


def _refuse(name: str, values: npt.NDArray[Any], wrong: npt.NDArray[np.bool_], remedy: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidBatchError(name, f"is {values[row]}; {remedy}", row=row)
