"""The SQLite file's schema, as the steps that lead to it: a new file takes all of them, an older one those that it has not."""

from __future__ import annotations

import sqlite3
from pathlib import Path

APPLICATION_ID = 0x46414445
"""Marks the file as ours (bytes "FADE" in its header)."""

# A rowid table takes payloads of 1 to 2 KB in fewer page writes than one WITHOUT ROWID (86 against 99 microseconds a commit).
_VERSION_1 = (
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
)

# Deleted runs whose observations are still there. A server of version 1 that has the file open meanwhile does no harm: it deletes
# both at once, and never reads the history of a run that is gone.
_VERSION_2 = ("CREATE TABLE deleted_runs (uid TEXT PRIMARY KEY NOT NULL)",)

STEPS = (_VERSION_1, _VERSION_2)
"""The statements that lead from version n to n + 1, n counted from 0, the empty file. Steps are added, never changed:
tests/service/store/files has a database of each version."""

SCHEMA_VERSION = len(STEPS)

_HEADER = """
    SELECT application_id, user_version, (SELECT count(*) FROM sqlite_master) FROM pragma_application_id, pragma_user_version
"""


def schema_version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file's schema; 0 if it is empty.

    Raises:
        ValueError: It is neither empty nor a store of a version that this code knows.
    """
    try:  # one statement, so that another process that makes the file is seen before or after, not in between
        application, version, objects = connection.execute(_HEADER).fetchone()
    except sqlite3.DatabaseError as error:
        if "not a database" not in str(error):
            raise
        raise ValueError(f"{path} is no SQLite database; choose another file") from error
    if application == version == objects == 0:
        return 0
    if application != APPLICATION_ID:
        raise ValueError(f"{path} is a database of another application; choose another file")
    if version > SCHEMA_VERSION:
        raise ValueError(
            f"{path} has schema version {version}, and this server knows versions up to {SCHEMA_VERSION};"
            " run a newer fade-scheduler, or choose another file"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Brings the file to :data:`SCHEMA_VERSION`. Call it inside a write transaction, which makes it all or nothing, and lets one
    process do it while the others wait.

    Raises:
        ValueError: As :func:`schema_version`.
    """
    version = schema_version(connection, path)
    for step in STEPS[version:]:
        for statement in step:
            connection.execute(statement)
    if version < SCHEMA_VERSION:
        connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
