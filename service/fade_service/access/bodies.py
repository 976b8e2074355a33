"""How much of a request's body is read: enough for what belongs there, and no more, whoever sends it."""

from __future__ import annotations

from fastapi import HTTPException
from starlette.types import Message, Receive

OPEN_LIMIT_BYTES = 16 * 2**10
"""Of a request by somebody who was not asked who he is: a login."""

LIMIT_BYTES = 16 * 2**20
"""Of any other, as for gRPC."""


def bounded(receive: Receive, limit: int) -> Receive:
    """The same source of a body, which ends with HTTPException (413) once more than `limit` bytes came."""
    read = 0

    async def receive_bounded() -> Message:
        nonlocal read
        message = await receive()
        read += len(message.get("body", b""))
        if read > limit:
            # with the connection closed, the rest is not even received
            raise HTTPException(413, f"the body has more than {limit} bytes; send less", {"connection": "close"})
        return message

    return receive_bounded
