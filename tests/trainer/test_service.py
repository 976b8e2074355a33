"""Training on the schedules of a real server."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest

from fade_proto.v1 import run_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer
from fade_trainer import TrainConfig
from fade_trainer.cli import main
from fade_trainer.train import train

Configure = Callable[..., TrainConfig]


class Served:
    """What a server knows of a run."""

    def __init__(self, address: str, run: str) -> None:
        self._channel = grpc.insecure_channel(address)
        self._stub = SchedulerServiceStub(self._channel)
        self._name = f"projects/default/runs/{run}"

    def run(self) -> run_pb2.Run:
        """The run itself."""
        run: run_pb2.Run = self._stub.GetRun(scheduler_pb2.GetRunRequest(name=self._name), timeout=10)
        return run

    def observations(self, branch: str = "") -> list[Any]:
        """Along one line, oldest first: all that does not depend on when and from whom the report came."""
        request = scheduler_pb2.ListObservationsRequest(parent=self._name, branch=branch, page_size=1000)
        return [
            (
                item.observation_id,
                item.revision,
                item.trainer_step,
                item.lost_reports,
                [part.SerializeToString(deterministic=True) for part in item.schedules],
            )
            for item in self._stub.ListObservations(request, timeout=10).observations
        ]

    def digest(self) -> str:
        """Of the newest state."""
        return str(self._stub.GetSchedule(scheduler_pb2.GetScheduleRequest(name=self._name), timeout=10).state_digest)

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()


@pytest.fixture
def served() -> Iterator[Callable[[str, str], Served]]:
    """Opens what servers know, and closes it in the end."""
    opened: list[Served] = []

    def open_(address: str, run: str) -> Served:
        opened.append(Served(address, run))
        return opened[-1]

    yield open_
    for item in opened:
        item.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """HOST:PORT of a server on its own SQLite file."""
    store = f"sqlite:///{tmp_path_factory.mktemp('served') / 'fade.db'}"
    with FadeServer(store=store, host="127.0.0.1", grpc_port=0, http_port=0) as running:
        yield f"127.0.0.1:{running.grpc_port}"


class Serve:
    """A `fade serve` process on a fixed port and file."""

    def __init__(self, path: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self._store = f"sqlite:///{path}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it and waits until it is reached."""
        command = [sys.executable, "-m", "fade_service", "serve", "--store", self._store, "--host", "127.0.0.1"]
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


def test_weights_of_one_from_the_server_train_to_the_bits_of_reward_minus_mean(
    server: str, configure: Configure, read: Any
) -> None:
    without = configure("none", advantage="grpo", server="none")
    scheduled = configure("served", advantage="grpo", server=server, run="grpo")
    train(without)
    result = train(scheduled)
    mine, other = read.held(scheduled.out), read.held(without.out)
    for name in ("model", "optimizer", "generators"):
        assert read.bits(mine[name]) == read.bits(other[name])
    assert (result.server_schedules, result.fallback_schedules, result.schedules) == (6, 0, {"SERVER": 6})


def test_the_server_and_the_controller_in_process_train_to_equal_bits(server: str, configure: Configure, read: Any) -> None:
    local, scheduled = configure("local"), configure("served", server=server, run="equal")
    train(local)
    train(scheduled)
    assert read.bits(read.held(scheduled.out)["model"]) == read.bits(read.held(local.out)["model"])
    for name in ("fade/alpha", "fade/delta", "fade/p_hat", "fade/h_hat"):
        mine, other = ([line[name] for line in read.lines(config.out, "step")] for config in (scheduled, local))
        assert mine == other


def test_a_registered_advantage_comes_from_the_server(server: str, configure: Configure, read: Any) -> None:
    plain, named = configure("plain", advantage="grpo", server="none"), configure("named", advantage="grpo_mean", server=server)
    train(plain)
    result = train(named)
    content = [read.held(config.out) for config in (plain, named)]
    assert read.bits(content[0]["model"]) == read.bits(content[1]["model"])  # r - rbar, by its registered name
    assert result.server_schedules == 6 and result.fallback_schedules == 0
    other = configure("other", advantage="pass_at_k_training", parameters={"k": 4}, server=server, run="other")
    train(other)
    assert read.bits(read.held(other.out)["model"]) != read.bits(content[0]["model"])


