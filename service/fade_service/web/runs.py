"""The read API: the contract's reading calls over HTTP."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query
from fastapi.responses import JSONResponse

from fade_proto.v1 import run_pb2, scheduler_pb2
from fade_service import scheduler
from fade_service.names import run_name
from fade_service.runs import Runs
from fade_service.web.answers import of_message
from fade_service.web.schema import response_of

PageSize = Annotated[int, Query(description="At most this many; 0 means the default.", ge=0, lt=2**31)]
PageToken = Annotated[str, Query(description="next_page_token of the page before, all else as it was.")]
Branch = Annotated[str, Query(description="Empty means the branch that is written now.")]


def add_runs(app: FastAPI, runs: Runs) -> None:
    """ListRuns, GetRun, GetSchedule, ListObservations."""

    @app.get("/api/v1/runs", tags=["runs"], responses=response_of(scheduler_pb2.ListRunsResponse))
    def list_runs(
        project: Annotated[str, Query(description='"-" means all projects.')] = "-",
        page_size: PageSize = 0,
        page_token: PageToken = "",
    ) -> JSONResponse:
        """The runs, in the order of their names."""
        request = scheduler_pb2.ListRunsRequest(parent=f"projects/{project}", page_size=page_size, page_token=page_token)
        return of_message(scheduler.list_runs(runs, request))

    @app.get("/api/v1/runs/{project}/{run}", tags=["runs"], responses=response_of(run_pb2.Run))
    def get_run(project: str, run: str) -> JSONResponse:
        """One run."""
        return of_message(scheduler.get_run(runs, scheduler_pb2.GetRunRequest(name=run_name(project, run))))

    @app.get("/api/v1/runs/{project}/{run}/schedule", tags=["runs"], responses=response_of(scheduler_pb2.GetScheduleResponse))
    def get_schedule(
        project: str,
        run: str,
        branch: Branch = "",
        revision: Annotated[int | None, Query(description="Unset means the newest.", ge=0, lt=2**63)] = None,
    ) -> JSONResponse:
        """The schedules after a revision."""
        request = scheduler_pb2.GetScheduleRequest(name=run_name(project, run), branch=branch, revision=revision)
        return of_message(scheduler.get_schedule(runs, request))

    @app.get(
        "/api/v1/runs/{project}/{run}/observations", tags=["runs"], responses=response_of(scheduler_pb2.ListObservationsResponse)
    )
    def list_observations(
        project: str, run: str, branch: Branch = "", page_size: PageSize = 0, page_token: PageToken = ""
    ) -> JSONResponse:
        """The history along one line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(
            parent=run_name(project, run), branch=branch, page_size=page_size, page_token=page_token
        )
        return of_message(scheduler.list_observations(runs, request))
