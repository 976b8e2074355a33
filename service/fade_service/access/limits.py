"""Lengths of what callers may write freely, and the size of headers. Names have their limits in fade_service.names."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from fade_service.names import checked_text

HEADER_LIMIT_BYTES = 16 * 2**10
"""Of all headers of an HTTP request, and of all metadata of a gRPC call."""

TEXTS = {"UpdateRun": ("reason", 1000), "Observe": ("late.source", 128)}
"""The field of each method that goes into the history as it is written, and the characters that it may have."""


def check_text(method: str, request: Any) -> None:
    """Refuses a text that is too long, or that holds a control character.

    Raises:
        ServiceError: INVALID_FIELD.
    """
    field, most = TEXTS[method]
    checked_text(field, attrgetter(field)(request), most)
