"""Logs: a line per event on standard error, as text or as JSON, with the id of the call that it belongs to.

Loggers have their modules' names, but for the audit log's, "fade.audit". What callers send stands in no line; names and ids do.
"""

from __future__ import annotations

import itertools
import json
import logging
import secrets
import sys
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from datetime import datetime, timezone
from typing import Any

LEVELS = ("debug", "info", "warning", "error")

REQUEST_ID = "x-request-id"
"""The header, or gRPC metadata, in which callers and proxies name a call, and in which a refusal names it to the caller."""

LONGEST_ID = 128
LONGEST_NAME = 200
"""Of what callers name, in characters; longer ones are cut."""

_process = secrets.token_hex(6)
_numbers = itertools.count(1)


class Event(dict[str, Any]):
    """What happened, by field: a message for a logger. As text it is JSON."""

    def __str__(self) -> str:
        return json.dumps(self)


class Call:
    """A call under way. It gets its id when somebody asks for it, as most calls end without a line.

    Args:
        headers: Tells the call's headers, names in lower case.
    """

    __slots__ = ("_headers", "_id")

    def __init__(self, headers: Callable[[], Iterable[tuple[str, str | bytes]]]) -> None:
        self._headers = headers
        self._id = ""

    @property
    def id(self) -> str:
        """The caller's id for it, or one made here."""
        if not self._id:
            given = next((value for name, value in self._headers() if name == REQUEST_ID), "")
            self._id = str(given)[:LONGEST_ID] or f"{_process}-{next(_numbers)}"
        return self._id


CALL: ContextVar[Call | None] = ContextVar("call", default=None)
"""The call that this thread or task answers."""


def set_up(form: str, levels: Sequence[str]) -> None:
    """Sends the log to standard error.

    Args:
        form: "text" or "json".
        levels: "debug" for everything, or "fade_service.store=debug" for a logger and those below it; later ones win.

    Raises:
        ValueError: There is no such level, or no such logger.
    """
    root = logging.getLogger()
    root.setLevel(logging.INFO)
    for item in levels:
        name, _, level = item.rpartition("=")
        if level not in LEVELS:
            raise ValueError(f"log level {level!r} is not known; give {', '.join(LEVELS)}, or LOGGER=LEVEL")
        if name and name not in root.manager.loggerDict:
            ours = sorted(known for known in root.manager.loggerDict if known.startswith("fade"))
            raise ValueError(f"there is no logger {name!r}; there are {', '.join(ours)}")
        logging.getLogger(name or None).setLevel(level.upper())
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if form == "json" else _Text())
    logging.basicConfig(handlers=[handler])  # where the program that embeds the server has a handler, that one is used


def milliseconds(seconds: float) -> float:
    """A time as it stands in logs."""
    return round(seconds * 1000, 3)


def _marks() -> dict[str, str]:
    """Which call and which trace a line belongs to."""
    marks = {}
    call = CALL.get()
    if call is not None:
        marks["request_id"] = call.id
    tracing = sys.modules.get("opentelemetry.trace")  # who traces has it
    if tracing is not None and (span := tracing.get_current_span().get_span_context()).is_valid:
        marks |= {"trace_id": f"{span.trace_id:032x}", "span_id": f"{span.span_id:016x}"}
    return marks


class _Text(logging.Formatter):
    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s%(call)s: %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        record.call = "".join(f" {value}" for name, value in _marks().items() if name == "request_id")
        return super().format(record)


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, timezone.utc).isoformat(timespec="milliseconds")
        line = {"time": at, "level": record.levelname.lower(), "logger": record.name}
        line |= record.msg if isinstance(record.msg, Event) else {"message": record.getMessage()}
        line |= _marks()
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
