"""`fade simulate`: what other settings would have scheduled along a run's telemetry."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from fade_client.operate import exits, text
from fade_client.operate.exits import UsageError
from fade_client.operate.remote import Remote
from fade_core import InvalidConfigError, RunConfig
from fade_proto.convert import config_to_proto
from fade_proto.v1 import observation_pb2, scheduler_pb2

SHOWN_POINTS = 12
"""Lines of the table."""

SIMULATED = tuple(item.name for item in fields(RunConfig) if item.metadata["simulated"])

_COLUMNS = ("revision", "alpha", "delta", "solve_rate", "entropy_nats", "target_entropy_nats")

Values = dict[str, Any]


def setting(given: str) -> Values:
    """`name=value,name=value` as configuration fields.

    Raises:
        argparse.ArgumentTypeError: A name cannot be simulated, or a value is not of its kind.
    """
    values: Values = {}
    for part in given.split(","):
        name, equals, value = part.partition("=")
        if name not in SIMULATED:
            raise argparse.ArgumentTypeError(f"{name!r} cannot be simulated; give any of {', '.join(SIMULATED)}")
        if not equals:
            raise argparse.ArgumentTypeError(f"{part!r} has no value; give {name}=VALUE")
        if name in values:
            raise argparse.ArgumentTypeError(f"{name} is given twice; give each setting of a trajectory once")
        values[name] = value_of(name, value)
    return values


def simulate_run(remote: Remote, options: argparse.Namespace) -> int:
    """Prints the trajectories side by side."""
    own = {name: value for name in SIMULATED if (value := getattr(options, name)) is not None}
    settings = [*([own] if own else []), *options.settings]
    request = scheduler_pb2.SimulateRunRequest(name=options.run, branch=options.branch)
    request.max_points = options.points or (0 if options.json else SHOWN_POINTS)  # 0 leaves it to the service
    for values in settings:
        label = ",".join(f"{name}={value}" for name, value in values.items())
        one = request.settings.add(label=label)
        one.update_mask.paths.extend(values)
        for name, value in values.items():
            _set(one, name, value)
    answer = remote.simulate(request)
    if options.json:
        print(json.dumps(_document(answer), allow_nan=False))
    else:
        print("\n\n".join([*_tables(answer), f"Note: {answer.warnings[0].message}."]))
    return exits.DONE


def value_of(name: str, given: str) -> Any:
    """A configuration field's value as somebody typed it.

    Raises:
        argparse.ArgumentTypeError: It is not of the field's kind.
    """
    kind = type(getattr(RunConfig(), name) or 0.0)
    try:
        value = kind(given)
        if kind is str:
            RunConfig.from_dict({name: value})
        return value
    except InvalidConfigError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    except ValueError:
        raise argparse.ArgumentTypeError(f"{name} is {given!r}; give a {'whole number' if kind is int else 'number'}") from None


def _set(one: scheduler_pb2.SimulateRunRequest.Setting, name: str, value: Any) -> None:
    if isinstance(value, str):
        word: dict[str, Any] = {name: value}
        value = getattr(config_to_proto(RunConfig(**word)), name)
    try:
        setattr(one.config, name, value)
    except ValueError:
        raise UsageError(f"{name} is {value}, which is out of any range") from None


def _document(answer: scheduler_pb2.SimulateRunResponse) -> dict[str, Any]:
    return {
        "run": answer.name,
        "branch": answer.branch,
        "revision": answer.revision,
        "note": answer.warnings[0].message,
        "recorded": _trajectories(answer.recorded),
        "simulations": [{"label": item.label, "environments": _trajectories(item.trajectories)} for item in answer.simulations],
    }


def _trajectories(messages: Sequence[observation_pb2.Trajectory]) -> Mapping[str, Mapping[str, list[float | None]]]:
    return {
        message.environment: {name: [_known(value) for value in getattr(message, name)] for name in _COLUMNS}
        for message in messages
    }


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def _tables(answer: scheduler_pb2.SimulateRunResponse) -> list[str]:
    names = ["recorded", *(item.label or "as it is" for item in answer.simulations)]
    lines = [f"{letter}: {name}" for letter, name in zip(_letters(len(names)), names, strict=True)]
    tables = ["\n".join([f"{answer.name}, branch {answer.branch}, {answer.revision} observations", *lines])]
    for place, recorded in enumerate(answer.recorded):
        columns = [recorded, *(item.trajectories[place] for item in answer.simulations)]
        header = [
            "REVISION",
            "SOLVED",
            "ENTROPY",
            *(f"{what} {letter}" for letter in _letters(len(columns)) for what in ("ALPHA", "DELTA")),
        ]
        rows = []
        for at, revision in enumerate(recorded.revision):
            cells = [str(revision), text.number(recorded.solve_rate[at]), text.number(_known(recorded.entropy_nats[at]))]
            for column in columns:
                cells += [text.number(column.alpha[at]), text.number(column.delta[at])]
            rows.append(cells)
        title = [recorded.environment] if len(answer.recorded) > 1 else []
        tables.append("\n".join([*title, text.table(header, rows, header)]))
    return tables


def _letters(count: int) -> list[str]:
    return [chr(ord("A") + place) for place in range(count)]
