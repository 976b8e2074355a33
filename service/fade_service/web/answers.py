"""Answers over HTTP: messages of the contract, plain data, refusals."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from starlette.exceptions import HTTPException

from fade_service.errors import ServiceError, invalid

_HTTP_STATUS = {
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "NOT_FOUND": 404,
    "ALREADY_EXISTS": 409,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
    "UNIMPLEMENTED": 405,
}

_REASONS = {404: "ROUTE_NOT_FOUND", 405: "METHOD_NOT_ALLOWED", 413: "MESSAGE_TOO_LARGE"}
"""Of what the framework answers by itself."""


def of_message(message: Message) -> JSONResponse:
    """The message in protobuf's JSON mapping."""
    return JSONResponse(in_json(message))


def in_json(message: Message) -> dict[str, Any]:
    """protobuf's JSON mapping, names as in the contract; 64-bit integers are strings there."""
    return MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)


def of_data(data: Any) -> Response:
    """Plain data; numpy arrays are lists, and numbers that JSON has not are null."""
    return Response(encoded(data), media_type="application/json")


def encoded(data: Any) -> bytes:
    """Its JSON, on one line."""
    return orjson.dumps(data, option=orjson.OPT_SERIALIZE_NUMPY)


_REFUSAL_SCHEMA = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {
                "code": {"type": "string"},
                "reason": {"type": "string"},
                "message": {"type": "string"},
                "metadata": {"type": "object", "additionalProperties": {"type": "string"}},
            },
        }
    },
}

REFUSALS: dict[int | str, dict[str, Any]] = {
    range_: {"description": description, "content": {"application/json": {"schema": _REFUSAL_SCHEMA}}}
    for range_, description in (("4XX", "The request is refused."), ("5XX", "The server cannot answer now."))
}
"""The OpenAPI `responses` that every endpoint has."""


def of_invalid(error: RequestValidationError) -> JSONResponse:
    """A parameter or a body that is not of its kind: the first problem, in the form of every refusal."""
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"])
    answer = of_refusal(invalid(field, "{problem}", problem=first["msg"]))
    answer.status_code = 422
    return answer


def of_framework(error: HTTPException, path: str) -> Response:
    """No such route, no such method on it, too large a body: in the form of every refusal."""
    problem = f"{path}: {error.detail}"
    answer = of_refusal(ServiceError(_REASONS.get(error.status_code, "INVALID_FIELD"), "{problem}", problem=problem))
    answer.status_code = error.status_code
    answer.headers.update(error.headers or {})
    return answer


def of_refusal(error: ServiceError) -> JSONResponse:
    """What was refused, and why."""
    metadata = {name: _unicode(value) for name, value in error.metadata.items()}
    body = {"code": error.code, "reason": error.reason, "message": _unicode(str(error)), "metadata": metadata}
    headers = {"WWW-Authenticate": "Bearer"} if error.code == "UNAUTHENTICATED" else None
    return JSONResponse({"error": body}, _HTTP_STATUS[error.code], headers)


def _unicode(text: str) -> str:
    """The text without lone surrogates, which JSON can carry in and UTF-8 cannot carry out."""
    return text.encode(errors="backslashreplace").decode()
