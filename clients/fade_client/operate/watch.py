"""`fade watch`: a run as it goes."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from datetime import datetime, timezone
from typing import Protocol

from fade_client.errors import UnavailableError
from fade_client.operate import exits, rows, text
from fade_client.operate.follow import Follower
from fade_client.operate.remote import Remote
from fade_proto.v1 import observation_pb2, run_pb2


class View(Protocol):
    """Where a run is shown."""

    def show(self, run: run_pb2.Run, new: list[observation_pb2.Observation]) -> None:
        """After each poll; the first brings what went before."""

    def away(self, since: datetime, error: UnavailableError) -> None:
        """After each poll that got no answer."""


class _Lines:
    """A line per observation, from the newest that there is on; what else happens goes to standard error, once."""

    def __init__(self, line: Callable[[run_pb2.Run, observation_pb2.Observation], str]) -> None:
        self._line = line
        self._started = False
        self._since: datetime | None = None

    def show(self, run: run_pb2.Run, new: list[observation_pb2.Observation]) -> None:
        if self._since is not None:
            _say(f"back after {text.span((datetime.now(timezone.utc) - self._since).total_seconds())}")
            self._since = None
        if not self._started and not run.revision:
            _say(f"{run.name} has no observations yet")
        for item in new if self._started else new[-1:]:
            print(self._line(run, item), flush=True)
        self._started = True
        if run.state == run_pb2.Run.STATE_COMPLETED:
            _say(f"{run.name} is completed")

    def away(self, since: datetime, error: UnavailableError) -> None:
        if self._since is None:
            _say(f"away since {text.clock(since)}: {exits.explain(error)[1]}")
            self._since = since


def watch(remote: Remote, options: argparse.Namespace) -> int:
    """Shows a run until it is completed, or until Ctrl-C."""
    try:
        with _view(options) as view:
            _follow(Follower(remote, options.run), view, options.interval)
    except KeyboardInterrupt:
        pass
    return exits.DONE


def _follow(follower: Follower, view: View, interval_seconds: float) -> None:
    seen, since = False, None
    while True:
        try:
            run, new = follower.poll()
        except UnavailableError as error:
            if not seen:
                raise  # the address is wrong rather than the server away
            since = since or datetime.now(timezone.utc)
            view.away(since, error)
        else:
            seen, since = True, None
            view.show(run, new)
            if run.state == run_pb2.Run.STATE_COMPLETED:
                return
        time.sleep(interval_seconds)


def _view(options: argparse.Namespace) -> AbstractContextManager[View]:
    if options.json:
        return nullcontext(_Lines(_json_line))
    if sys.stdout.isatty():
        try:
            from fade_client.operate.live import LiveView
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] != "rich":
                raise
            print("fade watch: plain lines; for a live view: pip install 'fade-scheduler[cli]'", file=sys.stderr)
        else:
            if LiveView.is_possible():
                return LiveView()
    return nullcontext(_Lines(_plain_line))


def _json_line(run: run_pb2.Run, item: observation_pb2.Observation) -> str:
    return json.dumps(rows.nested(run.name, item), allow_nan=False)


def _plain_line(run: run_pb2.Run, item: observation_pb2.Observation) -> str:
    document = rows.nested(run.name, item)
    step = "" if document["trainer_step"] is None else f" step {document['trainer_step']}"
    head = f"{text.clock(text.moment(item.create_time))} {item.branch} {item.revision}{step} {document['source']}"
    environments = [
        f"{seen['environment']} {seen['mode']} {seen['phase']}"
        f" alpha {text.number(seen['alpha'])} delta {text.number(seen['delta'])}"
        f" solved {text.number(seen['average_solve_rate'])}"
        f" entropy {text.against(seen['average_entropy_nats'], seen['target_entropy_nats'])}"
        for seen in document["environments"]
    ]
    return " | ".join([head, *environments, *document["warnings"]])


def _say(message: str) -> None:
    print(f"fade watch: {message}", file=sys.stderr, flush=True)
