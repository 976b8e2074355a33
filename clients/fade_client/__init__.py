"""The client that a trainer holds: reports each generation batch and weighs that same batch by the schedule that comes back.

::

    fade = FadeClient("localhost:50051", run="qwen-math", config=RunConfig(reward_min=-1, reward_max=1))
    schedule = fade.observe("batch-17", rewards=r, groups=g, entropy=(sum_nats, tokens))
    advantages = schedule.advantages(r, g)
"""

from fade_client.aio import AsyncFadeClient
from fade_client.client import FadeClient
from fade_client.errors import (
    CheckpointError,
    ClosedError,
    FadeClientError,
    RejectedError,
    SettingsError,
    TrainerError,
    UnavailableError,
)
from fade_client.schedule import Part, Schedule
from fade_core import Entropy, InvalidBatchError, RowStatus, RunConfig, Warning

__all__ = [
    "AsyncFadeClient",
    "CheckpointError",
    "ClosedError",
    "Entropy",
    "FadeClient",
    "FadeClientError",
    "InvalidBatchError",
    "Part",
    "RejectedError",
    "RowStatus",
    "RunConfig",
    "Schedule",
    "SettingsError",
    "TrainerError",
    "UnavailableError",
    "Warning",
]
