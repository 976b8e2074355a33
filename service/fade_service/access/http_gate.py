"""The gate in front of every HTTP route, and the client certificate of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from starlette.datastructures import Headers, QueryParams
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fade_service.access.limits import HEADER_LIMIT_BYTES
from fade_service.access.policy import OPEN, ROUTES, Access
from fade_service.access.tls import subjects_of_connection
from fade_service.access.tokens import ALL_PROJECTS
from fade_service.errors import ServiceError

_SUBJECTS = "fade.subjects"


class HttpGate:
    """ASGI middleware: lets in who belongs.

    Args:
        app: What it stands in front of.
        access: What is asked.
        routes: The application's; a path that none of them has is let through to be answered with "not found".
        refused: Makes the answer to who does not belong.
    """

    def __init__(
        self, app: ASGIApp, access: Access, routes: Sequence[BaseRoute], refused: Callable[[ServiceError], Response]
    ) -> None:
        self._app = app
        self._access = access
        self._routes = routes
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                self._check(scope)
            except ServiceError as refusal:
                await self._refused(refusal)(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        found = self._route(scope)
        if found is None:
            return
        route, parameters = found
        rule = ROUTES.get(route)
        if rule == OPEN:
            return
        caller = self._access.admit(f"{scope['method']} {route}", rule, Headers(scope=scope).get("authorization"))
        self._access.check_subjects(scope.get(_SUBJECTS, ()))
        assert rule is not None  # else it was refused
        if rule.project:
            caller.check_project(parameters.get(rule.project, ALL_PROJECTS))

    def _route(self, scope: Scope) -> tuple[str, dict[str, str]] | None:
        """The declared path of the route that will answer, and the parameters of the request; those in the path win."""
        partial = None
        for route in self._routes:
            match, more = route.matches(scope)
            if match is Match.NONE:
                continue
            found = (getattr(route, "path", ""), dict(QueryParams(scope["query_string"])) | more.get("path_params", {}))
            if match is Match.FULL:
                return found
            partial = partial or found
        return partial


class Protocol(H11Protocol):
    """HTTP/1.1 that bounds headers, and tells the application who the connection's client certificate names."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        app, subjects = self.app, subjects_of_connection(transport.get_extra_info("peercert"))

        async def bounded(scope: Any, receive: Any, send: Any) -> None:
            # h11 compares with its own limit only what arrived in pieces
            size = sum(len(name) + len(value) for name, value in scope["headers"])
            if size > HEADER_LIMIT_BYTES:
                problem = f"the headers have {size} bytes, and {HEADER_LIMIT_BYTES} is the limit"
                await PlainTextResponse(problem, 431)(scope, receive, send)
            else:
                await app({**scope, _SUBJECTS: subjects}, receive, send)

        self.app = bounded
