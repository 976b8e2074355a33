"""Metrics as JSON lines: one object a line, each with its `kind` (step, evaluation, summary)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from fade_trainer.config import TrainConfigError


class MetricsLog:
    """Appends to a metrics file; a context manager.

    Opened at a length in bytes, it first drops what lies behind: the lines of steps that a resumed run trains again.

    Raises:
        TrainConfigError: The file is shorter than that.
    """

    def __init__(self, path: Path, keep_bytes: int = 0) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        held = path.stat().st_size if path.exists() else 0
        if held < keep_bytes:
            raise TrainConfigError(f"{path} holds {held} bytes, but its checkpoint was made at {keep_bytes}")
        self._file = path.open("ab")
        self._file.truncate(keep_bytes)

    def write(self, kind: str, values: Mapping[str, Any]) -> None:
        """Appends one line."""
        self._file.write(json.dumps({"kind": kind, **values}).encode() + b"\n")
        self._file.flush()

    def sync(self) -> int:
        """Puts all lines on disk and returns the file's length in bytes."""
        os.fsync(self._file.fileno())
        return os.fstat(self._file.fileno()).st_size

    def __enter__(self) -> MetricsLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All lines of a metrics file, in order."""
    return [json.loads(line) for line in path.read_text().splitlines()]
