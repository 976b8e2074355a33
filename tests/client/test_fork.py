"""A process that forks with a client in its hands."""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from typing import Any

from fade_client import FadeClient

PROGRAM = """
import os, sys
from fade_client import FadeClient

client = FadeClient(sys.argv[1], run="forked", timeout_seconds=5.0)

def observe(name):
    return client.observe(name, rewards=[1.0, 0.0], groups=["g", "g"])

observe("parent before")
for name in ("first child", "second child"):
    pid = os.fork()
    if pid == 0:
        schedule = observe(name)
        os._exit(0 if client.flush(20) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
assert observe("parent after").revision == 4
client.close()
"""


def test_a_forked_child_has_a_channel_of_its_own(server: str, history: Any) -> None:
    environment = {**os.environ, "GRPC_ENABLE_FORK_SUPPORT": "1"}  # gRPC of 2024 needs it to work in a child at all
    subprocess.run([sys.executable, "-c", PROGRAM, server], check=True, env=environment, timeout=50)
    assert history("forked").ids() == ["parent before", "first child", "second child", "parent after"]


def in_child(function: Callable[[], None]) -> int:
    """Runs it in a forked child; its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_a_child_gets_a_schedule_whatever_gRPC_makes_of_the_fork(server: str, connect: Any, batch: Any, history: Any) -> None:
    client: FadeClient = connect(server)
    client.observe(**batch(0))

    def observe() -> None:
        assert client.observe(**batch(1)).source in ("SERVER", "LOCAL")

    assert in_child(observe) == 0
    assert client.observe(**batch(1)).revision == 2
    assert history("r").ids() == ["batch-0", "batch-1"]


def test_a_child_forked_during_an_outage_works_and_nothing_counts_twice(
    front: Any, connect: Any, batch: Any, history: Any
) -> None:
    client: FadeClient = connect(front.address)
    client.observe(**batch(0))
    front.mode = "down"
    client.observe(**batch(1))

    def observe() -> None:
        assert client.observe(**batch(1)).source == "LOCAL"
        assert client.observe(**batch(2)).source == "LOCAL"

    assert in_child(observe) == 0
    front.mode = "pass"
    assert client.flush(20)
    assert client.observe(**batch(2)).revision == 3
    assert history("r").ids() == ["batch-0", "batch-1", "batch-2"]
