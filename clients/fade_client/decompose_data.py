"""Advantages as somebody's trainer dumped them: a table in JSON, CSV or Parquet."""

from __future__ import annotations

import csv
import importlib
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from fade_client.errors import FadeClientError

FORMATS = (".json", ".csv", ".parquet")
_WORDS = {None: math.nan, "": math.nan, "true": 1.0, "false": 0.0}

Floats = npt.NDArray[np.float64]


class DecomposeError(FadeClientError):
    """Data or a callable cannot be taken apart, or the picture not be written; says where and why."""


def read_rows(path: Path) -> tuple[list[str], Floats, Floats]:
    """Reads the columns ``group``, ``solved`` (else ``reward``) and ``advantage``.

    JSON is a list of rows or an object of columns. Empty cells, null and NaN are missing; true and false are 1 and 0.

    Returns:
        The groups' labels, and float64 (N,) each: the outcomes and the advantages, NaN where missing.

    Raises:
        DecomposeError: The file cannot be read, is no such table, or a value is no number.
    """
    try:
        columns = _columns(path)
    except (OSError, ValueError) as error:
        raise DecomposeError(f"{path}: {error}") from None
    outcome = "solved" if "solved" in columns else "reward"
    for name in ("group", outcome, "advantage"):
        if name not in columns:
            raise DecomposeError(f"{path} has no column {name}; it needs group, reward or solved, and advantage")
        if len(columns[name]) != len(columns["group"]):
            raise DecomposeError(f"{path}: {name} has {len(columns[name])} entries for {len(columns['group'])} groups")
    for row, label in enumerate(columns["group"]):
        if label is None or label == "":
            raise DecomposeError(f"{path}: group[{row}] is empty; say which group the row belongs to")
    labels = [str(label) for label in columns["group"]]
    return labels, _numbers(path, outcome, columns[outcome]), _numbers(path, "advantage", columns["advantage"])


def _columns(path: Path) -> Mapping[str, Sequence[Any]]:
    """The columns of a table by name; ValueError where it is none."""
    if path.suffix == ".parquet":
        try:
            parquet = importlib.import_module("pyarrow.parquet")
        except ModuleNotFoundError:
            raise DecomposeError(f"{path}: reading Parquet needs pyarrow: pip install pyarrow") from None
        columns: dict[str, list[Any]] = parquet.read_table(path).to_pydict()
        return columns
    if path.suffix == ".csv":
        with path.open(newline="", encoding="utf-8-sig") as file:  # spreadsheets write a byte order mark
            return _transposed(list(csv.DictReader(file)))
    table = json.loads(path.read_text(encoding="utf-8"))
    if isinstance(table, list) and all(isinstance(row, dict) for row in table):
        return _transposed(table)
    if isinstance(table, dict) and all(isinstance(column, list) for column in table.values()):
        return table
    raise ValueError("is neither a list of rows, each an object, nor an object of columns, each a list")


def _transposed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [row.get(name) for row in rows] for name in dict.fromkeys(name for row in rows for name in row)}


def _numbers(path: Path, name: str, values: Sequence[Any]) -> Floats:
    numbers = np.empty(len(values))
    for row, value in enumerate(values):
        word = value.strip().lower() if isinstance(value, str) else value
        try:
            numbers[row] = _WORDS[word] if word is None or isinstance(word, str) and word in _WORDS else float(word)
        except (TypeError, ValueError):
            raise DecomposeError(f"{path}: {name}[{row}] is {value!r}, which is no number") from None
    return numbers
