"""Errors as gRPC statuses with details (AIP-193)."""

from __future__ import annotations

import math
from typing import NoReturn

import grpc
from google.protobuf.any_pb2 import Any
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status.rpc_status import to_status

from fade_service.errors import DOMAIN, ServiceError
from fade_service.logs import CALL, REQUEST_ID, Call


def abort(context: grpc.ServicerContext, error: ServiceError) -> NoReturn:
    """Ends the handler with the error's status and details."""
    details = [_packed(ErrorInfo(reason=error.reason, domain=DOMAIN, metadata=error.metadata))]
    if error.code == "INVALID_ARGUMENT":
        violation = BadRequest.FieldViolation(field=error.field, description=str(error))
        details.append(_packed(BadRequest(field_violations=[violation])))
    if error.retry_delay_seconds is not None:
        delay = Duration()
        delay.FromMilliseconds(math.ceil(error.retry_delay_seconds * 1000))
        details.append(_packed(RetryInfo(retry_delay=delay)))
    code = grpc.StatusCode[error.code]
    status = to_status(Status(code=code.value[0], message=str(error), details=details))
    call = CALL.get() or Call(context.invocation_metadata)
    context.set_code(code)  # for who wraps the context to trace calls
    metadata = (*status.trailing_metadata, (REQUEST_ID, call.id))
    context.abort_with_status(status._replace(trailing_metadata=metadata))  # type: ignore[attr-defined]  # a named tuple


def _packed(message: ErrorInfo | BadRequest | RetryInfo) -> Any:
    packed = Any()
    packed.Pack(message)
    return packed
