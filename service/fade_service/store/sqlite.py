"""A store in one SQLite file: the default, for servers that share a local disk."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fade_service.errors import DuplicateObservationError, StoreFullError, StoreUnavailableError
from fade_service.store.base import Store, StoredObservation, StoredRun

SCHEMA_VERSION = 1

APPLICATION_ID = 0x46414445
"""Marks the file as ours (bytes "FADE" in its header)."""

BUSY_SECONDS = 1.0
"""How long a call waits for others that write the same file."""

_CHECKPOINT_PAGES = 4000
_WAL_LIMIT_BYTES = 64 * 2**20

# A rowid table takes 2 KB payloads in fewer page writes than one WITHOUT ROWID (86 against 99 microseconds a commit).
_SCHEMA = (
    """
    CREATE TABLE runs (
        uid TEXT PRIMARY KEY NOT NULL,
        name TEXT NOT NULL UNIQUE,
        version INTEGER NOT NULL,
        record BLOB NOT NULL,
        head BLOB NOT NULL
    )
    """,
    """
    CREATE TABLE observations (
        uid TEXT NOT NULL,
        branch TEXT NOT NULL,
        revision INTEGER NOT NULL,
        observation_id TEXT NOT NULL,
        digest BLOB NOT NULL,
        payload BLOB NOT NULL,
        PRIMARY KEY (uid, branch, revision),
        UNIQUE (uid, branch, observation_id)
    )
    """,
    f"PRAGMA application_id = {APPLICATION_ID}",
    f"PRAGMA user_version = {SCHEMA_VERSION}",
)

_KIND = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id, pragma_user_version
"""
_RUN = "SELECT name, uid, version, record, head FROM runs"
_OBSERVATION = "SELECT branch, revision, observation_id, digest, payload FROM observations"


