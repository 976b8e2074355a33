"""The run's line of history as this client knows it: acknowledged, and gone on from without the service."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable
from typing import Literal

from fade_client.checkpoint import Checkpoint
from fade_client.errors import CheckpointError, RejectedError
from fade_client.outbox import Acknowledged, Outbox
from fade_client.position import Position
from fade_client.schedule import Part, Schedule, Source
from fade_client.spool import Spool
from fade_core import Batch, FadeError
from fade_core import Schedule as CoreSchedule
from fade_proto import convert
from fade_proto.v1 import observation_pb2, scheduler_pb2

_log = logging.getLogger("fade_client")

Weights = Literal["local", "hold", "neutral"]

REMEMBERED = 256
"""Observations answered here whose repetition is recognised, newest last."""


KEPT_BYTES = 8 * 2**20
"""Acknowledged reports kept for a service that loses its newest ones."""


class Line:
    """Shared by the trainer's thread and the background thread; what is done under ``changed`` is one step.

    Args:
        run: Resource name of the run; None in process.
        outbox: An empty one.
        spool: The file that follows the outbox, if there is one.

    Attributes:
        changed: Guards everything below.
        acknowledged: The last position that the service confirmed; None before the first contact.
        current: The position after the reports that wait in the outbox too.
        outbox: Reports that the service has not confirmed.
        lost_reports: Batches whose reports are lost, not yet told to the service.
        lost_total: All of them so far.
        rejected: Observations refused so far.
        dropped: Late reports refused so far.
    """

    def __init__(self, run: str | None, outbox: Outbox, spool: Spool | None) -> None:
        self.renew()
        self._run = run
        self._spool = spool
        self.acknowledged: Position | None = None
        self.current: Position | None = None
        self.outbox = outbox
        self._kept = Acknowledged(KEPT_BYTES)
        self.lost_reports = 0
        self.lost_total = 0
        self.rejected = 0
        self.dropped = 0
        self._answered: OrderedDict[str, tuple[bytes, Schedule]] = OrderedDict()

    def renew(self) -> None:
        """A fresh lock: for a forked child, in which one that another thread held stays locked."""
        self.changed = threading.Condition(threading.RLock())

    def counters(self) -> dict[str, int]:
        """For :meth:`Schedule.metrics`."""
        with self.changed:
            return {
                "rejected": self.rejected,
                "unsent": len(self.outbox),
                "lost": self.lost_total,
                "dropped": self.dropped,
            }

    def checkpoint(self) -> Checkpoint:
        """Where it stands, for a trainer's checkpoint and for the spool."""
        with self.changed:
            return Checkpoint(
                run=self._run, position=self.acknowledged, unsent=tuple(self.outbox), lost_reports=self.lost_reports
            )

    def take_over(self, leftover: tuple[str, Checkpoint]) -> str:
        """Stands where an earlier client ended, with the reports that it left behind; the writer to go on as."""
        writer, checkpoint = leftover
        assert self._spool is not None  # which the leftover is from
        own = self._spool.go_on_as(writer)
        try:
            self.load(checkpoint)
        except CheckpointError as error:
            self._spool.set_aside(len(checkpoint.unsent), error)
            return self._spool.go_on_as(own)
        _log.info("goes on as writer %s with %d reports that were not sent", writer, len(self.outbox))
        return writer

    @property
    def is_spooled(self) -> bool:
        """Whether what waits in the outbox is in the spool too."""
        return self._spool is not None and self._spool.follows

    def close(self) -> None:
        """Lets go of the spool."""
        with self.changed:
            if self._spool is not None:
                self._spool.close()

    def move_to(self, position: Position) -> None:
        """Stands at ``position``, with nothing unsent after it."""
        with self.changed:
            self.acknowledged = self.current = position

    def load(self, checkpoint: Checkpoint) -> None:
        """Stands where the checkpoint does, with its unsent reports after that.

        Raises:
            CheckpointError: The reports do not follow from the position; nothing has changed.
        """
        try:
            current = None if checkpoint.position is None else _after_all(checkpoint.position, checkpoint.unsent)
        except (FadeError, RejectedError, ValueError) as error:
            raise CheckpointError(f"the state dict is damaged: its unsent reports do not fit its state: {error}") from error
        with self.changed:
            self.acknowledged, self.current = checkpoint.position, current
            self._kept.clear()
            self.outbox.replace(checkpoint.unsent)
            self.lost_reports = checkpoint.lost_reports
            self._answered.clear()
            self._rewrite_spool()

    def settle(self) -> None:
        """Takes what was gone on to without the service as confirmed: there is none."""
        with self.changed:
            self.acknowledged = self.current
            self.outbox.replace(())

    def branch_off(self, position: Position) -> None:
        """The service stands at ``position`` on a new branch; what waits in the outbox keeps its schedules."""
        with self.changed:
            self.acknowledged = position
            self._kept.clear()
            if not len(self.outbox):
                self.current = position
            self._rewrite_spool()

    def go_back(self, position: Position) -> bool:
        """The service stands at ``position``, before what it had acknowledged; those reports wait in the outbox again.

        Returns:
            Whether they are still kept; if not, nothing has changed.
        """
        with self.changed:
            assert self.acknowledged is not None  # a service that was never reached has lost nothing
            lost = self._kept.between(position.revision, self.acknowledged.revision)
            if lost is None:
                return False
            self.acknowledged = position
            self._kept.clear()
            self.outbox.replace([*lost, *self.outbox])
            self._rewrite_spool()
            return True

    def drop_unsent(self) -> None:
        """Counts what waits in the outbox as lost."""
        with self.changed:
            self.lost_reports += len(self.outbox) + sum(request.lost_reports for request in self.outbox)
            self.lost_total += len(self.outbox)
            self.outbox.replace(())
            self._answered.clear()
            self._rewrite_spool()

    def confirm(
        self,
        request: scheduler_pb2.ObserveRequest,
        before: Position,
        after: Position,
        response: scheduler_pb2.ObserveResponse | None,
    ) -> None:
        """The service, which stood at ``before``, is done with a report and stands at ``after``; no response: it refused it."""
        with self.changed:
            if self.acknowledged is not before:
                return  # restored meanwhile: the answer is about the line that was left
            self.acknowledged = after
            if response is not None and after is not before:
                self._kept.append(request, response)
            if self.outbox.head() is request:
                self.outbox.pop()
                if self._spool is not None:
                    self._spool.pop(self.checkpoint())
            else:
                self.lost_reports -= request.lost_reports
            if not len(self.outbox):
                self.current = after
            self.changed.notify_all()

    def drop_head(self, request: scheduler_pb2.ObserveRequest) -> None:
        """The service will never take the oldest report: it is lost, and the next one tells the service so."""
        with self.changed:
            if self.acknowledged is None or self.outbox.head() is not request:
                return  # restored meanwhile
            self.dropped += 1
            self.lost_reports += 1 + request.lost_reports
            self.confirm(request, self.acknowledged, self.acknowledged, None)

    def lose(self) -> None:
        """A batch is trained on without a report."""
        with self.changed:
            self.lost_reports += 1
            self.lost_total += 1

    def observe_here(
        self,
        request: scheduler_pb2.ObserveRequest,
        batch: Batch,
        make: Callable[..., Schedule],
        weights: Weights,
        *,
        keep: bool,
    ) -> Schedule | None:
        """Answers an observation without the service.

        Args:
            request: The report.
            batch: The same, as arrays.
            make: Makes a schedule from its parts.
            weights: Those of this client's own controller, the last ones, or neutral ones.
            keep: Keep the report for the service; else nobody but this line is to know of it.

        Returns:
            The schedule; None where no state is known to go on from, or no room is left to keep the report.

        Raises:
            InvalidBatchError: A value is wrong, by field and row.
            EntropyKindError: Entropy of another kind than the average is made of.
            RejectedError: The id was answered here with other content, or the trainer's step decreased.
        """
        evaluation = request.split == observation_pb2.SPLIT_EVAL
        step = request.trainer_step if request.HasField("trainer_step") else None
        with self.changed:
            if self.current is None:
                return None
            content = _content_digest(request)
            known = None if evaluation else self._answered.get(request.observation_id)
            if known is not None:
                if known[0] != content:
                    problem = f"observation {request.observation_id!r} was reported before with other content; use a new id"
                    raise RejectedError(problem, "OBSERVATION_CONFLICT", code="ALREADY_EXISTS")
                return known[1]
            after, answer = self.current.after(batch, step, evaluation=evaluation)
            assert self.acknowledged is not None  # as current is not
            source, schedules = _choose(
                weights, self.acknowledged, batch, {name: item.schedule for name, item in answer.environments.items()}
            )
            if not evaluation:
                if keep:
                    _mark_late(request, self.current.config_revision, source, schedules)
                    if not self.outbox.append(request):
                        return None
                    self.lost_reports -= request.lost_reports
                    if self._spool is not None:
                        self._spool.append(self.checkpoint(), request)
                else:
                    self.acknowledged = after
                self.current = after
            schedule = make(
                parts={
                    name: Part(schedule=schedules[name], state=item.state, diagnostics=item.diagnostics)
                    for name, item in answer.environments.items()
                },
                source=source,
                revision=after.revision,
                outcome=answer.outcome,
                degraded=answer.degraded,
                warnings=answer.warnings,
                config=after.config,
                counters=self.counters(),
            )
            if not evaluation:
                self._answered[request.observation_id] = (content, schedule)
                if len(self._answered) > REMEMBERED:
                    self._answered.popitem(last=False)
            return schedule

    def _rewrite_spool(self) -> None:
        if self._spool is not None:
            self._spool.replace(self.checkpoint())


