"""Where a run's advantages come from: the scheduler's run behind each `--advantage`, or a registered advantage of the service."""

from __future__ import annotations

import os
from collections.abc import Mapping

import torch
from torch import Tensor

from fade_client import FadeClient
from fade_client.settings import read_tls, read_token
from fade_client.transport import Deadline, Transport
from fade_proto.v1 import observation_pb2, scheduler_pb2
from fade_trainer.config import SCHEDULED, TrainConfig

_TIMEOUT_SECONDS = 10.0


def open_scheduler(config: TrainConfig) -> FadeClient | None:
    """A client of the server in `config`, or of a controller in this process; None for the server `none`.

    Should the server fail later, the client's own controller goes on, and the schedules say so in their source.
    """
    if config.server == "none":
        return None
    if config.server == "local":
        return FadeClient.local(config.run_config())
    return FadeClient(config.server, run=config.run, config=config.run_config(), on_unavailable="local")


class RegisteredAdvantage:
    """An advantage that is no schedule, by its name: the service computes it, and nothing stands in for it while it is away."""

    def __init__(self, server: str, run: str, name: str, parameters: Mapping[str, float]) -> None:
        self._transport = Transport(server, read_token(None, os.environ), read_tls(None, None, os.environ))
        self._run = f"projects/default/runs/{run}"
        self._advantage = observation_pb2.NamedAdvantage(name=name, parameters=parameters)

    def __call__(self, rewards: Tensor, groups: Tensor) -> Tensor:
        """Advantages [rows] float32 of rewards [rows] in groups [rows] that are numbered from 0.

        Raises:
            FadeClientError: The service refused, or did not answer in ten seconds.
        """
        request = scheduler_pb2.ComputeAdvantagesRequest(
            name=self._run,
            advantage=self._advantage,
            rows=observation_pb2.Rows(rewards=rewards.tolist(), group_index=groups.tolist()),
            groups=observation_pb2.GroupTable(count=int(groups.max()) + 1),
        )
        answer: scheduler_pb2.ComputeAdvantagesResponse = self._transport.call(
            "ComputeAdvantages", request, Deadline(_TIMEOUT_SECONDS)
        )
        return torch.tensor(answer.advantages, dtype=torch.float64).float()

    def close(self) -> None:
        """Closes the connection."""
        self._transport.close()


def registered_advantage(config: TrainConfig) -> RegisteredAdvantage | None:
    """The one that `config.advantage` names, if it is no schedule."""
    if config.advantage in SCHEDULED:
        return None
    return RegisteredAdvantage(config.server, config.run, config.advantage, config.parameters)
