"""The use cases: one function per RPC of fade.v1.SchedulerService, from request message to response message.

Each takes the :class:`~fade_service.runs.Runs` that it works on, and raises :class:`~fade_service.errors.ServiceError` where it
refuses, with nothing changed. Start reading at :mod:`fade_service.scheduler.observe`.
"""

from fade_service.scheduler.advantages import compute_advantages
from fade_service.scheduler.history import get_schedule, list_observations
from fade_service.scheduler.lifecycle import complete_run, create_run, delete_run, get_run, list_runs, update_run
from fade_service.scheduler.observe import Observed, observe
from fade_service.scheduler.restore import restore_run

__all__ = [
    "Observed",
    "complete_run",
    "compute_advantages",
    "create_run",
    "delete_run",
    "get_run",
    "get_schedule",
    "list_observations",
    "list_runs",
    "observe",
    "restore_run",
    "update_run",
]
