"""Whatever is sent: the service never fails itself, says what is wrong, and a refusal changes nothing."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz.requests import METHODS, mutate, mutate_bytes, turn_to_new_run, valid

from fade_proto.v1 import scheduler_pb2

_FUZZ = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

_READ_AND_WRITE = ["Observe", "ComputeAdvantages", "UpdateRun", "RestoreRun"]


def judged(refusal: Any, before: list[bytes], client: Any) -> None:
    """A refusal, if there was one, is of the catalog, says which field is wrong where one is, and changed nothing."""
    if refusal is not None:
        assert refusal.code not in ("INTERNAL", "UNKNOWN") and refusal.reason and refusal.message
        assert refusal.has_bad_request == (refusal.code == "INVALID_ARGUMENT")
        assert refusal.has_retry == (refusal.code == "UNAVAILABLE")
        assert client.everything() == before


@pytest.mark.parametrize("method", METHODS)
@_FUZZ
@given(random=st.randoms(use_true_random=False), changes=st.integers(1, 3))
def test_a_valid_request_changed_at_random_is_answered_or_refused_whole(
    client: Any, attempt: Any, method: str, random: Random, changes: int
) -> None:
    turn_to_new_run(client)
    request = valid(method, client)
    for _ in range(changes):
        mutate(request, random)
    before = client.everything()
    judged(attempt(lambda: getattr(client.stub, method.split()[0])(request, timeout=10)), before, client)


@_FUZZ
@given(random=st.randoms(use_true_random=False), method=st.sampled_from(_READ_AND_WRITE))
def test_bytes_that_are_changed_at_random_are_answered_or_refused_whole(
    client: Any, attempt: Any, random: Random, method: str
) -> None:
    turn_to_new_run(client)
    sent = mutate_bytes(valid(method, client).SerializeToString(), random)
    call = client.channel.unary_unary(f"/{scheduler_pb2.DESCRIPTOR.package}.SchedulerService/{method}", bytes, bytes)
    before = client.everything()
    judged(attempt(lambda: call(sent, timeout=10)), before, client)
