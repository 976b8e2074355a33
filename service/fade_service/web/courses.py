"""What the dashboard draws: all runs at a glance, a run's course, and what other settings would have done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Query
from fastapi.responses import Response
from pydantic import BaseModel, Field

from fade_proto.v1.observation_pb2 import Trajectory
from fade_proto.v1.scheduler_pb2 import SimulateRunRequest
from fade_service.insight import Insight
from fade_service.insight.course import course_of
from fade_service.insight.marks import config_changes
from fade_service.insight.series import LARGEST_POINTS
from fade_service.names import run_name
from fade_service.web.answers import of_data
from fade_service.web.config import config_message
from fade_service.web.runs import Branch

Points = Annotated[int, Query(description="At most so many per environment.", ge=2, le=LARGEST_POINTS)]
Revision = Annotated[int, Query(ge=0, lt=2**63)]


class Setting(BaseModel):
    """Fields of the configuration, with other values than the run's."""

    label: str = Field("", max_length=200)
    config: dict[str, Any]


class Simulation(BaseModel):
    """What to simulate."""

    branch: str = ""
    settings: list[Setting]
    points: int = Field(600, ge=2, le=LARGEST_POINTS)


def add_courses(app: FastAPI, insight: Insight) -> None:
    """Overview, series, configuration changes, simulation."""

    @app.get("/api/v1/overview", tags=["dashboard"])
    def overview(
        project: str = "-",
        query: Annotated[str, Query(description="What the name contains.")] = "",
        state: Literal["active", "completed", "all"] = "all",
        page: Annotated[int, Query(ge=0, lt=2**31)] = 0,
        page_size: Annotated[int, Query(ge=1, le=200)] = 50,
    ) -> Response:
        """The runs, newest report first, with their schedules and their last solve rates."""
        return of_data(insight.overview.page(project, query, state, page, page_size))

    @app.get("/api/v1/runs/{project}/{run}/series", tags=["dashboard"])
    def series(
        project: str, run: str, branch: Branch = "", first: Revision = 0, last: Revision = 2**62, points: Points = 600
    ) -> Response:
        """A branch's telemetry, averaged over stretches of revisions; entropies in nats per token, time in Unix seconds."""
        loaded = insight.runs.load(run_name(project, run))
        line = insight.lines.read(loaded, branch)
        return of_data(course_of(insight.runs, loaded, line, first, last, points))

    @app.get("/api/v1/runs/{project}/{run}/config_changes", tags=["dashboard"])
    def changes(project: str, run: str) -> Response:
        """All versions of the configuration, oldest first."""
        return of_data({"changes": config_changes(insight.runs.load(run_name(project, run)))})

    @app.post("/api/v1/runs/{project}/{run}/simulate", tags=["dashboard"])
    def simulate(project: str, run: str, wanted: Simulation) -> Response:
        """What alpha and delta would have been under other settings, along the telemetry that was recorded."""
        request = SimulateRunRequest(name=run_name(project, run), branch=wanted.branch, max_points=wanted.points)
        for place, setting in enumerate(wanted.settings):
            config, paths = config_message(setting.config, f"settings[{place}].config.")
            one = request.settings.add(label=setting.label, config=config)
            one.update_mask.paths.extend(paths)
        found = insight.simulate_run(request)
        return of_data(
            {
                "branch": found.branch,
                "revision": found.revision,
                "note": found.warnings[0].message,
                "recorded": _trajectories(found.recorded),
                "simulations": [
                    {"label": item.label, "environments": _trajectories(item.trajectories)} for item in found.simulations
                ],
            }
        )


def _trajectories(messages: Any) -> Mapping[str, Mapping[str, list[float]]]:
    columns = [field.name for field in Trajectory.DESCRIPTOR.fields if field.name != "environment"]
    return {message.environment: {name: list(getattr(message, name)) for name in columns} for message in messages}
