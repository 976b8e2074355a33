"""The process beside the server: it starts light, steps back behind Observe, and is replaced when it is killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.service.conftest import Client
from tests.service.test_simulate import refused, reported, simulated


@pytest.fixture
def run(connect: Callable[..., Client]) -> Client:
    """A run for which the worker has worked."""
    client = connect()
    client.create()
    reported(client, 3)
    simulated(client, {})
    return client


def worker() -> int:
    """Its pid: the newest process that this one, which has the server inside, has started for it."""
    children = [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    return max(pid for pid in children if b"LokyProcess" in Path(f"/proc/{pid}/cmdline").read_bytes())


def test_it_takes_only_what_the_server_leaves(run: Client) -> None:
    own, other = (os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, worker()))
    assert other > own or other == 19


def test_killed_it_is_replaced(run: Client) -> None:
    before = worker()
    os.kill(before, signal.SIGKILL)
    assert refused(run, {}).reason == "WORKER_ENDED"
    assert simulated(run, {}).revision == 3
    assert worker() != before


def test_it_starts_without_what_only_the_server_needs() -> None:
    words = "import fade_service.insight.replay, sys; print({'grpc', 'fastapi', 'redis', 'opentelemetry'} & set(sys.modules))"
    said = subprocess.run([sys.executable, "-c", words], capture_output=True, text=True, check=True).stdout
    assert said == "set()\n"
