"""When to say again what goes on being so."""

from __future__ import annotations

import math
import time

AGAIN_SECONDS = 600.0


class Reminder:
    """Tells when something is to be said: at once, and at most every ``AGAIN_SECONDS`` while it goes on."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def due(self, subject: str) -> bool:
        """Whether to say it now; if so, it counts as said."""
        now = time.monotonic()
        if now - self._said.get(subject, -math.inf) < AGAIN_SECONDS:
            return False
        self._said[subject] = now
        return True

    def over(self, subject: str) -> None:
        """It is so no more: when it comes again, it is said at once."""
        self._said.pop(subject, None)
