"""kill -9 of a server between its commit and its reply; then the same report again, to another server on the same store."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from fade_client import FadeClient, RunConfig

ROWS = ([1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [0, 0, 0, 1, 1, 1])


@pytest.fixture(params=["sqlite", "redis"])
def store(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store that outlives its servers."""
    if request.param == "redis":
        return str(request.getfixturevalue("redis_url"))
    return f"sqlite:///{request.getfixturevalue('tmp_path') / 'fade.db'}"


@pytest.fixture
def serve(store: str) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str]]]:
    """Starts `fade serve` on the store; the process and gRPC's address."""
    started: list[subprocess.Popen[str]] = []

    def start(**environment: str) -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "fade_service", "serve", "--store", store, "--grpc-port", "0", "--http-port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
        started.append(process)
        assert process.stderr is not None
        for line in process.stderr:
            if found := re.search(r"serving gRPC on (\S+) and", line):
                return process, found[1]
        raise AssertionError("the server ended before it served")

    yield start
    for process in started:
        process.kill()
        process.communicate()


def test_a_report_that_was_committed_and_never_answered_gets_the_stored_answer(serve: Any, connect: Any) -> None:
    _, address = serve()
    before = connect("run", at=address)
    before.create(ema_weight=0.25)
    before.observe("batch-0", *ROWS, entropy=1.0)
    dying, its_address = serve(FADE_FAILPOINTS="after_commit:kill")
    unlucky = connect("run", at=its_address)
    with pytest.raises(grpc.RpcError) as caught:
        unlucky.observe("batch-1", *ROWS, entropy=0.5)
    assert caught.value.code() == grpc.StatusCode.UNAVAILABLE
    assert dying.wait(30) == -9
    assert before.get().revision == 2, "it was committed"
    answer, replayed = before.send(before.report("batch-1", *ROWS, entropy=0.5))
    assert replayed and answer.revision == 2
    twin = FadeClient.local(RunConfig(ema_weight=0.25))
    for number, entropy in enumerate((1.0, 0.5)):
        expected = twin.observe(f"batch-{number}", rewards=ROWS[0], groups=ROWS[1], entropy=(10 * entropy, 10))
    schedule = answer.schedules[0].schedule
    assert (schedule.alpha, schedule.delta) == (expected.alpha, expected.delta)
    assert before.schedule().state_digest == twin.state_dict()["state_digest"]
    assert [item.observation_id for item in before.history()] == ["batch-0", "batch-1"]


def test_a_report_whose_server_died_before_its_commit_was_never_there(serve: Any, connect: Any) -> None:
    _, address = serve()
    before = connect("run", at=address)
    before.create()
    dying, its_address = serve(FADE_FAILPOINTS="before_commit:kill")
    unlucky = connect("run", at=its_address)
    with pytest.raises(grpc.RpcError):
        unlucky.observe("batch-0", *ROWS)
    assert dying.wait(30) == -9
    assert before.get().revision == 0
    answer, replayed = before.send(before.report("batch-0", *ROWS))
    assert not replayed and answer.revision == 1
