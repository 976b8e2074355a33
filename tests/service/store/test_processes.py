"""The SQLite store among processes: killed, racing, locked out."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, get_args

import pytest

from fade_service.errors import StoreUnavailableError
from fade_service.store import SqliteStore, StoredObservation, StoredRun, open_store
from fade_service.store.sqlite import Durability

Start = Callable[..., "subprocess.Popen[str]"]

_HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("ready", flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fade.db"


@pytest.fixture(params=get_args(Durability))
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """The file as a store of either durability."""
    return f"sqlite:///{path}?durability={request.param}"


@pytest.fixture
def run(path: Path) -> StoredRun:
    """A run in the file, which no process has open."""
    store = SqliteStore(path)
    created = store.create_run("projects/p/runs/r", "uid-r", b"record", b"0")
    store.close()
    return created


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a Python process and waits until it says that it is ready; a line on its standard input lets it go on."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, *map(str, arguments)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert _reading(process).readline() == "ready\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()  # closes its pipes and waits


def test_a_kill_in_a_stream_of_commits_keeps_exactly_what_was_acknowledged(
    path: Path, url: str, run: StoredRun, start: Start
) -> None:
    for lines in (1, 40, 900):  # the last over a checkpoint
        process = start(_COMMITTER, url, run.name, "only", 10**9)
        _go(process)
        acknowledged = [int(_reading(process).readline()) for _ in range(lines)]
        os.kill(process.pid, signal.SIGKILL)
        acknowledged += _rest(process)

        store = SqliteStore(path)
        after = store.get_run(run.name)
        assert after is not None
        made = after.version - 1
        assert made in (acknowledged[-1], acknowledged[-1] + 1)  # the last may have been committed but not said
        assert after.head == b"%d" % made
        history = store.list_observations(run.uid, "main", 0, made + 9, made + 9)
        assert [kept.revision for kept in history] == list(range(1, made + 1))
        assert all(kept.payload == kept.revision.to_bytes(8, "big") * 256 for kept in history)
        assert all(store.find_observation(run.uid, "main", kept.observation_id) == kept for kept in history)
        store.close()
        assert _is_sound(path)


def test_a_kill_among_commits_that_share_transactions_keeps_all_that_was_acknowledged(path: Path, url: str, start: Start) -> None:
    process = start(_CROWD, url, 16)
    _go(process)
    lines = [_reading(process).readline() for _ in range(400)]
    os.kill(process.pid, signal.SIGKILL)
    lines += _reading(process)
    acknowledged = {f"run-{thread}": int(revision) for thread, revision in map(str.split, lines)}
    assert len(acknowledged) == 16
    store = SqliteStore(path)
    for run in store.list_runs("run-", "", 99):
        made = int(run.head)
        assert made - acknowledged[run.name] in (0, 1)
        history = store.list_observations(run.uid, "main", 0, made + 9, made + 9)
        assert [kept.revision for kept in history] == list(range(1, made + 1))
    store.close()
    assert _is_sound(path)


def test_two_processes_racing_win_every_version_exactly_once(path: Path, url: str, run: StoredRun, start: Start) -> None:
    racers = {label: start(_COMMITTER, url, run.name, label, 150) for label in ("a", "b")}
    for racer in racers.values():
        _go(racer)
    owners: dict[int, str] = {}
    for label, racer in racers.items():
        for revision in _rest(racer):
            assert revision not in owners
            owners[revision] = label
        assert racer.wait() == 0
    store = SqliteStore(path)
    after = store.get_run(run.name)
    history = store.list_observations(run.uid, "main", 0, 999, 999)
    store.close()
    assert after is not None and (after.version, after.head) == (301, b"300")
    assert [kept.observation_id for kept in history] == [f"{owners[number]}-{number}" for number in range(1, 301)]
    assert _is_sound(path)


@pytest.mark.parametrize("old", [None, "v1.db"])
def test_processes_may_make_a_file_or_bring_it_up_to_date_at_once(path: Path, start: Start, old: str | None) -> None:
    if old is not None:
        shutil.copy(Path(__file__).with_name("files") / old, path)
    program = (
        "import sys, pathlib, fade_service.store as stores; print('ready', flush=True); sys.stdin.readline();"
        " stores.SqliteStore(pathlib.Path(sys.argv[1])).create_run('n', sys.argv[2], b'', b'')"
    )
    openers = [start("-c", program, path, number) for number in range(4)]
    for opener in openers:
        _go(opener)
    for opener in openers:
        assert opener.wait() == 0
    assert _is_sound(path)


def test_while_another_process_writes_writing_is_unavailable_and_reading_goes_on(
    path: Path, url: str, run: StoredRun, start: Start
) -> None:
    store = open_store(url)
    holder = start("-c", _HOLDER, path)
    observation = StoredObservation(branch="main", revision=1, observation_id="batch-1", digest=b"d", payload=b"p")
    with pytest.raises(StoreUnavailableError, match="locked; try again$"):
        store.commit(run.uid, 1, head=b"moved", observation=observation)
    with pytest.raises(StoreUnavailableError, match="locked; try again$"):
        store.ping()
    assert store.get_run(run.name) == run
    assert store.find_observation(run.uid, "main", "batch-1") is None
    _go(holder)
    assert holder.wait() == 0
    store.ping()
    assert store.commit(run.uid, 1, head=b"moved", observation=observation) == 2
    store.close()


_COMMITTER = Path(__file__).with_name("committer.py")
_CROWD = Path(__file__).with_name("crowd.py")


def _reading(process: subprocess.Popen[str]) -> IO[str]:
    assert process.stdout is not None
    return process.stdout


def _go(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def _rest(process: subprocess.Popen[str]) -> list[int]:
    """The numbers that it prints until its end (communicate() would lose what readline() has read ahead)."""
    return [int(line) for line in _reading(process)]


def _is_sound(path: Path) -> bool:
    connection = sqlite3.connect(path)
    try:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        connection.close()