def test_an_unknown_parameter_is_refused_by_the_server(
    server: str, options: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    words = options("refused", server=server, run="refused", steps=1, advantage="maxrl", parameter="k=4")
    assert main(words) == 1
    assert "maxrl" in capsys.readouterr().err


def test_the_learning_rate_follows_the_schedule_where_it_is_asked_to(server: str, configure: Configure, read: Any) -> None:
    settings = {"lr_rule": "linear", "lr_min": 0.5, "lr_observations": 5}
    rates = {}
    for name, applied in (("followed", True), ("ignored", False)):
        config = configure(name, server=server, run=name, settings=settings, apply_lr_scale=applied)
        train(config)
        rates[name] = read.held(config.out)["optimizer"]["param_groups"][0]["lr"]
        scales = [line["fade/lr_scale"] for line in read.lines(config.out, "step")]
        assert scales[0] > scales[1] > scales[-1] == 0.5
    assert rates == {"followed": 0.5 * 5e-4, "ignored": 5e-4}


def test_a_resume_opens_a_branch_that_equals_an_undisturbed_run(
    server: str, configure: Configure, read: Any, served: Callable[[str, str], Served]
) -> None:
    whole = configure("whole", server=server, run="whole")
    parts = configure("parts", server=server, run="parts", checkpoint_every=2)
    train(whole)
    train(replace(parts, steps=4))
    earlier = parts.out / "checkpoint.pt"
    kept = earlier.read_bytes()
    train(replace(parts, steps=5, resume=True))
    earlier.write_bytes(kept)  # as if it had been killed after step 5
    result = train(replace(parts, resume=True))
    assert (result.server_schedules, result.fallback_schedules) == (6, 0)
    assert read.bits(read.held(parts.out)["model"]) == read.bits(read.held(whole.out)["model"])
    disturbed, undisturbed = served(server, "parts"), served(server, "whole")
    assert disturbed.observations() == undisturbed.observations()
    assert disturbed.digest() == undisturbed.digest()
    branches = [branch.id for branch in disturbed.run().branches]
    assert len(branches) == 3 and disturbed.run().branch == branches[-1]
    assert [len(disturbed.observations(branch)) for branch in branches] == [4, 5, 6]


def test_a_run_name_that_is_taken_is_code_1_and_says_why(
    server: str, options: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(options("first", server=server, run="taken", steps=1)) == 0
    assert main(options("second", server=server, run="taken", steps=1, seed=1, warmup_steps=1)) == 1
    assert "fade train: WRITER_FENCED" in capsys.readouterr().err


@pytest.mark.timeout(120)
def test_training_goes_on_while_the_server_is_dead_and_the_history_has_no_gap(
    serve: Serve,
    configure: Configure,
    options: Callable[..., list[str]],
    spawn: Callable[[list[str]], subprocess.Popen[str]],
    read: Any,
    tmp_path: Path,
    served: Callable[[str, str], Served],
) -> None:
    sizes = {"prompts": 8, "rollouts": 8, "eval_every": 10**6, "checkpoint_every": 10**6, "server": serve.address}
    folder = tmp_path / "disturbed"

    def sources() -> list[str]:
        return [line["fade/source"] for line in read.lines(folder, "step")]

    def wait_for(reached: Callable[[], bool]) -> None:
        while not reached():
            assert process.poll() is None, process.communicate()
            time.sleep(0.01)

    serve.start()
    process = spawn(options("disturbed", steps=10**6, run="disturbed", **sizes))
    wait_for(lambda: len(sources()) >= 4)
    serve.kill()
    wait_for(lambda: sources().count("LOCAL") >= 5)
    process.send_signal(signal.SIGSTOP)  # or it would train on for all the time that a server takes to start
    serve.start()
    process.send_signal(signal.SIGCONT)
    wait_for(lambda: sources()[-1] == "SERVER")
    process.send_signal(signal.SIGTERM)
    out, complaint = process.communicate(timeout=60)
    seen, result = sources(), json.loads(out)
    assert process.returncode == 0 and result["interrupted"]
    assert f"stopped after step {len(seen)}; --resume goes on from there" in complaint
    assert read.held(folder)["step"] == result["steps"] == len(seen)
    first, last = seen.index("LOCAL"), len(seen) - seen[::-1].index("LOCAL")
    assert first >= 4 and seen == ["SERVER"] * first + ["LOCAL"] * (last - first) + ["SERVER"] * (len(seen) - last)
    assert result["schedules"] == {"SERVER": seen.count("SERVER"), "LOCAL": seen.count("LOCAL")}
    assert result["fallback_schedules"] == seen.count("LOCAL")
    assert f"{seen.count('LOCAL')} of {len(seen)} batches were trained without an answer of {serve.address}" in complaint

    undisturbed = configure("undisturbed", steps=len(seen), run="undisturbed", **sizes)
    assert train(undisturbed).schedules == {"SERVER": len(seen)}
    assert read.bits(read.held(folder)["model"]) == read.bits(read.held(undisturbed.out)["model"])
    mine, other = served(serve.address, "disturbed"), served(serve.address, "undisturbed")
    assert len(mine.observations()) == len(seen)
    assert mine.observations() == other.observations()
    assert mine.digest() == other.digest()
