"""Real parts: a server on a port of its own with a SQLite file, and a second one in front of it that can fail on command."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest

from fade_client import FadeClient, RunConfig
from fade_proto.v1 import run_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service.errors import ServiceError
from fade_service.rpc.status import abort

if TYPE_CHECKING:
    Handler = grpc.GenericRpcHandler[bytes, bytes]
else:
    Handler = grpc.GenericRpcHandler

CONFIG = RunConfig(ema_weight=0.25, entropy_warmup=2)


def report(number: int) -> dict[str, Any]:
    """The report of a batch, different for each number; pass it on to ``observe``."""
    rewards = [float((number * 7 + row * row) % 3 == 0) for row in range(12)]
    return {
        "observation_id": f"batch-{number}",
        "rewards": rewards,
        "groups": [f"prompt {row % 3}" for row in range(12)],
        "entropy": (11.0 / (number + 3), 7),
        "trainer_step": number,
    }


class History:
    """What a server knows of a run."""

    def __init__(self, address: str, run: str) -> None:
        self.name = f"projects/default/runs/{run}"
        self._channel = grpc.insecure_channel(address)
        self.stub = SchedulerServiceStub(self._channel)

    def observations(self, branch: str = "") -> list[Any]:
        """Along one line, oldest first."""
        request = scheduler_pb2.ListObservationsRequest(parent=self.name, branch=branch, page_size=1000)
        return list(self.stub.ListObservations(request, timeout=10).observations)

    def ids(self, branch: str = "") -> list[str]:
        """Their ids."""
        return [item.observation_id for item in self.observations(branch)]

    def digest(self) -> str:
        """Of the newest state on the current branch."""
        return str(self.stub.GetSchedule(scheduler_pb2.GetScheduleRequest(name=self.name), timeout=10).state_digest)

    def get(self) -> run_pb2.Run:
        """The run."""
        run: run_pb2.Run = self.stub.GetRun(scheduler_pb2.GetRunRequest(name=self.name), timeout=10)
        return run

    def update(self, **values: Any) -> None:
        """Changes configuration fields, given as the contract's values."""
        run = run_pb2.Run(name=self.name, config=run_pb2.RunConfig(**values))
        request = scheduler_pb2.UpdateRunRequest(run=run)
        request.update_mask.paths.extend(f"config.{name}" for name in values)
        self.stub.UpdateRun(request, timeout=10)

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()


class Front(Handler):
    """A server that passes calls on to another, byte for byte, as long as ``mode`` is "pass".

    "down" refuses calls, "lose" passes them on and loses the answers, "hang" answers nothing until the deadline is over. A reason
    in capitals refuses with it, "UNIMPLEMENTED" as a server that knows no such method.
    """

    def __init__(self, target: str) -> None:
        self.mode = "pass"
        self.calls: Counter[str] = Counter()
        self.metadata: list[tuple[str, Any]] = []
        self._over = threading.Event()
        self._channel = grpc.insecure_channel(target)
        self._server = grpc.server(futures.ThreadPoolExecutor(4), options=[("grpc.so_reuseport", 0)])
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, details: Any) -> Any:
        """Handles every method alike."""

        def handle(request: bytes, context: grpc.ServicerContext) -> bytes:
            self.calls[details.method.rpartition("/")[2]] += 1
            self.metadata = list(context.invocation_metadata())
            if self.mode == "down":
                context.abort(grpc.StatusCode.UNAVAILABLE, "down on command")
            if self.mode == "hang":
                self._over.wait(context.time_remaining())
                context.abort(grpc.StatusCode.UNAVAILABLE, "hung on command")
            if self.mode == "UNIMPLEMENTED":
                context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
            if self.mode.isupper():
                abort(context, ServiceError(self.mode, "refused on command"))
            call = self._channel.unary_unary(details.method, bytes, bytes)
            try:
                answer: bytes = call(request, timeout=context.time_remaining())
            except grpc.RpcError as error:
                failed: Any = error
                context.set_trailing_metadata(failed.trailing_metadata() or ())
                context.abort(failed.code(), failed.details())
            if self.mode == "lose":
                context.abort(grpc.StatusCode.UNAVAILABLE, "lost on command")
            return answer

        return grpc.unary_unary_rpc_method_handler(handle)

    def close(self) -> None:
        """Stops."""
        self._over.set()
        self._server.stop(None).wait()
        self._channel.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """HOST:PORT of a server on its own SQLite file."""
    from fade_service.server import FadeServer

    with FadeServer(store=f"sqlite:///{tmp_path / 'fade.db'}", host="127.0.0.1", grpc_port=0, http_port=0) as running:
        yield f"127.0.0.1:{running.grpc_port}"


@pytest.fixture
def front(server: str) -> Iterator[Front]:
    """A failing front of ``server``."""
    running = Front(server)
    yield running
    running.close()


@pytest.fixture
def history(server: str) -> Iterator[Callable[[str], History]]:
    """The history of a run by its id, read from ``server`` directly."""
    opened: list[History] = []

    def read(run: str) -> History:
        opened.append(History(server, run))
        return opened[-1]

    yield read
    for item in opened:
        item.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., FadeClient]]:
    """Makes clients, and closes them in the end."""
    made: list[FadeClient] = []

    def make(address: str, run: str = "r", **more: Any) -> FadeClient:
        made.append(FadeClient(address, run=run, **{"config": CONFIG, "timeout_seconds": 1.0, **more}))
        return made[-1]

    yield make
    for client in made:
        client.close()


@pytest.fixture
def batch() -> Callable[[int], dict[str, Any]]:
    """See :func:`report`."""
    return report


@pytest.fixture
def undisturbed() -> Callable[[int], list[Any]]:
    """The schedules of the first batches from a controller that nothing disturbs."""

    def observe(count: int) -> list[Any]:
        client = FadeClient.local(CONFIG)
        return [client.observe(**report(number)) for number in range(count)]

    return observe
