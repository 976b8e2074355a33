"""The gRPC server: the service, health, reflection, and the limits of the connections."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from fade_service.access.grpc_gate import GrpcGate
from fade_service.access.limits import HEADER_LIMIT_BYTES
from fade_service.access.policy import Access
from fade_service.health import Health
from fade_service.insight import Insight
from fade_service.metrics import Metrics
from fade_service.rpc.methods import MESSAGE_LIMIT_BYTES, SERVICE_NAME, service_handler
from fade_service.runs import Runs

WORKERS = 16
"""Threads: enough to keep a slow store busy; the maths runs on one core at a time whatever their number (docs/adr/0001)."""

_WATCHERS = ThreadPoolExecutor(64, thread_name_prefix="fade-watch")
"""Holds a thread for each watcher of health, so that they hold up no call. The health library keeps its pool on the class, hence
one for all servers of a process."""

_OPTIONS = (
    ("grpc.so_reuseport", 0),  # a second server on the port is a mistake, not a replica
    ("grpc.max_receive_message_length", 4 * MESSAGE_LIMIT_BYTES),  # so that our own limit answers, with a name and a way out
    ("grpc.max_send_message_length", -1),
    ("grpc.max_metadata_size", HEADER_LIMIT_BYTES),
    ("grpc.absolute_max_metadata_size", HEADER_LIMIT_BYTES),  # else gRPC refuses at random between the two
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),  # clients ping every 30 s, also without a call
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
)


def make_server(runs: Runs, insight: Insight, metrics: Metrics, watched: Health, access: Access) -> grpc.Server:
    """A server with no port yet; health follows ``watched``."""
    server = grpc.server(
        ThreadPoolExecutor(WORKERS, thread_name_prefix="fade-rpc"),
        options=_OPTIONS,
        interceptors=[GrpcGate(access, metrics)] if access.asks else [],
    )
    server.add_generic_rpc_handlers((service_handler(runs, insight, metrics, access),))
    # Not the library's non-blocking watchers: who sends to them holds a lock and waits for gRPC's one event thread, and when a
    # watcher leaves, that thread waits for the lock. The whole server stands still then.
    servicer = health.HealthServicer(experimental_non_blocking=False, experimental_thread_pool=_WATCHERS)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    reflection.enable_server_reflection((SERVICE_NAME, health.SERVICE_NAME, reflection.SERVICE_NAME), server)
    server.add_generic_rpc_handlers((_Unknown(metrics),))  # asked last

    def show(serving: bool) -> None:
        status = health_pb2.HealthCheckResponse.SERVING if serving else health_pb2.HealthCheckResponse.NOT_SERVING
        for name in (health.OVERALL_HEALTH, SERVICE_NAME):
            servicer.set(name, status)

    watched.subscribe(show)
    return server


if TYPE_CHECKING:
    GenericRpcHandler = grpc.GenericRpcHandler[Any, Any]
else:
    GenericRpcHandler = grpc.GenericRpcHandler


class _Unknown(GenericRpcHandler):
    """Counts the calls of methods that nobody handles; gRPC answers them with UNIMPLEMENTED."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
        self._metrics.calls.unknown()
