"""What people ask of a run beside its schedule: its course, what other settings would have done, how all runs stand.

Everything here is read from the store. Long histories are decoded by a worker process, so that Observe never waits for them.
`Insight` is imported when it is first used, so that the worker, which needs little of this, starts soon.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fade_service.insight.insight import Insight

__all__ = ["Insight"]


def __getattr__(name: str) -> object:
    if name == "Insight":
        from fade_service.insight.insight import Insight

        return Insight
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
