"""Failpoints of a process: where it dies, and that it does so at no other time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

_PASSES = "from fade_service import failpoints\nfor n in range(1000): print(n, flush=True); failpoints.reach('here')"


def passes(failpoints: str, seed: str = "1") -> tuple[int, int, str]:
    """A process that passes a point up to 1,000 times: its exit code, the passes begun, and what it said on stderr."""
    environment = {**os.environ, "FADE_FAILPOINTS": failpoints, "FADE_FAILPOINTS_SEED": seed}
    done = subprocess.run([sys.executable, "-c", _PASSES], env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, len(done.stdout.split()), done.stderr


@pytest.mark.parametrize("failpoints", ["", "elsewhere:kill", "here:kill@0"])
def test_a_point_that_is_not_asked_for_is_passed(failpoints: str) -> None:
    assert passes(failpoints) == (0, 1000, "")


def test_a_process_dies_at_the_first_pass_of_its_point_and_says_so() -> None:
    assert passes("elsewhere:kill@0.5,here:kill") == (-signal.SIGKILL, 1, "failpoint here: kill\n")


def test_with_a_chance_the_seed_says_at_which_pass() -> None:
    ends = {seed: passes("here:kill@0.01", seed) for seed in ("1", "2", "3")}
    assert len({begun for _, begun, _ in ends.values()}) > 1
    assert all(code == -signal.SIGKILL for code, _, _ in ends.values())
    assert passes("here:kill@0.01", "1") == ends["1"]


def test_what_is_no_failpoint_stops_the_process_at_its_start() -> None:
    code, begun, said = passes("here:pause")
    assert (code, begun) == (1, 0)
    assert "FADE_FAILPOINTS has 'here:pause'; give POINT:kill or POINT:kill@CHANCE" in said
