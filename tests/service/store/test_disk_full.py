"""A full disk under a real server: refused whole, nothing changed; and the trainer trains on."""

from __future__ import annotations

import os
import re
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from fade_client import FadeClient
from fade_proto.v1.scheduler_pb2 import DeleteRunRequest
from fade_service import FadeServer

ROWS = ([1.0, 0.0, 0.0, 1.0], [0, 0, 1, 1])

_SERVE = """
mount -t tmpfs -o size=2m tmpfs "$1" || exit 9
exec "$2" -m fade_service serve --store "sqlite:///$1/fade.db" --grpc-port 0 --http-port 0
"""


class SmallDisk:
    """A server whose store lies on a disk of 2 MB of its own, in a mount namespace of its own."""

    def __init__(self, folder: Path) -> None:
        command = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"])]
        command += ["sh", "-c", _SERVE, "sh", str(folder), sys.executable]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr is not None
        lines = []
        for line in self._process.stderr:
            lines.append(line)
            if found := re.search(r"serving gRPC on (\S+) ", line):
                self.address = found[1]
                break
        else:
            raise AssertionError("no server on a disk of its own: " + "".join(lines))
        self._folder = Path(f"/proc/{self._process.pid}/root{folder}")

    def fill(self) -> None:
        """Leaves no room."""
        with (self._folder / "ballast").open("wb", buffering=0) as file:
            for size in (65536, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    pass

    def make_room(self) -> None:
        """Takes away what filled it."""
        (self._folder / "ballast").unlink()

    def stop(self) -> int:
        """Stops the server; its exit code."""
        self._process.send_signal(signal.SIGTERM)
        self._process.communicate(timeout=30)
        return self._process.returncode


def test_a_file_that_may_not_grow_is_said_in_the_words_of_the_contract(
    tmp_path: Path, connect: Callable[..., Any], refused: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    open_connection = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(open_connection(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    with FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        client.observe("b0", *ROWS)
        before = client.everything()
        large = client.report("b1", [1.0] * 60_000, range(60_000))  # its telemetry needs new pages
        opened[0].execute("PRAGMA max_page_count = 1")  # SQLite takes the file's size where that is more
        for _ in range(2):
            refusal = refused(lambda: client.send(large))
            assert (refusal.code, refusal.reason) == ("RESOURCE_EXHAUSTED", "STORE_FULL")
        assert client.everything() == before
        opened[0].execute("PRAGMA max_page_count = 1000000")
        assert client.send(large)[0].revision == 2


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    disk = SmallDisk(tmp_path)
    yield disk
    disk.stop()


@pytest.mark.heavy
def test_a_full_disk_refuses_whole_and_goes_on_once_there_is_room(
    disk: SmallDisk, connect: Callable[..., Any], attempt: Callable[..., Any], refused: Callable[..., Any]
) -> None:
    client = connect("r", at=disk.address)
    client.create()
    for number in range(3):
        client.observe(f"b{number}", *ROWS)
    disk.fill()
    for number in range(3, 1000):  # what SQLite had got already is used up first
        before = client.everything()
        if attempt(partial(client.observe, f"b{number}", *ROWS)) is not None:
            break
    for _ in range(3):
        refusal = refused(partial(client.observe, f"b{number}", *ROWS))
        assert (refusal.code, refusal.reason) == ("RESOURCE_EXHAUSTED", "STORE_FULL")
        assert "fade.db" in refusal.message and "an operator must make some" in refusal.message
    delete = DeleteRunRequest(name=client.name)
    assert refused(lambda: client.stub.DeleteRun(delete, timeout=10)).reason == "STORE_FULL"  # it makes no room of its own
    assert client.everything() == before
    disk.make_room()
    assert client.observe(f"b{number}", *ROWS).revision == number + 1
    assert [item.observation_id for item in client.history()] == [f"b{item}" for item in range(number + 1)]
    assert disk.stop() == 0


@pytest.mark.heavy
def test_the_trainer_trains_on_and_reports_again(disk: SmallDisk, connect: Callable[..., Any]) -> None:
    fade = FadeClient(disk.address, run="r", timeout_seconds=10.0)
    twin = FadeClient.local()
    rewards, groups = ROWS
    sources, schedules, expected = [], [], []
    for number in range(600):
        if number == 3:
            disk.fill()
        if "LOCAL" in sources[-5:-4]:
            break
        schedule = fade.observe(f"b{number}", rewards=rewards, groups=groups, entropy=(10.0 / (number + 1), 10))
        same = twin.observe(f"b{number}", rewards=rewards, groups=groups, entropy=(10.0 / (number + 1), 10))
        sources.append(schedule.source)
        schedules.append((schedule.alpha, schedule.delta))
        expected.append((same.alpha, same.delta))
    assert sources[-5:] == ["LOCAL"] * 5 and sources[0] == "SERVER"
    disk.make_room()
    assert fade.flush(30)
    assert schedules == expected
    told = connect("r", at=disk.address)
    told.name = "projects/default/runs/r"
    assert [item.observation_id for item in told.history()] == [f"b{number}" for number in range(len(sources))]
    fade.close()
