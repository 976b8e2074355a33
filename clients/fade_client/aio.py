"""The client for trainers that run in an event loop and score group by group."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from fade_client import arrays
from fade_client.arrays import Column
from fade_client.checkpoint import Checkpoint
from fade_client.client import FadeClient
from fade_client.errors import CheckpointError, ClosedError, FadeClientError
from fade_client.schedule import Part, Schedule
from fade_core import DEFAULT_ENVIRONMENT, InvalidBatchError, RunConfig, schedule_of
from fade_core import Schedule as CoreSchedule

T = TypeVar("T")


class AsyncFadeClient:
    """A :class:`FadeClient` behind an event loop: weighs single groups at any time, reports one batch at a time.

    ::

        async with AsyncFadeClient(FadeClient("localhost:50051", run="qwen-math")) as fade:
            advantages = await fade.advantages(group_rewards)  # per group, under the schedule in force
            await fade.observe("step-17", rewards=r, groups=g)  # per trainer step: moves the schedule

    The client does its work on one thread of its own, so its deadline, retries and fallbacks are as they are without an event
    loop, and the loop never waits for the service. Make it in the process that uses it: a forked child has no such thread.

    Args:
        client: What reports. It belongs to this one from here on, which closes it.
    """

    def __init__(self, client: FadeClient) -> None:
        self._client = client
        self._executor = ThreadPoolExecutor(1, "fade-aio")
        self._closed = False
        self._parts: dict[str, Part] = {}
        self._schedule: Schedule
        self._stand()

    @property
    def schedule(self) -> Schedule:
        """The weights in force, for groups of any batch: of every environment those that its last observation was answered with.

        Source NEUTRAL before the first observation, HELD after a checkpoint was loaded, then the last observation's. ``scale`` is
        1, as a ``match_grpo`` factor belongs to one batch: :meth:`observe` returns the schedule that has it.
        """
        return self._schedule

    async def observe(self, observation_id: str, **report: Any) -> Schedule:
        """Reports one batch, as :meth:`FadeClient.observe` with the same arguments, and returns the schedule for this same batch.

        Reports go out in the order of the calls. A cancelled call does not take its report back: the same id with the same
        content, asked again, gives its schedule.

        Raises:
            UnavailableError: Only with ``on_unavailable="raise"``.
            RejectedError: The report was refused, by reason, field and row; see ``on_rejected``.
            ClosedError: The client was closed.
        """

        def work() -> Schedule:
            answer = self._client.observe(observation_id, **report)
            if not report.get("evaluation"):
                self._adopt(answer)
            return answer

        return await self._in_turn(work)

    async def advantages(
        self,
        rewards: Column,
        *,
        environment: str = DEFAULT_ENVIRONMENT,
        solved: Column | None = None,
        statuses: Column | None = None,
        rollouts: Column | None = None,
    ) -> Any:
        """The advantages of one group under the schedule in force.

        They are computed here and nothing is waited for: the service's ComputeAdvantages gives the same numbers, a call later.

        Args:
            rewards: (N,) of the group's rollouts: numpy, torch, or a list in which None is missing.
            environment: The group's. Before the first observation of it the weights are neutral.
            solved: (N,) flags.
            statuses: (N,) :class:`~fade_core.RowStatus`.
            rollouts: (N,) labels; rows that share one are one rollout.

        Returns:
            (N,), as :meth:`Schedule.advantages` gives them.

        Raises:
            InvalidBatchError: A column cannot be read; or, only with ``on_rejected="raise"``, holds a value that the run refuses
                (else the group gets neutral weights, and the report with it will be refused). Names field and row.
        """
        part = self._schedule.parts.get(environment, Part(schedule=CoreSchedule()))
        schedule = replace(self._schedule, parts={environment: part})
        one_group = np.zeros(len(arrays.rewards(rewards)), np.int32)
        try:
            return schedule.advantages(rewards, one_group, solved=solved, statuses=statuses, rollouts=rollouts)
        except InvalidBatchError:
            if self._client._settings.on_rejected == "raise":
                raise
            neutral = replace(schedule, source="NEUTRAL")
            return neutral.advantages(rewards, one_group, solved=solved, statuses=statuses, rollouts=rollouts)

    def state_dict(self) -> dict[str, Any]:
        """As :meth:`FadeClient.state_dict`, without the observations still awaited; never waits."""
        return self._client.state_dict()

    async def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As :meth:`FadeClient.load_state_dict`; the schedule in force is then the checkpoint's.

        Raises:
            CheckpointError: The dict is damaged or of another version.
            RejectedError: The service refused to restore.
            UnavailableError: Only with ``on_unavailable="raise"``.
            ClosedError: The client was closed.
        """

        def work() -> None:
            try:
                self._client.load_state_dict(state)
            except FadeClientError as error:
                if not isinstance(error, CheckpointError):  # with that, nothing has changed
                    self._stand()
                raise
            self._stand()

        await self._in_turn(work)

    async def aclose(self) -> None:
        """Waits for the observations under way, then closes the client as :meth:`FadeClient.close`. Closing twice is fine."""
        if self._closed:
            return
        try:
            await self._in_turn(self._client.close)
        finally:
            self._closed = True
            self._executor.shutdown(wait=False)

    async def __aenter__(self) -> AsyncFadeClient:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    async def _in_turn(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise ClosedError("the client was closed; make a new one")
        # The shield: a report of which nobody knows whether it was made would leave gaps in the history.
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._executor, work))

    def _stand(self) -> None:
        """Puts the schedules of the client's last acknowledged state in force; neutral ones where it has none."""
        position = Checkpoint.from_dict(self._client.state_dict()).position
        config = self._client._settings.config or RunConfig() if position is None else position.config
        states = {} if position is None else position.state.environments
        self._parts = {name: Part(schedule=schedule_of(config, state), state=state) for name, state in states.items()}
        self._schedule = Schedule(
            observation_id="",
            parts=dict(self._parts) or {DEFAULT_ENVIRONMENT: Part(schedule=CoreSchedule())},
            source="HELD" if states else "NEUTRAL",
            revision=None if position is None else position.revision,
            config=config,
            units=self._client._settings.advantage_units,
        )

    def _adopt(self, answer: Schedule) -> None:
        """Puts an answer in force."""
        parts = {name: replace(part, schedule=replace(part.schedule, scale=1.0)) for name, part in answer.parts.items()}
        if answer.source != "NEUTRAL":  # which weighs everything alike, until the next answer
            self._parts = parts = {**self._parts, **parts}
        self._schedule = replace(answer, parts=parts, group_environments=None, grouping=None)
