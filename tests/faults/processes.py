"""A server process that comes back whenever it dies."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from pathlib import Path

from tests.faults.proxy import Link

ROOT = Path(__file__).parents[2]

START_SECONDS = 30.0
"""Longest time that a process may take to be ready, and to end."""

_SERVING = re.compile(r"serving gRPC on 127\.0\.0\.1:(\d+)")
_FAILPOINT = re.compile(r"^failpoint (\w+)")


class Server:
    """A `fade serve` behind a link, started again each time it ends. Some of its lives have failpoints.

    Args:
        name: For people.
        seed: Which lives have which failpoints, and how its clock jumps.
        store: URL of its store.
        link: The clients' way to it.
        on_failpoint: Called with the failpoint's name after each death at one.
    """

    def __init__(self, name: str, seed: str, store: str, link: Link, on_failpoint: Callable[[str], None]) -> None:
        self.name = name
        self.link = link
        self.log: deque[str] = deque(maxlen=400)
        self.exits: Counter[int] = Counter()
        self._seed = seed
        self._store = store
        self._on_failpoint = on_failpoint
        self._process: subprocess.Popen[str] | None = None
        self._serving = threading.Event()
        self._over = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name=f"keeper-{name}", daemon=True)
        self._keeper.start()

    def signal(self, number: signal.Signals) -> bool:
        """Sends a signal to the present life; False where it is not serving just now."""
        process = self._process
        if process is None or not self._serving.is_set():
            return False
        process.send_signal(number)  # does nothing where it has ended and was waited for
        return True

    @property
    def pid(self) -> int | None:
        """Of the present life while it serves."""
        process = self._process
        return process.pid if process is not None and self._serving.is_set() else None

    def wait_serving(self) -> None:
        """Waits until it serves."""
        if not self._serving.wait(START_SECONDS):
            raise TimeoutError(f"server {self.name} does not serve: {list(self.log)[-10:]}")

    def die(self) -> None:
        """kill -9 of the present life, and no return before it is over."""
        self.wait_serving()
        ended = self.exits.total()
        self.signal(signal.SIGKILL)
        until = time.monotonic() + START_SECONDS
        while self.exits.total() == ended and time.monotonic() < until:
            time.sleep(0.01)

    def end(self) -> None:
        """kill -9, and no life after this one."""
        self._over.set()
        while self._keeper.is_alive():
            process = self._process
            if process is not None:
                process.kill()
            self._keeper.join(0.05)

    def _keep(self) -> None:
        lives = 0
        while not self._over.is_set():
            draws = random.Random(f"{self._seed}/{self.name}/{lives}")
            lives += 1
            with self._started(draws) as process:
                self._process = process
                at = self._read(process)
                self._serving.clear()
                code = process.wait()
            self.exits[code] += 1
            if at is not None:
                self._on_failpoint(at)
            if code == 1:
                self._over.wait(0.1)  # its store is away

    def _started(self, draws: random.Random) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.faults.serve", str(draws.random()), "serve", "--store", self._store]
        ports = ["--grpc-port", "0", "--http-port", "0", "--drain-seconds", "1"]
        failpoints = {"FADE_FAILPOINTS": _failpoints(draws), "FADE_FAILPOINTS_SEED": str(draws.random())}
        return subprocess.Popen(
            [*command, *ports],
            stdin=subprocess.PIPE,  # at whose end it ends
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, **failpoints},
        )

    def _read(self, process: subprocess.Popen[str]) -> str | None:
        """Its log until it ends; the failpoint that it ended at."""
        assert process.stderr is not None
        at = None
        for line in process.stderr:
            self.log.append(line.rstrip())
            if serving := _SERVING.search(line):
                self.link.lead_to(int(serving[1]))
                self._serving.set()
            elif reached := _FAILPOINT.search(line):
                at = reached[1]
        return at


def _failpoints(draws: random.Random) -> str:
    """Those of one life: deaths around one commit in a hundred, and in half of the drains."""
    around = [f"{point}:kill@0.01" for point in ("before_commit", "after_commit") if draws.random() < 0.5]
    return ",".join([*around, "drain:kill@0.5"])
