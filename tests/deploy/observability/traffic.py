"""Traffic in which everything happens that is measured."""

from __future__ import annotations

import math

import grpc

from fade_proto.v1.observation_pb2 import SPLIT_EVAL
from fade_proto.v1.run_pb2 import Run, RunConfig
from fade_proto.v1.scheduler_pb2 import CreateRunRequest, ObserveRequest, ObserveResponse
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub


class Traffic:
    """A trainer, and what goes wrong around it, on one server; ``token`` is for a server that asks for one."""

    def __init__(self, address: str, token: str = "", run: str = "maths") -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = SchedulerServiceStub(self._channel)
        self._metadata = (("authorization", f"Bearer {token}"),) if token else ()
        self._name = f"projects/lab/runs/{run}"
        request = CreateRunRequest(parent="projects/lab", run_id=run, run=Run(config=RunConfig()))
        self._stub.CreateRun(request, timeout=10, metadata=self._metadata)
        self._batches = 0

    def reports(self) -> None:
        """A report, and its replay."""
        self._batches += 1
        report = self._report(f"b{self._batches}")
        self._send(report)
        self._send(report)

    def step(self) -> None:
        """One of everything: reports, one that is late, and every kind of refusal that has an alert."""
        self.reports()
        number = self._batches
        late = self._report(f"late{number}", rewards=[1, 0, math.nan, math.nan, 1])
        late.late.config_revision, late.late.source, late.lost_reports = 1, "LOCAL", 1
        self._send(late)
        evaluation = self._report(f"eval{number}")
        evaluation.split = SPLIT_EVAL
        self._send(evaluation)
        self._refused(self._report(f"b{number}", rewards=[0, 0, 1, 1, 1]), grpc.StatusCode.ALREADY_EXISTS)
        self.fenced()
        self._refused(self._report(f"c{number}", rewards=[math.inf, 0, 0, 0, 0]), grpc.StatusCode.INVALID_ARGUMENT)
        regressed = self._report(f"d{number}")
        regressed.seen_revision = 10**6
        self._refused(regressed, grpc.StatusCode.FAILED_PRECONDITION)
        self._unknown()

    def fenced(self) -> None:
        """A second job reports to the run."""
        second = self._report("second")
        second.writer = "second"
        self._refused(second, grpc.StatusCode.FAILED_PRECONDITION)

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    def _report(self, observation_id: str, rewards: tuple[float, ...] | list[float] = (1, 0, 1, 1, 1)) -> ObserveRequest:
        """Two groups and a singleton."""
        request = ObserveRequest(name=self._name, observation_id=observation_id, writer="first")
        request.rows.rewards.extend(rewards)
        request.rows.group_index.extend([0, 0, 1, 1, 2])
        request.groups.count = 3
        request.entropy.sum_nats, request.entropy.token_count = 5, 10
        return request

    def _send(self, request: ObserveRequest) -> ObserveResponse:
        response: ObserveResponse = self._stub.Observe(request, timeout=10, metadata=self._metadata)
        return response

    def _refused(self, request: ObserveRequest, code: grpc.StatusCode) -> None:
        try:
            self._send(request)
        except grpc.RpcError as error:
            assert error.code() == code, error
        else:
            raise AssertionError(f"{request.observation_id} was not refused")

    def _unknown(self) -> None:
        try:
            self._channel.unary_unary(f"/fade.v1.Unknown{self._batches}/Call")(b"", timeout=10, metadata=self._metadata)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error
