"""What a trainer's checkpoint carries of its client: JSON-able, complete, readable without a service."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError

from fade_client import outbox
from fade_client.errors import CheckpointError
from fade_client.position import Position
from fade_core import MATHS_VERSION, ControllerState, FadeError, RunConfig
from fade_proto.v1 import scheduler_pb2

FORMAT_VERSION = 1


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
                lost_reports=int(values["lost_reports"]),
            )
        except (KeyError, TypeError, ValueError, AttributeError, DecodeError, FadeError) as error:
            raise CheckpointError(f"the state dict is damaged: {type(error).__name__}: {error}") from error


def _position(values: Mapping[str, Any]) -> Position:
    version = values["state"]["maths_version"]
    if version != MATHS_VERSION:
        raise CheckpointError(f"the state was made by version {version} of the maths; this is {MATHS_VERSION}")
    position = Position(
        branch=values["branch"],
        revision=int(values["revision"]),
        trainer_step=values["trainer_step"],
        config=RunConfig.from_dict(values["config"]),
        config_revision=int(values["config_revision"]),
        state=ControllerState.from_dict(values["state"]),
    )
    if position.state.digest() != values["state_digest"]:
        raise CheckpointError("the state does not match its digest: the checkpoint is damaged")
    return position
