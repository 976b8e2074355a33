"""The mathematics of FADE (arXiv 2607.01490): pure, float64, numpy only.

The flow of one observation: :func:`observe` validates and groups a :class:`Batch`, moves the averages in a
:class:`ControllerState` once, and answers with a :class:`Schedule` per environment for that same batch.
"""

from fade_core.advantages import advantage_names, fade_advantages, named_advantages
from fade_core.config import RunConfig
from fade_core.controller import Answer, Diagnostics, EnvironmentAnswer, Warning, observe
from fade_core.decompose import Decomposition, Likeness, MeasuredDecomposition, decompose, decompose_rows
from fade_core.errors import EntropyKindError, FadeError, InvalidBatchError, InvalidConfigError
from fade_core.rewards import DEFAULT_ENVIRONMENT, Batch, Entropy, EnvironmentReport, Groups, RowStatus, group_rows
from fade_core.schedule import Schedule, apply_schedules, schedule_of
from fade_core.simulate import Telemetry, Trajectory, simulate
from fade_core.state import EMPTY_STATE, MATHS_VERSION, ControllerState, EnvironmentState
from fade_core.two_level import Parameter, TwoLevel, two_level_advantages
from fade_core.watch import WATCHED, Watch, watch

__all__ = [
    "DEFAULT_ENVIRONMENT",
    "EMPTY_STATE",
    "MATHS_VERSION",
    "WATCHED",
    "Answer",
    "Batch",
    "ControllerState",
    "Decomposition",
    "Diagnostics",
    "Entropy",
    "EntropyKindError",
    "EnvironmentAnswer",
    "EnvironmentReport",
    "EnvironmentState",
    "FadeError",
    "Groups",
    "InvalidBatchError",
    "InvalidConfigError",
    "Likeness",
    "MeasuredDecomposition",
    "Parameter",
    "RowStatus",
    "RunConfig",
    "Schedule",
    "Telemetry",
    "Trajectory",
    "TwoLevel",
    "Warning",
    "Watch",
    "advantage_names",
    "apply_schedules",
    "decompose",
    "decompose_rows",
    "fade_advantages",
    "group_rows",
    "named_advantages",
    "observe",
    "schedule_of",
    "simulate",
    "two_level_advantages",
    "watch",
]
