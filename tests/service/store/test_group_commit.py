"""One transaction for all who wait: on SQLite, whatever the durability."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import pytest

from fade_service.errors import DuplicateObservationError, StoreFullError, StoreUnavailableError
from fade_service.store import SqliteStore, StoredObservation
from fade_service.store.sqlite import Durability
from fade_service.store.sqlite_writer import Writer

CROWD = 64


class Writing:
    """The connection that a store writes with."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.transactions = 0
        self.pause_seconds = 0.02
        connection.set_trace_callback(self._trace)

    def _trace(self, statement: str) -> None:
        if statement == "COMMIT":
            self.transactions += 1
            time.sleep(self.pause_seconds)  # a slow disk


@pytest.fixture(params=get_args(Durability))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SqliteStore]:
    """A store with the runs "run-0" to "run-63", each with one observation."""
    store = SqliteStore(tmp_path / "fade.db", durability=request.param)
    for number in range(CROWD):
        store.create_run(f"run-{number}", f"uid-{number}", b"", b"0")
        store.commit(f"uid-{number}", 1, head=b"1", observation=observation(1))
    yield store
    store.close()


@pytest.fixture
def writing(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Writing:
    """How the store writes."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    request.getfixturevalue("store")
    return Writing(opened[0])


def observation(revision: int, payload: bytes = b"payload", observation_id: str = "") -> StoredObservation:
    return StoredObservation(
        branch="main", revision=revision, observation_id=observation_id or f"b{revision}", digest=b"", payload=payload
    )


def all_at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """What each call returned or raised, all begun at one moment on threads of their own."""
    barrier = threading.Barrier(len(calls), timeout=30)

    def call(one: Callable[[], Any]) -> Any:
        barrier.wait()
        try:
            return one()
        except Exception as error:
            return error

    with ThreadPoolExecutor(len(calls)) as threads:
        return list(threads.map(call, calls))


def heads(store: SqliteStore) -> dict[str, bytes]:
    return {run.name: run.head for run in store.list_runs("run-", "", 2 * CROWD)}


def test_many_commits_share_few_transactions_and_each_is_there(writing: Writing, store: SqliteStore) -> None:
    writing.transactions = 0
    commits = [
        lambda number=number: store.commit(f"uid-{number}", 2, head=b"2", observation=observation(2)) for number in range(CROWD)
    ]
    assert all_at_once(commits) == [3] * CROWD
    assert 1 <= writing.transactions <= CROWD // 4
    assert set(heads(store).values()) == {b"2"}
    assert all(store.find_observation(f"uid-{number}", "main", "b2") == observation(2) for number in range(CROWD))


def test_one_that_is_refused_takes_nobody_along(writing: Writing, store: SqliteStore) -> None:
    def commit(number: int) -> Callable[[], int | None]:
        taken = observation(2, observation_id="b1") if number % 4 == 1 else observation(2)
        expected = 7 if number % 4 == 2 else 2
        return lambda: store.commit(f"uid-{number}", expected, head=b"2", observation=taken)

    answers = all_at_once([commit(number) for number in range(CROWD)])
    assert writing.transactions < 2 * CROWD + CROWD // 2, "they did share transactions"
    for number, answer in enumerate(answers):
        if number % 4 == 1:
            assert isinstance(answer, DuplicateObservationError)
        else:
            assert answer == (None if number % 4 == 2 else 3)
    moved = {name for name, head in heads(store).items() if head == b"2"}
    assert moved == {f"run-{number}" for number in range(CROWD) if number % 4 not in (1, 2)}
    assert store.find_observation("uid-1", "main", "b2") is None
    assert list(store.list_observations("uid-1", "main", 0, 9, 9)) == [observation(1)]


def test_one_that_the_disk_has_no_room_for_takes_nobody_along(writing: Writing, store: SqliteStore) -> None:
    (pages,) = writing.connection.execute("PRAGMA page_count").fetchone()
    writing.connection.execute(f"PRAGMA max_page_count = {pages + 60}")

    def commit(number: int) -> Callable[[], int | None]:
        payload = bytes(1_000_000) if number == 5 else b"small"
        return lambda: store.commit(f"uid-{number}", 2, head=b"2", observation=observation(2, payload))

    answers = all_at_once([commit(number) for number in range(16)])
    assert isinstance(answers.pop(5), StoreFullError)
    assert answers == [3] * 15
    assert heads(store)["run-5"] == b"1" and heads(store)["run-6"] == b"2"
    writing.connection.execute("PRAGMA max_page_count = 1000000")
    assert commit(5)() == 3


def test_while_another_process_holds_the_file_all_are_refused_and_none_is_written(
    writing: Writing, store: SqliteStore, tmp_path: Path
) -> None:
    other = sqlite3.connect(tmp_path / "fade.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    commits = [lambda number=number: store.commit(f"uid-{number}", 2, head=b"2") for number in range(8)]
    answers = all_at_once(commits)
    assert all(isinstance(answer, StoreUnavailableError) for answer in answers), answers
    other.execute("ROLLBACK")
    other.close()
    assert set(heads(store).values()) == {b"1"}
    assert all_at_once(commits) == [3] * 8


def test_a_caller_that_is_interrupted_hands_over(tmp_path: Path) -> None:
    path = tmp_path / "any.db"
    writer = Writer(sqlite3.connect(path, isolation_level=None, check_same_thread=False), path)
    writer.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    others = ThreadPoolExecutor(4)
    waiting: list[Future[object]] = []

    def work(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES ('interrupted')")
        waiting.extend(others.submit(writer.write, insert) for _ in range(4))
        time.sleep(0.1)  # they queue up
        raise KeyboardInterrupt

    def insert(connection: sqlite3.Connection) -> None:
        connection.execute("INSERT INTO t VALUES ('other')")

    with pytest.raises(KeyboardInterrupt):
        writer.write(work)
    for future in waiting:
        future.result(10)
    others.shutdown()
    assert writer.write(lambda connection: connection.execute("SELECT x FROM t").fetchall()) == [("other",)] * 4
    writer.close()
