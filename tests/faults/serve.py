"""`fade serve` with a wall clock that jumps: each SIGUSR1 moves it by up to a day, back or forth.

It ends with its standard input, so that it does not outlive who started it.

`python -m tests.faults.serve SEED serve ...`: the rest is the command line of `python -m fade_service`.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from types import FrameType

_DAY_SECONDS = 86_400

_true_time_ns = time.time_ns
_offset_seconds = 0


def _jump(number: int, frame: FrameType | None) -> None:
    global _offset_seconds
    _offset_seconds = _draws.randint(-_DAY_SECONDS, _DAY_SECONDS)


def _end_with_input() -> None:
    os.read(0, 1)
    os._exit(1)


if __name__ == "__main__":
    _draws = random.Random(sys.argv[1])
    signal.signal(signal.SIGUSR1, _jump)
    threading.Thread(target=_end_with_input, daemon=True).start()
    time.time_ns = lambda: _true_time_ns() + _offset_seconds * 10**9  # the one clock that the service stamps its records with

    from fade_service.cli import main

    sys.exit(main(sys.argv[2:]))
