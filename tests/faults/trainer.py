"""One run of a trainer with :class:`FadeClient`: it goes on without the service, sends its reports later, and resumes once."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import numpy as np
from tests.faults.caller import Caller, StuckError
from tests.faults.checker import Finding
from tests.faults.clients import evidence_of

from fade_client import FadeClient, RunConfig
from fade_core import EMPTY_STATE, Batch, ControllerState, Entropy, observe

BATCHES = 20

PATIENCE_SECONDS = 240.0
"""Longest time that reports may wait. A client tries about once in a second, so it meets a service that is up less often than a
stub that never stops asking."""

_CONFIG = RunConfig(ema_weight=0.2)
_GROUPS = np.repeat(np.arange(3), 4)


class Trainer:
    """The trainer of one run.

    Args:
        caller: The way to the servers, to read what they show in the end.
        address: Of the servers, as gRPC takes it.
        seed: Decides its batches and when it resumes.
        run_id: The run.
    """

    def __init__(self, caller: Caller, address: str, seed: str, run_id: str) -> None:
        self._caller = caller
        self._address = address
        self._run_id = run_id
        self._draws = random.Random(f"{seed}/{run_id}")
        self.name = f"projects/faults/runs/{run_id}"
        self._batches: list[Batch] = []
        self._ids: list[str] = []
        self._schedules: list[tuple[float, float]] = []
        self._gaps = 0

    def play(self) -> list[Finding]:
        """Trains, dies, resumes from its checkpoint, trains on; then what is wrong with the run."""
        kept = self._draws.randrange(BATCHES)
        with self._client("writer-1") as client:
            self._train(client, kept)
            checkpoint, told, gaps = json.dumps(client.state_dict()), len(self._ids), self._gaps
            self._train(client, self._draws.randrange(5))  # this goes with it, told to the service or not
        for kind in (self._batches, self._ids, self._schedules):
            del kind[told:]
        self._gaps = gaps
        with self._client("writer-2") as client:
            client.load_state_dict(json.loads(checkpoint))
            self._train(client, BATCHES - kept)
            deadline = time.monotonic() + PATIENCE_SECONDS
            while not client.flush(5.0) or client.state_dict()["state"] is None:
                self._check_wanted()
                if time.monotonic() > deadline:
                    return [Finding("lost", f"{self.name}: {len(client.state_dict()['unsent'])} reports wait for ever")]
                if client.state_dict()["state"] is None:  # nobody ever answered, so nothing waits: only another batch tries again
                    self._train(client, 1)
            return self._check(client.state_dict())

    def _check_wanted(self) -> None:
        if self._caller.closed:
            raise StuckError("the trainer was given up")

    def _client(self, writer: str) -> FadeClient:
        return FadeClient(
            self._address, run=self._run_id, project="faults", config=_CONFIG, writer=writer, timeout_seconds=0.5,
            on_rejected="raise",
        )  # fmt: skip

    def _train(self, client: FadeClient, batches: int) -> None:
        for _ in range(batches):
            self._check_wanted()
            rewards = np.array([float(self._draws.random() < 0.4) for _ in _GROUPS])
            entropy = (self._draws.random() * 100, 100)
            observation_id = f"batch-{self._draws.getrandbits(64):x}"
            schedule = client.observe(observation_id, rewards=rewards, groups=_GROUPS, entropy=entropy)
            if schedule.source == "NEUTRAL":  # nobody has ever answered: a gap, which the service is told of
                self._gaps += 1
            else:
                batch = Batch(
                    rewards=rewards,
                    group_index=_GROUPS,
                    environments=("default",) * 3,
                    entropy=Entropy(sum_nats=entropy[0], token_count=100),
                )
                self._batches.append(batch)
                self._ids.append(observation_id)
                self._schedules.append((schedule.alpha, schedule.delta))
            time.sleep(self._draws.uniform(0, 0.1))

    def _check(self, state: dict[str, Any]) -> list[Finding]:
        """The run must be as if nothing had happened since the checkpoint."""
        evidence = evidence_of(self._caller, self.name)
        line = evidence.lines[evidence.run.branch]
        findings = [*_differences([entry.observation_id for entry in line], self._ids)]
        if sum(entry.lost_reports for entry in line) + state["lost_reports"] != self._gaps:
            findings.append(Finding("broken", f"{self._gaps} batches were trained on without a report, and others are told"))
        end, expected = self._folded()
        if self._schedules != expected:
            findings.append(Finding("broken", "a schedule that was trained on is not the model's"))
        if evidence.heads[evidence.run.branch].state_digest != end.digest() or state["state_digest"] != end.digest():
            findings.append(Finding("broken", "the end state is not the model's"))
        return [Finding(kind, f"{self.name}: {seen}") for kind, seen in findings]

    def _folded(self) -> tuple[ControllerState, list[tuple[float, float]]]:
        state, schedules = EMPTY_STATE, []
        for batch in self._batches:
            state, answer = observe(_CONFIG, state, batch)
            schedule = answer.environments["default"].schedule
            schedules.append((schedule.alpha, schedule.delta))
        return state, schedules


def _differences(shown: list[str], told: list[str]) -> list[Finding]:
    lost = [Finding("lost", item) for item in told if item not in shown]
    doubled = [Finding("doubled", item) for item in set(shown) if shown.count(item) > 1]
    if not lost and not doubled and shown != told:
        return [Finding("broken", f"the line is {shown}, not {told}")]
    return lost + doubled
