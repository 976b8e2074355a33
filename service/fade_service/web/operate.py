"""What an operator changes over HTTP: the knobs and the mode of a run."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import UpdateRunRequest
from fade_service import scheduler
from fade_service.access import audit
from fade_service.access.http_gate import caller_of
from fade_service.access.limits import check_text
from fade_service.names import run_name
from fade_service.runs import Runs
from fade_service.web.answers import of_data, of_message
from fade_service.web.config import config_fields, config_message
from fade_service.web.schema import response_of


class Update(BaseModel):
    """Fields of the configuration with their new values; null is the default."""

    config: dict[str, Any]
    reason: str = ""
    etag: str = ""
    validate_only: bool = False


def add_operate(app: FastAPI, runs: Runs) -> None:
    """UpdateRun, and the table of what it takes."""

    @app.get("/api/v1/config_fields", tags=["dashboard"])
    def list_config_fields() -> Response:
        """The fields of a run's configuration: type, unit, default, may it change live, can it be simulated."""
        return of_data(config_fields())

    @app.patch("/api/v1/runs/{project}/{run}", tags=["dashboard"], responses=response_of(run_pb2.Run))
    def update_run(request: Request, project: str, run: str, update: Update) -> JSONResponse:
        """Changes the fields named; the change takes effect with the next observation and is kept in the history."""
        config, paths = config_message(update.config, "config.")
        wanted = UpdateRunRequest(
            run=run_pb2.Run(name=run_name(project, run), config=config, etag=update.etag),
            reason=update.reason,
            validate_only=update.validate_only,
        )
        wanted.update_mask.paths.extend(f"config.{path}" for path in paths)
        check_text("UpdateRun", wanted)
        if update.validate_only:
            return of_message(scheduler.update_run(runs, wanted))
        peer = "" if request.client is None else f"{request.client.host}:{request.client.port}"
        with audit.told(runs, "UpdateRun", wanted, caller_of(request.scope), peer) as entry:
            entry.after = scheduler.update_run(runs, wanted)
        return of_message(entry.after)
