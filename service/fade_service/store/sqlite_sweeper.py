"""What deleted runs leave behind in a SQLite file is cleared away in small pieces, so that nobody waits for it."""

from __future__ import annotations

import logging
import sqlite3
import threading

from fade_service.errors import ServiceError
from fade_service.store.sqlite_writer import Writer

PIECE_ROWS = 100
"""Observations that one transaction deletes: about 5 ms, for which others wait."""

PAUSE_SECONDS = 0.01
"""Between two pieces, so that other processes get at the file."""

RETRY_SECONDS = 5.0
"""After a piece that failed: the disk may be full, or the file locked."""

_log = logging.getLogger(__name__)


class Sweeper:
    """Deletes the observations of the runs in ``deleted_runs`` on a thread of its own, from the first :meth:`wake` on.

    What a process leaves undone the next one that opens the file takes up.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = threading.Event()
        self._closed = threading.Event()

    def wake(self) -> None:
        """There is something to clear away."""
        self._wanted.set()
        with self._lock:
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(target=self._sweep, name="fade-store-sweep", daemon=True)
                self._thread.start()

    def close(self) -> None:
        """Stops after the piece under way."""
        self._closed.set()
        self._wanted.set()
        with self._lock:
            thread = self._thread
        if thread is not None:
            thread.join()

    def _sweep(self) -> None:
        while not self._closed.is_set():
            self._wanted.clear()
            try:
                while self._writer.write(_piece) and not self._closed.wait(PAUSE_SECONDS):
                    pass
            except ServiceError as error:
                _log.warning("deleted history is not cleared away yet: %s", error)
                self._closed.wait(RETRY_SECONDS)
            else:
                self._wanted.wait()


def clear_piece(connection: sqlite3.Connection, uid: str) -> bool:
    """Deletes up to :data:`PIECE_ROWS` of a run's observations; whether that was all."""
    piece = "DELETE FROM observations WHERE rowid IN (SELECT rowid FROM observations WHERE uid = ? LIMIT ?)"
    return connection.execute(piece, (uid, PIECE_ROWS)).rowcount < PIECE_ROWS


def _piece(connection: sqlite3.Connection) -> bool:
    """Clears a piece away; False if there was nothing left."""
    row = connection.execute("SELECT uid FROM deleted_runs LIMIT 1").fetchone()
    if row is None:
        return False
    if clear_piece(connection, *row):
        connection.execute("DELETE FROM deleted_runs WHERE uid = ?", row)
    return True
