"""Logging in to the dashboard: the token that the other ports take, kept in a cookie that scripts cannot read."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from pydantic import BaseModel, Field

from fade_service.access.http_gate import COOKIE, caller_of
from fade_service.access.policy import ANY_TOKEN, Access, Caller
from fade_service.web.answers import of_data


class Login(BaseModel):
    """A token."""

    token: str = Field(max_length=1000, pattern="^[!-~]*$")  # what a header carries


def add_session(app: FastAPI, access: Access) -> None:
    """Who is logged in, login, logout."""

    @app.get("/api/v1/session", tags=["dashboard"])
    def session(request: Request) -> Response:
        """Who calls, and what he may."""
        return of_data(_described(access, caller_of(request.scope)))

    @app.post("/api/v1/session", tags=["dashboard"])
    def log_in(request: Request, login: Login) -> Response:
        """Keeps the token in a cookie of this browser session, if it is known."""
        answer = of_data(_described(access, access.admit("login", ANY_TOKEN, f"Bearer {login.token}")))
        secure = request.url.scheme == "https"
        answer.set_cookie(COOKIE, login.token, httponly=True, samesite="strict", secure=secure)
        return answer

    @app.delete("/api/v1/session", tags=["dashboard"], status_code=204)
    def log_out() -> Response:
        """Forgets it."""
        answer = Response(status_code=204)
        answer.delete_cookie(COOKIE, httponly=True, samesite="strict")
        return answer


def _described(access: Access, caller: Caller) -> dict[str, Any]:
    return {
        "login_required": access.tokens is not None,
        "token": caller.token,
        "project": caller.project,
        "role": caller.role.name.lower(),
    }
