"""Reports kept on disk: a client that is started again, while the service is away or back, sends what the old one could not."""

from __future__ import annotations

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fade_client import FadeClient, SettingsError

Batch = Callable[[int], dict[str, Any]]
Connect = Callable[..., FadeClient]

KILLED = """
import os, signal, sys
sys.path.insert(0, {folder!r})
from conftest import CONFIG, report
from fade_client import FadeClient
client = FadeClient({address!r}, run="r", config=CONFIG, spool={spool!r}, timeout_seconds=5.0)
print(client.observe(**report(0)).source, flush=True)
sys.stdin.readline()
print(*[client.observe(**report(number)).source for number in (1, 2, 3)], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "unsent.db"


@contextmanager
def no_file_grows_beyond(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_what_a_killed_client_could_not_send_the_next_one_sends(
    front: Any, connect: Connect, batch: Batch, history: Any, undisturbed: Any, spool: Path
) -> None:
    code = KILLED.format(folder=str(Path(__file__).parent), address=front.address, spool=str(spool))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdin is not None and killed.stdout is not None
        assert killed.stdout.readline() == "SERVER\n"
        front.mode = "down"
        killed.stdin.write("go on\n")
        killed.stdin.flush()
        assert killed.stdout.readline() == "LOCAL LOCAL LOCAL\n"
    client = connect(front.address, spool=spool)
    schedules = [client.observe(**batch(4))]
    front.mode = "pass"
    assert client.flush(20)
    schedules.append(client.observe(**batch(5)))
    assert [item.source for item in schedules] == ["LOCAL", "SERVER"]
    assert [(item.alpha, item.delta) for item in schedules] == [(item.alpha, item.delta) for item in undisturbed(6)[4:]]
    now = history("r")
    assert now.ids() == [f"batch-{number}" for number in range(6)]
    assert [branch.writer for branch in now.get().branches] == [client.writer]


def test_what_waits_when_a_client_is_closed_is_sent_by_the_next(
    front: Any, connect: Connect, batch: Batch, history: Any, spool: Path
) -> None:
    first = connect(front.address, spool=spool)
    first.observe(**batch(0))
    front.mode = "down"
    for number in range(1, 30):
        first.observe(**batch(number))
    first.close()
    front.mode = "pass"
    second = connect(front.address, spool=spool)
    assert second.writer == first.writer
    assert second.flush(20)
    assert history("r").ids() == [f"batch-{number}" for number in range(30)]
    second.close()
    third = connect(front.address, spool=spool)
    assert third.writer != first.writer, "nothing is left to go on with"


def test_while_the_service_answers_nothing_is_written(server: str, connect: Connect, batch: Batch, spool: Path) -> None:
    client = connect(server, spool=spool)
    client.observe(**batch(0))
    before = [(path.name, path.read_bytes()) for path in sorted(spool.parent.iterdir())]
    for number in range(1, 5):
        client.observe(**batch(number))
    assert [(path.name, path.read_bytes()) for path in sorted(spool.parent.iterdir())] == before


def test_a_checkpoint_that_is_loaded_leaves_the_old_line_complete(
    front: Any, connect: Connect, batch: Batch, history: Any, spool: Path
) -> None:
    first = connect(front.address, spool=spool)
    first.observe(**batch(0))
    checkpoint = first.state_dict()
    front.mode = "down"
    first.observe(**batch(1))
    first.close()
    front.mode = "pass"
    second = connect(front.address, spool=spool, timeout_seconds=10.0)
    second.load_state_dict(checkpoint)
    assert second.observe(**batch(2)).source == "SERVER"
    assert history("r").ids("main") == ["batch-0", "batch-1"]
    assert history("r").ids() == ["batch-0", "batch-2"]


def test_a_file_that_another_client_has_open_is_refused(server: str, connect: Connect, spool: Path) -> None:
    first = connect(server, spool=spool)
    with pytest.raises(SettingsError, match="another process has it open"):
        connect(server, spool=spool)
    first.close()
    connect(server, spool=spool)


def test_a_file_with_reports_of_another_run_is_refused(front: Any, connect: Connect, batch: Batch, spool: Path) -> None:
    first = connect(front.address, spool=spool)
    first.observe(**batch(0))
    front.mode = "down"
    first.observe(**batch(1))
    first.close()
    with pytest.raises(SettingsError, match="reports of projects/default/runs/r, not of projects/default/runs/other"):
        connect(front.address, run="other", spool=spool)


def test_a_file_that_is_something_else_is_refused_and_left(server: str, connect: Connect, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("not a database, but somebody's notes, which are longer than the header of one\n" * 9)
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="notes.txt"):
        connect(server, spool=path)
    assert path.read_bytes() == before


def test_a_full_disk_hurts_no_training(
    front: Any, connect: Connect, batch: Batch, history: Any, spool: Path, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(front.address, spool=spool)
    client.observe(**batch(0))
    front.mode = "down"
    with no_file_grows_beyond(0):
        for number in (1, 2):
            assert client.observe(**batch(number)).source == "LOCAL"
    assert "kept in memory alone" in caplog.text
    front.mode = "pass"
    assert client.flush(20)
    assert history("r").ids() == ["batch-0", "batch-1", "batch-2"]


@pytest.mark.parametrize(
    "damage",
    [
        """UPDATE line SET checkpoint = replace(checkpoint, '"maths_version": "1"', '"maths_version": "0.0.1"')""",
        "UPDATE line SET checkpoint = 'no json'",
        "UPDATE line SET checkpoint = '[1]'",
        """UPDATE line SET checkpoint = replace(checkpoint, '"run"', '"ran"')""",
        "UPDATE reports SET request = x'ff'",
        "UPDATE reports SET request = x''",
    ],
)
def test_what_cannot_be_read_is_set_aside_and_mixes_with_nothing(
    front: Any, connect: Connect, batch: Batch, history: Any, spool: Path, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    first = connect(front.address, spool=spool, writer="job")
    first.observe(**batch(0))
    front.mode = "down"
    for number in (1, 2, 3):
        first.observe(**batch(number))
    first.close()
    with sqlite3.connect(spool) as file:
        assert file.execute(damage).rowcount > 0
    file.close()
    front.mode = "pass"
    second = connect(front.address, spool=spool, writer="job")
    (aside,) = spool.parent.glob("unsent.db.unreadable-*")
    assert str(aside) in caplog.text
    second.observe(**batch(4))
    front.mode = "down"
    second.observe(**batch(5))
    front.mode = "pass"
    assert second.flush(20)
    second.close()
    connect(front.address, spool=spool, writer="job").observe(**batch(6))
    assert history("r").ids() == ["batch-0", "batch-4", "batch-5", "batch-6"]
    with sqlite3.connect(aside) as file:
        assert file.execute("SELECT count(*) FROM reports").fetchone() == (3,)
    file.close()


def test_a_forked_child_does_not_say_that_the_parents_file_has_its_reports(
    front: Any, connect: Connect, batch: Batch, spool: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(front.address, spool=spool)
    client.observe(**batch(0))
    front.mode = "down"
    child = os.getpid() + 1
    monkeypatch.setattr(os, "getpid", lambda: child)  # what a fork changes, without one beside gRPC's threads
    client.observe(**batch(1))
    client.close()
    assert "a state_dict() made now still has them" in caplog.text
