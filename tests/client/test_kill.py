"""kill -9 of a real `fade serve` in the middle of a run, and its restart on the same file."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from fade_client import FadeClient

Batch = Callable[[int], dict[str, Any]]


class Serve:
    """A `fade serve` process on a fixed port and file."""

    def __init__(self, path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._path = path
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it is reached."""
        store = f"sqlite:///{self._path}"
        command = [sys.executable, "-m", "fade_service", "serve", "--store", store, "--host", "127.0.0.1"]
        self._process = subprocess.Popen([*command, "--grpc-port", str(self._port), "--http-port", "0"])
        with grpc.insecure_channel(self.address) as channel:
            grpc.channel_ready_future(channel).result(timeout=30)

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ends it if it runs."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=30)


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    process = Serve(tmp_path / "killed.db")
    yield process
    process.stop()


@pytest.mark.timeout(120)
def test_history_and_state_equal_an_undisturbed_runs_bit_for_bit(
    serve: Serve, server: str, connect: Callable[..., FadeClient], batch: Batch, history: Any
) -> None:
    twin = connect(server, timeout_seconds=10.0)
    expected = [twin.observe(**batch(number)) for number in range(12)]
    serve.start()
    client = connect(serve.address)
    schedules = [client.observe(**batch(number)) for number in range(4)]
    serve.kill()
    schedules += [client.observe(**batch(number)) for number in range(4, 8)]
    serve.start()
    assert client.flush(30)
    schedules += [client.observe(**batch(number)) for number in range(8, 10)]
    serve.kill()
    schedules += [client.observe(**batch(10))]
    serve.start()
    assert client.flush(30)
    schedules += [client.observe(**batch(11))]
    sources = ["SERVER"] * 4 + ["LOCAL"] * 4 + ["SERVER"] * 2 + ["LOCAL", "SERVER"]
    assert [schedule.source for schedule in schedules] == sources
    assert [(item.alpha, item.delta) for item in schedules] == [(item.alpha, item.delta) for item in expected]
    disturbed, wanted = type(history("r"))(serve.address, "r"), history("r")
    assert disturbed.ids() == wanted.ids() == [f"batch-{number}" for number in range(12)]
    assert disturbed.digest() == wanted.digest()
    ours, theirs = disturbed.observations(), wanted.observations()
    disturbed.close()
    for mine, other in zip(ours, theirs, strict=True):
        assert [item.SerializeToString(deterministic=True) for item in mine.schedules] == [
            item.SerializeToString(deterministic=True) for item in other.schedules
        ]
        assert (mine.revision, mine.trainer_step, mine.lost_reports) == (other.revision, other.trainer_step, 0)


@pytest.mark.timeout(120)
def test_a_server_that_dies_while_reports_stream_in_loses_none(
    serve: Serve, connect: Callable[..., FadeClient], batch: Batch
) -> None:
    serve.start()
    client = connect(serve.address)
    end = time.monotonic() + 1.0
    count = 0
    while time.monotonic() < end or count < 10:
        if count == 5:
            serve.kill()
        if count == 9:
            serve.start()
        client.observe(**batch(count))
        count += 1
    assert client.flush(30)
    run = f"batch-{count - 1}"
    assert client.state_dict()["revision"] == count and client.state_dict()["unsent"] == []
    assert client.observe(**batch(count - 1)).revision == count, run
