"""Named points at which a test makes this process die (tests/faults). Inert unless ``FADE_FAILPOINTS`` is set.

``FADE_FAILPOINTS="before_commit:kill@0.01,drain:kill"`` kills the process (SIGKILL) at one pass in a hundred of the first point
and at the first pass of the second; which passes, ``FADE_FAILPOINTS_SEED`` says.
"""

from __future__ import annotations

import os
import random
import signal

_ACTION = "kill"


def reach(point: str) -> None:
    """Passes ``point``, or dies there."""
    if _CHANCES and _DRAWS.random() < _CHANCES.get(point, 0.0):
        os.write(2, f"failpoint {point}: {_ACTION}\n".encode())  # past all buffers: nothing else is said any more
        os.kill(os.getpid(), signal.SIGKILL)


def _parse(text: str) -> dict[str, float]:
    """The chance of dying at each point; 1 where none is given."""
    chances = {}
    for item in filter(None, text.split(",")):
        point, _, rest = item.partition(":")
        action, _, chance = rest.partition("@")
        if action != _ACTION:
            raise ValueError(f"FADE_FAILPOINTS has {item!r}; give POINT:{_ACTION} or POINT:{_ACTION}@CHANCE")
        chances[point] = float(chance or 1)
    return chances


_CHANCES = _parse(os.environ.get("FADE_FAILPOINTS", ""))
_DRAWS = random.Random(os.environ.get("FADE_FAILPOINTS_SEED", ""))
