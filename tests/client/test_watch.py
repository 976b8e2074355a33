"""`fade watch`: the real command in a pipe and at a terminal, through restores, and through kill -9 of the server."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.client.conftest import Front
from tests.client.terminal import FADE, TAKES_CTRL_C, Terminal, environment, line_of
from tests.client.test_kill import Serve

from fade_client import FadeClient
from fade_client.operate.follow import Follower
from fade_client.operate.remote import Remote
from fade_proto.v1 import scheduler_pb2
from fade_service import FadeServer

Connect = Callable[..., FadeClient]

QUICKLY = ("--interval", "0.1")


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A server that can be killed and started again."""
    process = Serve(tmp_path / "killed.db")
    process.start()
    yield process
    process.stop()


@contextmanager
def watching(address: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The command in pipes, on the run ``r``."""
    command = [*TAKES_CTRL_C, FADE, "watch", "r", *QUICKLY, "--server", address, *more]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=environment(), stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def next_line(process: subprocess.Popen[str]) -> str:
    """Of its standard output."""
    return line_of(process.stdout, bool)


def test_without_a_terminal_each_observation_is_a_line_from_the_newest_on(server: str, connect: Connect, batch: Any) -> None:
    client = connect(server)
    client.observe(**batch(0))
    client.observe(**batch(1))
    with watching(server) as process:
        assert " main 2 step 1 SERVER | default active " in next_line(process)
        schedule = client.observe(**batch(2))
        line = next_line(process)
        assert " main 3 step 2 SERVER | default active exploring " in line
        assert f" alpha {schedule.alpha:.3f} delta {schedule.delta:.3f} " in line
        state = schedule.parts["default"].state
        assert state is not None and state.entropy_nats is not None and state.initial_entropy_nats is not None
        assert f" solved {state.solve_rate:.3f} entropy {state.entropy_nats:.3f}/{state.initial_entropy_nats / 2:.3f}" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0
        assert process.stderr is not None and process.stderr.read() == ""


def test_a_run_that_is_completed_ends_the_watch(server: str, connect: Connect, batch: Any, history: Any) -> None:
    client = connect(server)
    client.observe(**batch(0), evaluation=True)  # makes the run, and is not kept
    with watching(server) as process:
        assert "has no observations yet" in line_of(process.stderr, bool)
        client.observe(**batch(1))
        assert " main 1 step 1 " in next_line(process)
        history("r").stub.CompleteRun(scheduler_pb2.CompleteRunRequest(name="projects/default/runs/r"), timeout=10)
        out, said = process.communicate(timeout=30)
    assert (process.returncode, out, said) == (0, "", "fade watch: projects/default/runs/r is completed\n")


def test_json_follows_a_restored_run_onto_its_new_branches(server: str, connect: Connect, batch: Any, history: Any) -> None:
    client = connect(server)
    for number in range(4):
        client.observe(**batch(number))
    with watching(server, "--json") as process:
        first = json.loads(next_line(process))
        assert (first["run"], first["branch"], first["revision"]) == ("projects/default/runs/r", "main", 4)
        assert [item["environment"] for item in first["environments"]] == ["default"]
        client.restore(2)
        client.observe(**batch(10))
        again = json.loads(next_line(process))
        client.restore(1)
        client.observe(**batch(11))
        client.observe(**batch(12))
        last = [json.loads(next_line(process)) for _ in range(2)]
    assert (again["revision"], again["observation_id"]) == (3, "batch-10")
    assert [(item["revision"], item["observation_id"]) for item in last] == [(2, "batch-11"), (3, "batch-12")]
    assert [item["branch"] for item in last] == [history("r").get().branch] * 2 and last[0]["branch"] != again["branch"] != "main"


def test_a_long_history_is_read_once(front: Front, connect: Connect, batch: Any) -> None:
    client = connect(front.address)
    for number in range(250):
        client.observe(**batch(number))
    with watching(front.address) as process:
        assert " main 250 " in next_line(process)
        before = front.calls["ListObservations"]
        client.observe(**batch(250))
        assert " main 251 " in next_line(process)
        assert (before, front.calls["ListObservations"]) == (3, 4)


def test_what_the_store_dropped_between_two_polls_is_passed_over(redis_url: str, connect: Connect, batch: Any) -> None:
    with FadeServer(f"{redis_url}?history=110", grpc_port=0, http_port=0) as server:
        address = f"127.0.0.1:{server.grpc_port}"
        client = connect(address)
        seen = []
        with Remote(address) as remote:
            follower = Follower(remote, "projects/default/runs/r")
            for revisions in (range(105), range(105, 260)):
                for number in revisions:
                    client.observe(**batch(number))
                seen.append([item.revision for item in follower.poll()[1]])
        client.close()
    assert seen == [list(range(1, 106)), list(range(151, 261))]


def test_another_run_of_the_same_name_is_shown_from_its_start(
    server: str, front: Front, connect: Connect, batch: Any, history: Any
) -> None:
    connect(server).observe(**batch(0))
    with watching(front.address) as process:
        assert " main 1 step 0 " in next_line(process)
        front.mode = "down"
        history("r").stub.DeleteRun(scheduler_pb2.DeleteRunRequest(name="projects/default/runs/r"), timeout=10)
        client = connect(server)
        client.observe(**batch(1))
        client.observe(**batch(2))
        front.mode = "pass"
        assert " main 1 step 1 " in next_line(process) and " main 2 step 2 " in next_line(process)


@pytest.mark.heavy
def test_a_killed_server_is_told_as_away_and_the_watch_goes_on(serve: Serve, connect: Connect, batch: Any) -> None:
    client = connect(serve.address)
    client.observe(**batch(0))
    with watching(serve.address) as process:
        assert " main 1 step 0 " in next_line(process)
        serve.kill()
        away = line_of(process.stderr, bool)
        assert away.startswith("fade watch: away since 20") and serve.address in away
        for number in range(1, 4):
            assert client.observe(**batch(number)).source == "LOCAL"
        serve.start()
        assert client.flush(30)
        lines = [next_line(process) for _ in range(3)]
        assert [f" main {number + 1} step {number} LOCAL " in line for number, line in enumerate(lines, 1)] == [True] * 3
        assert "fade watch: back after " in line_of(process.stderr, bool)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=30) == 0


def test_at_a_terminal_the_picture_moves_and_ctrl_c_ends_it_with_0(
    server: str, connect: Connect, batch: Any, history: Any
) -> None:
    client = connect(server)
    for number in range(5):
        schedule = client.observe(**batch(number))
    with Terminal(FADE, "watch", "r", *QUICKLY, "--server", server) as terminal:
        picture = terminal.wait_for("Ctrl-C ends")
        assert "projects/default/runs/r  active, mode active  SERVER" in picture
        assert "branch main at revision 5, trainer step 4, last report" in picture
        lines = {line.split()[0]: line for line in picture.splitlines() if line.startswith("  ")}
        assert f"{schedule.alpha:.3f}" in lines["alpha"] and f"{schedule.delta:.3f}" in lines["delta"]
        # Warm-up takes two observations, whose mean is the initial entropy; each later one moves the average by a quarter.
        average = initial = (11 / 3 + 11 / 4) / 14
        for number in (2, 3, 4):
            average += (11 / (number + 3) / 7 - average) / 4
        assert f"{average:.3f}   █▆▃▁" in lines["entropy,"]  # 0.458, 0.422, 0.382, 0.343, after one that is not known
        assert f"target {initial / 2:.3f} ({average / initial * 2:.0%})" in lines["entropy,"]
        client.observe(**batch(5))
        terminal.wait_for("branch main at revision 6")
        history("r").update(mode=2)
        terminal.wait_for("mode shadow")
        client.restore(2)
        client.observe(**batch(9))
        terminal.wait_for("at revision 3, trainer step 9")
        (alpha,) = [line for line in terminal.wait_for("Ctrl-C ends").splitlines() if line.startswith("  alpha")]
        assert len(re.findall("[▁-█]", alpha)) == 3  # without those that the run was restored to before
        terminal.type("\x03")
        assert terminal.ended()[0] == 0


def test_at_a_terminal_warnings_are_shown_and_a_completed_run_ends_it(
    server: str, connect: Connect, batch: Any, history: Any
) -> None:
    connect(server).observe("lone", rewards=[1.0, 0.0], groups=["a", "b"])
    history("r").stub.CompleteRun(scheduler_pb2.CompleteRunRequest(name="projects/default/runs/r"), timeout=10)
    warnings = [item.reason for item in history("r").observations()[0].warnings]
    assert warnings
    with Terminal(FADE, "watch", "r", "--server", server) as terminal:
        code, shown = terminal.ended()
    assert code == 0 and "the run is completed" in shown and all(reason in shown for reason in warnings)


@pytest.mark.heavy
def test_at_a_terminal_a_killed_server_is_away_until_it_is_back(serve: Serve, connect: Connect, batch: Any) -> None:
    connect(serve.address).observe(**batch(0))
    with Terminal(FADE, "watch", "r", *QUICKLY, "--server", serve.address) as terminal:
        terminal.wait_for("Ctrl-C ends")
        serve.kill()
        terminal.wait_for("away since 20")
        serve.start()
        terminal.wait_for("Ctrl-C ends")
        terminal.type("\x03")
        assert terminal.ended()[0] == 0


def test_at_a_terminal_without_rich_or_without_bars_the_lines_are_plain(server: str, connect: Connect, batch: Any) -> None:
    connect(server).observe(**batch(0))
    code = "import sys; sys.modules['rich'] = None; from fade_client.cli import main; sys.exit(main(sys.argv[1:]))"
    with Terminal(sys.executable, "-c", code, "watch", "r", "--server", server) as terminal:
        assert "pip install 'fade-scheduler[cli]'" in terminal.wait_for(" main 1 step 0 SERVER | ")
        terminal.type("\x03")
        assert terminal.ended()[0] == 0
    with Terminal(FADE, "watch", "r", "--server", server, TERM="dumb") as terminal:
        terminal.wait_for(" main 1 step 0 SERVER | ")


def test_a_run_that_is_deleted_ends_the_watch_with_4(server: str, connect: Connect, batch: Any, history: Any) -> None:
    connect(server).observe(**batch(0))
    with watching(server) as process:
        next_line(process)
        history("r").stub.DeleteRun(scheduler_pb2.DeleteRunRequest(name="projects/default/runs/r"), timeout=10)
        assert process.wait(timeout=30) == 4
