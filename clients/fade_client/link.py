"""What the client does with the service: first contact, restoring, delivering reports, and telling when it is away."""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial

from fade_client.checkpoint import Checkpoint
from fade_client.courier import Courier
from fade_client.errors import RejectedError, UnavailableError
from fade_client.line import Line
from fade_client.position import Position
from fade_client.reminder import Reminder
from fade_client.settings import Settings
from fade_client.transport import Deadline, Transport
from fade_core import EMPTY_STATE, FadeError, RunConfig
from fade_proto import convert
from fade_proto.v1 import observation_pb2, run_pb2, scheduler_pb2

_log = logging.getLogger("fade_client")

OPEN_AFTER = 3
"""Failed calls in a row after which the trainer's thread calls no more until the background thread got through."""

JUDGED = frozenset(
    {
        "INVALID_FIELD",
        "INVALID_CONFIG",
        "OBSERVATION_CONFLICT",
        "TRAINER_STEP_DECREASED",
        "ENTROPY_KIND_CHANGED",
        "MESSAGE_TOO_LARGE",
        "WRITER_FENCED",
        "RUN_COMPLETED",
        "HISTORY_EXPIRED",
    }
)
"""Reasons for which a late report will never be taken. Any other refusal (a withdrawn token, another server at the address) says
nothing of the report, which waits until somebody has seen to it."""

NEVER_ANSWERED = (
    "; nobody has answered there yet: check FADE_ADDRESS (HOST:PORT of the service's gRPC, by default port 50051, not HTTP's) and"
    " TLS. Until then batches train on neutral weights, or go on from a checkpoint"
)


@dataclass(frozen=True, kw_only=True)
class Restore:
    """Where to go on from, to be asked for at the next contact.

    Attributes:
        config: Configuration of the run where it does not exist yet.
        source: The request for the run as it is found; None where the run stands there already.
        branch_id: Chosen here, so that asking again opens no second branch.
        keep_unsent: Send what waits in the outbox on the new branch.
    """

    config: RunConfig | None
    source: Callable[[run_pb2.Run], scheduler_pb2.RestoreRunRequest | None]
    branch_id: str
    keep_unsent: bool = True


def _start(run: run_pb2.Run) -> scheduler_pb2.RestoreRunRequest | None:
    if run.revision == 0 and not run.branches[-1].writer:
        return None
    point = run_pb2.HistoryPoint(branch=run.branches[0].id, revision=0)
    return scheduler_pb2.RestoreRunRequest(point=point)


def _point_on_current_branch(run: run_pb2.Run, revision: int | None) -> scheduler_pb2.RestoreRunRequest:
    point = run_pb2.HistoryPoint(branch=run.branch, revision=run.revision if revision is None else revision)
    return scheduler_pb2.RestoreRunRequest(point=point)


def _new_branch_id() -> str:
    return f"restored-{secrets.token_hex(6)}"


