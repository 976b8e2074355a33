"""What is known of one run: what its clients were told, and what the service shows of it in the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from google.protobuf.message import Message

from fade_proto.v1.observation_pb2 import Observation
from fade_proto.v1.run_pb2 import Run, RunConfig
from fade_proto.v1.scheduler_pb2 import (
    GetScheduleResponse,
    ObserveRequest,
    ObserveResponse,
    RestoreRunRequest,
    RestoreRunResponse,
    UpdateRunRequest,
)

Request = TypeVar("Request", bound=Message)
Response = TypeVar("Response", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Call(Generic[Request, Response]):
    """One request of one client, sent until it was answered; what became of the attempts before is unknown.

    Attributes:
        request: As sent.
        started: When the first attempt began, in seconds of the monotonic clock.
        ended: When it was answered.
        attempts: How often it was sent.
        response: The answer; None where it was refused.
        refused: The reason; empty where it was answered.
        replayed: Whether the answer was marked as the stored one of an earlier attempt.
    """

    request: Request
    started: float
    ended: float
    attempts: int
    response: Response | None = None
    refused: str = ""
    replayed: bool = False


@dataclass(slots=True, kw_only=True, eq=False)
class History:
    """One run as its clients saw it. Threads append.

    Attributes:
        name: The run.
        config: What it was created with.
        observes, restores, updates: The calls that may change it.
    """

    name: str
    config: RunConfig
    observes: list[Call[ObserveRequest, ObserveResponse]] = field(default_factory=list)
    restores: list[Call[RestoreRunRequest, RestoreRunResponse]] = field(default_factory=list)
    updates: list[Call[UpdateRunRequest, Run]] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """One run as the service shows it.

    Attributes:
        run: The run.
        lines: By branch, its whole line of observations, oldest first.
        heads: By branch, its newest schedules, with the state's digest.
    """

    run: Run
    lines: Mapping[str, Sequence[Observation]]
    heads: Mapping[str, GetScheduleResponse]
