"""RunConfig over HTTP: the table of its fields, and values by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, get_args, get_type_hints

from fade_core import InvalidConfigError, RunConfig
from fade_proto.convert import config_to_proto
from fade_proto.v1 import run_pb2
from fade_service.errors import of_maths

_TYPES = {bool: "boolean", int: "integer", float: "number"}
_HINTS: dict[str, Any] = get_type_hints(RunConfig)


def config_fields() -> list[dict[str, Any]]:
    """The table of the configuration guide, made from the code."""
    return [
        {
            "name": item.name,
            **_type_of(_HINTS[item.name]),
            "unit": item.metadata["unit"],
            "default": item.default,
            "doc": item.metadata["doc"],
            "live": item.metadata["live"],
            "simulated": item.metadata["simulated"],
        }
        for item in fields(RunConfig)
    ]


def config_message(values: Mapping[str, Any], prefix: str) -> tuple[run_pb2.RunConfig, list[str]]:
    """The message with these values, and the names that it is to be read for; null is the default.

    Each value is looked at by itself: whether it goes with the run's others is for the use case to see.

    Raises:
        ServiceError: INVALID_CONFIG: a name is unknown, or a value is of the wrong type.
    """
    message = run_pb2.RunConfig()
    for name, value in values.items():
        try:
            if name not in _HINTS:
                raise InvalidConfigError(name, "is not a configuration field")
            if value is not None:
                _set(message, name, value)
        except InvalidConfigError as error:
            raise of_maths(error, prefix) from None
    return message, list(values)


def _set(message: run_pb2.RunConfig, name: str, value: Any) -> None:
    """Takes what a Run's JSON shows too: the contract's names of choices, and integers as text."""
    kind = _type_of(_HINTS[name])
    try:
        if kind["type"] == "choice":
            value = _number_of_choice(message, name, value, kind["choices"])
        elif isinstance(value, bool) is not (kind["type"] == "boolean"):
            raise TypeError
        elif kind["type"] == "integer" and isinstance(value, str):
            value = int(value)
        setattr(message, name, value)
    except (TypeError, ValueError):
        raise InvalidConfigError(name, f"is {value!r}; give a value of type {kind['type']}") from None


def _number_of_choice(message: run_pb2.RunConfig, name: str, value: Any, choices: list[str]) -> int:
    if value in choices:
        return int(getattr(config_to_proto(RunConfig(**{name: value})), name))
    enum: Any = message.DESCRIPTOR.fields_by_name[name].enum_type
    for word in enum.values:
        if word.name == value and word.number:  # 0 is UNSPECIFIED
            return int(word.number)
    raise InvalidConfigError(name, f"is {value!r}; choose one of {', '.join(choices)}")


def _type_of(hint: Any) -> dict[str, Any]:
    options = get_args(hint)
    if options and isinstance(options[0], str):
        return {"type": "choice", "choices": list(options), "nullable": False}
    return {"type": _TYPES[options[0] if options else hint], "nullable": type(None) in options}
