"""Calls by the generated stub, with every retry in sight."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

import grpc
from tests.faults.history import Call

from fade_client.errors import RejectedError
from fade_client.status import error_of
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

PATIENCE_SECONDS = 60.0
"""Longest time that a request may stay unanswered, whatever happens meanwhile."""

_TIMEOUTS_SECONDS = (0.03, 0.3, 0.3, 1.0, 3.0)

_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
)


class StuckError(Exception):
    """A request was not answered within :data:`PATIENCE_SECONDS`, or nobody waits for the answer any more."""


class Caller:
    """Sends requests to any of the servers until they are answered. Safe in threads.

    Args:
        addresses: HOST:PORT of each server.

    Attributes:
        closed: Nobody waits for answers any more.
    """

    def __init__(self, addresses: Sequence[str]) -> None:
        self._channels = [grpc.insecure_channel(address, options=_OPTIONS) for address in addresses]
        self._stubs = [SchedulerServiceStub(channel) for channel in self._channels]
        self.closed = False

    def close(self) -> None:
        """Gives up every request, and closes the channels."""
        self.closed = True
        for channel in self._channels:
            channel.close()

    def call(self, method: str, request: Any, draws: random.Random) -> Call[Any, Any]:
        """Sends ``request``; again, to any server, while nobody answers or the service cannot commit.

        Raises:
            StuckError: No answer for a long time, or the caller was closed.
        """
        started = time.monotonic()
        attempts = 0
        while True:
            attempts += 1
            send = getattr(draws.choice(self._stubs), method)
            try:
                response, answered = send.with_call(request, timeout=draws.choice(_TIMEOUTS_SECONDS))
            except (grpc.RpcError, ValueError) as error:
                if self.closed or not isinstance(error, grpc.RpcError):  # gRPC's ValueError: the channel is closed
                    raise StuckError(f"{method} was given up") from None
                problem = error_of(error, method, "the service")
                if isinstance(problem, RejectedError):
                    ended = time.monotonic()
                    return Call(request=request, started=started, ended=ended, attempts=attempts, refused=problem.reason)
                if time.monotonic() - started > PATIENCE_SECONDS:
                    raise StuckError(f"{attempts} attempts of {method} were not answered; the last: {problem}") from None
                time.sleep(draws.uniform(0.005, 0.05))
                continue
            replayed = ("fade-replayed", "true") in tuple(answered.trailing_metadata())
            return Call(
                request=request,
                started=started,
                ended=time.monotonic(),
                attempts=attempts,
                response=response,
                replayed=replayed,
            )
