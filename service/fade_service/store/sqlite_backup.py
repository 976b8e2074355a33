"""A copy of a SQLite store, made while servers write it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from fade_service.store.migrations import schema_version
from fade_service.store.sqlite_writer import translated


def back_up(source: Path, target: Path) -> None:
    """Copies the store as it stands at one moment (SQLite's online backup); servers go on reading and writing meanwhile.

    The copy has its name only once it is whole and on the disk. It is a store like any other: a server can open it.

    Raises:
        ValueError: There is no store at ``source``, or something at ``target``; nothing was written.
        StoreUnavailableError, StoreFullError: Reading or writing failed; there is no ``target``.
    """
    if not source.is_file():
        raise ValueError(f"{source} is no file; give the store of a server")
    if target.exists():
        raise ValueError(f"{target} exists; choose another file")
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)  # of a copy that was broken off
    with translated(source), closing(sqlite3.connect(f"{source.absolute().as_uri()}?mode=rw", uri=True)) as reading:
        if schema_version(reading, source) == 0:
            raise ValueError(f"{source} is an empty file; give the store of a server")
        try:
            with translated(part), closing(sqlite3.connect(part)) as writing:
                reading.backup(writing)  # in one step: in smaller ones it starts anew whenever somebody writes in between
            part.rename(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