def _after_all(position: Position, requests: Iterable[scheduler_pb2.ObserveRequest]) -> Position:
    for request in requests:
        step = request.trainer_step if request.HasField("trainer_step") else None
        position, _ = position.after(convert.batch_from_proto(request), step)
    return position


def _choose(
    weights: Weights, position: Position, batch: Batch, own: dict[str, CoreSchedule]
) -> tuple[Source, dict[str, CoreSchedule]]:
    """The schedules to train on, by environment, and what to call them."""
    if weights == "local":
        return "LOCAL", own
    if weights == "hold" and position.state.environments.keys() & own.keys():
        held = position.held_schedules(batch)
        return "HELD", {name: held.get(name, CoreSchedule()) for name in own}
    return "NEUTRAL", dict.fromkeys(own, CoreSchedule())


def _mark_late(
    request: scheduler_pb2.ObserveRequest, config_revision: int, source: Source, schedules: dict[str, CoreSchedule]
) -> None:
    request.late.config_revision = config_revision
    request.late.source = source
    for name, schedule in schedules.items():
        convert.schedule_to_proto(schedule, request.late.schedules.add(environment=name).schedule)


def _content_digest(request: scheduler_pb2.ObserveRequest) -> bytes:
    """Of what was observed alone."""
    content = scheduler_pb2.ObserveRequest(
        rows=request.rows, groups=request.groups, environments=request.environments, entropy=request.entropy
    )
    return hashlib.sha256(content.SerializeToString(deterministic=True)).digest()
