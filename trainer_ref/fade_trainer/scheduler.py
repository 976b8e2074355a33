"""Where a run's advantages come from: the configuration of the scheduler's run behind each `--advantage`."""

from __future__ import annotations

from fade_client import FadeClient, RunConfig
from fade_trainer.config import TrainConfig
from fade_trainer.task import VOCABULARY_SIZE


def open_scheduler(config: TrainConfig) -> FadeClient | None:
    """A client of the server in `config`, or of a controller in this process; None for the server `none`.

    Should the server fail later, the client's own controller goes on, and the schedules say so in their source.
    """
    if config.server == "none":
        return None
    if config.server == "local":
        return FadeClient.local(run_config(config))
    return FadeClient(config.server, run=config.run, config=run_config(config), on_unavailable="local")


def run_config(config: TrainConfig) -> RunConfig:
    """`fade` is the service's default; the static methods are fixed values of alpha and delta."""
    if config.advantage == "fade":
        return RunConfig(vocabulary_size=VOCABULARY_SIZE)
    return RunConfig(
        alpha_rule="fixed",
        delta_rule="fixed",
        alpha=config.alpha if config.advantage == "power" else 1.0,
        delta=config.delta if config.advantage == "asym" else 1.0,
        vocabulary_size=VOCABULARY_SIZE,
    )
