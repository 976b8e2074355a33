"""kill -9 of a real trainer process."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fade_trainer import TrainConfig
from fade_trainer.cli import main
from fade_trainer.train import train


def test_a_killed_trainer_goes_on_from_its_checkpoint_to_the_undisturbed_runs_bits(
    configure: Callable[..., TrainConfig],
    options: Callable[..., list[str]],
    spawn: Callable[[list[str]], subprocess.Popen[str]],
    read: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    sizes = {"checkpoint_every": 4, "eval_every": 10**6}
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    process = spawn(options("killed", steps=10**6, **sizes))
    while len(read.lines(killed, "step")) < 6:
        assert process.poll() is None, process.communicate()
        time.sleep(0.005)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    done = len(read.lines(killed, "step"))
    assert 4 <= read.held(killed)["step"] <= done

    assert main([*options("killed", steps=done + 2, **sizes), "--resume"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (result["steps"], result["observations"], result["interrupted"]) == (done + 2, done + 2, False)
    train(configure("whole", steps=done + 2, **sizes))
    mine, other = read.held(killed), read.held(whole)
    for name in ("model", "optimizer", "generators", "fade", "schedules"):
        assert read.bits(mine[name]) == read.bits(other[name])
    assert read.lines(killed, "step") == read.lines(whole, "step")
