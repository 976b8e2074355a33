"""`fade runs export`: a run's history as a table for analysis."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from fade_client.operate import exits, rows
from fade_client.operate.exits import UsageError
from fade_client.operate.remote import Remote


def export_run(remote: Remote, options: argparse.Namespace) -> int:
    """Writes one line per observation and environment."""
    remote.run(options.run)  # an unknown one is told with its nearest names, and leaves no file
    pages = remote.observations(options.run)
    lines = (row for page in pages for item in page.observations for row in rows.flat(options.run, item))
    with _destination(options.output) as stream:
        (_write_csv if options.format == "csv" else _write_jsonl)(stream, lines)
    return exits.DONE


def _write_jsonl(stream: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    for row in lines:
        print(json.dumps(row, allow_nan=False), file=stream)


def _write_csv(stream: TextIO, lines: Iterable[dict[str, Any]]) -> None:
    """Lists have their entries between spaces; what is not known is empty."""
    writer = csv.DictWriter(stream, rows.COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in lines:
        writer.writerow({name: " ".join(value) if isinstance(value, list) else value for name, value in row.items()})


@contextmanager
def _destination(path: Path | None) -> Iterator[TextIO]:
    """Standard output, or a file that is there once it is complete."""
    if path is None:
        yield sys.stdout
        return
    if path.is_dir():
        raise UsageError(f"--output {path}: it is a folder; give a file")
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        try:
            with partial.open("w", encoding="utf-8", newline="") as stream:
                yield stream
            partial.replace(path)
        except OSError as error:
            raise UsageError(f"--output {path}: {error.strerror or error}") from None
    finally:
        partial.unlink(missing_ok=True)
