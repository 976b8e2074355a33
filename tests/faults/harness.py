"""One whole run: processes, clients and faults together, and what came of it."""

from __future__ import annotations

import hashlib
import itertools
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.faults.backends import BACKENDS
from tests.faults.caller import Caller, StuckError
from tests.faults.checker import Finding, check
from tests.faults.clients import Job, UnexpectedError, evidence_of
from tests.faults.history import Evidence
from tests.faults.injector import Injector
from tests.faults.processes import Server
from tests.faults.proxy import Network
from tests.faults.trainer import Trainer

SERVERS = ("a", "b")

JOBS = 5
"""Runs that are played by the stub at once; one more is a trainer's."""


@dataclass(slots=True)
class Result:
    """What came of a run: counts, and everything that was found wrong."""

    faults: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)
    logs: dict[str, list[str]] = field(default_factory=dict)
    seconds: float = 0.0

    def summary(self) -> str:
        """One line."""
        found = Counter(finding.kind for finding in self.findings)
        told = {
            "faults": self.faults.total(),
            **{name: self.counts[name] for name in ("runs", "observations", "acknowledged", "replays", "resent", "restores")},
            "seconds": round(self.seconds),
            **{name: found[name] for name in ("lost", "doubled", "broken")},
        }
        return ", ".join(f"{name} {number}" for name, number in told.items())

    def report(self) -> str:
        """Everything that there is to tell."""
        parts = [f"  {name:<24} {count}" for name, count in sorted(self.faults.items())]
        if self.findings:
            for name, lines in self.logs.items():
                parts += [f"the end of the log of server {name}:", *(f"  {line}" for line in lines[-40:])]
            parts += ["found:", *(f"  {kind}: {seen}" for kind, seen in self.findings[:40])]
        return "\n".join([*parts, self.summary()])


def run(store: str, seed: str, faults: int, seconds: float) -> Result:
    """Plays runs against two servers on one store under faults, and checks each run when it ends, and at the end again.

    Args:
        store: A key of :data:`BACKENDS`.
        seed: Decides what is done and what goes wrong; not how threads and processes meet.
        faults: So many.
        seconds: But no longer than this.
    """
    result = Result()
    started = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fade-faults-")))
        network = Network()
        stack.callback(network.close)
        backend = BACKENDS[store](folder)
        stack.callback(lambda: result.findings.extend(Finding("broken", text) for text in backend.end()))
        to_store = [network.link(f"{name} to store") for name in SERVERS]
        to_server = [network.link(f"clients to {name}") for name in SERVERS]

        def died(failpoint: str) -> None:
            result.faults[f"killed at {failpoint}"] += 1

        servers = []
        for name, behind, front in zip(SERVERS, to_store, to_server, strict=True):
            server = Server(name, seed, backend.url(behind), front, died)
            stack.callback(server.end)
            servers.append(server)
        for server in servers:
            server.wait_serving()
        addresses = [f"127.0.0.1:{link.port}" for link in to_server]
        caller = Caller(addresses)
        players = _Players(caller, addresses, seed, result)
        stack.callback(players.stop)
        stack.callback(caller.close)  # first, so that nobody waits for an answer any more
        links = to_server if store == "sqlite" else [*to_server, *to_store]
        injector = Injector(seed, servers, links, backend)
        players.start()
        injector.run(result.faults, faults, started + seconds, players.failed)
        players.stop()
        for server in servers:
            server.die()
        for server in servers:
            server.wait_serving()
        result.findings += players.changed_since()
        result.logs = {server.name: list(server.log) for server in servers}
        result.counts["server exits"] = sum(server.exits.total() for server in servers)
    result.seconds = time.monotonic() - started
    return result


class _Players:
    """The threads that play runs, one after the other, until they are stopped."""

    def __init__(self, caller: Caller, addresses: list[str], seed: str, result: Result) -> None:
        self.failed = threading.Event()
        self._caller = caller
        self._addresses = addresses
        self._seed = seed
        self._result = result
        self._stopped = threading.Event()
        self._lock = threading.Lock()
        self._fingerprints: dict[str, str] = {}
        plays: list[Callable[[str], None]] = [*[self._play_job] * JOBS, self._play_trainer]
        self._threads = [
            threading.Thread(target=self._play_all, args=(play, number), name=f"player-{number}")
            for number, play in enumerate(plays)
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Lets each play its run to the end."""
        self._stopped.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def changed_since(self) -> Iterator[Finding]:
        """The runs that are shown otherwise now than when they had ended."""
        for name, fingerprint in self._fingerprints.items():
            if _fingerprint(evidence_of(self._caller, name)) != fingerprint:
                yield Finding("lost", f"{name} has another history than when it had ended")

    def _play_all(self, play: Callable[[str], None], number: int) -> None:
        for serial in itertools.count():
            if self._stopped.is_set():
                return
            run_id = f"run-{number}-{serial}"
            try:
                play(run_id)
            except (UnexpectedError, StuckError) as error:
                self._found([Finding("broken", f"{run_id}: {error}")])
            except Exception:
                self._found([Finding("broken", f"{run_id}: {traceback.format_exc()}")])

    def _play_job(self, run_id: str) -> None:
        job = Job(self._caller, self._seed, run_id)
        job.play()
        evidence = evidence_of(self._caller, job.history.name)
        self._found([Finding(kind, f"{run_id}: {seen}") for kind, seen in check(job.history, evidence)])
        self._ended(evidence)
        answered = [call for call in job.history.observes if call.response is not None]
        with self._lock:
            self._result.counts["acknowledged"] += len(answered)
            self._result.counts["replays"] += sum(call.replayed for call in answered)
            self._result.counts["resent"] += sum(call.attempts - 1 for call in job.history.observes)
            self._result.counts["restores"] += len(job.history.restores)

    def _play_trainer(self, run_id: str) -> None:
        trainer = Trainer(self._caller, f"ipv4:{','.join(self._addresses)}", self._seed, run_id)
        self._found(trainer.play())
        self._ended(evidence_of(self._caller, trainer.name))

    def _ended(self, evidence: Evidence) -> None:
        entries = {(entry.branch, entry.revision) for line in evidence.lines.values() for entry in line}
        with self._lock:
            self._fingerprints[evidence.run.name] = _fingerprint(evidence)
            self._result.counts["runs"] += 1
            self._result.counts["observations"] += len(entries)

    def _found(self, findings: list[Finding]) -> None:
        if findings:
            with self._lock:
                self._result.findings += findings
            self.failed.set()


def _fingerprint(evidence: Evidence) -> str:
    digest = hashlib.sha256(evidence.run.SerializeToString(deterministic=True))
    for branch in sorted(evidence.lines):
        for entry in evidence.lines[branch]:
            digest.update(entry.SerializeToString(deterministic=True))
        digest.update(evidence.heads[branch].SerializeToString(deterministic=True))
    return digest.hexdigest()
