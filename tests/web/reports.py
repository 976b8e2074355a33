"""Reports of a believable training run, and a client that sends them over gRPC."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import grpc
import numpy as np
import numpy.typing as npt

from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import (
    CreateRunRequest,
    GetRunRequest,
    ObserveRequest,
    ObserveResponse,
    RestoreRunRequest,
    UpdateRunRequest,
)
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

GROUPS, ROLLOUTS = 16, 8


class Trainer:
    """One run's trainer, reporting ``GROUPS`` groups of ``ROLLOUTS`` rollouts an observation for each environment.

    Args:
        address: The server's gRPC address.
        run: The run's id, in project ``lab``.
        environments: Their names.
        writer: The id of this attempt of the job.
        length: Observations over which the solve rate rises and entropy falls.
        seed: Of its rollouts.
        config: Fields of the run's configuration.
    """

    def __init__(
        self,
        address: str,
        run: str,
        environments: tuple[str, ...] = ("default",),
        *,
        writer: str = "job-1",
        length: int = 2000,
        seed: int = 0,
        **config: Any,
    ) -> None:
        self.name = f"projects/lab/runs/{run}"
        self._channel = grpc.insecure_channel(address)
        self.stub = SchedulerServiceStub(self._channel)
        self._config = config
        self._environments = environments
        self._writer = writer
        self._length = length
        self._random = np.random.default_rng(seed)
        self._step = 0

    def __enter__(self) -> Trainer:
        """Creates the run, or joins it."""
        parent, _, run = self.name.partition("/runs/")
        config = run_pb2.RunConfig(**self._config)
        self.stub.CreateRun(CreateRunRequest(parent=parent, run_id=run, run=run_pb2.Run(config=config)), timeout=10)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._channel.close()

    def get(self) -> run_pb2.Run:
        """GetRun."""
        run: run_pb2.Run = self.stub.GetRun(GetRunRequest(name=self.name), timeout=10)
        return run

    def update(self, reason: str, **config: Any) -> None:
        """UpdateRun of these configuration fields."""
        request = UpdateRunRequest(run=run_pb2.Run(name=self.name, config=run_pb2.RunConfig(**config)), reason=reason)
        request.update_mask.paths.extend(f"config.{field}" for field in config)
        self.stub.UpdateRun(request, timeout=10)

    def restore(self, revision: int, branch: str, writer: str) -> None:
        """Goes back to a revision of the current branch, as another attempt of the job."""
        point = run_pb2.HistoryPoint(revision=revision)
        self.stub.RestoreRun(RestoreRunRequest(name=self.name, writer=writer, branch_id=branch, point=point), timeout=10)
        self._writer, self._step = writer, revision

    def observe(self, observation_id: str | None = None) -> ObserveResponse:
        """One more report, by default with the id ``batch-N``."""
        request = ObserveRequest(
            name=self.name, observation_id=observation_id or f"batch-{self._step}", writer=self._writer, trainer_step=self._step
        )
        for place, name in enumerate(self._environments):
            solved = self._rollouts(place)
            request.rows.rewards.extend(solved.ravel().tolist())
            request.rows.group_index.extend((np.repeat(np.arange(GROUPS), ROLLOUTS) + place * GROUPS).tolist())
            request.groups.environments.extend([name] * GROUPS)
            nats = max(0.02, (1 - 0.3 * place) * np.exp(-2 * self._progress()) + self._random.normal(0, 0.02))
            report = request.environments.add(environment=name)
            report.entropy.sum_nats, report.entropy.token_count = nats * 1000, 1000
        request.groups.count = GROUPS * len(self._environments)
        self._step += 1
        response: ObserveResponse = self.stub.Observe(request, timeout=10)
        return response

    def _progress(self) -> float:
        return min(1.0, self._step / self._length)

    def _rollouts(self, place: int) -> npt.NDArray[np.float64]:
        """Outcomes, 0 or 1, (GROUPS, ROLLOUTS): prompts of many difficulties, on average solved more and more often."""
        rate = 0.15 + (0.6 - 0.2 * place) * (1 - np.exp(-3 * self._progress()))
        difficulty = self._random.beta(4 * rate, 4 * (1 - rate), size=(GROUPS, 1))
        return (self._random.random((GROUPS, ROLLOUTS)) < difficulty).astype(np.float64)
