"""One run's clients: ranks that report at once, retries, duplicates, a second writer, an operator, restores.

What they do is decided by the run's seed; when their requests meet, and what becomes of each attempt, is not.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from tests.faults import generator
from tests.faults.caller import Caller
from tests.faults.history import Call, Evidence, History

from fade_proto.v1.run_pb2 import HistoryPoint, Run, Snapshot
from fade_proto.v1.scheduler_pb2 import (
    CreateRunRequest,
    GetRunRequest,
    GetScheduleRequest,
    ListObservationsRequest,
    ObserveRequest,
    RestoreRunRequest,
    RestoreRunResponse,
    UpdateRunRequest,
)

PROJECT = "projects/faults"

STEPS = 25

_RANKS = 4


class UnexpectedError(Exception):
    """A client was refused what it should have got, or got what it should have been refused."""


class Job:
    """The clients of one run.

    Args:
        caller: The way to the servers.
        seed: Decides everything that they do.
        run_id: The run.
    """

    def __init__(self, caller: Caller, seed: str, run_id: str) -> None:
        self._caller = caller
        self._draws = random.Random(f"{seed}/{run_id}")
        self._run_id = run_id
        self._config = generator.config(self._draws)
        self.history = History(name=f"{PROJECT}/runs/{run_id}", config=self._config)
        self._pool = ThreadPoolExecutor(_RANKS)
        self._branch = "main"
        self._writer = "writer-0"
        self._writers = 1
        self._branches = 1
        self._number = 0
        self._trainer_step = 0
        self._etag = ""
        self._acknowledged: dict[str, ObserveRequest] = {}

    def play(self) -> None:
        """Plays the run to its end.

        Raises:
            UnexpectedError: An answer that cannot be right whatever went wrong around it.
            StuckError: No answer at all.
        """
        with self._pool:
            request = CreateRunRequest(parent=PROJECT, run_id=self._run_id, run=Run(config=self._config))
            created = self._one("CreateRun", request)
            self._etag = created.etag
            self._contend()
            for _ in range(STEPS):
                getattr(self, f"_{generator.step(self._draws)}")()

    def _contend(self) -> None:
        """Two writers find the run new; one of them gets it."""
        rivals = [self._new_writer(), self._new_writer()]
        reports = [self._new_report(writer=writer) for writer in rivals]
        won = self._observe_at_once(reports, fenced_allowed=True)
        writers = {call.request.writer for call in won}
        if len(writers) != 1:
            raise UnexpectedError(f"{sorted(writers)} write {self._branch} of {self.history.name} together")
        self._writer = writers.pop()

    def _report(self) -> None:
        """Up to three batches, each reported by up to four ranks, all at once."""
        self._trainer_step += 1
        reports = [self._new_report() for _ in range(self._draws.choice((1, 1, 1, 2, 3)))]
        ranks = [report for report in reports for _ in range(self._draws.choice((1, 2, 4)))]
        self._observe_at_once(self._draws.sample(ranks, len(ranks)))

    def _repeat(self) -> None:
        """A batch that was acknowledged long ago is reported again."""
        if self._acknowledged:
            self._observe_at_once([self._draws.choice(list(self._acknowledged.values()))])

    def _contradict(self) -> None:
        """A used id comes with other content."""
        if self._acknowledged:
            request = self._new_report()
            request.observation_id = self._draws.choice(list(self._acknowledged))
            request.rows.rewards[:] = [0.5] * len(request.rows.rewards)  # no report of the generator has these
            self._refused(request, "OBSERVATION_CONFLICT")

    def _intrude(self) -> None:
        """Another writer reports to this branch, while its own does."""
        intruder = self._new_report(writer=self._new_writer())
        other = self._pool.submit(self._refused, intruder, "WRITER_FENCED")
        self._report()
        other.result()

    def _reconfigure(self) -> None:
        """An operator changes the configuration while batches are reported."""
        changed = self._pool.submit(self._update, self._draws.uniform(0.01, 1), self._new_draws())
        self._report()
        changed.result()

    def _resume(self) -> None:
        """The trainer died and goes on from an earlier point; two of its ranks restore at once."""
        if self._draws.random() < 0.7:
            self._writer = self._new_writer()
        request = self._new_restore(self._writer)
        ranks = [self._pool.submit(self._call, "RestoreRun", request, self._new_draws()) for _ in range(2)]
        self._restored(request, [rank.result() for rank in ranks])

    def _take_over(self) -> None:
        """A second writer restores while the first one reports; the first one is fenced from some moment on."""
        writer = self._new_writer()
        reports = [self._new_report() for _ in range(3)]
        request = self._new_restore(writer)
        restored = self._pool.submit(self._call, "RestoreRun", request, self._new_draws())
        self._observe_at_once(reports, fenced_allowed=True)
        self._writer = writer
        self._restored(request, [restored.result()])

    def _race(self) -> None:
        """Two writers restore at once; the one that came last has the run."""
        requests = {request.branch_id: request for request in (self._new_restore(self._new_writer()) for _ in range(2))}
        calls = [self._pool.submit(self._call, "RestoreRun", request, self._new_draws()) for request in requests.values()]
        answered = {call.result().request.branch_id: call.result() for call in calls}
        current = self._one("GetRun", GetRunRequest(name=self.history.name)).branch
        if current not in requests:
            raise UnexpectedError(f"{self.history.name} is on {current} after {sorted(requests)} were opened")
        loser = answered.pop(next(branch for branch in requests if branch != current))
        self._keep_restore(loser)
        self._writer = requests[current].writer
        self._restored(requests[current], [answered[current]])

    def _new_writer(self) -> str:
        self._writers += 1
        return f"writer-{self._writers}"

    def _new_report(self, writer: str = "") -> ObserveRequest:
        request = generator.report(self._draws)
        self._number += 1
        request.trainer_step = self._trainer_step
        request.name, request.branch, request.writer = self.history.name, self._branch, writer or self._writer
        request.observation_id = f"batch-{self._number}"
        return request

    def _new_restore(self, writer: str) -> RestoreRunRequest:
        """From a point of the current branch's line, or from a snapshot of one."""
        newest = self._one("GetSchedule", GetScheduleRequest(name=self.history.name, branch=self._branch)).revision
        revision = self._draws.randint(0, newest)
        self._branches += 1
        request = RestoreRunRequest(name=self.history.name, writer=writer, branch_id=f"branch-{self._branches}")
        if self._draws.random() < 0.5:
            request.point.CopyFrom(HistoryPoint(branch=self._branch, revision=revision))
            return request
        query = GetScheduleRequest(name=self.history.name, branch=self._branch, revision=revision)
        there = self._one("GetSchedule", query)
        snapshot = Snapshot(
            name=there.name,
            branch=there.branch,
            revision=there.revision,
            config_revision=there.config_revision,
            state=there.state,
            state_digest=there.state_digest,
        )
        request.snapshot.CopyFrom(snapshot)
        return request

    def _restored(self, request: RestoreRunRequest, calls: Sequence[Call[Any, Any]]) -> None:
        """The trainer goes on where the new branch starts, under ids that the old one may have used after that point."""
        opened = self._keep_restore(calls[0])
        for call in calls:
            if call.response is None or call.response.state != opened.state:
                raise UnexpectedError(f"ranks that restored {self.history.name} at once got different answers: {call.refused}")
        self._branch = request.branch_id
        self._number = (request.point if request.WhichOneof("source") == "point" else request.snapshot).revision
        self._trainer_step = opened.run.trainer_step  # 0 where a snapshot told none
        self._acknowledged = {}

    def _keep_restore(self, call: Call[Any, Any]) -> RestoreRunResponse:
        if call.response is None:
            raise UnexpectedError(f"{call.request.branch_id} of {self.history.name} was not opened: {call.refused}")
        self.history.restores.append(call)
        response: RestoreRunResponse = call.response
        return response

    def _observe_at_once(self, requests: Sequence[ObserveRequest], fenced_allowed: bool = False) -> list[Call[Any, Any]]:
        """Sends all of them at once; returns those that were answered."""
        calls = list(self._pool.map(partial(self._call, "Observe"), requests, [self._new_draws() for _ in requests]))
        self.history.observes.extend(calls)
        for call in calls:
            if call.response is None and not (fenced_allowed and call.refused == "WRITER_FENCED"):
                raise UnexpectedError(f"{call.request.observation_id} of {self.history.name} was refused: {call.refused}")
        answered = [call for call in calls if call.response is not None]
        self._acknowledged |= {call.request.observation_id: call.request for call in answered}
        return answered

    def _refused(self, request: ObserveRequest, reason: str) -> None:
        call = self._call("Observe", request, random.Random(request.observation_id))
        self.history.observes.append(call)
        if call.refused != reason:
            raise UnexpectedError(
                f"{request.observation_id} of {self.history.name} got {call.refused or 'an answer'}, not {reason}"
            )

    def _update(self, ema_weight: float, draws: random.Random) -> None:
        """One change, exactly once: its etag lets no lost attempt of an earlier change undo it."""
        request = UpdateRunRequest(run=Run(name=self.history.name, etag=self._etag))
        request.run.config.ema_weight = ema_weight
        request.update_mask.paths.append("config.ema_weight")
        call = self._call("UpdateRun", request, draws)
        if call.refused == "ETAG_MISMATCH" and call.attempts > 1:  # an attempt whose answer was lost may have made the change
            read = self._call("GetRun", GetRunRequest(name=self.history.name), draws)
            call = replace(read, started=call.started)
        if call.response is None or call.response.config.ema_weight != ema_weight:
            raise UnexpectedError(f"a change of {self.history.name} did not come into force: {call.refused}")
        self._etag = call.response.etag
        self.history.updates.append(call)

    def _new_draws(self) -> random.Random:
        return random.Random(self._draws.random())

    def _call(self, method: str, request: Any, draws: random.Random) -> Call[Any, Any]:
        return self._caller.call(method, request, draws)

    def _one(self, method: str, request: Any) -> Any:
        """The answer to a request that nothing speaks against."""
        call = self._call(method, request, self._new_draws())
        if call.response is None:
            raise UnexpectedError(f"{method} of {self.history.name} was refused: {call.refused}")
        return call.response


def evidence_of(caller: Caller, name: str) -> Evidence:
    """Everything that the service shows of a run.

    Raises:
        UnexpectedError: It does not show the run.
    """
    draws = random.Random(name)

    def read(method: str, request: Any) -> Any:
        call = caller.call(method, request, draws)
        if call.response is None:
            raise UnexpectedError(f"{method} of {name} was refused: {call.refused}")
        return call.response

    run = read("GetRun", GetRunRequest(name=name))
    branches = [branch.id for branch in run.branches]
    return Evidence(
        run=run,
        lines={branch: list(_line(read, name, branch)) for branch in branches},
        heads={branch: read("GetSchedule", GetScheduleRequest(name=name, branch=branch)) for branch in branches},
    )


def _line(read: Callable[[str, Any], Any], name: str, branch: str) -> Iterator[Any]:
    token = ""
    while True:
        page = read("ListObservations", ListObservationsRequest(parent=name, branch=branch, page_size=1000, page_token=token))
        yield from page.observations
        token = page.next_page_token
        if not token:
            return
