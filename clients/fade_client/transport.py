"""Calls to the service: one lazy channel per process, a deadline over all attempts, errors as this package's exceptions."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import time
from typing import Any

import grpc

from fade_client.errors import UnavailableError
from fade_client.settings import Tls
from fade_client.status import error_of
from fade_client.version import VERSION
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

_log = logging.getLogger("fade_client")

SERVICE = "fade.v1.SchedulerService"

MESSAGE_LIMIT_BYTES = 16 * 2**20

_SERVICE_CONFIG = {
    "methodConfig": [
        {
            "name": [{"service": SERVICE}],
            "retryPolicy": {  # gRPC adds the jitter, heeds the server's push-back, and stays inside the call's deadline
                "maxAttempts": 5,
                "initialBackoff": "0.05s",
                "maxBackoff": "0.5s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ],
    "retryThrottling": {"maxTokens": 20, "tokenRatio": 0.5},
}

_OPTIONS = (
    ("grpc.service_config", json.dumps(_SERVICE_CONFIG)),
    ("grpc.per_rpc_retry_buffer_size", MESSAGE_LIMIT_BYTES),  # what does not fit is never retried; gRPC's default is 256 KiB
    ("grpc.max_send_message_length", -1),  # the service's limit counts, and its error names it
    ("grpc.max_receive_message_length", MESSAGE_LIMIT_BYTES),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),  # steps take minutes, and what drops idle connections does not say so
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    ("grpc.primary_user_agent", f"fade-client/{VERSION}"),
)

_FORK_GRACE_SECONDS = 0.5
"""In a forked child an older gRPC may have lost the thread that watches deadlines; a wait in Python then ends the call."""


class Deadline:
    """A point in time that everything done for one call of the client shares."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, 0 or more."""
        return max(0.0, self._end - time.monotonic())


class Transport:
    """Calls the service at one address. Safe in any thread, and in forked children, which get a channel of their own."""

    def __init__(self, address: str, token: str | None, tls: Tls | None = None) -> None:
        self._address = address
        self._tls = tls
        if token is not None and tls is None and not _is_local(address):
            _log.warning(
                "the token goes to %s in plain text, for all on the way to read: give tls_ca, or set FADE_TLS_CA", address
            )
        self._metadata = () if token is None else (("authorization", f"Bearer {token}"),)
        self._channels: dict[int, tuple[grpc.Channel, SchedulerServiceStub]] = {}
        self._closed = False
        self._pid = os.getpid()

    def call(self, method: str, request: Any, deadline: Deadline, *, wait_for_ready: bool = False) -> Any:
        """Calls one method of the service.

        Raises:
            UnavailableError: No answer before the deadline, or none to be had at the moment.
            RejectedError: The service refused the request.
        """
        seconds = deadline.remaining()
        if seconds <= 0:
            raise UnavailableError(f"no time was left for {method} at {self._address}", "DEADLINE_EXCEEDED")
        if self._closed:
            raise UnavailableError(f"the channel to {self._address} is closed", "CANCELLED")
        stub_method = getattr(self._stub(), method)
        options = {"timeout": seconds, "metadata": self._metadata, "wait_for_ready": wait_for_ready or None}
        try:
            if os.getpid() == self._pid:
                return stub_method(request, **options)
            return stub_method.future(request, **options).result(seconds + _FORK_GRACE_SECONDS)
        except grpc.RpcError as error:
            raise error_of(error, method, self._address) from None
        except grpc.FutureTimeoutError:
            problem = f"{method} at {self._address} hung in a forked process; set GRPC_ENABLE_FORK_SUPPORT=1 before Python starts"
            raise UnavailableError(problem, "DEADLINE_EXCEEDED") from None

    def is_serving(self, deadline: Deadline) -> bool:
        """Whether the service says that it is healthy (grpc.health.v1).

        Raises:
            UnavailableError: No answer before the deadline.
            RejectedError: The service refused the request.
        """
        check = self._channel()[0].unary_unary("/grpc.health.v1.Health/Check", bytes, bytes)  # no second copy of health.proto
        try:
            answer = check(b"", timeout=deadline.remaining(), metadata=self._metadata)
        except grpc.RpcError as error:
            raise error_of(error, "Check", self._address) from None
        return bool(answer == b"\x08\x01")  # field 1 (status) is 1 (SERVING)

    def close(self) -> None:
        """Closes this process's channel, for good, and ends what runs on it."""
        self._closed = True
        channel = self._channels.pop(os.getpid(), None)
        if channel is not None:
            channel[0].close()

    def _stub(self) -> SchedulerServiceStub:
        return self._channel()[1]

    def _channel(self) -> tuple[grpc.Channel, SchedulerServiceStub]:
        pid = os.getpid()
        if pid not in self._channels:  # a parent's stays referenced: freeing it in a child would end the parent's calls
            channel = self._new_channel()
            self._channels[pid] = (channel, SchedulerServiceStub(channel))
        return self._channels[pid]

    def _new_channel(self) -> grpc.Channel:
        if self._tls is None:
            return grpc.insecure_channel(self._address, options=_OPTIONS)
        credentials = grpc.ssl_channel_credentials(self._tls.ca, self._tls.key, self._tls.certificate)
        return grpc.secure_channel(self._address, credentials, options=_OPTIONS)


def _is_local(address: str) -> bool:
    """Whether a gRPC target is on this machine."""
    if address.startswith("unix"):
        return True
    host = address.rpartition("/")[2].rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
