"""HTTP requests in the log."""

from __future__ import annotations

import logging
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fade_service.logs import CALL, REQUEST_ID, Call, Event, milliseconds

_log = logging.getLogger(__name__)


class HttpCalls:
    """ASGI middleware: gives each HTTP request its id, which the answer's header tells, and a line when it ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        call = Call(lambda: ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]))
        CALL.set(call)  # not reset: the task is this request's own, and the server logs its failure after this returned
        started = time.perf_counter()
        event = Event(event="request", method=scope["method"], path=scope["path"])

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID] = call.id
                event["status"] = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, answer)
        finally:
            if _log.isEnabledFor(logging.DEBUG):
                _log.debug(Event(event, milliseconds=milliseconds(time.perf_counter() - started)))
