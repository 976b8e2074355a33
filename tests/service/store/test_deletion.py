"""Deleted runs on SQLite: gone at once, cleared away in small pieces."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fade_service.store import SqliteStore, StoredObservation

ROWS = 1000


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fade.db"


@pytest.fixture
def looking(path: Path) -> Iterator[sqlite3.Connection]:
    """Another process's look at the file."""
    connection = sqlite3.connect(path, timeout=10)
    yield connection
    connection.close()


def filled(store: SqliteStore, name: str, rows: int) -> int:
    """Makes a run with observations; its version."""
    version: int | None = store.create_run(name, f"uid-{name}", b"", b"").version
    for revision in range(1, rows + 1):
        assert version is not None
        observation = StoredObservation(
            branch=f"branch-{revision % 3}", revision=revision, observation_id=f"b{revision}", digest=b"", payload=bytes(500)
        )
        version = store.commit(f"uid-{name}", version, observation=observation)
    assert version is not None
    return version


def left(looking: sqlite3.Connection, name: str) -> int:
    """Observations of a run that are in the file."""
    (count,) = looking.execute("SELECT count(*) FROM observations WHERE uid = ?", (f"uid-{name}",)).fetchone()
    return int(count)


def wait_until_cleared(looking: sqlite3.Connection, name: str) -> None:
    """Until the file has nothing of the run any more."""
    deadline = time.monotonic() + 60
    while left(looking, name) or looking.execute("SELECT count(*) FROM deleted_runs").fetchone() != (0,):
        assert time.monotonic() < deadline, f"{left(looking, name)} observations are left"
        time.sleep(0.02)


def test_a_long_history_goes_in_small_transactions_and_takes_nothing_else_along(
    path: Path, looking: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    store = SqliteStore(path)
    writer = opened[0]
    version = filled(store, "old", ROWS)
    filled(store, "kept", 10)
    changes = [writer.total_changes]
    writer.set_trace_callback(lambda statement: changes.append(writer.total_changes) if statement == "COMMIT" else None)
    assert store.delete_run("old", version)
    assert store.get_run("old") is None
    assert list(store.list_observations("uid-old", "branch-1", 0, ROWS, ROWS)) == []
    assert store.find_observation("uid-old", "branch-1", "b1") is None
    wait_until_cleared(looking, "old")
    writer.set_trace_callback(None)
    sizes = [after - before for before, after in zip(changes, changes[1:], strict=False)]
    assert sum(sizes) >= ROWS and max(sizes) <= ROWS // 5
    assert left(looking, "kept") == 10
    store.close()


def test_what_a_killed_process_left_is_cleared_away_by_the_next(path: Path, looking: sqlite3.Connection) -> None:
    store = SqliteStore(path)
    filled(store, "old", 300)
    store.close()
    with looking:
        looking.execute("DELETE FROM runs WHERE uid = 'uid-old'")
        looking.execute("INSERT INTO deleted_runs VALUES ('uid-old')")
    again = SqliteStore(path)
    again.create_run("old", "uid-new", b"", b"")
    wait_until_cleared(looking, "old")
    assert again.get_run("old") is not None
    again.close()


def test_closing_does_not_wait_for_the_rest(path: Path, looking: sqlite3.Connection) -> None:
    store = SqliteStore(path)
    version = filled(store, "old", ROWS)
    store.delete_run("old", version)
    store.close()
    again = SqliteStore(path)
    wait_until_cleared(looking, "old")
    again.close()
