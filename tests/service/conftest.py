"""A real server on free ports of the loopback with a SQLite file, and calls to it by the generated stub."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import grpc
import pytest
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import BadRequest, ErrorInfo, RetryInfo
from grpc_status.rpc_status import from_call

from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CreateRunRequest,
    GetRunRequest,
    GetScheduleRequest,
    ListObservationsRequest,
    ObserveRequest,
    ObserveResponse,
)
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

_numbers = itertools.count()


class Refusal:
    """What a refused call said."""

    def __init__(self, error: grpc.RpcError) -> None:
        status: Any = from_call(error)
        assert status is not None, error
        self.code = grpc.StatusCode(next(code.value for code in grpc.StatusCode if code.value[0] == status.code)).name
        self.message: str = status.message
        info, self.bad_request, self.retry = ErrorInfo(), BadRequest(), RetryInfo()
        found = [detail.TypeName() for detail in status.details]
        assert len(found) == len(set(found)), "one payload of each type"
        assert any(detail.Unpack(info) for detail in status.details), "always an ErrorInfo"
        assert info.domain == "fade"
        self.reason, self.metadata = info.reason, dict(info.metadata)
        self.has_retry = any(detail.Unpack(self.retry) for detail in status.details)
        self.has_bad_request = any(detail.Unpack(self.bad_request) for detail in status.details)

    @property
    def field(self) -> str:
        """The wrong field."""
        return self.bad_request.field_violations[0].field if self.has_bad_request else ""


class Client:
    """Calls of one run on one server."""

    def __init__(self, address: str, run: str, writer: str = "writer") -> None:
        self.channel = grpc.insecure_channel(address)
        self.stub = SchedulerServiceStub(self.channel)
        self.run = run
        self.name = f"projects/test/runs/{run}"
        self.writer = writer

    def create(self, **config: Any) -> run_pb2.Run:
        """CreateRun with these configuration fields."""
        request = CreateRunRequest(parent="projects/test", run_id=self.run, run=run_pb2.Run(config=run_pb2.RunConfig(**config)))
        run: run_pb2.Run = self.stub.CreateRun(request, timeout=10)
        return run

    def report(
        self, observation_id: str, rewards: Sequence[float], groups: Sequence[int], entropy: float | None = None, **fields: Any
    ) -> ObserveRequest:
        """An Observe request; ``entropy`` is nats per token over ten tokens; other fields by keyword."""
        request = ObserveRequest(name=self.name, observation_id=observation_id, writer=self.writer)
        request.rows.rewards.extend(rewards)
        request.rows.group_index.extend(groups)
        request.groups.count = max(groups, default=-1) + 1
        if entropy is not None:
            request.entropy.sum_nats, request.entropy.token_count = 10 * entropy, 10
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    def observe(self, *arguments: Any, **fields: Any) -> ObserveResponse:
        """Observe."""
        response: ObserveResponse = self.stub.Observe(self.report(*arguments, **fields), timeout=10)
        return response

    def send(self, request: ObserveRequest) -> tuple[ObserveResponse, bool]:
        """Observe, and whether the answer is a replay."""
        response, call = self.stub.Observe.with_call(request, timeout=10)
        return response, ("fade-replayed", "true") in call.trailing_metadata()

    def get(self) -> run_pb2.Run:
        """GetRun."""
        run: run_pb2.Run = self.stub.GetRun(GetRunRequest(name=self.name), timeout=10)
        return run

    def schedule(self, branch: str = "", revision: int | None = None) -> Any:
        """GetSchedule."""
        return self.stub.GetSchedule(GetScheduleRequest(name=self.name, branch=branch, revision=revision), timeout=10)

    def history(self, branch: str = "") -> list[Any]:
        """All observations along a line."""
        request, told = ListObservationsRequest(parent=self.name, branch=branch, page_size=1000), []
        while True:
            page = self.stub.ListObservations(request, timeout=10)
            told.extend(page.observations)
            request.page_token = page.next_page_token
            if not page.next_page_token:
                return told

    def everything(self) -> list[bytes]:
        """All that the server tells of the run, to compare before and after."""
        told: list[Message] = [self.get(), self.schedule(), *self.history()]
        return [message.SerializeToString(deterministic=True) for message in told]

    def close(self) -> None:
        """Closes the channel."""
        self.channel.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FadeServer]:
    """One server for all tests that need none of their own."""
    store = f"sqlite:///{tmp_path_factory.mktemp('server') / 'fade.db'}"
    with FadeServer(store, grpc_port=0, http_port=0) as running:
        yield running


@pytest.fixture
def address(server: FadeServer) -> str:
    """Its gRPC address."""
    return f"127.0.0.1:{server.grpc_port}"


@pytest.fixture
def connect(address: str) -> Iterator[Callable[..., Client]]:
    """Makes clients of runs: of a new run by default."""
    made: list[Client] = []

    def make(run: str | None = None, writer: str = "writer", at: str = address) -> Client:
        made.append(Client(at, run or f"run-{next(_numbers)}", writer))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """A client of a new run with the default configuration."""
    made = connect()
    made.create()
    return made


@pytest.fixture
def refused() -> Callable[[Callable[[], Any]], Refusal]:
    """Makes a call that must be refused."""

    def call(make: Callable[[], Any]) -> Refusal:
        with pytest.raises(grpc.RpcError) as caught:
            make()
        return Refusal(caught.value)

    return call


@pytest.fixture
def attempt() -> Callable[[Callable[[], Any]], Refusal | None]:
    """Makes a call that may be refused; what it said then, None where it was answered."""

    def call(make: Callable[[], Any]) -> Refusal | None:
        try:
            make()
        except grpc.RpcError as error:
            return Refusal(error)
        return None

    return call
