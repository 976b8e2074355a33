"""Whatever is sent: the service never fails itself, says what is wrong, and a refusal changes nothing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fade_proto.v1 import observation_pb2, run_pb2, scheduler_pb2
from fade_proto.v1.run_pb2 import HistoryPoint, Snapshot
from fade_proto.v1.scheduler_pb2 import (
    ComputeAdvantagesRequest,
    CreateRunRequest,
    GetRunRequest,
    GetScheduleRequest,
    ListObservationsRequest,
    ListRunsRequest,
    RestoreRunRequest,
    UpdateRunRequest,
)

_FUZZ = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

_WORDS = ["", "main", "default", "b1", "writer", "{x}", "\0", "é", "x" * 129, "ä" * 20_000, "projects/-", "config.mode", "power"]
_NUMBERS = [0.0, -0.0, 0.3, 0.5, 1.0, 1 + 1e-7, 2.0, -1.0, 5e-324, 1e308, -1e308, math.inf, -math.inf, math.nan]
_COUNTS = [0, 1, 2, 3, 7, -1, 129, 2**31 - 1, -(2**31), 2**53, 2**63 - 1, -(2**63)]
_COUNTS_32 = [count for count in _COUNTS if -(2**31) <= count < 2**31]

_runs = itertools.count()

_READ_AND_WRITE = ["Observe", "ComputeAdvantages", "UpdateRun", "RestoreRun"]

_VALUES = {
    FieldDescriptor.CPPTYPE_STRING: st.sampled_from(_WORDS),
    FieldDescriptor.CPPTYPE_DOUBLE: st.sampled_from(_NUMBERS),
    FieldDescriptor.CPPTYPE_INT64: st.sampled_from(_COUNTS),
    FieldDescriptor.CPPTYPE_INT32: st.sampled_from(_COUNTS_32),
    FieldDescriptor.CPPTYPE_ENUM: st.sampled_from([0, 1, 2, 3, 4, 5, 6, 99, -1]),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
}


def mutate(message: Message, data: st.DataObject) -> None:
    """Changes one field of a message, or of a message in it, to something of its type."""
    field = data.draw(st.sampled_from(list(message.DESCRIPTOR.fields)), label=message.DESCRIPTOR.name)
    here = getattr(message, field.name)
    if data.draw(st.integers(0, 9)) == 0:
        message.ClearField(field.name)
    elif isinstance(here, Message):
        here.SetInParent()
        mutate(here, data)
    elif field.message_type is not None and field.message_type.GetOptions().map_entry:
        here[data.draw(_VALUES[FieldDescriptor.CPPTYPE_STRING])] = data.draw(_VALUES[FieldDescriptor.CPPTYPE_DOUBLE])
    elif field.message_type is not None:
        mutate(data.draw(st.sampled_from(list(here))) if here and data.draw(st.booleans()) else here.add(), data)
    elif not hasattr(here, "extend"):
        setattr(message, field.name, data.draw(_VALUES[field.cpp_type]))
    elif here and data.draw(st.booleans()):
        here[data.draw(st.integers(0, len(here) - 1))] = data.draw(_VALUES[field.cpp_type])
    else:
        length = 1
        if isinstance(message, observation_pb2.Rows):  # a full column
            length = len(message.rewards)
            del here[:]
        here.extend(data.draw(st.lists(_VALUES[field.cpp_type], min_size=length, max_size=length)))


def valid(method: str, client: Any) -> Message:
    """A request of the method that is answered; the client is turned to a new run with one observation."""
    client.run = f"fuzzed-{next(_runs)}"
    client.name = f"projects/test/runs/{client.run}"
    client.create()
    client.observe("b1", [1.0, 0.0], [0, 0], 1.0, trainer_step=1)
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
        "UpdateRun": UpdateRunRequest(run=run_pb2.Run(name=client.name, config=run_pb2.RunConfig(alpha_max=2.0))),
    }
    requests["UpdateRun"].update_mask.paths.append("config.alpha_max")  # type: ignore[attr-defined]
    return requests[method]


def judged(refusal: Any, before: list[bytes], client: Any) -> None:
    """A refusal, if there was one, is of the catalog, says which field is wrong where one is, and changed nothing."""
    if refusal is not None:
        assert refusal.code not in ("INTERNAL", "UNKNOWN") and refusal.reason and refusal.message
        assert refusal.has_bad_request == (refusal.code == "INVALID_ARGUMENT")
        assert refusal.has_retry == (refusal.code == "UNAVAILABLE")
        assert client.everything() == before


@pytest.mark.parametrize(
    "method",
    [
        "CreateRun", "GetRun", "ListRuns", "GetSchedule", "ListObservations", "ComputeAdvantages",
        "Observe", "UpdateRun", "RestoreRun", "RestoreRun at a point",
    ],
)  # fmt: skip
@_FUZZ
@given(data=st.data())
def test_a_valid_request_changed_at_random_is_answered_or_refused_whole(
    client: Any, attempt: Any, method: str, data: st.DataObject
) -> None:
    request = valid(method, client)
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(request, data)
    before = client.everything()
    judged(attempt(lambda: getattr(client.stub, method.split()[0])(request, timeout=10)), before, client)


@_FUZZ
@given(data=st.binary(max_size=60), at=st.integers(0, 200), cut=st.integers(0, 20), method=st.sampled_from(_READ_AND_WRITE))
def test_bytes_that_are_changed_at_random_are_answered_or_refused_whole(
    client: Any, attempt: Any, data: bytes, at: int, cut: int, method: str
) -> None:
    sent = valid(method, client).SerializeToString()
    call = client.channel.unary_unary(f"/{scheduler_pb2.DESCRIPTOR.package}.SchedulerService/{method}", bytes, bytes)
    before = client.everything()
    judged(attempt(lambda: call(sent[:at] + data + sent[at + cut :], timeout=10)), before, client)
