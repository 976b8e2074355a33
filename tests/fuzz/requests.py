"""Requests of every method that are answered, and what can be done to them."""

from __future__ import annotations

import itertools
import math
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from tests.service.conftest import Client

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.run_pb2 import HistoryPoint, Snapshot
from fade_proto.v1.scheduler_pb2 import (
    ComputeAdvantagesRequest,
    CreateRunRequest,
    GetRunRequest,
    GetScheduleRequest,
    ListObservationsRequest,
    ListRunsRequest,
    RestoreRunRequest,
    SimulateRunRequest,
    UpdateRunRequest,
)

METHODS = (
    "CreateRun", "GetRun", "ListRuns", "GetSchedule", "ListObservations", "ComputeAdvantages", "SimulateRun",
    "Observe", "UpdateRun", "RestoreRun", "RestoreRun at a point",
)  # fmt: skip

WORDS = ["", "main", "default", "b1", "writer", "{x}", "\0", "é", "x" * 129, "ä" * 20_000, "projects/-", "config.mode", "power"]
NUMBERS = [0.0, -0.0, 0.3, 0.5, 1.0, 1 + 1e-7, 2.0, -1.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]
COUNTS = [0, 1, 2, 3, 7, -1, 129, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63)]

_VALUES: dict[int, list[Any]] = {
    FieldDescriptor.CPPTYPE_STRING: WORDS,
    FieldDescriptor.CPPTYPE_DOUBLE: NUMBERS,
    FieldDescriptor.CPPTYPE_INT64: COUNTS,
    FieldDescriptor.CPPTYPE_INT32: [count for count in COUNTS if -(2**31) <= count < 2**31],
    FieldDescriptor.CPPTYPE_ENUM: [0, 1, 2, 3, 4, 5, 6, 99, -1],
    FieldDescriptor.CPPTYPE_BOOL: [False, True],
}

_runs = itertools.count()


def turn_to_new_run(client: Client) -> None:
    """A new run with one observation."""
    client.run = f"fuzzed-{next(_runs)}"
    client.name = f"projects/test/runs/{client.run}"
    client.create()
    client.observe("b1", [1.0, 0.0], [0, 0], 1.0, trainer_step=1)


def valid(method: str, client: Client) -> Message:
    """A request of the method about the client's run that is answered."""
    point = client.schedule()
    rows = observation_pb2.Rows(rewards=[1, 0, 1, 0], group_index=[0, 0, 1, 1])
    groups = observation_pb2.GroupTable(count=2)
    snapshot = Snapshot(
        name=client.name, branch=point.branch, revision=point.revision, state=point.state, state_digest=point.state_digest
    )
    requests: dict[str, Message] = {
        "CreateRun": CreateRunRequest(parent="projects/test", run_id=client.run, run=run_pb2.Run(config=client.get().config)),
        "GetRun": GetRunRequest(name=client.name),
        "ListRuns": ListRunsRequest(parent="projects/test"),
        "Observe": client.report("new", [1, 0, 1, 0], [0, 0, 1, 1], 1.0, trainer_step=1),
        "GetSchedule": GetScheduleRequest(name=client.name, revision=1),
        "ComputeAdvantages": ComputeAdvantagesRequest(
            name=client.name, rows=rows, groups=groups, schedule=observation_pb2.Schedule(alpha=2, delta=1, scale=1)
        ),
        "ListObservations": ListObservationsRequest(parent=client.name),
        "RestoreRun": RestoreRunRequest(name=client.name, writer="writer", snapshot=snapshot),
        "RestoreRun at a point": RestoreRunRequest(name=client.name, writer="writer", point=HistoryPoint(revision=1)),
        "SimulateRun": SimulateRunRequest(name=client.name, settings=[SimulateRunRequest.Setting(label="x")]),
        "UpdateRun": UpdateRunRequest(run=run_pb2.Run(name=client.name, config=run_pb2.RunConfig(alpha_max=2.0))),
    }
    requests["UpdateRun"].update_mask.paths.append("config.alpha_max")  # type: ignore[attr-defined]
    return requests[method]


def mutate(message: Message, random: Random) -> None:
    """Changes one field of a message, or of a message in it, to something of its type."""
    field = random.choice(list(message.DESCRIPTOR.fields))
    here = getattr(message, field.name)
    if random.randrange(10) == 0:
        message.ClearField(field.name)
    elif isinstance(here, Message):
        here.SetInParent()
        if here.DESCRIPTOR.fields:
            mutate(here, random)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        here[random.choice(WORDS)] = random.choice(NUMBERS)
    elif field.message_type is not None:
        mutate(random.choice(list(here)) if here and random.randrange(2) else here.add(), random)
    elif not hasattr(here, "extend"):
        setattr(message, field.name, random.choice(_VALUES[field.cpp_type]))
    elif here and random.randrange(2):
        here[random.randrange(len(here))] = random.choice(_VALUES[field.cpp_type])
    else:
        length = 1
        if isinstance(message, observation_pb2.Rows):  # a full column
            length = len(message.rewards)
            del here[:]
        here.extend(random.choice(_VALUES[field.cpp_type]) for _ in range(length))


def mutate_bytes(sent: bytes, random: Random) -> bytes:
    """Puts other bytes in place of some."""
    at, cut = random.randrange(len(sent) + 1), random.randrange(20)
    return sent[:at] + random.randbytes(random.randrange(60)) + sent[at + cut :]
