"""A background thread that works while there is something to do, and waits longer each time the service is away."""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable

from fade_client.errors import UnavailableError

_log = logging.getLogger("fade_client")

FIRST_WAIT_SECONDS = 0.1
LONGEST_WAIT_SECONDS = 5.0


class Courier:
    """Runs ``step`` while ``has_work`` says so; no thread lives while there is none.

    Args:
        changed: Guards what ``has_work`` reads; notified when work is done.
        has_work: Called under ``changed``.
        step: Does one piece of work; raises UnavailableError to be called again later.
    """

    def __init__(self, changed: threading.Condition, has_work: Callable[[], bool], step: Callable[[], None]) -> None:
        self._changed = changed
        self._has_work = has_work
        self._step = step
        self._hurry = threading.Event()
        self._stopped = False
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """Starts the thread where there is work and none runs."""
        with self._changed:
            if self._thread is None and not self._stopped and self._has_work():
                self._thread = threading.Thread(target=self._run, name="fade-courier", daemon=True)
                self._thread.start()

    def flush(self, seconds: float) -> bool:
        """Tries at once, and waits up to ``seconds`` for all work to be done; whether it is."""
        end = time.monotonic() + seconds
        self.wake()
        with self._changed:
            if self._thread is not None:
                self._hurry.set()
            while self._thread is not None and (left := end - time.monotonic()) > 0:
                self._changed.wait(min(left, threading.TIMEOUT_MAX))
            return self._thread is None and not self._has_work()

    def stop(self) -> None:
        """Lets the thread end after the step under way, for good."""
        with self._changed:
            self._stopped = True
        self._hurry.set()

    def join(self, seconds: float) -> None:
        """Waits up to ``seconds`` for the thread to end."""
        thread = self._thread
        if thread is not None:
            thread.join(seconds)

    def _run(self) -> None:
        wait_seconds = FIRST_WAIT_SECONDS
        while True:
            with self._changed:
                if self._stopped or not self._has_work():
                    self._thread = None
                    self._changed.notify_all()
                    return
            try:
                self._step()
                wait_seconds = FIRST_WAIT_SECONDS
            except Exception as error:
                if not isinstance(error, UnavailableError) and not self._stopped:
                    _log.exception("the background thread failed and goes on")
                if self._hurry.wait(wait_seconds * random.uniform(0.5, 1.0)):
                    self._hurry.clear()
                    wait_seconds = FIRST_WAIT_SECONDS
                wait_seconds = min(2 * wait_seconds, LONGEST_WAIT_SECONDS)
