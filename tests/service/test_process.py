"""The server as a process and as an object: start, health, drain, kill, two on one file."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from fade_proto.v1.run_pb2 import HistoryPoint
from fade_proto.v1.scheduler_pb2 import RestoreRunRequest
from fade_service import FadeServer

ROWS = ([1.0, 0.0], [0, 0])


class Serve:
    """A `fade serve` process on free ports."""

    def __init__(self, store: str, *arguments: str) -> None:
        command = [sys.executable, "-m", "fade_service", "serve", "--store", store, *arguments]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)

    def addresses(self) -> tuple[str, str]:
        """Waits until it serves; gRPC's address and HTTP's URL."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            found = re.search(r"serving gRPC on (\S+) and HTTP on (\S+), store ", line)
            if found:
                return found[1], found[2]
        raise AssertionError("the server ended before it served")

    def address(self) -> str:
        """Waits until it serves; gRPC's address."""
        return self.addresses()[0]

    def told(self) -> str:
        """Waits until it has ended; what it wrote."""
        return self.process.communicate(timeout=30)[1]


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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_shows_in_health_first_then_lets_a_call_under_way_finish_and_ends_with_zero(
    tmp_path: Path, serve: Any, connect: Any, number: signal.Signals
) -> None:
    path = tmp_path / "fade.db"
    running = serve(f"sqlite:///{path}")
    address, url = running.addresses()
    client = connect("r", at=address)
    client.create()
    watching = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest(), timeout=30)
    assert next(watching).status == health_pb2.HealthCheckResponse.SERVING
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")  # the call waits for the store
    call = client.stub.Observe.future(client.report("b1", *ROWS), timeout=10)
    while not re.search(r'^grpc_server_started_total\{grpc_method="Observe".* 1\.0$', httpx.get(f"{url}/metrics").text, re.M):
        time.sleep(0.01)
    running.process.send_signal(number)
    assert next(watching).status == health_pb2.HealthCheckResponse.NOT_SERVING
    assert not call.done()
    other.execute("ROLLBACK")
    other.close()
    assert call.result().revision == 1
    watching.cancel()
    assert "Traceback" not in running.told() and running.process.returncode == 0
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
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda client: [client.observe(f"b{number}", *ROWS) for number in range(60)], clients))
    histories = [[item.observation_id for item in client.history()] for client in clients]
    assert histories[0] == histories[1] and sorted(histories[0]) == sorted(f"b{number}" for number in range(60))
    assert [item.revision for item in clients[1].history()] == list(range(1, 61))
    restore = RestoreRunRequest(name=clients[0].name, writer="second", branch_id="second", point=HistoryPoint(revision=10))
    clients[0].stub.RestoreRun(restore, timeout=10)
    clients[1].writer = "second"
    assert clients[1].observe("after", *ROWS, branch="second").revision == 11, "what one opened the other knows"


@pytest.mark.parametrize("taken_port", ["--grpc-port", "--http-port"])
def test_a_taken_port_ends_the_process_with_a_line_that_says_so(serve: Any, taken_port: str) -> None:
    free_port = {"--grpc-port": "--http-port", "--http-port": "--grpc-port"}[taken_port]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        running = serve("memory://", taken_port, port, free_port, "0")
        told = running.told()
    assert running.process.returncode == 1
    assert "fade serve: " in told and "Traceback" not in told and port in told


def test_a_store_of_no_known_form_is_a_usage_error(serve: Any) -> None:
    running = serve("postgres://x")
    told = running.told()
    assert running.process.returncode == 2
    assert told.startswith("fade serve: ") and "postgres://x" in told and "sqlite:///" in told and told.count("\n") == 1


def test_the_environment_names_the_store_and_its_password_is_not_told() -> None:
    hidden = "correct-horse"
    environment = {**os.environ, "FADE_STORE": f"postgres://user:{hidden}@x"}
    command = [sys.executable, "-m", "fade_service", "serve"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "postgres://" in done.stderr and hidden not in done.stderr


def test_a_port_that_there_cannot_be_is_a_usage_error(serve: Any) -> None:
    running = serve("memory://", "--grpc-port", "0", "--http-port", "99999")
    assert running.told() == "fade serve: http_port is 99999; give 0 to 65535\n" and running.process.returncode == 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"store": "sqlite://"},
        {"store": "nonsense"},
        {"store": "memory://", "grpc_port": -1},
        {"store": "memory://", "http_port": 2**16},
        {"store": "memory://", "drain_seconds": -1.0},
        {"store": "memory://", "drain_seconds": float("nan")},
    ],
)
def test_a_server_that_cannot_be_is_refused_before_it_binds_anything(arguments: Any) -> None:
    with pytest.raises(ValueError, match="give"):
        FadeServer(**{"grpc_port": 0, "http_port": 0, **arguments})


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
