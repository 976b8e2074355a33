"""The server as a process and as an object: start, health, drain, kill, two on one file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from fade_proto.v1.run_pb2 import HistoryPoint
from fade_proto.v1.scheduler_pb2 import RestoreRunRequest
from fade_service import FadeServer

ROWS = ([1.0, 0.0], [0, 0])
SERVICE = "fade.v1.SchedulerService"


class Serve:
    """A `fade serve` process on free ports."""

    def __init__(self, store: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "fade_service", "serve", "--store", store, *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def address(self) -> str:
        """Waits until it serves."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if "serving gRPC on " in line:
                return line.split("serving gRPC on ")[1].split()[0]
        raise AssertionError("the server ended before it served")

    def end(self, number: signal.Signals) -> int:
        """Sends a signal and waits for the exit code."""
        self.process.send_signal(number)
        return self.process.wait(30)


@pytest.fixture
def serve() -> Iterator[Any]:
    started: list[Serve] = []

    def start(store: str, *arguments: str) -> Serve:
        started.append(Serve(store, *(arguments or ("--grpc-port", "0", "--http-port", "0"))))
        return started[-1]

    yield start
    for item in started:
        if item.process.poll() is None:
            item.process.kill()
        item.process.communicate()


def test_health_is_served_for_the_whole_and_for_the_service_and_can_be_watched(tmp_path: Path) -> None:
    server = FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0).start()
    with grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        stub = health_pb2_grpc.HealthStub(channel)
        for name in ("", SERVICE):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=10)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        seen = []
        watching = stub.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=30)
        seen.append(next(watching).status)
        stopping = threading.Thread(target=server.stop)
        stopping.start()
        seen.append(next(watching).status)
        watching.cancel()
        stopping.join()
    assert seen == [health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING]
    assert server.wait(0)


def test_reflection_lists_the_service(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = stub.ServerReflectionInfo(iter([request]), timeout=10)
    names = {service.name for service in answer.list_services_response.service}
    assert {SERVICE, "grpc.health.v1.Health"} <= names


def test_sigterm_lets_a_call_under_way_finish_and_exits_with_zero(tmp_path: Path, serve: Any, connect: Any) -> None:
    import sqlite3

    path = tmp_path / "fade.db"
    running = serve(f"sqlite:///{path}")
    client = connect("r", at=running.address())
    client.create()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # the call waits for the store
    call = client.stub.Observe.future(client.report("b1", *ROWS), timeout=10)
    time.sleep(0.3)
    running.process.send_signal(signal.SIGTERM)
    time.sleep(0.2)
    other.execute("ROLLBACK")
    other.close()
    assert call.result().revision == 1
    assert running.process.wait(30) == 0
    assert not path.with_name("fade.db-wal").exists(), "flushed"


def test_kill_nine_loses_nothing_acknowledged(tmp_path: Path, serve: Any, connect: Any) -> None:
    store = f"sqlite:///{tmp_path}/fade.db"
    running = serve(store)
    client = connect("r", at=running.address())
    client.create()
    acknowledged = 0
    killer = threading.Timer(0.5, lambda: os.kill(running.process.pid, signal.SIGKILL))
    killer.start()
    with pytest.raises(grpc.RpcError):
        for number in range(100_000):
            client.observe(f"b{number}", *ROWS, 1 / (number + 1))
            acknowledged += 1
    running.process.wait(30)
    again = connect("r", at=serve(store).address())
    held = again.history()
    assert len(held) in (acknowledged, acknowledged + 1) and acknowledged > 0
    assert [item.observation_id for item in held] == [f"b{number}" for number in range(len(held))]
    replayed = [again.send(again.report(f"b{number}", *ROWS, 1 / (number + 1)))[1] for number in range(acknowledged)]
    assert all(replayed) and again.get().revision == len(held)


def test_two_processes_on_one_file_make_one_history(tmp_path: Path, serve: Any, connect: Any) -> None:
    store = f"sqlite:///{tmp_path}/fade.db"
    clients = [connect("r", at=serve(store).address()) for _ in range(2)]
    clients[0].create()
    threads = [
        threading.Thread(target=lambda client=client: [client.observe(f"b{number}", *ROWS) for number in range(60)])
        for client in clients
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    histories = [[item.observation_id for item in client.history()] for client in clients]
    assert histories[0] == histories[1] and sorted(histories[0]) == sorted(f"b{number}" for number in range(60))
    assert [item.revision for item in clients[1].history()] == list(range(1, 61))
    restore = RestoreRunRequest(name=clients[0].name, writer="second", branch_id="second", point=HistoryPoint(revision=10))
    clients[0].stub.RestoreRun(restore, timeout=10)
    clients[1].writer = "second"
    assert clients[1].observe("after", *ROWS, branch="second").revision == 11, "what one opened the other knows"


def test_a_taken_port_ends_the_process_with_a_line_that_says_so(serve: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments in (("--grpc-port", port, "--http-port", "0"), ("--grpc-port", "0", "--http-port", port)):
            running = serve("memory://", *arguments)
            _, told = running.process.communicate(timeout=30)
            assert running.process.returncode == 1
            assert "fade serve: " in told and "Traceback" not in told and port in told


@pytest.mark.parametrize("store", ["postgres://x", "sqlite://", "nonsense"])
def test_a_store_of_no_known_form_is_a_usage_error(serve: Any, store: str) -> None:
    running = serve(store)
    _, told = running.process.communicate(timeout=30)
    assert running.process.returncode == 2 and "sqlite:///" in told and "Traceback" not in told


def test_two_servers_live_in_one_process_and_stopping_twice_is_fine(connect: Any) -> None:
    with FadeServer("memory://", grpc_port=0, http_port=0) as one, FadeServer("memory://", grpc_port=0, http_port=0) as two:
        assert one.grpc_port != two.grpc_port and one.http_port != two.http_port
        client = connect("r", at=f"127.0.0.1:{one.grpc_port}")
        client.create()
        assert client.observe("b1", *ROWS).revision == 1
        assert not one.wait(0)
        one.stop()
        one.stop()
        assert one.wait(0)
        other = connect("r", at=f"127.0.0.1:{two.grpc_port}")
        other.create()
        assert other.get().revision == 0
