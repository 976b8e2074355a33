"""`fade serve --durability`."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fade_service.cli import main

ROWS = ([1.0, 0.0], [0, 0])

Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts `fade serve` on free ports."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "fade_service", "serve", "--grpc-port", "0", "--http-port", "0", *arguments]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE, text=True))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("option", ["", "?durability=normal"])
def test_full_is_said_on_the_command_line_and_all_that_was_acknowledged_outlives_a_kill(
    tmp_path: Path, start: Start, connect: Callable[..., Any], option: str
) -> None:
    arguments = ("--store", f"sqlite:///{tmp_path}/fade.db{option}", "--durability", "full")
    server = start(*arguments)
    line = serving(server)
    assert line.split("store ")[1].split()[0].endswith("durability=full")
    client = connect("r", at=address(line))
    client.create()
    answers = [client.observe(f"b{number}", *ROWS) for number in range(30)]
    server.send_signal(signal.SIGKILL)
    server.wait()
    again = connect("r", at=address(serving(start(*arguments))))
    assert [item.observation_id for item in again.history()] == [f"b{number}" for number in range(30)]
    assert [again.send(again.report(f"b{number}", *ROWS)) for number in range(30)] == [(answer, True) for answer in answers]


@pytest.mark.parametrize("store", ["redis://127.0.0.1:1/0", "rediss://127.0.0.1:1/0", "memory://"])
def test_it_is_refused_for_stores_that_it_says_nothing_about(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--store", store, "--durability", "full"]) == 2
    assert "--durability is for SQLite" in capsys.readouterr().err


def test_another_word_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["serve", "--durability", "forever"])
    assert ended.value.code == 2 and "forever" in capsys.readouterr().err


def serving(server: subprocess.Popen[str]) -> str:
    """Waits until it serves; the line that says so."""
    assert server.stderr is not None
    lines = []
    for line in server.stderr:
        lines.append(line)
        if "serving gRPC on " in line:
            return line
    raise AssertionError("the server ended before it served: " + "".join(lines))


def address(line: str) -> str:
    found = re.search(r"serving gRPC on (\S+) ", line)
    assert found is not None
    return found[1]
