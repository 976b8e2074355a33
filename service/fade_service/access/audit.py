"""The audit log: logger "fade.audit", one line of JSON per call that creates, changes, restores, completes or deletes a run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from google.protobuf.json_format import MessageToDict

from fade_proto.v1 import run_pb2
from fade_service.access.policy import Caller
from fade_service.errors import ServiceError
from fade_service.logs import Event
from fade_service.runs import Runs, decoded
from fade_service.scheduler.lifecycle import run_message

CHANGED_FIELDS = {
    "CreateRun": ("uid", "config"),
    "UpdateRun": ("config_revision", "config"),
    "RestoreRun": ("branch", "revision", "trainer_step"),
    "CompleteRun": ("state",),
    "DeleteRun": ("uid", "state", "branch", "revision", "config"),
}
"""The methods that the log tells of, and the fields of a run that they change."""

_LONGEST_TEXT = 1000

_log = logging.getLogger("fade.audit")


class Entry:
    """A call under way.

    Attributes:
        after: The run as the call left it; None where it is gone.
    """

    def __init__(self) -> None:
        self.after: run_pb2.Run | None = None


@contextmanager
def told(runs: Runs, method: str, request: Any, caller: Caller, peer: str) -> Iterator[Entry]:
    """Writes a line about the call made within, whether it succeeds or not."""
    name = _run_of(method, request)
    entry = Entry()
    outcome, before = "INTERNAL", None
    try:
        stored = runs.store.get_run(name)
        before = None if stored is None else run_message(decoded(stored))
        yield entry
        outcome = "OK"
    except ServiceError as error:
        outcome = error.reason
        raise
    finally:
        changed = _changed(CHANGED_FIELDS[method], before, entry.after) if outcome == "OK" else {}
        reason = request.reason if method == "UpdateRun" else ""
        write(method, caller, peer, outcome, run=name[:_LONGEST_TEXT], changed=changed, reason=reason[:_LONGEST_TEXT])


def write(method: str, caller: Caller, peer: str, outcome: str, **more: Any) -> None:
    """Writes one line; what is empty is left out.

    Args:
        method: The RPC.
        caller: Who called.
        peer: From where.
        outcome: "OK", or the reason of the refusal.
        more: ``run``, ``changed`` (field: [old, new]), and ``reason`` in the operator's words.
    """
    time = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    line = {"time": time, "method": method, "token": caller.token, "subject": caller.subject, "peer": peer, **more}
    _log.info(Event({key: value for key, value in line.items() if value}, outcome=outcome))


def _run_of(method: str, request: Any) -> str:
    if method == "CreateRun":
        return f"{request.parent}/runs/{request.run_id}"
    name: str = request.run.name if method == "UpdateRun" else request.name
    return name


def _changed(fields: tuple[str, ...], before: run_pb2.Run | None, after: run_pb2.Run | None) -> dict[str, list[Any]]:
    old, new = _flat(fields, before), _flat(fields, after)
    return {name: [old.get(name), new.get(name)] for name in {**old, **new} if old.get(name) != new.get(name)}


def _flat(fields: tuple[str, ...], run: run_pb2.Run | None) -> dict[str, Any]:
    if run is None:
        return {}
    content = MessageToDict(run, preserving_proto_field_name=True)
    config = {f"config.{name}": value for name, value in content.pop("config", {}).items()}
    flat = {name: value for name, value in content.items() if name in fields}
    return flat | (config if "config" in fields else {})
