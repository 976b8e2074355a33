"""What goes wrong, one fault after the other, each undone before the next; servers that died come back by themselves."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Sequence

from tests.faults import generator
from tests.faults.backends import Backend
from tests.faults.processes import Server
from tests.faults.proxy import Link


class Injector:
    """Injects faults until enough have happened; deaths at failpoints count too.

    Args:
        seed: Which fault comes when, and how long it lasts.
        servers, links, backend: What they happen to.
    """

    def __init__(self, seed: str, servers: Sequence[Server], links: Sequence[Link], backend: Backend) -> None:
        self._draws = random.Random(f"{seed}/faults")
        self._servers = servers
        self._links = links
        self._of_store = backend.faults()

    def run(self, done: Counter[str], enough: int, until: float, stopped: threading.Event) -> None:
        """Counts faults in ``done`` by name until there are enough, or the monotonic clock passes ``until``."""
        while done.total() < enough and time.monotonic() < until and not stopped.is_set():
            fault = generator.fault(self._draws, list(self._of_store))
            if self._inject(fault):
                done[fault.kind] += 1
            time.sleep(fault.peace_seconds)

    def _inject(self, fault: generator.Fault) -> bool:
        """Whether there was anything that it could happen to."""
        server = self._servers[int(fault.victim * len(self._servers))]
        link = self._links[int(fault.victim * len(self._links))]
        if fault.kind in self._of_store:
            self._of_store[fault.kind](fault.seconds, server)
            return True
        if fault.kind.startswith("server") or fault.kind.startswith("clock"):
            return _to_server(fault, server)
        try:
            if fault.kind == "network cut":
                link.cut()
            elif fault.kind == "network slowed":
                link.slow(fault.seconds / 10)
            else:
                link.mute(replies=fault.kind == "replies muted")
            time.sleep(fault.seconds)
        finally:
            link.heal()
        return True


def _to_server(fault: generator.Fault, server: Server) -> bool:
    if fault.kind == "server killed":
        return server.signal(signal.SIGKILL)
    if fault.kind == "server drained":
        return server.signal(signal.SIGTERM)
    if fault.kind == "clock jumped":
        return server.signal(signal.SIGUSR1)
    if not server.signal(signal.SIGSTOP):
        return False
    try:
        time.sleep(fault.seconds)
    finally:
        server.signal(signal.SIGCONT)
    return True
