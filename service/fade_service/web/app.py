"""The HTTP side: health, metrics, the dashboard and its API with its OpenAPI page; nothing of it comes from elsewhere."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi_offline import FastAPIOffline
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from fade_service.access.http_gate import HttpGate
from fade_service.access.policy import Access
from fade_service.errors import ServiceError, invalid
from fade_service.health import Health
from fade_service.insight import Insight
from fade_service.metrics import Metrics
from fade_service.web.answers import REFUSALS, of_framework, of_invalid, of_refusal
from fade_service.web.courses import add_courses
from fade_service.web.events import add_events
from fade_service.web.explorer import add_explorer
from fade_service.web.operate import add_operate
from fade_service.web.page import add_page
from fade_service.web.runs import add_runs
from fade_service.web.session import add_session


def make_app(insight: Insight, metrics: Metrics, health: Health, access: Access) -> FastAPI:
    """The application. Handlers are plain functions, so that the store is read on worker threads."""
    app: FastAPI = FastAPIOffline(
        title="FADE scheduler",
        summary="What the scheduler holds: runs, schedules, history, and what can be asked of them.",
        version="v1",
        responses=REFUSALS,
    )
    app.add_middleware(HttpGate, access=access, routes=app.routes, refused=of_refusal)

    @app.exception_handler(ServiceError)
    def refuse(request: Request, error: ServiceError) -> JSONResponse:
        return of_refusal(error)

    @app.exception_handler(RequestValidationError)
    def refuse_value(request: Request, error: RequestValidationError) -> JSONResponse:
        return of_invalid(error)

    @app.exception_handler(UnicodeEncodeError)
    def refuse_text(request: Request, error: UnicodeEncodeError) -> JSONResponse:
        return of_refusal(invalid("body", "holds {text}, which is no Unicode text", text=ascii(error.object)))

    @app.exception_handler(HTTPException)
    def refuse_request(request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:  # the framework names those of one route of the path only
            found = [route for route in app.routes if route.matches(request.scope)[0] is Match.PARTIAL]
            methods = {name for route in found if isinstance(route, Route) for name in route.methods or ()}
            error.headers = {"Allow": ", ".join(sorted(methods))}
        return of_framework(error, request.url.path)

    @app.get("/healthz", tags=["health"])
    def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"], responses={503: {"description": "The same, with what is wrong."}})
    def readyz() -> JSONResponse:
        """Every component serves: 200, else 503 with what is wrong."""
        problems = health.problems()
        return JSONResponse({"status": "not ready" if problems else "ok", "problems": problems}, 503 if problems else 200)

    @app.get("/metrics", tags=["health"], response_class=PlainTextResponse)
    def prometheus() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    add_runs(app, insight.runs)
    add_courses(app, insight)
    add_events(app, insight)
    add_operate(app, insight.runs)
    add_explorer(app)
    add_session(app, access)
    add_page(app)
    return app
