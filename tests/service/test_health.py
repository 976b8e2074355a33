"""Health: one verdict over gRPC and HTTP, of the whole and of the service; and reflection."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from fade_service import FadeServer

SERVICE = "fade.v1.SchedulerService"
SERVING, NOT_SERVING = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def own(tmp_path: Path) -> Iterator[FadeServer]:
    """A server of this test's own, on the file fade.db."""
    with FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0) as server:
        yield server


@pytest.fixture
def health(own: FadeServer) -> Iterator[Any]:
    """A stub of its health service."""
    with grpc.insecure_channel(f"127.0.0.1:{own.grpc_port}") as channel:
        yield health_pb2_grpc.HealthStub(channel)


@pytest.mark.parametrize("name", ["", SERVICE])
def test_health_can_be_watched_and_says_not_serving_before_the_server_stops(own: FadeServer, health: Any, name: str) -> None:
    request = health_pb2.HealthCheckRequest(service=name)
    assert health.Check(request, timeout=10).status == SERVING
    watching = health.Watch(request, timeout=30)
    assert next(watching).status == SERVING
    stopping = threading.Thread(target=own.stop)
    stopping.start()
    assert next(watching).status == NOT_SERVING
    watching.cancel()
    stopping.join()
    assert own.wait(0)


def test_the_health_of_a_service_that_is_not_here_is_not_found(health: Any) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        health.Check(health_pb2.HealthCheckRequest(service="fade.v9.Nothing"), timeout=10)
    assert caught.value.code() == grpc.StatusCode.NOT_FOUND


def test_many_watchers_of_health_hold_up_no_call(own: FadeServer, health: Any, connect: Any) -> None:
    watchers = [health.Watch(health_pb2.HealthCheckRequest(), timeout=60) for _ in range(40)]
    assert [next(watcher).status for watcher in watchers] == [SERVING] * 40
    client = connect("r", at=f"127.0.0.1:{own.grpc_port}")
    client.create()
    assert client.observe("b1", [1.0, 0.0], [0, 0]).revision == 1
    for watcher in watchers:
        watcher.cancel()


def test_watchers_of_health_that_come_and_go_never_bring_the_server_to_a_stand(own: FadeServer, connect: Any) -> None:
    def come_and_go(client: Any) -> None:
        for _ in range(25):
            watching = health_pb2_grpc.HealthStub(client.channel).Watch(health_pb2.HealthCheckRequest(), timeout=60)
            assert next(watching).status == SERVING
            watching.cancel()

    clients = [connect("r", at=f"127.0.0.1:{own.grpc_port}") for _ in range(9)]
    clients[0].create()
    with ThreadPoolExecutor(8) as pool:
        watched = [pool.submit(come_and_go, client) for client in clients[1:]]
        for number in range(20):
            assert clients[0].observe(f"b{number}", [1.0, 0.0], [0, 0]).revision == number + 1
        for item in watched:
            item.result()


def test_a_store_that_cannot_be_written_shows_everywhere_until_it_can(own: FadeServer, health: Any, tmp_path: Path) -> None:
    def ready() -> httpx.Response:
        return httpx.get(f"http://127.0.0.1:{own.http_port}/readyz")

    watching = health.Watch(health_pb2.HealthCheckRequest(service=SERVICE), timeout=60)
    assert next(watching).status == SERVING and ready().json() == {"status": "ok", "problems": {}}
    other = sqlite3.connect(tmp_path / "fade.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert next(watching).status == NOT_SERVING
    assert health.Check(health_pb2.HealthCheckRequest(), timeout=10).status == NOT_SERVING
    answer = ready()
    assert answer.status_code == 503 and answer.json()["status"] == "not ready"
    assert "locked" in answer.json()["problems"]["store"] and "server" not in answer.json()["problems"]
    assert httpx.get(f"http://127.0.0.1:{own.http_port}/healthz").status_code == 200, "it lives, all the same"
    other.execute("ROLLBACK")
    other.close()
    assert next(watching).status == SERVING and ready().status_code == 200
    watching.cancel()


def test_reflection_lists_the_service_and_knows_its_messages(address: str) -> None:
    with grpc.insecure_channel(address) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        asked = [
            reflection_pb2.ServerReflectionRequest(list_services=""),
            reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE),
        ]
        services, file = stub.ServerReflectionInfo(iter(asked), timeout=10)
    assert {SERVICE, "grpc.health.v1.Health"} <= {item.name for item in services.list_services_response.service}
    assert any(b"ObserveRequest" in item for item in file.file_descriptor_response.file_descriptor_proto)
