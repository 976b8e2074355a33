"""Reports that wait for the service, kept in a file too, so that a client that is started again still sends them."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from google.protobuf.message import DecodeError

from fade_client.checkpoint import Checkpoint
from fade_client.errors import CheckpointError, SettingsError
from fade_proto.v1 import scheduler_pb2

_log = logging.getLogger("fade_client")

_SCHEMA = """
    CREATE TABLE IF NOT EXISTS line (only INTEGER PRIMARY KEY CHECK (only = 1), writer TEXT NOT NULL, checkpoint TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS reports (place INTEGER PRIMARY KEY AUTOINCREMENT, request BLOB NOT NULL);
"""


class Spool:
    """A file that follows what a client has not sent: written only while something waits. Not safe in threads by itself.

    It survives a kill of the process. Where the file can no longer be written the client goes on without it, and says so.

    Args:
        path: The file, of this client alone; it and its folders are made where they are missing.
        run: Resource name of the run.
        writer: The id of this attempt of the job.

    Raises:
        SettingsError: The file cannot be opened, is another process's, or holds reports of another run.
    """

    def __init__(self, path: Path, run: str, writer: str) -> None:
        self._path = path
        self._writer = writer
        self._pid = os.getpid()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._open()
            self._ended = False
            self.leftover = self._read(run)
        except (OSError, sqlite3.Error) as error:
            taken = "another process has it open; give each client a file of its own"
            raise SettingsError(f"the spool {path} cannot be used: {taken if 'locked' in str(error) else error}") from error

    leftover: tuple[str, Checkpoint] | None
    """The writer of the reports that an earlier client left behind, and where its line stood with them."""

    @property
    def follows(self) -> bool:
        """Whether it still has what waits: not in a forked child, nor after it could not be written."""
        return not self._ended and self._pid == os.getpid()

    def go_on_as(self, writer: str) -> str:
        """The writer that the reports are kept under from now on; the one that they were kept under before."""
        before, self._writer = self._writer, writer
        return before

    def set_aside(self, count: int, problem: Exception) -> None:
        """Keeps a file whose reports cannot be read under another name, and goes on with an empty one."""
        aside = self._path.with_name(f"{self._path.name}.unreadable-{time.time_ns()}")
        self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._file.close()
        self._path.rename(aside)
        self._file = self._open()
        _log.error("%d reports in the spool %s cannot be sent, and are kept in %s: %s", count, self._path, aside, problem)

    def append(self, line: Checkpoint, request: scheduler_pb2.ObserveRequest) -> None:
        """One more report waits; ``line`` is where the line stands."""
        self._write(line, lambda: self._insert([request]))

    def pop(self, line: Checkpoint) -> None:
        """The oldest report waits no more."""
        self._write(line, lambda: self._file.execute("DELETE FROM reports WHERE place = (SELECT min(place) FROM reports)"))

    def replace(self, line: Checkpoint) -> None:
        """These reports wait, and no others."""

        def change() -> None:
            self._file.execute("DELETE FROM reports")
            self._insert(line.unsent)

        self._write(line, change)

    def close(self) -> None:
        """Lets go of the file; nothing is written from here on."""
        self._ended = True
        if self._pid == os.getpid():
            self._file.close()

    def _open(self) -> sqlite3.Connection:
        file = sqlite3.connect(self._path, timeout=0, isolation_level=None, check_same_thread=False)
        try:
            file.execute("PRAGMA locking_mode = EXCLUSIVE")  # held until the process ends, however it does
            file.execute("PRAGMA journal_mode = WAL")
            file.execute("PRAGMA synchronous = NORMAL")
            file.executescript(_SCHEMA)
        except BaseException:
            file.close()
            raise
        return file

    def _read(self, run: str) -> tuple[str, Checkpoint] | None:
        requests = [row[0] for row in self._file.execute("SELECT request FROM reports ORDER BY place")]
        line = self._file.execute("SELECT writer, checkpoint FROM line").fetchone()
        if not requests or line is None:
            return None
        writer, text = line
        try:
            values = json.loads(text)
            owner = values["run"]
            if owner == run:
                unsent = tuple(map(scheduler_pb2.ObserveRequest.FromString, requests))
                return writer, replace(Checkpoint.from_dict(values), unsent=unsent)
        except (CheckpointError, DecodeError, KeyError, TypeError, ValueError) as error:
            self.set_aside(len(requests), error)
            return None
        raise SettingsError(f"the spool {self._path} holds reports of {owner}, not of {run}; give each run a file of its own")

    def _insert(self, requests: Iterable[scheduler_pb2.ObserveRequest]) -> None:
        rows = [(request.SerializeToString(),) for request in requests]
        self._file.executemany("INSERT INTO reports (request) VALUES (?)", rows)

    def _write(self, line: Checkpoint, change: Callable[[], object]) -> None:
        if not self.follows:  # a forked child's reports are its own, and the file is the parent's
            return
        values = json.dumps(replace(line, unsent=()).to_dict())
        try:
            self._file.execute("BEGIN IMMEDIATE")
            change()
            self._file.execute("INSERT OR REPLACE INTO line VALUES (1, ?, ?)", (self._writer, values))
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            self._ended = True
            _log.error("the spool %s cannot be written; reports are kept in memory alone: %s", self._path, error)
