"""A store in one SQLite file: the default, for servers that share a local disk."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, cast, get_args
from urllib.parse import parse_qsl

from fade_service.errors import DuplicateObservationError, StoreUnavailableError
from fade_service.store.base import Store, StoredObservation, StoredRun
from fade_service.store.migrations import migrate, schema_version
from fade_service.store.sqlite_sweeper import Sweeper, clear_piece
from fade_service.store.sqlite_writer import BUSY_SECONDS, Writer, transaction, translated

_log = logging.getLogger(__name__)

Durability = Literal["normal", "full"]

# Numbers for both of these are in docs/durability.md.
_CHECKPOINT_PAGES = 4000
_WAL_LIMIT_BYTES = 64 * 2**20

_RUN = "SELECT name, uid, version, record, head FROM runs"
_OBSERVATION = "SELECT branch, revision, observation_id, digest, payload FROM runs JOIN observations USING (uid)"
"""Of living runs: the observations of a deleted one are cleared away later."""


class SqliteStore(Store):
    """See :class:`~fade_service.store.base.Store`. Several processes of one host may open the same file.

    One connection writes, under a lock, for all that wait at that moment (:class:`~fade_service.store.sqlite_writer.Writer`);
    readers take theirs from a pool. A commit is a few short statements whatever the history holds. A file of an older version
    is brought up to date.

    Args:
        path: The file, on a local disk; it and its folders are made where they are missing.
        durability: What an acknowledged commit survives. "normal": a kill -9 of the process (WAL, synchronous NORMAL). "full": a
            loss of power too (synchronous FULL); every transaction waits for the disk.

    Raises:
        StoreUnavailableError: The file cannot be opened now.
        ValueError: The file is something else, or of a newer version; it is left as it was.
    """

    def __init__(self, path: Path, *, durability: Durability = "normal") -> None:
        self._path = path.absolute()
        self._idle: list[sqlite3.Connection] = []
        self._idle_lock = threading.Lock()
        self._closed = False
        try:
            if not self._path.parent.is_dir():
                self._path.parent.mkdir(parents=True, exist_ok=True)
                _log.info("made the folder %s, which was not there", self._path.parent)
        except OSError as error:
            remedy = "give a file in a folder that this user may write"
            raise StoreUnavailableError(f"cannot make the folder of {self._path}: {error}", remedy) from error
        with translated(self._path):
            connection = self._connect()
            try:
                unswept = self._prepare(connection, durability)
            except BaseException:
                connection.close()
                raise
        self._writer = Writer(connection, self._path)
        self._sweeper = Sweeper(self._writer)
        if unswept:
            self._sweeper.wake()

    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        insert = "INSERT INTO runs (uid, name, version, record, head) VALUES (?, ?, 1, ?, ?) ON CONFLICT (name) DO NOTHING"

        def create(connection: sqlite3.Connection) -> StoredRun:
            connection.execute(insert, (uid, name, record, head))
            return _run(connection.execute(f"{_RUN} WHERE name = ?", (name,)).fetchone())

        return self._writer.write(create)

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
        stands = "SELECT 1 FROM runs WHERE uid = ? AND version = ?"
        update = "UPDATE runs SET version = version + 1, record = ifnull(?, record), head = ifnull(?, head) WHERE uid = ?"

        def commit(connection: sqlite3.Connection) -> int | None:
            if connection.execute(stands, (uid, expected_version)).fetchone() is None:
                return None
            if observation is not None:
                _append(connection, uid, observation)  # first, as it may be refused
            connection.execute(update, (record, head, uid))
            return expected_version + 1

        return self._writer.write(commit)

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
        def delete(connection: sqlite3.Connection) -> bool | None:
            """Whether the whole history went along."""
            row = connection.execute("SELECT uid FROM runs WHERE name = ? AND version = ?", (name, expected_version)).fetchone()
            if row is None:
                return None
            connection.execute("DELETE FROM runs WHERE uid = ?", row)
            whole = clear_piece(connection, *row)
            if not whole:
                connection.execute("INSERT INTO deleted_runs (uid) VALUES (?)", row)
            return whole

        whole = self._writer.write(delete)
        if whole is False:
            self._sweeper.wake()
        return whole is not None

    def ping(self) -> None:
        self._writer.write(lambda connection: connection.execute("SELECT 1 FROM runs LIMIT 1").fetchone())

    def close(self) -> None:
        self._sweeper.close()
        with self._idle_lock:
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
            if self._closed:
                raise StoreUnavailableError(f"{self._path} is closed")
            connection = self._idle.pop() if self._idle else None
        with translated(self._path):
            connection = connection or self._connect()
            try:
                yield connection
            finally:
                with self._idle_lock:
                    if self._closed:
                        connection.close()
                    else:
                        self._idle.append(connection)

    def _prepare(self, connection: sqlite3.Connection, durability: Durability) -> bool:
        """Brings the file up to date, having refused one that is not ours; whether deleted history is left to clear away."""
        schema_version(connection, self._path)  # before anything is written to the file
        _switch_to_wal(connection)
        connection.execute(f"PRAGMA synchronous = {durability}")
        connection.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        connection.execute(f"PRAGMA journal_size_limit = {_WAL_LIMIT_BYTES}")
        with transaction(connection):
            migrate(connection, self._path)
        return connection.execute("SELECT 1 FROM deleted_runs LIMIT 1").fetchone() is not None


def durability_of(query: str) -> Durability:
    """The durability that the options of a store's URL ask for, ``durability=full``.

    Raises:
        ValueError: There are other options, or it is none.
    """
    options = dict(parse_qsl(query, keep_blank_values=True))
    durability = options.pop("durability", "normal")
    if options or durability not in get_args(Durability):
        raise ValueError(f"a SQLite store's URL takes ?durability=normal or ?durability=full, not ?{query}")
    return cast(Durability, durability)


def _switch_to_wal(connection: sqlite3.Connection) -> None:
    deadline = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError:  # SQLite does not wait here where two processes open a new file at once
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


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
