"""SIGINT and SIGTERM as a wish to stop at the next good moment."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_requested() -> Iterator[threading.Event]:
    """An event that the first SIGINT or SIGTERM sets; the second one acts as if this were not here.

    Only a process's main thread may handle signals; in any other thread the event just stays unset.
    """
    wish = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield wish
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        wish.set()
        restore()

    for number in before:
        signal.signal(number, on_signal)
    try:
        yield wish
    finally:
        restore()
