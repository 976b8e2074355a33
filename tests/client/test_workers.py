"""Worker processes as trainers make them: torch's DataLoader, and workers that start afresh and unpickle what they are sent."""

from __future__ import annotations

import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest
import torch

from fade_client import FadeClient, Schedule
from fade_client.shim import shared_client


class Batches(torch.utils.data.Dataset[float]):
    """Each item asks the service for a schedule."""

    def __init__(self, client: FadeClient, batch: Callable[[int], dict[str, Any]]) -> None:
        self._client, self._batch = client, batch

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> float:
        return self._client.observe(**self._batch(index + 1)).alpha


def observe(number: int, report: dict[str, Any]) -> tuple[int, Schedule]:
    """What a worker does: the client of its own process, set up from the environment."""
    return number, shared_client().observe(**report)


@pytest.fixture
def fresh_workers(server: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ProcessPoolExecutor]:
    """Two processes that inherit nothing but the environment."""
    for name, value in (("FADE_ADDRESS", server), ("FADE_RUN", "r")):
        monkeypatch.setenv(name, value)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as workers:
        yield workers


def test_a_dataloaders_forked_workers_have_channels_of_their_own(server: str, connect: Any, batch: Any, undisturbed: Any) -> None:
    client = connect(server, timeout_seconds=5.0)
    client.observe(**batch(0))
    loader = torch.utils.data.DataLoader(Batches(client, batch), batch_size=None, num_workers=1)
    alphas = [float(alpha) for alpha in loader]
    assert alphas == [item.alpha for item in undisturbed(3)[1:]]
    again = client.observe(**batch(2))
    assert again.alpha == alphas[-1] and client.observe(**batch(3)).source == "SERVER"


def test_workers_that_start_afresh_share_nothing_and_their_schedules_travel(
    fresh_workers: ProcessPoolExecutor, batch: Any, history: Any
) -> None:
    number, schedule = fresh_workers.submit(observe, 0, batch(0)).result(timeout=60)
    assert (number, schedule.source) == (0, "SERVER")
    assert list(schedule.advantages([1.0, 0.0], ["a", "a"])) == [
        0.5 * 0.5 ** (schedule.alpha - 1),
        -0.5 * 0.5 ** (schedule.alpha - 1),
    ]
    assert history("r").ids() == ["batch-0"]


def test_a_schedule_survives_pickling(server: str, connect: Any, batch: Any) -> None:
    schedule = connect(server).observe(**batch(0))
    again = pickle.loads(pickle.dumps(schedule))
    assert (again.alpha, again.delta, again.source, again.metrics()) == (
        schedule.alpha,
        schedule.delta,
        schedule.source,
        schedule.metrics(),
    )
