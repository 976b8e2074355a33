"""Reports that wait for the service, and those that it acknowledged lately: in order, bounded by their size."""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Iterable, Iterator

from fade_proto.v1 import observation_pb2, scheduler_pb2


class Outbox:
    """A first-in, first-out queue of ObserveRequests; not safe in threads by itself."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._waiting: deque[tuple[scheduler_pb2.ObserveRequest, int]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[scheduler_pb2.ObserveRequest]:
        return (request for request, _ in self._waiting)

    def append(self, request: scheduler_pb2.ObserveRequest) -> bool:
        """Adds a report at the end; False, and not added, where the limit leaves no room for it."""
        size = request.ByteSize()
        if self._bytes + size > self._limit_bytes:
            return False
        self._waiting.append((request, size))
        self._bytes += size
        return True

    def head(self) -> scheduler_pb2.ObserveRequest | None:
        """The report to send next."""
        return self._waiting[0][0] if self._waiting else None

    def pop(self) -> None:
        """Removes the head."""
        self._bytes -= self._waiting.popleft()[1]

    def replace(self, requests: Iterable[scheduler_pb2.ObserveRequest]) -> None:
        """Puts these in place of all that waits, whatever the limit: what a checkpoint carries was within its own."""
        self._waiting = deque((request, request.ByteSize()) for request in requests)
        self._bytes = sum(size for _, size in self._waiting)


class Acknowledged:
    """The newest reports that the service acknowledged, with its answers, for a service that loses them; not safe in threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._bytes = 0
        self._kept: deque[tuple[scheduler_pb2.ObserveRequest, scheduler_pb2.ObserveResponse, int]] = deque()

    def append(self, request: scheduler_pb2.ObserveRequest, response: scheduler_pb2.ObserveResponse) -> None:
        """Adds the newest, and lets go of the oldest beyond the limit."""
        size = request.ByteSize() + response.ByteSize()
        self._kept.append((request, response, size))
        self._bytes += size
        while self._bytes > self._limit_bytes:
            self._bytes -= self._kept.popleft()[2]

    def clear(self) -> None:
        """Forgets all: they are of a line that was left."""
        self._kept.clear()
        self._bytes = 0

    def between(self, after: int, until: int) -> list[scheduler_pb2.ObserveRequest] | None:
        """The reports with ``after`` < revision <= ``until``, to be made again; None where some are no longer kept."""
        found = [(request, response) for request, response, _ in self._kept if after < response.revision <= until]
        if [response.revision for _, response in found] != list(range(after + 1, until + 1)):
            return None
        return [_again(request, response) for request, response in found]


def _again(request: scheduler_pb2.ObserveRequest, response: scheduler_pb2.ObserveResponse) -> scheduler_pb2.ObserveRequest:
    """A report with what it was answered, so that it is applied under the same configuration."""
    again = scheduler_pb2.ObserveRequest()
    again.CopyFrom(request)
    if not again.HasField("late"):
        pinned = all(item.schedule.mode == observation_pb2.MODE_PINNED for item in response.schedules)
        again.late.config_revision = response.config_revision
        again.late.source = "PINNED" if pinned else "SERVER"
        for item in response.schedules:
            again.late.schedules.add(environment=item.environment).schedule.CopyFrom(item.schedule)
    return again


def encode(requests: Iterable[scheduler_pb2.ObserveRequest]) -> list[str]:
    """One line of base64 each."""
    return [base64.b64encode(request.SerializeToString()).decode() for request in requests]


def decode(lines: Iterable[str]) -> list[scheduler_pb2.ObserveRequest]:
    """The inverse of :func:`encode`.

    Raises:
        ValueError: A line is no base64.
        google.protobuf.message.DecodeError: A line is no ObserveRequest.
    """
    return [scheduler_pb2.ObserveRequest.FromString(base64.b64decode(line, validate=True)) for line in lines]
