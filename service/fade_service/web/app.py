"""The HTTP side: /healthz, /readyz, /metrics, and the read API with its OpenAPI page, which needs nothing from elsewhere."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from fastapi_offline import FastAPIOffline
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from fade_proto.v1 import run_pb2, scheduler_pb2
from fade_service import scheduler
from fade_service.access.http_gate import HttpGate
from fade_service.access.policy import Access
from fade_service.errors import ServiceError
from fade_service.health import Health
from fade_service.metrics import Metrics
from fade_service.names import run_name
from fade_service.runs import Runs
from fade_service.web.schema import response_of

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
}

PageSize = Annotated[int, Query(description="At most this many; 0 means the default.", ge=0, lt=2**31)]
PageToken = Annotated[str, Query(description="next_page_token of the page before, all else as it was.")]
Branch = Annotated[str, Query(description="Empty means the branch that is written now.")]


def make_app(runs: Runs, metrics: Metrics, health: Health, access: Access) -> FastAPI:
    """The application. Handlers are plain functions, so that the store is read on worker threads."""
    app: FastAPI = FastAPIOffline(
        title="FADE scheduler",
        summary="What the scheduler holds: runs, schedules, history. Reading only; writing is gRPC's (proto/fade/v1).",
        version="v1",
    )

    if access.asks:
        app.add_middleware(HttpGate, access=access, routes=app.routes, refused=_refusal)

    @app.exception_handler(ServiceError)
    def refuse(request: Request, error: ServiceError) -> JSONResponse:
        return _refusal(error)

    @app.get("/", include_in_schema=False)
    def root() -> RedirectResponse:
        return RedirectResponse("/docs")

    @app.get("/healthz", tags=["health"])
    def healthz() -> dict[str, str]:
        """The process answers."""
        return {"status": "ok"}

    @app.get("/readyz", tags=["health"])
    def readyz() -> JSONResponse:
        """Every component serves: 200, else 503 with what is wrong."""
        problems = health.problems()
        return JSONResponse({"status": "not ready" if problems else "ok", "problems": problems}, 503 if problems else 200)

    @app.get("/metrics", tags=["health"])
    def prometheus() -> Response:
        """Prometheus metrics."""
        return Response(generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.get("/api/v1/runs", tags=["runs"], responses=response_of(scheduler_pb2.ListRunsResponse))
    def list_runs(
        project: Annotated[str, Query(description='"-" means all projects.')] = "-",
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> JSONResponse:
        """The runs, in the order of their names."""
        request = scheduler_pb2.ListRunsRequest(parent=f"projects/{project}", page_size=page_size, page_token=page_token)
        return _json(scheduler.list_runs(runs, request))

    @app.get("/api/v1/runs/{project}/{run}", tags=["runs"], responses=response_of(run_pb2.Run))
    def get_run(project: str, run: str) -> JSONResponse:
        """One run."""
        return _json(scheduler.get_run(runs, scheduler_pb2.GetRunRequest(name=run_name(project, run))))

    @app.get("/api/v1/runs/{project}/{run}/schedule", tags=["runs"], responses=response_of(scheduler_pb2.GetScheduleResponse))
    def get_schedule(
        project: str,
        run: str,
        branch: Branch = "",
        revision: Annotated[int | None, Query(description="Unset means the newest.", ge=0, lt=2**63)] = None,
    ) -> JSONResponse:
        """The schedules after a revision."""
        name = run_name(project, run)
        return _json(scheduler.get_schedule(runs, scheduler_pb2.GetScheduleRequest(name=name, branch=branch, revision=revision)))

    @app.get(
        "/api/v1/runs/{project}/{run}/observations",
        tags=["runs"],
        responses=response_of(scheduler_pb2.ListObservationsResponse),
    )
    def list_observations(
        project: str, run: str, branch: Branch = "", page_size: PageSize = 0, page_token: PageToken = ""
    ) -> JSONResponse:
        """The history along one line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(
            parent=run_name(project, run), branch=branch, page_size=page_size, page_token=page_token
        )
        return _json(scheduler.list_observations(runs, request))

    return app


def _refusal(error: ServiceError) -> JSONResponse:
    body = {"code": error.code, "reason": error.reason, "message": str(error), "metadata": error.metadata}
    headers = {"WWW-Authenticate": "Bearer"} if error.code == "UNAUTHENTICATED" else None
    return JSONResponse({"error": body}, _HTTP_STATUS[error.code], headers)


def _json(message: Message) -> JSONResponse:
    """The message in protobuf's JSON mapping, names as in the contract; 64-bit integers are strings there."""
    content: dict[str, Any] = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return JSONResponse(content)
