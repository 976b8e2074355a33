"""Two servers on one Redis: any of them serves any run; and Redis away while trainers go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from fade_client import FadeClient, RunConfig
from fade_service import FadeServer

CONFIG = RunConfig(ema_weight=0.25, entropy_warmup=2)

TRAINERS = 8
AWAY_SECONDS = 30.0
TIMEOUT_SECONDS = 2.0


def report(trainer: int, number: int) -> dict[str, Any]:
    """The report of a trainer's batch, different for each."""
    return {
        "observation_id": f"batch-{number}",
        "rewards": [float((number * 7 + row * row + trainer) % 3 == 0) for row in range(12)],
        "groups": [row % 3 for row in range(12)],
        "entropy": (11.0 / (number + 3), 7),
        "trainer_step": number,
    }


@pytest.fixture
def replicas(own_redis: Any) -> Iterator[list[FadeServer]]:
    """Two servers on this test's own Redis."""
    servers = [FadeServer(own_redis.url, grpc_port=0, http_port=0).start() for _ in range(2)]
    yield servers
    for server in servers:
        server.stop()


def test_calls_of_a_run_may_go_to_any_replica(replicas: list[FadeServer], connect: Any) -> None:
    one, two = (connect("run", at=f"127.0.0.1:{server.grpc_port}") for server in replicas)
    one.create(ema_weight=0.25)
    for number in range(20):
        caller, reader = (one, two) if number % 3 else (two, one)
        answer = caller.observe(f"batch-{number}", [1.0, 0.0, float(number % 2)], [0, 0, 0])
        assert answer.revision == number + 1
        again, replayed = reader.send(reader.report(f"batch-{number}", [1.0, 0.0, float(number % 2)], [0, 0, 0]))
        assert replayed and again == answer
        assert reader.schedule() == caller.schedule()
    assert one.everything() == two.everything()


def test_one_report_sent_to_all_replicas_at_once_counts_once(replicas: list[FadeServer], connect: Any) -> None:
    callers = [connect("run", at=f"127.0.0.1:{server.grpc_port}") for server in replicas for _ in range(4)]
    callers[0].create()
    with ThreadPoolExecutor(8) as threads:
        for number in range(20):
            answers = list(threads.map(lambda caller, n=number: caller.observe(f"batch-{n}", [1.0, 0.0], [0, 0]), callers))
            assert all(answer == answers[0] for answer in answers)
    assert [item.revision for item in callers[0].history()] == list(range(1, 21))


def test_a_server_that_starts_before_redis_is_ready_when_redis_answers(own_redis: Any, connect: Any, refused: Any) -> None:
    own_redis.kill()
    with FadeServer(own_redis.url, grpc_port=0, http_port=0) as server:
        ready = f"http://127.0.0.1:{server.http_port}/readyz"
        assert httpx.get(ready).status_code == 503
        client = connect(at=f"127.0.0.1:{server.grpc_port}")
        refusal = refused(client.create)
        assert (refusal.code, refusal.reason, refusal.has_retry) == ("UNAVAILABLE", "STORE_UNAVAILABLE", True)
        own_redis.start()
        deadline = time.monotonic() + 20
        while httpx.get(ready).status_code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        client.create()
        assert client.observe("batch-0", [1.0, 0.0], [0, 0]).revision == 1


@pytest.mark.heavy
@pytest.mark.timeout(300)
def test_redis_away_for_half_a_minute_holds_up_no_trainer_and_every_history_ends_complete(
    own_redis: Any, replicas: list[FadeServer], connect: Callable[..., Any]
) -> None:
    own_redis.client.ping()
    start = time.monotonic()

    def train(trainer: int) -> tuple[list[str], float, str, str]:
        address = f"127.0.0.1:{replicas[trainer % 2].grpc_port}"
        sources, longest, number = [], 0.0, 0
        twin = FadeClient.local(CONFIG)
        with FadeClient(address, run=f"run-{trainer}", project="test", config=CONFIG, timeout_seconds=TIMEOUT_SECONDS) as client:
            while time.monotonic() < start + 3 + AWAY_SECONDS + 10 or sources[-1] != "SERVER":
                begin = time.monotonic()
                schedule = client.observe(**report(trainer, number))
                longest = max(longest, time.monotonic() - begin)
                sources.append(schedule.source)
                assert (schedule.alpha, schedule.delta) == (
                    (expected := twin.observe(**report(trainer, number))).alpha,
                    expected.delta,
                )
                number += 1
                time.sleep(0.1)
            assert client.flush(20)
            return sources, longest, client.state_dict()["state_digest"], twin.state_dict()["state_digest"]

    with ThreadPoolExecutor(TRAINERS) as threads:
        trainers = [threads.submit(train, trainer) for trainer in range(TRAINERS)]
        time.sleep(3)
        own_redis.kill()
        time.sleep(AWAY_SECONDS)
        own_redis.start()
        results = [trainer.result() for trainer in trainers]
    for trainer, (sources, longest, digest, expected) in enumerate(results):
        assert set(sources) == {"SERVER", "LOCAL"} and sources[0] == sources[-1] == "SERVER"
        assert longest < TIMEOUT_SECONDS + 0.5, "no call outlasts its deadline"
        assert digest == expected
        for server in replicas:
            told = connect(f"run-{trainer}", at=f"127.0.0.1:{server.grpc_port}")
            assert [item.observation_id for item in told.history()] == [f"batch-{number}" for number in range(len(sources))]
            assert told.schedule().state_digest == expected
