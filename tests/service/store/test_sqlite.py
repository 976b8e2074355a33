"""The SQLite store alone: its file, its disk, its queries."""

from __future__ import annotations

import resource
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from fade_service.errors import StoreFullError, StoreUnavailableError
from fade_service.store import SqliteStore, StoredObservation

APPLICATION_ID = int.from_bytes(b"FADE", "big")


def observation(revision: int, payload: bytes = b"payload") -> StoredObservation:
    return StoredObservation(
        branch="main", revision=revision, observation_id=f"batch-{revision}", digest=bytes(32), payload=payload
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "fade.db"


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> list[sqlite3.Connection]:
    """Every connection that is opened from here on."""
    opened: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def record(*arguments: Any, **options: Any) -> sqlite3.Connection:
        opened.append(connect(*arguments, **options))
        return opened[-1]

    monkeypatch.setattr(sqlite3, "connect", record)
    return opened


@pytest.fixture
def store(path: Path, connections: list[sqlite3.Connection]) -> Iterator[SqliteStore]:
    """A store with one run, "r" of uid "u", at version 4 after three observations."""
    store = SqliteStore(path)
    store.create_run("r", "u", b"record", b"head")
    for revision in (1, 2, 3):
        store.commit("u", revision, observation=observation(revision))
    yield store
    store.close()


def kept(store: SqliteStore) -> tuple[object, ...]:
    """All that the store has."""
    return list(store.list_runs("", "", 99)), list(store.list_observations("u", "main", 0, 99, 99))


@contextmanager
def no_new_pages(connections: list[sqlite3.Connection]) -> Iterator[None]:
    """A disk on which the file cannot grow (SQLite takes the file's size where the limit is below it)."""
    try:
        for connection in connections:
            connection.execute("PRAGMA max_page_count = 1")
        yield
    finally:
        for connection in connections:
            connection.execute("PRAGMA max_page_count = 1000000")


@contextmanager
def no_longer_files(size_bytes: int) -> Iterator[None]:
    """A system that refuses to write beyond that size in any file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_refuses_the_commit_whole_and_takes_it_once_there_is_room(
    store: SqliteStore, connections: list[sqlite3.Connection]
) -> None:
    before = kept(store)
    big = observation(4, bytes(1_000_000))
    with no_new_pages(connections):
        for _ in range(2):
            with pytest.raises(StoreFullError, match=r"fade\.db"):
                store.commit("u", 4, record=b"moved", head=b"moved", observation=big)
            assert kept(store) == before
        with pytest.raises(StoreFullError):
            store.create_run("big", "uid-big", bytes(1_000_000), b"")
        assert kept(store) == before
        assert store.commit("u", 3) is None
        store.ping()
    assert store.commit("u", 4, record=b"moved", head=b"moved", observation=big) == 5
    assert store.find_observation("u", "main", "batch-4") == big
    assert connections[0].execute("PRAGMA integrity_check").fetchall() == [("ok",)]


def test_a_write_that_the_system_breaks_off_leaves_nothing_behind(
    store: SqliteStore, path: Path, connections: list[sqlite3.Connection]
) -> None:
    before = kept(store)
    log = path.with_name("fade.db-wal")
    with no_longer_files(log.stat().st_size + 6000):
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="I/O"):
                store.commit("u", 4, record=b"moved", head=b"moved", observation=observation(4, bytes(100_000)))
            assert kept(store) == before
    assert store.commit("u", 4, observation=observation(4, bytes(100_000))) == 5
    store.close()
    again = SqliteStore(path)
    assert again.list_observations("u", "main", 3, 9, 9) == [observation(4, bytes(100_000))]
    again.close()


HOT: dict[str, Callable[[SqliteStore], object]] = {
    "create_run": lambda store: store.create_run("r", "other", b"", b""),
    "get_run": lambda store: store.get_run("r"),
    "list_runs": lambda store: store.list_runs("r", "q", 5),
    "commit": lambda store: store.commit("u", 4, record=b"x", head=b"y", observation=observation(4)),
    "find_observation": lambda store: store.find_observation("u", "main", "batch-2"),
    "list_observations": lambda store: store.list_observations("u", "main", 1, 3, 2),
    "delete_run": lambda store: store.delete_run("r", 4),
}


@pytest.mark.parametrize("method", HOT)
def test_every_statement_reaches_its_rows_by_an_index(
    store: SqliteStore, path: Path, connections: list[sqlite3.Connection], method: str
) -> None:
    kept(store)  # opens the readers
    statements: list[str] = []
    for connection in connections:
        connection.set_trace_callback(statements.append)
    HOT[method](store)
    for connection in connections:
        connection.set_trace_callback(None)
    queries = [statement for statement in statements if statement.split()[0] in ("SELECT", "INSERT", "UPDATE", "DELETE")]
    assert queries
    planner = sqlite3.connect(path)
    for query in queries:
        steps = [step for *_, step in planner.execute(f"EXPLAIN QUERY PLAN {query}")]
        steps = [step for step in steps if step != "LIST SUBQUERY 1"]
        assert all(step.startswith("SEARCH") and "USING" in step for step in steps), (query, steps)
        assert steps or query.startswith("INSERT"), query
    planner.close()


def test_threads_that_come_and_go_leave_no_connections_behind(store: SqliteStore, connections: list[sqlite3.Connection]) -> None:
    for _ in range(30):
        thread = threading.Thread(target=store.get_run, args=("r",))
        thread.start()
        thread.join()
    assert len(connections) <= 3


def test_closing_closes_every_connection_and_leaves_one_file(
    store: SqliteStore, path: Path, connections: list[sqlite3.Connection]
) -> None:
    kept(store)
    store.close()
    for connection in connections:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            connection.execute("SELECT 1")
    assert [file.name for file in path.parent.iterdir()] == ["fade.db"]


def test_a_folder_that_is_not_there_is_made_and_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    for _ in range(2):
        SqliteStore(tmp_path / "mistyped" / "fade.db").close()
    assert [record.message for record in caplog.records] == [f"made the folder {tmp_path / 'mistyped'}, which was not there"]


def test_a_closed_store_says_so(store: SqliteStore) -> None:
    store.close()
    for call in (store.ping, lambda: store.get_run("r"), lambda: store.commit("u", 4)):
        with pytest.raises(StoreUnavailableError, match="is closed"):
            call()


def test_a_ping_writes_nothing(store: SqliteStore, path: Path) -> None:
    def content() -> list[tuple[str, bytes]]:
        return [(file.name, file.read_bytes()) for file in sorted(path.parent.iterdir()) if not file.name.endswith("-shm")]

    before = content()
    for _ in range(5):
        store.ping()
    assert content() == before


def test_folders_are_made_and_a_relative_path_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = SqliteStore(Path("a/b/fade.db"))
    monkeypatch.chdir("/")
    created = store.create_run("r", "u", b"", b"")
    assert store.get_run("r") == created
    store.close()
    assert (tmp_path / "a/b/fade.db").is_file()


def test_what_cannot_be_opened_is_unavailable(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(
        StoreUnavailableError, match="cannot make the folder.*; give a file in a folder that this user may write$"
    ):
        SqliteStore(tmp_path / "file" / "fade.db")
    with pytest.raises(StoreUnavailableError, match="unable to open.*; give a file in a folder that is there"):
        SqliteStore(tmp_path)


def test_a_file_that_may_only_be_read_needs_a_permission(store: SqliteStore, connections: list[sqlite3.Connection]) -> None:
    before = kept(store)
    connections[0].execute("PRAGMA query_only = 1")  # which root, who may write every file, cannot write either
    with pytest.raises(StoreUnavailableError, match="readonly database; let this user write the file and its folder$"):
        store.commit("u", 4, head=b"moved")
    assert kept(store) == before


@pytest.mark.parametrize("page", [3, 4])
def test_a_damaged_file_needs_a_backup(store: SqliteStore, path: Path, page: int) -> None:
    store.close()
    with path.open("r+b") as file:
        file.seek(4096 * (page - 1))
        file.write(b"\xff" * 4096)
    with pytest.raises(
        StoreUnavailableError, match="malformed; the file is damaged: stop the servers and put a backup in its place$"
    ):
        again = SqliteStore(path)
        kept(again)
        again.commit("u", 4, head=b"moved", observation=observation(4))


def test_a_file_that_another_program_changed_is_not_said_to_mend_itself(store: SqliteStore, path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE observations")
    connection.close()
    with pytest.raises(StoreUnavailableError, match="no such table: observations; see whether the file is whole$"):
        store.list_observations("u", "main", 0, 9, 9)


def test_the_file_says_whose_it_is_and_of_which_version(store: SqliteStore, connections: list[sqlite3.Connection]) -> None:
    assert connections[0].execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connections[0].execute("PRAGMA user_version").fetchone() == (2,)


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        (
            (f"PRAGMA application_id = {APPLICATION_ID}", "PRAGMA user_version = 99", "CREATE TABLE runs (x)"),
            "has schema version 99, and this server knows versions up to 2; run a newer",
        ),
        (("CREATE TABLE songs (title)",), "is a database of another application; choose another file"),
        (("PRAGMA user_version = 1", "CREATE TABLE runs (uid, name)"), "is a database of another application"),
        (("PRAGMA application_id = 7", "CREATE TABLE songs (title)"), "is a database of another application"),
    ],
)
def test_a_newer_or_foreign_database_is_refused_and_left_as_it_was(path: Path, statements: tuple[str, ...], told: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"fade\.db {told}"):
        SqliteStore(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == ["fade.db"]


def test_a_file_that_is_no_database_is_refused_and_left_as_it_was(path: Path) -> None:
    path.write_text("Dear diary, " * 999)
    with pytest.raises(ValueError, match=r"fade\.db is no SQLite database; choose another file"):
        SqliteStore(path)
    assert path.read_text() == "Dear diary, " * 999


def test_an_empty_file_becomes_a_store(path: Path) -> None:
    path.write_bytes(b"")
    store = SqliteStore(path)
    assert store.create_run("r", "u", b"", b"").version == 1
    store.close()
