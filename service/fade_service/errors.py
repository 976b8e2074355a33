"""The error catalog: everything that the service refuses, by reason.

::

    ServiceError                     any reason of CODES
    ├── StoreUnavailableError        the store cannot be used now; says whether trying again may help
    ├── StoreFullError               the store has no room; trying again does not help until an operator made some
    └── QuotaExceededError           the project uses more than it may; says when to try again
    DuplicateObservationError        a store's word to the scheduler; never reaches a caller

The maths raises errors of its own (fade_core.errors); :func:`of_maths` says them in the words of this catalog.
"""

from __future__ import annotations

from fade_core import EntropyKindError, FadeError, InvalidBatchError, InvalidConfigError

DOMAIN = "fade"

LONGEST_PART_BYTES = 400
"""Of a dynamic part of a message, in UTF-8; longer ones lose their middle, as gRPC may drop a status of more than 8 KB."""

RETRY_DELAY_SECONDS = 0.5
"""What callers are told to wait for, where trying again can help (UNAVAILABLE)."""

CODES = {
    "TOKEN_MISSING": "UNAUTHENTICATED",
    "TOKEN_INVALID": "UNAUTHENTICATED",
    "ROLE_TOO_LOW": "PERMISSION_DENIED",
    "PROJECT_DENIED": "PERMISSION_DENIED",
    "SUBJECT_DENIED": "PERMISSION_DENIED",
    "NO_ACCESS_RULE": "PERMISSION_DENIED",
    "CROSS_SITE": "PERMISSION_DENIED",
    "INVALID_FIELD": "INVALID_ARGUMENT",
    "INVALID_CONFIG": "INVALID_ARGUMENT",
    "RUN_NOT_FOUND": "NOT_FOUND",
    "BRANCH_NOT_FOUND": "NOT_FOUND",
    "REVISION_NOT_FOUND": "NOT_FOUND",
    "OBSERVATION_NOT_FOUND": "NOT_FOUND",
    "OBSERVATION_CONFLICT": "ALREADY_EXISTS",
    "BRANCH_EXISTS": "ALREADY_EXISTS",
    "WRITER_FENCED": "FAILED_PRECONDITION",
    "RUN_COMPLETED": "FAILED_PRECONDITION",
    "TRAINER_STEP_DECREASED": "FAILED_PRECONDITION",
    "ENTROPY_KIND_CHANGED": "FAILED_PRECONDITION",
    "FIELD_NOT_LIVE": "FAILED_PRECONDITION",
    "SNAPSHOT_MISMATCH": "FAILED_PRECONDITION",
    "HISTORY_EXPIRED": "FAILED_PRECONDITION",
    "STATE_REGRESSED": "FAILED_PRECONDITION",
    "ETAG_MISMATCH": "ABORTED",
    "MESSAGE_TOO_LARGE": "RESOURCE_EXHAUSTED",
    "ROUTE_NOT_FOUND": "NOT_FOUND",
    "METHOD_NOT_ALLOWED": "UNIMPLEMENTED",
    "STORE_FULL": "RESOURCE_EXHAUSTED",
    "QUOTA_EXCEEDED": "RESOURCE_EXHAUSTED",
    "RUN_QUOTA_EXCEEDED": "RESOURCE_EXHAUSTED",
    "STORE_UNAVAILABLE": "UNAVAILABLE",
    "CONTENTION": "UNAVAILABLE",
    "WORKER_ENDED": "UNAVAILABLE",
    "DEADLINE_PASSED": "DEADLINE_EXCEEDED",
    "INTERNAL": "INTERNAL",
}
"""Each reason with the name of its gRPC status code (AIP-193)."""


class ServiceError(Exception):
    """A refusal; it changed nothing.

    Attributes:
        reason: One of :data:`CODES`.
        code: Name of the gRPC status code.
        field: Path of the wrong field, with its row where it has rows: ``"rows.rewards[17]"``; empty where none is wrong.
        metadata: The dynamic parts of the message, by name.
        retry_delay_seconds: When to try again; None where that does not help.
    """

    def __init__(self, reason: str, message: str, *, field: str = "", **metadata: object) -> None:
        """``message`` is a template over ``metadata``, so that no dynamic part can be missing there (AIP-193)."""
        parts = {name: _shortened(part) for name, part in ({"field": field, **metadata} if field else metadata).items()}
        super().__init__(message.format(**parts))
        self.reason = reason
        self.code = CODES[reason]
        self.field = str(parts.get("field", ""))
        self.metadata = {name: str(value) for name, value in parts.items()}
        self.retry_delay_seconds = RETRY_DELAY_SECONDS if self.code == "UNAVAILABLE" else None


def _shortened(part: object) -> object:
    if not isinstance(part, str) or len(encoded := part.encode()) <= LONGEST_PART_BYTES:
        return part
    half = LONGEST_PART_BYTES // 2
    return f"{encoded[:half].decode(errors='ignore')}...{encoded[-half:].decode(errors='ignore')}"


class StoreUnavailableError(ServiceError):
    """The store cannot be used now; ``remedy`` says what can be done."""

    def __init__(self, problem: str, remedy: str = "try again") -> None:
        message = "the store cannot be used now: {problem}; {remedy}"
        super().__init__("STORE_UNAVAILABLE", message, problem=problem, remedy=remedy)


class StoreFullError(ServiceError):
    """The store has no room left."""

    def __init__(self, problem: str) -> None:
        super().__init__("STORE_FULL", "the store has no room: {problem}; an operator must make some", problem=problem)


class QuotaExceededError(ServiceError):
    """The project uses more than it may."""

    def __init__(self, reason: str, message: str, retry_delay_seconds: float, **metadata: object) -> None:
        super().__init__(reason, message, field="", **metadata)
        self.retry_delay_seconds = retry_delay_seconds


class DuplicateObservationError(Exception):
    """The branch has an observation of that id, or of that revision, already."""


def invalid(field: str, problem: str, /, **metadata: object) -> ServiceError:
    """A request field that is wrong; ``problem`` is a template over ``metadata``."""
    return ServiceError("INVALID_FIELD", "{field}: " + problem, field=field, **metadata)


_ROW_COLUMNS = {
    "rewards", "group_index", "rollout_index", "statuses", "solved", "policy_versions", "current_policy_version",
}  # fmt: skip


def of_maths(error: FadeError, config_prefix: str = "run.config.") -> ServiceError:
    """What the maths refused, with the field as the contract names it."""
    if isinstance(error, InvalidBatchError):
        field = f"rows.{error.field}" if error.field in _ROW_COLUMNS else error.field
        path = field if error.row is None else f"{field}[{error.row}]"
        return invalid(path, "{problem}", problem=error.problem)
    if isinstance(error, InvalidConfigError):
        path = config_prefix + error.field
        return ServiceError("INVALID_CONFIG", "{field}: {problem}", field=path, problem=error.problem)
    if isinstance(error, EntropyKindError):
        details = {"environment": error.environment, "known": error.known, "reported": error.reported}
        return ServiceError("ENTROPY_KIND_CHANGED", "{problem}", problem=str(error), **details)
    raise error
