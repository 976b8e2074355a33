"""How a process writes its SQLite file: one connection, and one transaction for all who wait at that moment."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from fade_service.errors import StoreFullError, StoreUnavailableError

BUSY_SECONDS = 1.0
"""How long a call waits for others that write the same file."""

Result = TypeVar("Result")
Work = Callable[[sqlite3.Connection], Result]


class Writer:
    """Group commit: one caller, the leader, commits what all wait for, in one transaction and in the order of their coming.

    So the cost of a transaction (with synchronous FULL: the wait for the disk) is shared by all who came while the last one ran,
    and a caller that is alone waits for nobody. The leader wakes those whose work it did, and hands over to the next in line.

    Args:
        connection: In autocommit mode; the writer owns it from here on.
        path: Its file, for messages.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._connection_lock = threading.Lock()
        self._path = path
        self._closed = False
        self._line: list[_Job] = []
        self._line_lock = threading.Lock()
        self._has_leader = False

    def write(self, work: Work[Result]) -> Result:
        """Does ``work`` in a transaction, and returns what it returned, once that is committed.

        ``work`` may run again where a transaction failed. It refuses by raising, before it has changed anything: the transaction
        may hold the work of others.

        Raises:
            StoreUnavailableError, StoreFullError: Nothing was written.
        """
        job = _Job(work)
        self._join(job)
        try:
            if not job.leads and not job.woken.acquire(timeout=BUSY_SECONDS):
                if self._withdrawn(job):
                    raise StoreUnavailableError(f"{self._path} is busy with other writes")
                job.woken.acquire()  # the leader is just committing it
            if not job.done:
                self._lead(job)
        finally:
            self._leave(job)
        if job.error is not None:
            raise job.error
        result: Result = job.result
        return result

    def close(self) -> None:
        """Closes the connection after what is under way; later writes raise."""
        with self._connection_lock:
            self._closed = True
            self._connection.close()

    def _lead(self, mine: _Job) -> None:
        jobs: list[_Job] = []
        try:
            with self._transaction():
                jobs = self._taken()
                for job in jobs:
                    job.run(self._connection)
        except (StoreUnavailableError, StoreFullError) as error:
            if len(jobs) > 1:
                self._commit_each(jobs)  # one of them may be too large for the disk; the others need not suffer for it
            else:
                mine.error = error
        except BaseException:  # of this thread alone, for example a signal's
            with self._line_lock:
                self._line[:0] = [job for job in jobs if job is not mine]
            raise
        for job in jobs:
            job.done = True
            if job is not mine:
                job.woken.release()

    def _commit_each(self, jobs: list[_Job]) -> None:
        for job in jobs:
            try:
                with self._transaction():
                    job.run(self._connection)
            except (StoreUnavailableError, StoreFullError) as error:
                job.error = error

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._connection_lock:
            if self._closed:
                raise StoreUnavailableError(f"{self._path} is closed")
            with translated(self._path), transaction(self._connection):
                yield

    def _join(self, job: _Job) -> None:
        with self._line_lock:
            self._line.append(job)
            if not self._has_leader:
                self._has_leader = job.leads = True

    def _taken(self) -> list[_Job]:
        with self._line_lock:
            taken, self._line = self._line, []
        return taken

    def _withdrawn(self, job: _Job) -> bool:
        """Whether the job could be taken out of the line, for it neither leads nor is being done."""
        with self._line_lock:
            if job.leads or job not in self._line:
                return False
            self._line.remove(job)
            return True

    def _leave(self, job: _Job) -> None:
        with self._line_lock:
            if job in self._line:
                self._line.remove(job)
            if job.leads:
                self._has_leader = bool(self._line)
                if self._line:
                    self._line[0].leads = True
                    self._line[0].woken.release()


class _Job:
    """Work that waits, and what came of it."""

    __slots__ = ("done", "error", "leads", "result", "woken", "work")

    def __init__(self, work: Work[Any]) -> None:
        self.work = work
        self.result: Any = None
        self.error: Exception | None = None
        self.done = False
        self.leads = False
        self.woken = threading.Lock()  # which its caller waits for; an Event takes ten times as long to make
        self.woken.acquire()

    def run(self, connection: sqlite3.Connection) -> None:
        """Does the work; a refusal is kept, a failure of the database raised."""
        self.result = self.error = None
        try:
            self.result = self.work(connection)
        except sqlite3.Error:
            raise
        except Exception as refusal:
            self.error = refusal


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """One write transaction: committed at the end of the block, rolled back where it raises."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite itself has rolled back after some errors
            connection.execute("ROLLBACK")
        raise


_DAMAGED = "the file is damaged: stop the servers and put a backup in its place"

_REMEDIES = {
    "locked": "try again",
    "disk image is malformed": _DAMAGED,
    "not a database": _DAMAGED,
    "readonly database": "let this user write the file and its folder",
    "unable to open database file": "give a file in a folder that is there and that this user may write",
    "disk I/O error": "see what the system's log says of the disk, and whether a quota or a limit on file sizes is reached",
}
"""What can be done, by SQLite's words."""


@contextmanager
def translated(path: Path) -> Iterator[None]:
    """SQLite's errors in the words of the catalog."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        problem = f"{path}: {error}"
        if "disk is full" in str(error):
            raise StoreFullError(problem) from error
        remedy = next((remedy for words, remedy in _REMEDIES.items() if words in str(error)), "see whether the file is whole")
        raise StoreUnavailableError(problem, remedy) from error
