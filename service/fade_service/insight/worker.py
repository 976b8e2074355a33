"""One process beside the server for work that would make Observe wait: Python runs on one core at a time in each.

It imports this module and those of the functions that it is given, so the lighter these are the sooner it starts.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from loky import ProcessPoolExecutor
from loky.process_executor import TerminatedWorkerError

from fade_service.errors import ServiceError

_IDLE_SECONDS = 60

_NICENESS = 10
"""Where cores are scarce, the server's own process goes first: who waits for a chart waits, who waits for a schedule does not."""

_Result = TypeVar("_Result")


class Worker:
    """Starts with the first call, ends when it has been idle, and starts again.

    loky's, not the standard library's: a spawned process of that one runs the main module again, which would train a second time
    where a training script embeds the server.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._executor: ProcessPoolExecutor | None = None

    def call(self, function: Callable[..., _Result], *arguments: Any) -> _Result:
        """``function(*arguments)``, computed there; both must be picklable.

        Raises:
            ServiceError: WORKER_ENDED: the process was killed, and the next call has another one.
        """
        with self._lock:
            if self._executor is None:
                self._executor = ProcessPoolExecutor(1, timeout=_IDLE_SECONDS, initializer=os.nice, initargs=(_NICENESS,))
            executor = self._executor
        try:
            result: _Result = executor.submit(function, *arguments).result()
        except TerminatedWorkerError:
            with self._lock:
                if self._executor is executor:
                    self._executor = None
            problem = "the process that reads long histories was ended from outside; try again"
            raise ServiceError("WORKER_ENDED", problem) from None
        return result

    def close(self) -> None:
        """Ends the process."""
        with self._lock:
            if self._executor is not None:
                self._executor.shutdown(kill_workers=True)
                self._executor = None
