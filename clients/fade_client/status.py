"""From a gRPC status to this package's exceptions (AIP-193), read without googleapis or grpcio-status."""

from __future__ import annotations

import re
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from fade_client.errors import FadeClientError, RejectedError, UnavailableError
from fade_proto.v1 import error_details_pb2

_TRANSIENT_REASONS = ("STORE_FULL", "QUOTA_EXCEEDED")
"""Refusals under codes other than UNAVAILABLE that pass with time or by an operator's act: the report is kept and sent again."""

_WAYS_OUT = {
    "WRITER_FENCED": "here that is client.load_state_dict(state), from this job's checkpoint, or client.restore(), from the"
    " service's own history",
    "MESSAGE_TOO_LARGE": "report fewer rows per observation",
}

_ROW = re.compile(r"^(?:rows\.)?(.*?)(?:\[(\d+)\])?$", re.DOTALL)


def error_of(error: grpc.RpcError, method: str, address: str) -> FadeClientError:
    """The exception for a failed call."""
    call: Any = error
    code: str = call.code().name
    message: str = call.details() or ""
    info, violation = _details(call)
    reason = info.reason
    if code in ("UNAVAILABLE", "DEADLINE_EXCEEDED", "CANCELLED") or reason in _TRANSIENT_REASONS:
        return UnavailableError(f"{method} at {address} failed with {reason or code}: {message}", code, reason)
    if code == "RESOURCE_EXHAUSTED" and not reason:  # from gRPC itself, before the service saw it
        reason = "MESSAGE_TOO_LARGE"
    if reason in _WAYS_OUT and _WAYS_OUT[reason] not in message:
        message = f"{message}; {_WAYS_OUT[reason]}"
    field, row = "", None
    if violation is not None:
        match = _ROW.match(violation.field)
        assert match is not None  # every string matches
        field, row = match[1], None if match[2] is None else int(match[2])
    return RejectedError(message, reason or code, field, row, code, dict(info.metadata))


def _details(call: Any) -> tuple[error_details_pb2.ErrorInfo, error_details_pb2.BadRequest.FieldViolation | None]:
    info, request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    blob = dict(call.trailing_metadata() or ()).get("grpc-status-details-bin")
    if blob is None:
        return info, None
    try:
        for detail in error_details_pb2.Status.FromString(blob).details:
            if detail.type_url.endswith(".ErrorInfo"):
                info.ParseFromString(detail.value)
            elif detail.type_url.endswith(".BadRequest"):
                request.ParseFromString(detail.value)
    except DecodeError:  # a proxy's, not the service's
        return error_details_pb2.ErrorInfo(), None
    return info, request.field_violations[0] if request.field_violations else None