class SqliteStore(Store):
    """See :class:`~fade_service.store.base.Store`. Several processes of one host may open the same file.

    WAL with synchronous NORMAL: what is committed survives a kill -9 of the process, not always a loss of power. One connection
    writes, under a lock; readers take theirs from a pool. A commit is four short statements whatever the history holds.

    Args:
        path: The file, on a local disk; it and its folders are made where they are missing.

    Raises:
        StoreUnavailableError: The file cannot be opened now.
        ValueError: The file is something else, or of a newer version; it is left as it was.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._write_lock = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._closed = False
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailableError(f"cannot make the folder of {self._path}: {error}") from error
        with self._translated():
            self._writer = self._connect()
            try:
                self._prepare()
            except BaseException:
                self._writer.close()
                raise

    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        insert = "INSERT INTO runs (uid, name, version, record, head) VALUES (?, ?, 1, ?, ?) ON CONFLICT (name) DO NOTHING"
        with self._writing() as connection:
            connection.execute(insert, (uid, name, record, head))
            return _run(connection.execute(f"{_RUN} WHERE name = ?", (name,)).fetchone())

    def get_run(self, name: str) -> StoredRun | None:
        with self._reading() as connection:
            row = connection.execute(f"{_RUN} WHERE name = ?", (name,)).fetchone()
        return None if row is None else _run(row)

    def list_runs(self, prefix: str, after: str, limit: int) -> Sequence[StoredRun]:
        first = max(prefix, after + "\0")  # the least name that may be listed; SQLite orders UTF-8 bytes, hence code points
        with self._reading() as connection:
            rows = connection.execute(f"{_RUN} WHERE name >= ? ORDER BY name LIMIT ?", (first, limit)).fetchall()
        return [run for run in map(_run, rows) if run.name.startswith(prefix)]

    def commit(
        self,
        uid: str,
        expected_version: int,
        *,
        record: bytes | None = None,
        head: bytes | None = None,
        observation: StoredObservation | None = None,
    ) -> int | None:
        update = (
            "UPDATE runs SET version = version + 1, record = ifnull(?, record), head = ifnull(?, head)"
            " WHERE uid = ? AND version = ?"
        )
        with self._writing() as connection:
            if connection.execute(update, (record, head, uid, expected_version)).rowcount == 0:
                return None
            if observation is not None:
                _append(connection, uid, observation)
        return expected_version + 1

    def find_observation(self, uid: str, branch: str, observation_id: str) -> StoredObservation | None:
        query = f"{_OBSERVATION} WHERE uid = ? AND branch = ? AND observation_id = ?"
        with self._reading() as connection:
            row = connection.execute(query, (uid, branch, observation_id)).fetchone()
        return None if row is None else _observation(row)

    def list_observations(self, uid: str, branch: str, after: int, until: int, limit: int) -> Sequence[StoredObservation]:
        query = f"{_OBSERVATION} WHERE uid = ? AND branch = ? AND revision > ? AND revision <= ? ORDER BY revision LIMIT ?"
        with self._reading() as connection:
            rows = connection.execute(query, (uid, branch, after, until, limit)).fetchall()
        return [_observation(row) for row in rows]

    def delete_run(self, name: str, expected_version: int) -> bool:
        with self._writing() as connection:
            row = connection.execute("SELECT uid FROM runs WHERE name = ? AND version = ?", (name, expected_version)).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM runs WHERE uid = ?", row)
            connection.execute("DELETE FROM observations WHERE uid = ?", row)
        return True

    def ping(self) -> None:
        with self._writing() as connection:
            connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone()

    def close(self) -> None:
        with self._write_lock, self._idle_lock:
            self._closed = True
            for connection in self._idle:
                connection.close()
            self._idle.clear()
            self._writer.close()  # the file's last connection to close writes the WAL back and removes it

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        """A connection for one query. Pooled, not one for each thread: threads of a web server come and go."""
        with self._idle_lock:
            self._check_open()
            connection = self._idle.pop() if self._idle else None
        with self._translated():
            connection = connection or self._connect()
            try:
                yield connection
            finally:
                with self._idle_lock:
                    if self._closed:
                        connection.close()
                    else:
                        self._idle.append(connection)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed at the end of the block, rolled back where it raises."""
        if not self._write_lock.acquire(timeout=BUSY_SECONDS):
            raise StoreUnavailableError(f"{self._path} is busy with other writes")
        try:
            self._check_open()
            with self._translated(), _transaction(self._writer):
                yield self._writer
        finally:
            self._write_lock.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailableError(f"{self._path} is closed")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            kind = StoreFullError if "disk is full" in str(error) else StoreUnavailableError
            raise kind(f"{self._path}: {error}") from error

    def _prepare(self) -> None:
        """Gives a new file its schema; refuses one that is not ours before anything is written to it."""
        self._check_kind()
        self._switch_to_wal()
        self._writer.execute("PRAGMA synchronous = NORMAL")
        self._writer.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        self._writer.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        with _transaction(self._writer):
            if self._check_kind():
                for statement in _SCHEMA:
                    self._writer.execute(statement)

    def _check_kind(self) -> bool:
        """Whether the file is empty.

        Raises:
            ValueError: It is neither empty nor a store of this version.
        """
        try:  # one statement, so that another process that makes the file is seen before or after, not in between
            application, version, objects = self._writer.execute(_KIND).fetchone()
        except sqlite3.DatabaseError as error:
            if "not a database" not in str(error):
                raise
            raise ValueError(f"{self._path} is no SQLite database; choose another file") from error
        if application == version == objects == 0:
            return True
        if application != APPLICATION_ID:
            raise ValueError(f"{self._path} is a database of another application; choose another file")
        if version > SCHEMA_VERSION:
            raise ValueError(
                f"{self._path} has schema version {version}, and this server knows versions up to {SCHEMA_VERSION};"
                " run a newer fade-scheduler, or choose another file"
            )
        return False

    def _switch_to_wal(self) -> None:
        deadline = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError:  # SQLite does not wait here where two processes open a new file at once
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.01)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself has rolled back after some errors
            connection.execute("ROLLBACK")
        raise


def _append(connection: sqlite3.Connection, uid: str, observation: StoredObservation) -> None:
    insert = "INSERT INTO observations (uid, branch, revision, observation_id, digest, payload) VALUES (?, ?, ?, ?, ?, ?)"
    key = (uid, observation.branch, observation.revision, observation.observation_id)
    try:
        connection.execute(insert, (*key, observation.digest, observation.payload))
    except sqlite3.IntegrityError as error:
        problem = f"branch {observation.branch} has observation {observation.observation_id!r} or revision {observation.revision}"
        raise DuplicateObservationError(problem) from error


def _run(row: tuple[str, str, int, bytes, bytes]) -> StoredRun:
    name, uid, version, record, head = row
    return StoredRun(name=name, uid=uid, version=version, record=record, head=head)


def _observation(row: tuple[str, int, str, bytes, bytes]) -> StoredObservation:
    branch, revision, observation_id, digest, payload = row
    return StoredObservation(branch=branch, revision=revision, observation_id=observation_id, digest=digest, payload=payload)
