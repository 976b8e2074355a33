"""The service as the commands call it."""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterator
from types import TracebackType

from fade_client.errors import RejectedError
from fade_client.operate.exits import NoSuchRunError
from fade_client.settings import read_address, read_tls, read_token
from fade_client.transport import Deadline, Transport
from fade_proto.v1 import run_pb2, scheduler_pb2

DEFAULT_ADDRESS = "localhost:50051"

CALL_SECONDS = 10.0

_LISTED_NAMES = 5


class Remote:
    """The service at an address. A context manager; safe in any thread.

    Args:
        address: HOST:PORT; default ``FADE_ADDRESS``, else the server of this machine.
        call_seconds: The longest that one call may take, over all attempts.

    Raises:
        SettingsError: The address is none, ``FADE_TOKEN`` cannot be sent, or ``FADE_TLS_*`` name files that cannot be used.
    """

    def __init__(self, address: str | None, call_seconds: float = CALL_SECONDS) -> None:
        self.address = read_address(address or os.environ.get("FADE_ADDRESS") or DEFAULT_ADDRESS, {})
        self._seconds = call_seconds
        self._transport = Transport(self.address, read_token(None, os.environ), read_tls(None, None, os.environ))

    def __enter__(self) -> Remote:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._transport.close()

    def is_serving(self) -> bool:
        """Whether the service says that it is healthy."""
        return self._transport.is_serving(Deadline(self._seconds))

    def runs(self, project: str) -> list[run_pb2.Run]:
        """All runs of a project, in the order of their names; "-" for all projects'."""
        runs: list[run_pb2.Run] = []
        request = scheduler_pb2.ListRunsRequest(parent=f"projects/{project}", page_size=1000)
        while True:
            page: scheduler_pb2.ListRunsResponse = self._transport.call("ListRuns", request, Deadline(self._seconds))
            runs.extend(page.runs)
            if not page.next_page_token:
                return runs
            request.page_token = page.next_page_token

    def run(self, name: str) -> run_pb2.Run:
        """One run.

        Raises:
            NoSuchRunError: There is none; names those that it could have been.
        """
        try:
            run: run_pb2.Run = self._transport.call("GetRun", scheduler_pb2.GetRunRequest(name=name), Deadline(self._seconds))
        except RejectedError as error:
            if error.reason != "RUN_NOT_FOUND":
                raise
            raise NoSuchRunError(self._nearest(name)) from None
        return run

    def schedules(self, name: str) -> scheduler_pb2.GetScheduleResponse:
        """A run's schedules and averages as they stand."""
        request = scheduler_pb2.GetScheduleRequest(name=name)
        response: scheduler_pb2.GetScheduleResponse = self._transport.call("GetSchedule", request, Deadline(self._seconds))
        return response

    def observations(
        self, name: str, branch: str = "", page_token: str = "", page_size: int = 1000
    ) -> Iterator[scheduler_pb2.ListObservationsResponse]:
        """The pages of a line of history from a token on, oldest first; there is always one."""
        request = scheduler_pb2.ListObservationsRequest(parent=name, branch=branch, page_size=page_size, page_token=page_token)
        while True:
            page: scheduler_pb2.ListObservationsResponse = self._transport.call(
                "ListObservations", request, Deadline(self._seconds)
            )
            yield page
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def simulate(self, request: scheduler_pb2.SimulateRunRequest) -> scheduler_pb2.SimulateRunResponse:
        """What other settings would have scheduled."""
        response: scheduler_pb2.SimulateRunResponse = self._transport.call("SimulateRun", request, Deadline(self._seconds))
        return response

    def update(self, request: scheduler_pb2.UpdateRunRequest) -> run_pb2.Run:
        """Changes a run's configuration."""
        run: run_pb2.Run = self._transport.call("UpdateRun", request, Deadline(self._seconds))
        return run

    def complete(self, name: str) -> None:
        """Ends a run."""
        self._transport.call("CompleteRun", scheduler_pb2.CompleteRunRequest(name=name), Deadline(self._seconds))

    def delete(self, name: str, etag: str) -> None:
        """Deletes a run of this etag with its history."""
        self._transport.call("DeleteRun", scheduler_pb2.DeleteRunRequest(name=name, etag=etag), Deadline(self._seconds))

    def _nearest(self, name: str) -> str:
        _, project, _, run = name.split("/")
        known = {item.name.rpartition("/")[2]: item for item in self.runs(project)}
        said = f"there is no run {run} in project {project} at {self.address}"
        if not known:
            return f"{said}, which has none; `fade runs list --project -` lists all projects' runs"
        near = difflib.get_close_matches(run, known, n=_LISTED_NAMES)
        if near:
            return f"{said}; the nearest: {', '.join(near)}"
        return f"{said}; `fade runs list --all --project {project}` lists the {len(known)} that there are"
