"""What a trainer's checkpoint carries of its client: JSON-able, complete, readable without a service."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from fade_client import outbox
from fade_client.errors import CheckpointError
from fade_client.position import Position
from fade_core import MATHS_VERSION, ControllerState, FadeError, RunConfig
from fade_proto.v1 import scheduler_pb2

FORMAT_VERSION = 1

FILE = "fade.json"
"""In a trainer's checkpoint: the client's state, and what else its shim goes on from."""

_log = logging.getLogger("fade_client")


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A client's part of a checkpoint.

    Attributes:
        run: Resource name of the run; None for a controller in process.
        position: The last position that the service acknowledged; None where it was never reached.
        unsent: Reports made after it.
        lost_reports: Batches whose reports are lost, not yet told to the service.
    """

    run: str | None
    position: Position | None
    unsent: tuple[scheduler_pb2.ObserveRequest, ...]
    lost_reports: int

    def to_dict(self) -> dict[str, Any]:
        """JSON-able; floats survive JSON exactly."""
        values: dict[str, Any] = {"format_version": FORMAT_VERSION, "run": self.run, "lost_reports": self.lost_reports}
        values["unsent"] = outbox.encode(self.unsent)
        if self.position is None:
            return {**values, "state": None}
        return {
            **values,
            "branch": self.position.branch,
            "revision": self.position.revision,
            "trainer_step": self.position.trainer_step,
            "config": self.position.config.to_dict(),
            "config_revision": self.position.config_revision,
            "state": self.position.state.to_dict(),
            "state_digest": self.position.state.digest(),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Checkpoint:
        """The inverse of :meth:`to_dict`.

        Raises:
            CheckpointError: The format or the maths is of another version, an entry is missing or wrong, or the state does not
                match its digest.
        """
        if not isinstance(values, Mapping) or "format_version" not in values:
            raise CheckpointError("this is no state dict of a FadeClient; pass what state_dict() returned")
        if values["format_version"] != FORMAT_VERSION:
            raise CheckpointError(f"the state dict has format {values['format_version']}; this version reads {FORMAT_VERSION}")
        try:
            position = None if values["state"] is None else _position(values)
            return cls(
                run=values["run"],
                position=position,
                unsent=tuple(outbox.decode(values["unsent"])),
                lost_reports=_count("lost_reports", values["lost_reports"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, DecodeError, FadeError) as error:
            raise CheckpointError(f"the state dict is damaged: {type(error).__name__}: {error}") from error


def _position(values: Mapping[str, Any]) -> Position:
    version = values["state"]["maths_version"]
    if version != MATHS_VERSION:
        raise CheckpointError(f"the state was made by version {version} of the maths; this is {MATHS_VERSION}")
    if not isinstance(values["branch"], str):
        raise CheckpointError(f"branch is {values['branch']!r}, which is no text")
    position = Position(
        branch=values["branch"],
        revision=_count("revision", values["revision"]),
        trainer_step=None
        if values["trainer_step"] is None
        else _count("trainer_step", values["trainer_step"], smallest=-(2**63)),
        config=RunConfig.from_dict(values["config"]),
        config_revision=_count("config_revision", values["config_revision"]),
        state=ControllerState.from_dict(values["state"]),
    )
    if position.state.digest() != values["state_digest"]:
        raise CheckpointError("the state does not match its digest: the checkpoint is damaged")
    return position


def _count(name: str, value: object, smallest: int = 0) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value < 2**63:
        raise CheckpointError(f"{name} is {value!r}, which is no whole number from {smallest} to 2^63 - 1")
    return value


def write_file(path: Path, state: Mapping[str, Any], **own: Any) -> None:
    """Writes a trainer's ``fade.json``, whole or not at all. Where that fails the training goes on, with an error in the log.

    Args:
        path: The file.
        state: What :meth:`FadeClient.state_dict` returned.
        own: What else to keep; JSON-able.
    """
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{path.name}.part")
        part.write_text(to_text(state, **own), encoding="utf-8")
        part.replace(path)


def read_file(path: Path, **own: Callable[[Any], Any]) -> dict[str, Any] | None:
    """The inverse of :func:`write_file`: ``state``, and each entry of ``own`` as its function reads it.

    Returns:
        None, with a warning, where there is no file.

    Raises:
        CheckpointError: It is damaged, cannot be read, or is of another version; names the file.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        missing(path)
        return None
    except (OSError, ValueError) as error:
        raise _unusable(path, error) from error
    return from_text(path, text, **own)


def to_text(state: Mapping[str, Any], **own: Any) -> str:
    """What :func:`write_file` writes."""
    return json.dumps({"state": state, **own})


def from_text(path: str | Path, text: str, **own: Callable[[Any], Any]) -> dict[str, Any]:
    """The inverse of :func:`to_text`; ``path`` is for its errors, those of :func:`read_file`."""
    try:
        kept = json.loads(text)
        Checkpoint.from_dict(kept["state"])
        return {"state": kept["state"], **{name: read(kept[name]) for name, read in own.items()}}
    except (CheckpointError, KeyError, TypeError, ValueError, AttributeError) as error:
        raise _unusable(path, error) from error


@contextmanager
def writing(path: str | Path) -> Iterator[None]:
    """A disk that is full must not stop a training."""
    try:
        yield
    except OSError as error:
        _log.error("%s was not written (%s): the training goes on, but cannot resume the run from this checkpoint", path, error)


def missing(path: str | Path) -> None:
    """Says that a checkpoint has no state."""
    _log.warning(
        "%s is missing, as in a checkpoint from before FADE was used: the run's state is not restored, and the run starts from"
        " nothing; where it exists, that needs a new FADE_RUN",
        path,
    )


def _unusable(path: str | Path, error: Exception) -> CheckpointError:
    what = str(error) if isinstance(error, (CheckpointError, OSError)) else f"it is damaged: {error!r}"
    return CheckpointError(f"{path} cannot be gone on from: {what}; resume from another checkpoint")
