"""A store in one SQLite file: the default, for one server with a disk of its own."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from fade_service.errors import DuplicateObservationError, StoreFullError, StoreUnavailableError
from fade_service.store.base import Store, StoredObservation, StoredRun

SCHEMA_VERSION = 1

APPLICATION_ID = 0x46414445  # "FADE"

BUSY_SECONDS = 1.0
"""How long a call waits for another process that writes the same file."""

_SCHEMA = """
CREATE TABLE runs (
    uid TEXT PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    record BLOB NOT NULL,
    head BLOB NOT NULL
) STRICT;
CREATE TABLE observations (
    uid TEXT NOT NULL,
    branch TEXT NOT NULL,
    revision INTEGER NOT NULL,
    observation_id TEXT NOT NULL,
    digest BLOB NOT NULL,
    payload BLOB NOT NULL,
    PRIMARY KEY (uid, branch, revision)
) STRICT;
CREATE UNIQUE INDEX observation_ids ON observations (uid, branch, observation_id);
"""

_RUN = "SELECT name, uid, version, record, head FROM runs"
_OBSERVATION = "SELECT branch, revision, observation_id, digest, payload FROM observations"


class SqliteStore(Store):
    """See :class:`~fade_service.store.base.Store`. WAL, synchronous NORMAL: what is committed survives kill -9 of the process.

    One connection writes, under a lock; each thread reads on a connection of its own. Several processes may open one file.

    Args:
        path: The file; it and its folder are made where they are missing.

    Raises:
        StoreUnavailableError: The file cannot be opened, is no SQLite file, or belongs to something else or a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._write_lock = threading.Lock()
        self._local = threading.local()
        self._opened: list[sqlite3.Connection] = []
        self._opened_lock = threading.Lock()
        self._closed = False
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreUnavailableError(f"cannot make the folder of {path}: {error}") from None
        self._writer = self._connect()
        with self._translated():
            self._prepare()

    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        with self._writing() as connection:
            connection.execute("INSERT INTO runs VALUES (?, ?, 1, ?, ?) ON CONFLICT (name) DO NOTHING", (uid, name, record, head))
            run = _run(connection.execute(f"{_RUN} WHERE name = ?", (name,)).fetchone())
        assert run is not None  # just written, or in the way of writing
        return run

    def get_run(self, name: str) -> StoredRun | None:
        with self._translated():
            return _run(self._reader().execute(f"{_RUN} WHERE name = ?", (name,)).fetchone())

    def list_runs(self, prefix: str, after: str, limit: int) -> Sequence[StoredRun]:
        # BINARY collation compares UTF-8 bytes, which sorts as code points do
        query = f"{_RUN} WHERE name > ? AND name >= ? AND substr(name, 1, ?) = ? ORDER BY name LIMIT ?"
        with self._translated():
            rows = self._reader().execute(query, (after, prefix, len(prefix), prefix, limit)).fetchall()
        return [StoredRun(name=row[0], uid=row[1], version=row[2], record=row[3], head=row[4]) for row in rows]

    def commit(
        self,
        uid: str,
        expected_version: int,
        *,
        record: bytes | None = None,
        head: bytes | None = None,
        observation: StoredObservation | None = None,
    ) -> int | None:
        with self._writing() as connection:
            moved = connection.execute(
                "UPDATE runs SET version = version + 1, record = ifnull(?, record), head = ifnull(?, head)"
                " WHERE uid = ? AND version = ?",
                (record, head, uid, expected_version),
            )
            if moved.rowcount != 1:
                return None
            if observation is not None:
                values = (
                    uid,
                    observation.branch,
                    observation.revision,
                    observation.observation_id,
                    observation.digest,
                    observation.payload,
                )
                try:
                    connection.execute("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?)", values)
                except sqlite3.IntegrityError:
                    raise DuplicateObservationError(observation.observation_id) from None
        return expected_version + 1

    def find_observation(self, uid: str, branch: str, observation_id: str) -> StoredObservation | None:
        query = f"{_OBSERVATION} WHERE uid = ? AND branch = ? AND observation_id = ?"
        with self._translated():
            row = self._reader().execute(query, (uid, branch, observation_id)).fetchone()
        return None if row is None else _observation(row)

    def list_observations(self, uid: str, branch: str, after: int, until: int, limit: int) -> Sequence[StoredObservation]:
        query = f"{_OBSERVATION} WHERE uid = ? AND branch = ? AND revision > ? AND revision <= ? ORDER BY revision LIMIT ?"
        with self._translated():
            rows = self._reader().execute(query, (uid, branch, after, until, limit)).fetchall()
        return [_observation(row) for row in rows]

    def delete_run(self, name: str, expected_version: int) -> bool:
        with self._writing() as connection:
            deleted = connection.execute(
                "DELETE FROM runs WHERE name = ? AND version = ? RETURNING uid", (name, expected_version)
            ).fetchone()
            if deleted is None:
                return False
            connection.execute("DELETE FROM observations WHERE uid = ?", deleted)
        return True

    def ping(self) -> None:
        with self._writing() as connection:
            connection.execute("SELECT count(*) FROM (SELECT 1 FROM runs LIMIT 1)").fetchone()

    def close(self) -> None:
        with self._write_lock, self._opened_lock:
            self._closed = True
            for connection in self._opened:  # the last one to close writes the WAL back into the file
                connection.close()
            self._opened.clear()

    def _connect(self) -> sqlite3.Connection:
        try:
            connection = sqlite3.connect(self._path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise StoreUnavailableError(f"cannot open {self._path}: {error}") from None
        with self._opened_lock:
            if self._closed:
                connection.close()
                raise StoreUnavailableError(f"{self._path} was closed")
            self._opened.append(connection)
        return connection

    def _reader(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._connect()
            connection.execute("PRAGMA query_only = ON")
        return connection

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """One transaction: committed at the end of the block, rolled back where it raises."""
        with self._write_lock, self._translated():
            self._writer.execute("BEGIN IMMEDIATE")
            try:
                yield self._writer
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:  # SQLite itself rolls back on a full disk
                    self._writer.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            problem = f"{self._path}: {error}"
            if "disk is full" in str(error):
                raise StoreFullError(problem) from None
            raise StoreUnavailableError(problem) from None

    def _prepare(self) -> None:
        """Makes a new file's schema, and refuses a file that is not ours to write."""
        writer = self._writer
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("PRAGMA synchronous = NORMAL")
        writer.execute("BEGIN IMMEDIATE")
        (version,) = writer.execute("PRAGMA user_version").fetchone()
        (application,) = writer.execute("PRAGMA application_id").fetchone()
        (tables,) = writer.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        if version == 0 and tables == 0:
            for statement in _SCHEMA.split(";\n"):
                writer.execute(statement)
            writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
            writer.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        writer.execute("COMMIT")
        if tables and application != APPLICATION_ID:
            self.close()
            raise StoreUnavailableError(f"{self._path} is a database of another application; choose another path")
        if version > SCHEMA_VERSION:
            self.close()
            problem = f"{self._path} has schema version {version}, and this server knows {SCHEMA_VERSION}; run a newer server"
            raise StoreUnavailableError(problem)


def _run(row: tuple[str, str, int, bytes, bytes] | None) -> StoredRun | None:
    if row is None:
        return None
    return StoredRun(name=row[0], uid=row[1], version=row[2], record=row[3], head=row[4])


def _observation(row: tuple[str, int, str, bytes, bytes]) -> StoredObservation:
    return StoredObservation(branch=row[0], revision=row[1], observation_id=row[2], digest=row[3], payload=row[4])
