"""A circuit breaker: while something is away, calls fail at once, and one at a time tries it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from fade_service.errors import StoreUnavailableError


class Breaker:
    """Opens at the first failure that ``failures`` names, and closes at the first call that gets through.

    A waiting room full of calls that each wait out their time-out is what it is there to prevent: callers have better things to
    do (a trainer's client goes on alone), and a server has few threads.

    Args:
        failures: The exceptions that mean "away".
        retry_seconds: While it is open, one call in that time is let through to try.
    """

    def __init__(self, failures: tuple[type[Exception], ...], retry_seconds: float) -> None:
        self._failures = failures
        self._retry_seconds = retry_seconds
        self._lock = threading.Lock()
        self._problem = ""
        self._next_try = 0.0

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Around a call.

        Raises:
            StoreUnavailableError: It is open, or this call opens it.
        """
        with self._lock:
            if self._problem:
                if time.monotonic() < self._next_try:
                    raise StoreUnavailableError(self._problem)
                self._next_try = time.monotonic() + self._retry_seconds
        try:
            yield
        except self._failures as error:
            with self._lock:
                self._problem = f"{type(error).__name__}: {error}"
                self._next_try = time.monotonic() + self._retry_seconds
            raise StoreUnavailableError(self._problem) from error
        if self._problem:
            with self._lock:
                self._problem = ""
