"""A circuit breaker: while something is away, calls fail at once, and one at a time tries it again."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from fade_service.errors import StoreUnavailableError


class Breaker:
    """Opens at the first failure that ``failures`` names, and closes at the first call that gets through.

    A waiting room full of calls that each wait out their time-out is what it is there to prevent: callers have better things to
    do (a trainer's client goes on alone), and a server has few threads.

    Args:
        failures: The exceptions that mean "away".
        retry_seconds: While it is open, one call in that time is let through to try.
        describe: The problem and the remedy, for a :class:`~fade_service.errors.StoreUnavailableError`.
    """

    def __init__(
        self, failures: tuple[type[Exception], ...], retry_seconds: float, describe: Callable[[Exception], tuple[str, str]]
    ) -> None:
        self._failures = failures
        self._retry_seconds = retry_seconds
        self._describe = describe
        self._lock = threading.Lock()
        self._problem: tuple[str, str] | None = None
        self._next_try = 0.0

    @contextmanager
    def closed(self) -> Iterator[None]:
        """Around a call.

        Raises:
            StoreUnavailableError: It is open, or this call opens it.
        """
        with self._lock:
            if self._problem is not None:
                if time.monotonic() < self._next_try:
                    raise StoreUnavailableError(*self._problem)
                self._next_try = time.monotonic() + self._retry_seconds
        try:
            yield
        except self._failures as error:
            problem = self._describe(error)
            with self._lock:
                self._problem = problem
                self._next_try = time.monotonic() + self._retry_seconds
            raise StoreUnavailableError(*problem) from error
        if self._problem is not None:
            with self._lock:
                self._problem = None
