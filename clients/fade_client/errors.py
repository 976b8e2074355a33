"""What the client raises.

::

    FadeClientError
    ├── SettingsError        the client itself is set up wrongly (also a ValueError)
    ├── UnavailableError     the service did not answer in time
    ├── RejectedError        the service (or the maths in this process) refused the request, by reason, field and row
    ├── CheckpointError      a state dict cannot be loaded
    ├── TrainerError         the trainer would change the advantages, or its rewards, so that the schedule means something else
    ├── DecomposeError       numbers or a function that `fade decompose` was given cannot be used
    └── ClosedError          the client was closed
"""

from __future__ import annotations

from collections.abc import Mapping

from fade_core import EntropyKindError, FadeError, InvalidBatchError, InvalidConfigError


class FadeClientError(Exception):
    """Base of everything that this package raises."""


class SettingsError(FadeClientError, ValueError):
    """An argument of the client, or the environment variable behind it, is missing or wrong."""


class UnavailableError(FadeClientError):
    """The service did not answer in time, or cannot commit at the moment. Trying again may help.

    Attributes:
        code: Name of the gRPC status code, for example ``"UNAVAILABLE"``.
        reason: Reason given by the service (``"STORE_FULL"``, ...); empty where none came.
    """

    def __init__(self, message: str, code: str = "UNAVAILABLE", reason: str = "") -> None:
        super().__init__(message, code, reason)
        self.code = code
        self.reason = reason

    def __str__(self) -> str:
        return str(self.args[0])


class RejectedError(FadeClientError):
    """The request was refused and changed nothing. Sending it again does not help.

    Attributes:
        reason: UPPER_SNAKE, from a closed set (``"INVALID_FIELD"``, ``"WRITER_FENCED"``, ...).
        field: Path of the wrong field without its row; empty where the reason is about no field.
        row: Row in request order; None where the field has no rows.
        code: Name of the gRPC status code.
        metadata: The dynamic parts of the message.
    """

    def __init__(
        self,
        message: str,
        reason: str,
        field: str = "",
        row: int | None = None,
        code: str = "INVALID_ARGUMENT",
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, reason, field, row, code, metadata)  # all of them: the error survives pickling
        self.reason = reason
        self.field = field
        self.row = row
        self.code = code
        self.metadata = dict(metadata or {})

    def __str__(self) -> str:
        return f"{self.reason}: {self.args[0]}"


class CheckpointError(FadeClientError):
    """A state dict is damaged, or of a format that this version does not read."""


class TrainerError(FadeClientError):
    """The trainer is set up so that the schedule would not reach the gradient as it is; says which setting to change to what."""


class ClosedError(FadeClientError):
    """The client was closed; make a new one."""


def rejection(error: FadeError) -> RejectedError:
    """What the maths in this process refused, as the service would have put it."""
    if isinstance(error, InvalidBatchError):
        return RejectedError(str(error), "INVALID_FIELD", error.field, error.row)
    if isinstance(error, InvalidConfigError):
        return RejectedError(str(error), "INVALID_CONFIG", error.field)
    if isinstance(error, EntropyKindError):
        return RejectedError(str(error), "ENTROPY_KIND_CHANGED", "entropy.kind", code="FAILED_PRECONDITION")
    return RejectedError(str(error), "INTERNAL", code="INTERNAL")