class Link:
    """The way to the service, for one run and one writer."""

    def __init__(self, settings: Settings, line: Line) -> None:
        self._settings = settings
        self._line = line
        self._transport = Transport(settings.address, settings.token, settings.tls)
        self._restore: Restore | None = None
        self._refusal: RejectedError | None = None
        self._failures = 0
        self._answered = False
        self._reminder = Reminder()
        self.renew()

    def renew(self) -> None:
        """Fresh locks and no thread, after :meth:`Line.renew`: for a forked child, in which the parent's threads do not run."""
        self._contact = threading.Lock()
        self._courier = Courier(self._line.changed, self._has_work, self._step)

    def observe(self, request: scheduler_pb2.ObserveRequest, misfit: FadeError | None = None) -> scheduler_pb2.ObserveResponse:
        """Reports one observation now.

        Args:
            misfit: Why this client's own configuration cannot take it. A run that exists may have another; where none does, none
                is made, as it would keep this configuration.

        Raises:
            FadeError: ``misfit``, and there is no such run.
            UnavailableError: The service does not answer, or earlier reports still wait for it.
            RejectedError: The service refused the report, or what this client wants to go on from.
        """
        with self._line.changed:
            if self._refusal is not None:
                raise RejectedError(*self._refusal.args)
            if len(self._line.outbox) or self._restore is not None:
                raise UnavailableError(f"{len(self._line.outbox)} earlier reports wait for {self._settings.address}")
            if self._failures >= OPEN_AFTER:
                problem = f"the last {self._failures} calls to {self._settings.address} failed; it is tried in the background"
                raise UnavailableError(problem)
        deadline = self._deadline()
        with self._watched(), self._alone(deadline):
            if misfit is not None and not self._run_exists(deadline):
                raise misfit
            self._establish(deadline)
            return self._deliver(request, deadline)

    def go_on_from(self, checkpoint: Checkpoint) -> None:
        """Stands where a checkpoint stands, opens a new branch there, and sends the checkpoint's unsent reports on it.

        Until the branch is open, nothing else is asked of the service.

        Raises:
            CheckpointError: The checkpoint contradicts itself; nothing has changed.
            UnavailableError: The service does not answer; it will be asked again in the background.
            RejectedError: The service refused; every observation will be until something else is gone on from.
        """
        with self._contact:  # what the background thread has under way ends by its own deadline
            self._line.load(checkpoint)
            self._restore, self._refusal, self._failures = self._restore_from(checkpoint.position), None, 0
            deadline = self._deadline()
            try:
                with self._watched():
                    self._establish(deadline)
            except RejectedError as error:
                self._refusal = error
                raise
        self.flush(deadline.remaining())

    def go_on_from_history(self, revision: int | None) -> None:
        """Opens a new branch from a revision of the current one (None: its newest) and drops what waits in the outbox.

        Raises:
            UnavailableError: The service does not answer; nothing has changed.
            RejectedError: The service refused; nothing has changed.
        """
        source = partial(_point_on_current_branch, revision=revision)
        restore = Restore(config=self._settings.config, source=source, branch_id=_new_branch_id(), keep_unsent=False)
        deadline = self._deadline()
        with self._watched(), self._alone(deadline):
            self._open_branch(restore, deadline)

    def wake(self) -> None:
        """Lets the background thread see to what waits."""
        self._courier.wake()

    def flush(self, seconds: float) -> bool:
        """Waits up to ``seconds`` until nothing waits for the service; whether that is so."""
        return self._courier.flush(seconds)

    def close(self) -> None:
        """Ends the background thread and the channel."""
        self._courier.stop()
        self._transport.close()
        self._courier.join(self._settings.timeout_seconds)

    def _has_work(self) -> bool:
        waiting = self._refusal is None and (len(self._line.outbox) > 0 or self._restore is not None)
        return waiting or self._failures >= OPEN_AFTER

    def _step(self) -> None:
        """One call in the background: contact, then the oldest report, or only whether somebody is there."""
        deadline = self._deadline()
        with self._alone(deadline), self._watched():
            if self._restore is not None or self._line.acknowledged is None:
                try:
                    self._establish(deadline)
                except RejectedError as error:  # of a join: the next observation gets the same answer itself
                    if self._restore is not None:
                        self._refusal = error
                        _log.error("run %s cannot be gone on from where this client stands: %s", self._settings.name, error)
                return
            request = self._line.outbox.head()
            try:
                if request is None:
                    self._transport.call("GetRun", scheduler_pb2.GetRunRequest(name=self._settings.name), deadline)
                else:
                    self._deliver(request, deadline)
            except RejectedError as error:
                if error.reason not in JUDGED:
                    raise UnavailableError(f"late reports are not taken now: {error}", error.code, error.reason) from error
                if request is not None:
                    self._line.drop_head(request)
                    _log.warning("late report %r was refused and is dropped: %s", request.observation_id, error)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Counts failures in a row; any answer ends them, a refusal too."""
        try:
            yield
        except UnavailableError as error:
            with self._line.changed:
                self._failures += 1
                if self._reminder.due("unavailable"):
                    hint = "" if self._answered or error.reason else NEVER_ANSWERED
                    _log.warning("the scheduling service is unavailable (said at times): %s%s", error, hint)
            raise
        except RejectedError:
            self._answers()
            raise
        if self._failures:
            _log.info("the scheduling service at %s is back", self._settings.address)
        self._answers()

    def _answers(self) -> None:
        self._failures = 0
        self._answered = True
        self._reminder.over("unavailable")

    def _deadline(self) -> Deadline:
        return Deadline(self._settings.timeout_seconds)

    @contextmanager
    def _alone(self, deadline: Deadline) -> Iterator[None]:
        """Only one thread at a time is in contact: what it reads of the line still holds when it has its answer."""
        if not self._contact.acquire(timeout=deadline.remaining()):
            raise UnavailableError(f"no contact with {self._settings.address} in time", "DEADLINE_EXCEEDED")
        try:
            yield
        finally:
            self._contact.release()

    def _establish(self, deadline: Deadline) -> None:
        if self._restore is not None:
            self._open_branch(self._restore, deadline)
        elif self._line.acknowledged is None:
            run = self._join(self._settings.config, deadline)
            self._line.move_to(self._position_of(run, deadline))

    def _run_exists(self, deadline: Deadline) -> bool:
        try:
            self._transport.call("GetRun", scheduler_pb2.GetRunRequest(name=self._settings.name), deadline)
        except RejectedError as error:
            if error.reason != "RUN_NOT_FOUND":
                raise
            return False
        return True

    def _restore_from(self, position: Position | None) -> Restore:
        if position is None:
            return Restore(config=self._settings.config, source=_start, branch_id=_new_branch_id())
        request = scheduler_pb2.RestoreRunRequest(snapshot=position.snapshot(self._settings.name))
        return Restore(config=position.config, source=lambda run: request, branch_id=_new_branch_id())

    def _join(self, config: RunConfig | None, deadline: Deadline) -> run_pb2.Run:
        run = None if config is None else run_pb2.Run(config=convert.config_to_proto(config))
        request = scheduler_pb2.CreateRunRequest(parent=self._settings.parent, run_id=self._settings.run, run=run)
        joined: run_pb2.Run = self._transport.call("CreateRun", request, deadline, wait_for_ready=True)
        for warning in joined.warnings:
            _log.warning("run %s: %s", joined.name, warning.message)
        return joined

    def _position_of(self, run: run_pb2.Run, deadline: Deadline) -> Position:
        if run.revision == 0:
            return Position.of_run(run, run.branch, 0, EMPTY_STATE)
        request = scheduler_pb2.GetScheduleRequest(name=run.name, branch=run.branch)
        answer: scheduler_pb2.GetScheduleResponse = self._transport.call("GetSchedule", request, deadline)
        return Position.of_run(run, answer.branch, answer.revision, convert.state_from_proto(answer.state))

    def _open_branch(self, restore: Restore, deadline: Deadline) -> None:
        run = self._join(restore.config, deadline)
        request = restore.source(run)
        if request is None:
            position = self._position_of(run, deadline)
        else:
            request.name, request.writer, request.branch_id = run.name, self._settings.writer, restore.branch_id
            answer: scheduler_pb2.RestoreRunResponse = self._transport.call("RestoreRun", request, deadline)
            for warning in answer.warnings:
                _log.warning("run %s: %s", run.name, warning.message)
            position = Position.of_run(answer.run, answer.run.branch, answer.run.revision, convert.state_from_proto(answer.state))
        with self._line.changed:
            self._restore = self._refusal = None
            if not restore.keep_unsent:
                self._line.drop_unsent()
            self._line.branch_off(position)

    def _deliver(self, request: scheduler_pb2.ObserveRequest, deadline: Deadline) -> scheduler_pb2.ObserveResponse:
        position = self._line.acknowledged
        assert position is not None  # after _establish
        request.name, request.branch, request.writer = self._settings.name, position.branch, self._settings.writer
        request.seen_revision = position.revision
        if request.HasField("late"):  # a checkpoint may name configurations that a fresh server never had
            request.late.config_revision = min(request.late.config_revision, position.config_revision)
        try:
            response: scheduler_pb2.ObserveResponse = self._transport.call("Observe", request, deadline)
        except RejectedError as error:
            if error.reason == "RUN_NOT_FOUND" and position.revision:
                self._make_anew(position)
            elif error.reason in ("STATE_REGRESSED", "BRANCH_NOT_FOUND"):
                self._go_back(position, error, deadline)
            else:
                raise
            raise UnavailableError(f"{error}; they are reported again", error.code, error.reason) from None
        if request.split == observation_pb2.SPLIT_EVAL:
            return response
        step = request.trainer_step if request.HasField("trainer_step") else None
        self._line.confirm(request, position, position.acknowledged(step, response), response)
        if response.config_revision > position.config_revision:
            self._refresh_config(deadline)
        return response

    def _go_back(self, position: Position, error: RejectedError, deadline: Deadline) -> None:
        """The service lost what it had acknowledged: the lost reports are made again, else a branch is opened from this state."""
        _log.warning("run %s: %s", self._settings.name, error)
        run: run_pb2.Run = self._transport.call("GetRun", scheduler_pb2.GetRunRequest(name=self._settings.name), deadline)
        self._tell_lost_config(position, run)
        if run.branch != position.branch or not self._line.go_back(self._position_of(run, deadline)):
            self._restore = self._restore_from(position)

    def _make_anew(self, position: Position) -> None:
        """The service lost the whole run, or somebody deleted it: it is created again, and goes on from this client's state."""
        _log.error(
            "run %s is not at %s any more; it is made anew from revision %d, without the history before. To end a run for good,"
            " complete it, or stop its trainer, before it is deleted",
            self._settings.name,
            self._settings.address,
            position.revision,
        )
        self._restore = self._restore_from(position)

    def _tell_lost_config(self, position: Position, run: run_pb2.Run) -> None:
        known, now = position.config.to_dict(), convert.config_from_proto(run.config).to_dict()
        lost = [f"{name} {value!r}, now {now[name]!r}" for name, value in known.items() if value != now[name]]
        if lost and run.config_revision <= position.config_revision:
            _log.error(
                "the service lost changes of the configuration of run %s, and reports from here on are answered without them: %s."
                " Make them again",
                self._settings.name,
                "; ".join(lost),
            )

    def _refresh_config(self, deadline: Deadline) -> None:
        """Fetches a configuration that changed live. Until it comes, this client's own controller goes on under the old one."""
        try:
            run: run_pb2.Run = self._transport.call("GetRun", scheduler_pb2.GetRunRequest(name=self._settings.name), deadline)
        except (UnavailableError, RejectedError) as error:
            _log.warning("the changed configuration of run %s was not read: %s", self._settings.name, error)
            return
        with self._line.changed:
            if self._line.acknowledged is not None:
                config, revision = convert.config_from_proto(run.config), run.config_revision
                self._line.acknowledged = replace(self._line.acknowledged, config=config, config_revision=revision)
                if not len(self._line.outbox):
                    self._line.current = self._line.acknowledged
