"""Values made from files that operators replace while the server runs."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Generic, TypeVar

LOOK_SECONDS = 1.0
"""How long a changed file may go unnoticed."""

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Reloaded(Generic[T]):
    """A value made from files, and made anew when one of them changed. What cannot be made leaves the old value in force.

    Args:
        paths: The files.
        make: Reads them; raises OSError or ValueError.

    Raises:
        OSError, ValueError: The first value cannot be made.
    """

    def __init__(self, paths: Sequence[Path], make: Callable[[], T]) -> None:
        self._paths = paths
        self._make = make
        self._looked = time.monotonic()
        self._seen = self._stamps()  # before the files are read, so that a change in between is seen later
        self._value = make()
        self._lock = threading.Lock()

    def get(self) -> T:
        """The value; looks at the files first, if nobody did within the last second."""
        if time.monotonic() - self._looked >= LOOK_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._value

    def _look(self) -> None:
        self._looked = time.monotonic()
        stamps = self._stamps()
        if stamps == self._seen:
            return
        self._seen = stamps
        names = ", ".join(map(str, self._paths))
        try:
            self._value = self._make()
        except (OSError, ValueError) as error:
            _log.error("%s changed and cannot be used; what was read before stays in force: %s", names, error)
        else:
            _log.info("%s changed and was read again", names)

    def _stamps(self) -> list[tuple[int, ...] | None]:
        return [_stamp(path) for path in self._paths]


def _stamp(path: Path) -> tuple[int, ...] | None:
    """What differs after a change of content, permissions, or of what a link points to."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
