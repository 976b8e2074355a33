"""What one client does, call by call: the policies for a service that is away and for reports that it refuses."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial

import fade_core
from fade_client import arrays
from fade_client.checkpoint import Checkpoint
from fade_client.columns import Report
from fade_client.errors import CheckpointError, ClosedError, RejectedError, UnavailableError, rejection
from fade_client.line import Line
from fade_client.link import Link
from fade_client.outbox import Outbox
from fade_client.position import Position
from fade_client.reminder import Reminder
from fade_client.schedule import Part, Schedule
from fade_client.settings import Settings
from fade_client.spool import Spool
from fade_core import DEFAULT_ENVIRONMENT, EMPTY_STATE, FadeError, InvalidBatchError, RunConfig, Warning
from fade_core import Schedule as CoreSchedule
from fade_proto import convert
from fade_proto.v1 import observation_pb2, scheduler_pb2

_log = logging.getLogger("fade_client")

Make = Callable[..., Schedule]
"""Makes the schedule of an observation from what it was answered with."""


class Session:
    """A client's line of history and its link to the service; in process, where the settings have no address, the line alone.

    Attributes:
        settings: As given, but with the writer whose reports a spool still holds.

    Raises:
        SettingsError: The spool cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        spool = None if settings.spool is None else Spool(settings.spool, settings.name, settings.writer)
        self._line = Line(settings.name if settings.address else None, Outbox(settings.unsent_limit_bytes), spool)
        if spool is not None and spool.leftover is not None:
            settings = replace(settings, writer=self._line.take_over(spool.leftover))
        self.settings = settings
        self._link = Link(settings, self._line) if settings.address else None
        if self._link is None:
            self._line.move_to(Position(config=self._config))
        self._accepted = False
        self._closed = False
        self._refusals = Reminder()
        self._warned: set[tuple[str, str]] = set()
        self._pid = os.getpid()
        self._turn = threading.Lock()

    @property
    def _config(self) -> RunConfig:
        """The best known configuration."""
        position = self._line.acknowledged
        return position.config if position is not None else self.settings.config or RunConfig()

    def observe(
        self,
        observation_id: str,
        report: Callable[..., Report],
        make: Make,
        *,
        trainer_step: int | None,
        evaluation: bool,
    ) -> Schedule:
        """One observation under both policies; see :meth:`FadeClient.observe`."""
        with self._in_turn():
            try:
                try:
                    read = report(config=self._config)
                    make = partial(make, grouping=read.grouping)
                    request = self._request(observation_id, read, trainer_step, evaluation)
                    schedule = self._answer(request, read, make)
                except FadeError as error:
                    raise rejection(error) from error
            except RejectedError as error:
                if self.settings.on_rejected == "raise" or not self._accepted:
                    raise
                return self._neutral_after(error, make)
            self._accepted = True
            self._tell_warnings(schedule)
            return schedule

    @property
    def trainer_step(self) -> int | None:
        """See :attr:`FadeClient.trainer_step`."""
        self._renew_after_fork()
        with self._line.changed:
            return None if self._line.current is None else self._line.current.trainer_step

    def checkpoint(self) -> Checkpoint:
        """As it stands now; needs no service."""
        self._renew_after_fork()
        return self._line.checkpoint()

    def load(self, checkpoint: Checkpoint) -> None:
        """See :meth:`FadeClient.load_state_dict`."""
        with self._in_turn():
            self._accepted = False
            self._tell_differences(checkpoint.position)
            if self._link is not None and len(self._line.outbox):
                self._link.flush(self.settings.timeout_seconds)  # what waits belongs to the line that is left here
            if self._link is None:
                self._line.load(replace(checkpoint, position=checkpoint.position or Position(config=self._config)))
                self._line.settle()
                return
            try:
                self._link.go_on_from(checkpoint)
            except UnavailableError:
                self._link.wake()
                if self.settings.on_unavailable == "raise":
                    raise

    def restore(self, revision: int | None) -> None:
        """See :meth:`FadeClient.restore`."""
        with self._in_turn():
            if self._link is None:
                raise CheckpointError("a client in process has no history to restore from; use load_state_dict()")
            self._accepted = False
            self._link.go_on_from_history(revision)

    def flush(self, seconds: float) -> bool:
        """Waits until no report waits for the service; whether that is so."""
        self._renew_after_fork()
        if self._link is not None and not self._closed:
            self._link.flush(seconds)
        return not len(self._line.outbox)

    def close(self) -> None:
        """See :meth:`FadeClient.close`."""
        if self._closed:
            return
        if not self.flush(self.settings.timeout_seconds):
            kept = f"{self.settings.spool} has them" if self._line.is_spooled else "a state_dict() made now still has them"
            _log.warning("%d reports to %s were not sent; %s", len(self._line.outbox), self.settings.address, kept)
        self._closed = True
        if self._link is not None:
            self._link.close()
        self._line.close()

    @contextmanager
    def _in_turn(self) -> Iterator[None]:
        self._renew_after_fork()
        with self._turn:
            if self._closed:
                raise ClosedError("the client was closed; make a new one")
            yield

    def _renew_after_fork(self) -> None:
        if self._pid == os.getpid():
            return
        self._pid = os.getpid()
        self._turn = threading.Lock()
        self._line.renew()
        if self._link is not None:
            self._link.renew()
            self._link.wake()

    def _request(
        self, observation_id: str, report: Report, trainer_step: int | None, evaluation: bool
    ) -> scheduler_pb2.ObserveRequest:
        if not isinstance(observation_id, str) or not 1 <= len(observation_id) <= 128:
            raise InvalidBatchError("observation_id", f"is {observation_id!r}; give a string of 1 to 128 characters")
        request = scheduler_pb2.ObserveRequest(
            trainer_step=None if trainer_step is None else arrays.whole("trainer_step", trainer_step),
            split=observation_pb2.SPLIT_EVAL if evaluation else observation_pb2.SPLIT_TRAIN,
            lost_reports=0 if evaluation else self._line.lost_reports,
        )
        try:
            request.observation_id = observation_id
        except ValueError as error:  # a lone surrogate
            raise InvalidBatchError("observation_id", f"cannot be sent: {error}") from error
        try:
            convert.batch_to_proto(report.batch, report.label_texts(), request)
        except (TypeError, ValueError) as error:  # an environment that is no text, a count beyond 64 bits
            raise InvalidBatchError("environments", f"cannot be sent: {error}") from error
        return request

    def _answer(self, request: scheduler_pb2.ObserveRequest, report: Report, make: Make) -> Schedule:
        if self._link is None:
            schedule = self._line.observe_here(request, report.batch, make, "local", keep=False)
            assert schedule is not None  # it always knows its state, and keeps nothing for anybody
            return schedule
        try:
            response = self._link.observe(request, self._misfit(report))
        except UnavailableError:
            if self.settings.on_unavailable == "raise":
                self._link.wake()
                raise
            schedule = self._line.observe_here(request, report.batch, make, self.settings.on_unavailable, keep=True)
            self._link.wake()
            return self._neutral_without_report(request, report, make) if schedule is None else schedule
        answers = {item.environment: convert.answer_from_proto(item) for item in response.schedules}
        pinned = all(item.schedule.mode == "pinned" for item in answers.values())
        return make(
            parts={
                name: Part(schedule=item.schedule, state=item.state, diagnostics=item.diagnostics)
                for name, item in answers.items()
            },
            source="PINNED" if pinned else "SERVER",
            revision=response.revision,
            outcome="frozen" if response.outcome == observation_pb2.OUTCOME_FROZEN else "applied",
            degraded=response.degraded,
            warnings=convert.warnings_from_proto(response.warnings),
            config=self._config,
            counters=self._line.counters(),
        )

    def _misfit(self, report: Report) -> FadeError | None:
        """Why the configuration, of which no service knows yet, cannot take a batch."""
        if self._line.acknowledged is not None:
            return None
        try:
            fade_core.observe(self._config, EMPTY_STATE, report.batch)
        except FadeError as error:
            return error
        return None

    def _neutral_without_report(self, request: scheduler_pb2.ObserveRequest, report: Report, make: Make) -> Schedule:
        """No state is known, or there is no room to keep the report.

        Raises:
            FadeError: The service would refuse the report, as far as the configuration passed says.
        """
        if self._line.current is None and self.settings.config is not None:
            fade_core.observe(self.settings.config, EMPTY_STATE, report.batch)
        if request.split != observation_pb2.SPLIT_EVAL:
            self._line.lose()
        names = dict.fromkeys(report.batch.environments) or {DEFAULT_ENVIRONMENT: None}
        return make(
            parts={name: Part(schedule=CoreSchedule()) for name in names},
            source="NEUTRAL",
            config=self._config,
            counters=self._line.counters(),
        )

    def _neutral_after(self, error: RejectedError, make: Make) -> Schedule:
        self._line.rejected += 1
        if self._refusals.due(error.reason):
            _log.warning("an observation was refused and trains on neutral weights (said at times): %s", error)
        return make(
            parts={DEFAULT_ENVIRONMENT: Part(schedule=CoreSchedule())},
            source="NEUTRAL",
            warnings=(Warning(reason=error.reason, message=str(error), subject=error.field),),
            rejection=error.reason,
            config=self._config,
            counters=self._line.counters(),
        )

    def _tell_warnings(self, schedule: Schedule) -> None:
        """Once per reason and environment."""
        for warning in schedule.warnings:
            if (warning.reason, warning.subject) not in self._warned:
                self._warned.add((warning.reason, warning.subject))
                _log.warning("%s (%s, said once): %s", warning.reason, warning.subject or "all environments", warning.message)

    def _tell_differences(self, position: Position | None) -> None:
        if position is None or self.settings.config is None:
            return
        passed = self.settings.config.to_dict()
        for name, value in position.config.to_dict().items():
            if passed[name] != value:
                _log.warning("the checkpoint's configuration wins: %s is %r, not %r", name, value, passed[name])
