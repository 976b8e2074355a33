"""The contract's messages as JSON schemas, for the OpenAPI page."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

_WELL_KNOWN = {"google.protobuf.Timestamp": {"type": "string", "format": "date-time"}}

_SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptor.CPPTYPE_INT32: {"type": "integer"},
    FieldDescriptor.CPPTYPE_INT64: {"type": "string", "format": "int64"},
    FieldDescriptor.CPPTYPE_DOUBLE: {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    FieldDescriptor.CPPTYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.CPPTYPE_STRING: {"type": "string"},
}


def response_of(message: type[Message]) -> dict[int | str, dict[str, Any]]:
    """The OpenAPI `responses` of an endpoint that answers with this message."""
    return {200: {"content": {"application/json": {"schema": _object(message.DESCRIPTOR)}}}}


def _object(descriptor: Any) -> dict[str, Any]:
    if descriptor.full_name in _WELL_KNOWN:
        return _WELL_KNOWN[descriptor.full_name]
    return {
        "title": descriptor.name,
        "type": "object",
        "properties": {field.name: _field(field) for field in descriptor.fields},
    }


def _field(field: FieldDescriptor) -> dict[str, Any]:
    if field.enum_type is not None:
        one: dict[str, Any] = {"type": "string", "enum": [value.name for value in field.enum_type.values]}
    elif field.message_type is not None:
        one = _object(field.message_type)
    else:
        one = _SCALARS[field.cpp_type]
    return {"type": "array", "items": one} if _is_repeated(field) else one


def _is_repeated(field: FieldDescriptor) -> bool:
    described: Any = field
    if hasattr(described, "is_repeated"):  # new in protobuf 6; `label` is gone from 7
        return bool(described.is_repeated)
    return bool(described.label == FieldDescriptor.LABEL_REPEATED)
