"""Trainers that report through a load balancer while servers behind it come and go."""

from __future__ import annotations

import statistics
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from fade_client import FadeClient, RunConfig

TRAINERS = 8
PAUSE_SECONDS = 0.05
TIMEOUT_SECONDS = 10.0
"""Longer than a busy machine or its disk pauses; what is looked for are refusals."""

CONFIG = RunConfig(ema_weight=0.25, entropy_warmup=2)


@dataclass(frozen=True)
class Outcome:
    """What one trainer saw: where each schedule came from, how long each took, and the state in the end beside the one that an
    undisturbed controller comes to."""

    sources: list[str]
    seconds: list[float]
    digest: str
    expected: str


class Trainers:
    """Eight of them, each with a run of its own; a report that fails in spite of the client's retries ends one with its error."""

    def __init__(self, address: str, token: str) -> None:
        self._over = threading.Event()
        self._pool = ThreadPoolExecutor(TRAINERS)
        self._trainers: list[Future[Outcome]] = [
            self._pool.submit(self._train, address, token, f"rolling-{time.time_ns()}-{number}") for number in range(TRAINERS)
        ]

    def stop(self) -> list[Outcome]:
        """Lets them finish their present report."""
        self._over.set()
        outcomes = [trainer.result() for trainer in self._trainers]
        self._pool.shutdown()
        return outcomes

    def _train(self, address: str, token: str, run: str) -> Outcome:
        sources: list[str] = []
        seconds: list[float] = []
        twin = FadeClient.local(CONFIG)
        with FadeClient(
            address, run=run, config=CONFIG, token=token, timeout_seconds=TIMEOUT_SECONDS, on_unavailable="raise"
        ) as client:
            while not self._over.wait(PAUSE_SECONDS):
                report = _report(len(sources))
                begin = time.monotonic()
                schedule = client.observe(**report)
                seconds.append(time.monotonic() - begin)
                sources.append(schedule.source)
                twin.observe(**report)
            return Outcome(sources, seconds, client.state_dict()["state_digest"], twin.state_dict()["state_digest"])


def summary(outcomes: list[Outcome]) -> str:
    """One line: reports, and how long they took."""
    seconds = [item for outcome in outcomes for item in outcome.seconds]
    cuts = statistics.quantiles(seconds, n=1000)
    return (
        f"{len(seconds)} reports of {len(outcomes)} trainers: p50 {1e3 * cuts[499]:.1f} ms, p99 {1e3 * cuts[989]:.1f} ms, "
        f"p99.9 {1e3 * cuts[998]:.1f} ms, longest {1e3 * max(seconds):.1f} ms"
    )


def _report(number: int) -> dict[str, Any]:
    return {
        "observation_id": f"batch-{number}",
        "rewards": [float((number * 7 + row * row) % 3 == 0) for row in range(128)],
        "groups": [row // 8 for row in range(128)],
        "entropy": (110.0 / (number + 3), 70),
        "trainer_step": number,
    }
