"""One server's insight into the runs of its store."""

from __future__ import annotations

from fade_proto.v1.scheduler_pb2 import SimulateRunRequest, SimulateRunResponse
from fade_service.insight.feed import Feed
from fade_service.insight.lines import Lines
from fade_service.insight.overview import Overview
from fade_service.insight.whatif import simulate_run
from fade_service.insight.worker import Worker
from fade_service.runs import Runs


class Insight:
    """What has to be kept between questions: decoded lines, the runs as last listed, the worker."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self._worker = Worker()
        self.lines = Lines(runs, self._worker)
        self.overview = Overview(runs)
        self.feed = Feed(runs, self.lines, self.overview)

    def simulate_run(self, request: SimulateRunRequest) -> SimulateRunResponse:
        """SimulateRun."""
        return simulate_run(self.runs, self.lines, self._worker, request)

    def close(self) -> None:
        """Ends the feed and the worker."""
        self.feed.close()
        self._worker.close()
