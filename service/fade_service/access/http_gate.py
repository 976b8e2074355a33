"""The gate in front of every HTTP route, and the client certificate of a connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from starlette.datastructures import Headers, QueryParams
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from fade_service.access.bodies import LIMIT_BYTES, OPEN_LIMIT_BYTES, bounded
from fade_service.access.limits import HEADER_LIMIT_BYTES
from fade_service.access.policy import OPEN, ROUTES, Access, Caller, is_loopback
from fade_service.access.tls import subjects_of_connection
from fade_service.access.tokens import ALL_PROJECTS
from fade_service.errors import ServiceError

COOKIE = "fade_token"
"""Where a browser keeps its token. It counts where no header has one."""

MARK = "x-fade-request"
"""A header that only the dashboard's own page can send: pages of other sites may not, so they change nothing with the cookie."""

_CALLER = "fade.caller"
_SUBJECTS = "fade.subjects"
_READING = ("GET", "HEAD", "OPTIONS")


def caller_of(scope: Scope) -> Caller:
    """Who makes the request, once it is through the gate."""
    caller: Caller = scope.get(_CALLER) or Caller()
    return caller


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
                limit = self._check(scope)
            except ServiceError as refusal:
                await self._refused(refusal)(scope, receive, send)
                return
            receive = bounded(receive, limit)
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> int:
        """Lets the request in, or raises; how many bytes its body may have."""
        found = self._route(scope)
        if found is None:
            return OPEN_LIMIT_BYTES
        route, parameters = found
        headers, reads = Headers(scope=scope), scope["method"] in _READING
        if not reads:
            self._check_site(headers)
        if not self._access.asks:
            return LIMIT_BYTES
        rule = ROUTES.get(route if reads else f"{scope['method']} {route}")
        if rule == OPEN:
            return OPEN_LIMIT_BYTES
        caller = self._access.admit(f"{scope['method']} {route}", rule, _authorization(headers))
        subjects = scope.get(_SUBJECTS, ())
        self._access.check_subjects(subjects)
        assert rule is not None  # else it was refused
        if rule.project:
            caller.check_project(parameters.get(rule.project, ALL_PROJECTS))
        scope[_CALLER] = replace(caller, subject=", ".join(sorted(subjects)))
        return LIMIT_BYTES

    def _check_site(self, headers: Headers) -> None:
        """Refuses a change that another site's page may have sent from this browser."""
        if "authorization" in headers:
            return
        if MARK not in headers:
            problem = "a change needs the header {header}: dashboard, or a token in the header authorization"
            raise ServiceError("CROSS_SITE", problem, header=MARK)
        host = urlsplit(f"//{headers.get('host', '')}").hostname or ""
        if not (self._access.identifies or self._access.insecure_public or is_loopback(host)):
            problem = (
                "the server asks nobody who they are, so it is changed from its own machine only, not as {host}; give --tokens"
            )
            raise ServiceError("CROSS_SITE", problem, host=host)

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


def _authorization(headers: Headers) -> str | None:
    given = headers.get("authorization")
    if given is not None:
        return given
    token = cookie_parser(headers.get("cookie", "")).get(COOKIE)
    return f"Bearer {token}" if token else None


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
