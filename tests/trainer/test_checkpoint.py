"""Going on from a checkpoint: the rest of the run is the undisturbed run's, bit for bit."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fade_trainer import TrainConfig, TrainConfigError
from fade_trainer.train import train

Configure = Callable[..., TrainConfig]


@pytest.mark.parametrize(("advantage", "server"), [("grpo", "none"), ("fade", "local")])
def test_a_resumed_run_equals_an_undisturbed_one(configure: Configure, read: Any, advantage: str, server: str) -> None:
    whole = configure("whole", advantage=advantage, server=server)
    parts = configure("parts", advantage=advantage, server=server)
    expected = train(whole)
    train(replace(parts, steps=3))
    result = train(replace(parts, resume=True))
    assert read.bits(read.held(parts.out)["fade"]) == read.bits(read.held(whole.out)["fade"])
    mine, other = read.held(parts.out), read.held(whole.out)
    for content in (mine, other):
        del content["metrics_bytes"]  # timings differ in length
    assert read.bits(mine) == read.bits(other)
    for kind in ("step", "evaluation"):
        assert read.lines(parts.out, kind) == read.lines(whole.out, kind)
    assert (result.observations, result.pass_at_1_before, result.pass_at_16_after) == (
        expected.observations,
        expected.pass_at_1_before,
        expected.pass_at_16_after,
    )


def test_a_run_resumes_from_its_last_checkpoint_and_not_from_its_last_step(configure: Configure, read: Any) -> None:
    config = configure(checkpoint_every=2)
    train(replace(config, steps=3))
    torn = config.out / "metrics.jsonl"
    torn.write_bytes(torn.read_bytes() + b'{"kind": "step", "st')
    train(replace(config, resume=True))
    assert [line["step"] for line in read.lines(config.out, "step")] == [1, 2, 3, 4, 5, 6]


def test_resuming_where_nothing_is_starts_at_the_beginning(configure: Configure, read: Any) -> None:
    config = configure(steps=1, resume=True)
    assert train(config).steps == 1
    assert [line["step"] for line in read.lines(config.out, "step")] == [1]


def test_resuming_a_finished_run_trains_no_further(configure: Configure, read: Any) -> None:
    config = configure(steps=2)
    first = train(config)
    again = train(replace(config, resume=True))
    assert (again.steps, again.pass_at_1_after) == (2, first.pass_at_1_after)
    assert len(read.lines(config.out, "step")) == 2 and len(read.lines(config.out, "summary")) == 1


def test_a_folder_that_holds_a_run_is_not_written_over(configure: Configure) -> None:
    config = configure(steps=1)
    train(config)
    before = {path: path.read_bytes() for path in config.out.iterdir()}
    with pytest.raises(TrainConfigError, match="holds a run already: resume it, or choose another folder"):
        train(config)
    assert {path: path.read_bytes() for path in config.out.iterdir()} == before


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"learning_rate": 1e-3}, "learning_rate"),
        ({"seed": 1, "prompts": 8}, "seed, prompts"),
        ({"advantage": "power"}, "advantage"),
        ({"advantage": "grpo", "server": "none"}, "advantage, server"),
    ],
)
def test_a_checkpoint_of_other_settings_is_refused(configure: Configure, changes: dict[str, Any], named: str) -> None:
    config = configure(steps=1)
    train(config)
    before = {path: path.read_bytes() for path in config.out.iterdir()}
    with pytest.raises(TrainConfigError, match=f"is of a run with other settings: {named}$"):
        train(replace(config, resume=True, **changes))
    assert {path: path.read_bytes() for path in config.out.iterdir()} == before


class Dangerous:
    """Makes a folder when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def test_code_in_a_checkpoint_is_not_run(configure: Configure, tmp_path: Path) -> None:
    config = configure(steps=1)
    train(config)
    path, made = config.out / "checkpoint.pt", tmp_path / "made"
    content = torch.load(path, weights_only=True)
    torch.save({**content, "fade": Dangerous(made)}, path)
    with pytest.raises(TrainConfigError, match="cannot be read as a checkpoint"):
        train(replace(config, resume=True))
    assert not made.exists()
    with path.open("wb") as file:
        pickle.dump(Dangerous(made), file, protocol=2)
    with pytest.raises(TrainConfigError, match="cannot be read as a checkpoint"):
        train(replace(config, resume=True))
    assert not made.exists()


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04 half a zip"])
def test_a_damaged_checkpoint_is_refused(configure: Configure, content: bytes) -> None:
    config = configure(steps=1)
    train(config)
    (config.out / "checkpoint.pt").write_bytes(content)
    with pytest.raises(TrainConfigError, match="cannot be read as a checkpoint"):
        train(replace(config, resume=True))


def test_metrics_that_are_shorter_than_the_checkpoint_says_are_refused(configure: Configure) -> None:
    config = configure(steps=1)
    train(config)
    (config.out / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(TrainConfigError, match="holds 0 bytes, but its checkpoint was made at"):
        train(replace(config, resume=True))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_after_the_step_under_way_and_it_can_go_on(
    configure: Configure, read: Any, number: signal.Signals
) -> None:
    endless = configure("parts", steps=10**6, checkpoint_every=10**6)

    def interrupt() -> None:
        while len(read.lines(endless.out, "step")) < 3:
            time.sleep(0.005)
        os.kill(os.getpid(), number)

    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    waiting = threading.Thread(target=interrupt)
    waiting.start()
    result = train(endless)
    waiting.join()
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert result.interrupted and result.steps >= 3
    assert read.held(endless.out)["step"] == len(read.lines(endless.out, "step")) == result.steps
    whole = configure("whole", steps=result.steps + 2)
    train(whole)
    assert not train(replace(endless, steps=result.steps + 2, resume=True)).interrupted
    assert read.bits(read.held(endless.out)["model"]) == read.bits(read.held(whole.out)["model"])
