"""`fade decompose`: advantages along the axes of sign, difficulty and scale. Importing this module imports no plotting."""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from fade_client.decompose_data import FORMATS, DecomposeError, read_rows
from fade_core import (
    Decomposition,
    InvalidBatchError,
    MeasuredDecomposition,
    decompose,
    decompose_rows,
    two_level_advantages,
)

EXIT_OK = 0
EXIT_USAGE = 2

_EXIT_CODES = "exit codes: 0 done; 1 the data or the callable is wrong; 2 the command line is wrong"
_WEIGHTS_AT = (0.1, 0.5, 0.9)
_NEAREST = 5


class _UsageError(Exception):
    """The command line is wrong."""


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `decompose` to the `fade` command."""
    summary = "take advantages apart into sign, difficulty and scale"
    command = subparsers.add_parser("decompose", help=summary, description=f"{summary.capitalize()}.", epilog=_EXIT_CODES)
    option = command.add_argument
    option(
        "names",
        nargs="*",
        metavar="NAME[:param=value,...]",
        help="a registered advantage (default: all of them, unless --data or --callable is given)",
    )
    option("--group-size", type=int, default=8, help="rollouts of a group (default: %(default)s)")
    option("--callable", metavar="MODULE:FUNCTION", help="your function from the 0/1 rewards of one group to its advantages")
    option("--data", type=Path, metavar="FILE", help="your numbers, .json, .csv or .parquet: group, reward or solved, advantage")
    option("--plot", type=Path, metavar="FILE", help="write a picture, .png or .svg")
    option("--json", action="store_true", help="print everything as JSON: masses for each k and p too")
    command.set_defaults(handler=_run)


def _run(options: argparse.Namespace) -> int:
    try:
        _check_suffix("--data", options.data, FORMATS)
        _check_suffix("--plot", options.plot, (".png", ".svg"))
        shown = _decompositions(options)
        measured = _measured(options.data) if options.data else None
        if options.plot:
            _plot(options.plot, shown, measured)
    except _UsageError as error:
        print(f"fade decompose: {error}", file=sys.stderr)
        return EXIT_USAGE
    if options.json:
        print(json.dumps(_as_json(shown, measured), allow_nan=False))
    else:
        print("\n\n".join(_tables(shown, measured)))
    return EXIT_OK


def _check_suffix(option: str, path: Path | None, suffixes: Sequence[str]) -> None:
    if path and path.suffix not in suffixes:
        raise _UsageError(f"{option} {path}: give a name that ends in {' or '.join(suffixes)}")


def _plot(path: Path, shown: Sequence[Decomposition], measured: MeasuredDecomposition | None) -> None:
    try:
        from fade_client.decompose_plot import plot_decompositions
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("matplotlib"):
            raise
        raise _UsageError("--plot needs matplotlib: pip install 'fade-scheduler[plot]'") from None
    try:
        plot_decompositions(path, [(_label(item), item) for item in shown], measured)
    except OSError as error:
        raise DecomposeError(f"--plot {path}: {error}") from None


def _decompositions(options: argparse.Namespace) -> list[Decomposition]:
    names = options.names or ([] if options.data or options.callable else list(two_level_advantages()))
    try:
        shown = [decompose(name, options.group_size, given) for name, given in map(_named, names)]
    except InvalidBatchError as error:
        raise _UsageError(f"{error}") from None
    if options.callable:
        function = _imported(options.callable)
        try:
            shown.append(replace(decompose(function, options.group_size), name=options.callable))
        except InvalidBatchError as error:
            raise DecomposeError(f"{options.callable}: {error}") from None
        except Exception as error:  # the callable is the user's: whatever it raises is theirs to see
            raise DecomposeError(f"{options.callable}: {type(error).__name__}: {error}") from error
    return shown


def _named(text: str) -> tuple[str, dict[str, float]]:
    """`name:param=value,...` in parts."""
    name, _, rest = text.partition(":")
    given = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        try:
            given[key] = float(value)
        except ValueError:
            raise _UsageError(f"{text!r}: {part!r} is not of the form param=number") from None
    return name, given


def _imported(text: str) -> Any:
    module, _, function = text.partition(":")
    if not (module and function):
        raise _UsageError(f"--callable {text}: give MODULE:FUNCTION")
    sys.path.insert(0, os.getcwd())  # as `python -m` has it; the console script has its own folder there
    try:
        return getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise _UsageError(f"--callable {text}: {error}") from None


def _measured(path: Path) -> MeasuredDecomposition:
    try:
        return decompose_rows(*read_rows(path))
    except InvalidBatchError as error:
        raise DecomposeError(f"{path}: {error}") from None


def _label(item: Decomposition) -> str:
    given = ",".join(f"{key}={value:g}" for key, value in item.parameters.items())
    return f"{item.name}:{given}" if given else item.name


def _tables(shown: Sequence[Decomposition], measured: MeasuredDecomposition | None) -> list[str]:
    axes = ["ADVANTAGE", "SIGN", "CENTRE", "SPREAD", "PEAK", "SCALE", *(f"w({p})" for p in _WEIGHTS_AT)]
    rows = [
        [_label(item), *map(_cell, (item.sign_ratio, item.centre, item.spread, item.peak, item.scale)), *_weights(item)]
        for item in shown
    ]
    if measured:
        axis = (measured.sign_ratio, measured.centre, measured.spread, math.nan, measured.scale)
        rows.append(["(data)", *map(_cell, axis), *["-"] * len(_WEIGHTS_AT)])
    tables = [_aligned([axes, *rows])]
    if len(shown) == 1 and not measured:
        tables.append(_by_group(shown[0]))
    if measured:
        tables += _by_bin(measured)
    return tables


def _weights(item: Decomposition) -> list[str]:
    return [_cell(float(np.interp(p, item.solve_rate, item.population_weight))) for p in _WEIGHTS_AT]


def _by_group(item: Decomposition) -> str:
    columns = (item.weight_success, item.weight_failure, item.group_mass_success, item.group_mass_failure)
    rows = [[f"{k}/{item.group_size}", *(_cell(float(column[k])) for column in columns)] for k in range(item.group_size + 1)]
    return _aligned([["SOLVED", "wS", "wF", "mS", "mF"], *rows])


def _by_bin(measured: MeasuredDecomposition) -> list[str]:
    edges, counts = measured.bin_edges, measured.bin_groups
    bins = [
        [f"{edges[i]:.1f}-{edges[i + 1]:.1f}", str(counts[i]), _cell(measured.mass_success[i]), _cell(measured.mass_failure[i])]
        for i in np.flatnonzero(counts)
    ]
    nearest = [[item.name, _cell(item.distance), _cell(item.scale)] for item in measured.nearest[:_NEAREST]]
    seen = f"data: {measured.row_count} rows in {measured.group_count} groups, {measured.missing_count} rows without an outcome"
    return [
        seen,
        _aligned([["SOLVE RATE", "GROUPS", "mS", "mF"], *bins]),
        _aligned([["NEAREST", "DISTANCE", "SCALE"], *nearest]),
    ]


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *rest in rows:
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(rest, widths[1:], strict=True))]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _as_json(shown: Sequence[Decomposition], measured: MeasuredDecomposition | None) -> dict[str, Any]:
    known = two_level_advantages()
    advantages = []
    for item in shown:
        document = asdict(item) | {"label": _label(item), "sign_ratios": item.sign_ratios()}
        if item.name in known:
            registered = known[item.name]
            document |= {"formula": {"wS": registered.success, "wF": registered.failure}, "source": registered.source}
        advantages.append(_plain(document))
    return {"advantages": advantages, "data": _plain(asdict(measured)) if measured else None}


def _plain(value: Any) -> Any:
    """For JSON: arrays as lists, numbers that JSON has not as null."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (np.ndarray, list, tuple)):
        return [_plain(item) for item in (value.tolist() if isinstance(value, np.ndarray) else value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value
