"""What people ask of a run beside its schedule: its course, what other settings would have done, how all runs stand.

Everything here is read from the store. Long histories are decoded by a worker process, so that Observe never waits for them.
"""

from fade_service.insight.insight import Insight

__all__ = ["Insight"]
