"""The language-neutral vectors of tests/vectors, played with FadeClient against a server that can be stopped and started."""

from __future__ import annotations

import copy
import json
import math
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from fade_client import Entropy, FadeClient, RejectedError, RowStatus, RunConfig, Schedule, UnavailableError
from fade_proto import convert
from fade_proto.v1 import run_pb2, scheduler_pb2
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub
from fade_service import FadeServer

VECTORS = Path(__file__).parents[1] / "vectors"
SCENARIOS = {item["name"]: item for file in sorted(VECTORS.glob("*.json")) for item in json.loads(file.read_text())}

Step = dict[str, Any]


class Server:
    """One server at a time, always on the same port and file."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self._store = f"sqlite:///{folder / 'fade.db'}"
        self._running: FadeServer | None = None

    def start(self) -> None:
        """Serves, if it does not."""
        if self._running is None:
            self._running = FadeServer(store=self._store, grpc_port=self.port, http_port=0).start()

    def stop(self) -> None:
        """Ends, if it runs."""
        if self._running is not None:
            self._running.stop()
            self._running = None


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = Server(tmp_path_factory.mktemp("vectors"))
    yield running
    running.stop()


@pytest.fixture
def play(server: Server) -> Iterator[Callable[[Step], None]]:
    """Plays one scenario, on a server that runs."""
    server.start()
    players: list[Player] = []

    def run(scenario: Step) -> None:
        players.append(Player(server, scenario))
        for number, step in enumerate(scenario["steps"]):
            players[-1].step(f"step {number}", step)

    yield run
    for player in players:
        player.close()


class Player:
    """One scenario under way."""

    def __init__(self, server: Server, scenario: Step) -> None:
        self._server = server
        self._scenario = scenario
        self._run = "v" + re.sub(r"[^a-z0-9]+", "-", scenario["name"].lower())[:60].strip("-")
        self._clients: dict[str, FadeClient] = {}
        self._channel = grpc.insecure_channel(f"127.0.0.1:{server.port}")
        self._stub = SchedulerServiceStub(self._channel)

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._channel.close()

    def step(self, place: str, step: Step) -> None:
        """Does what the step says, and compares."""
        if "stop_server" in step or "restart_server" in step:
            self._server.stop()
        if "start_server" in step or "restart_server" in step:
            self._server.start()
        if "flush" in step:
            assert self._client(step).flush(30), f"{place}: reports are still unsent"
        if "update" in step:
            self._update(step["update"])
        if "history" in step:
            same(self._history(), step["history"], f"{place}: history")
        if "state" in step:
            same(self._state(), step["state"], f"{place}: state")
        if "error" in step:
            self._refused(place, step)
        elif "observe" in step or "evaluate" in step:
            for schedule in self._observe(step):
                same(shown(schedule, step), step["expect"], place)

    def _observe(self, step: Step) -> list[Schedule]:
        arguments = arguments_of(step.get("observe") or step["evaluate"]) | {"evaluation": "evaluate" in step}
        if "callers" not in step:
            return [self._client(step).observe(**arguments)]
        clients = [self._client({"client": f"caller {number}"}, self._writer(step)) for number in range(step["callers"])]
        together = threading.Barrier(len(clients))

        def call(client: FadeClient) -> Schedule:
            together.wait()
            return client.observe(**arguments)

        with ThreadPoolExecutor(len(clients)) as pool:
            return list(pool.map(call, clients))

    def _refused(self, place: str, step: Step) -> None:
        with pytest.raises((RejectedError, UnavailableError)) as caught:
            self._observe(step)
        error = caught.value
        given = {"unavailable": True} if isinstance(error, UnavailableError) else vars(error)
        same({name: given.get(name) for name in step["error"]}, step["error"], f"{place}: {error}")

    def _writer(self, step: Step) -> str:
        return str(self._scenario.get("writer") or step.get("client", "main"))

    def _client(self, step: Step, writer: str = "") -> FadeClient:
        name = step.get("client", "main")
        if name not in self._clients:
            self._clients[name] = FadeClient(
                f"127.0.0.1:{self._server.port}",
                run=self._run,
                config=RunConfig(**self._scenario["config"]),
                writer=writer or self._writer(step),
                timeout_seconds=self._scenario.get("timeout_seconds", 20),
                on_unavailable=self._scenario.get("on_unavailable", "raise"),
                on_rejected="raise",
            )
        return self._clients[name]

    @property
    def _name(self) -> str:
        return f"projects/default/runs/{self._run}"

    def _update(self, values: Step) -> None:
        whole = convert.config_to_proto(RunConfig(**self._scenario["config"] | values))
        request = scheduler_pb2.UpdateRunRequest(run=run_pb2.Run(name=self._name, config=whole))
        request.update_mask.paths.extend(f"config.{name}" for name in values)
        self._stub.UpdateRun(request, timeout=20, wait_for_ready=True)

    def _history(self) -> list[Step]:
        request = scheduler_pb2.ListObservationsRequest(parent=self._name)
        items = self._stub.ListObservations(request, timeout=20, wait_for_ready=True).observations
        return [{"id": item.observation_id, "late": item.late.source, "lost_reports": item.lost_reports} for item in items]

    def _state(self) -> Step:
        answer = self._stub.GetSchedule(scheduler_pb2.GetScheduleRequest(name=self._name), timeout=20, wait_for_ready=True)
        environments = {
            item.environment: {
                "solve_rate": item.solve_rate,
                "entropy_nats": item.entropy_nats if item.HasField("entropy_nats") else None,
                "observation_count": item.observation_count,
            }
            for item in answer.state.environments
        }
        return {"revision": answer.revision, "environments": environments}


def arguments_of(report: Step) -> Step:
    """A report in the vectors' words as arguments of ``observe``."""
    arguments = dict(report)
    arguments["observation_id"] = arguments.pop("id")
    arguments["rewards"] = [float(value) if isinstance(value, str) else value for value in report["rewards"]]
    if "statuses" in report:
        arguments["statuses"] = [RowStatus[name] for name in report["statuses"]]
    if "entropy" in report:
        given = report["entropy"]
        one = "sum_nats" in given
        arguments["entropy"] = Entropy(**given) if one else {name: Entropy(**value) for name, value in given.items()}
    return arguments


def shown(schedule: Schedule, step: Step) -> Step:
    """Of a schedule, what the step expects something of."""
    expect = step["expect"]
    known: Step = {
        "source": schedule.source,
        "revision": schedule.revision,
        "outcome": schedule.outcome,
        "degraded": schedule.degraded,
        "warnings": [warning.reason for warning in schedule.warnings],
    }
    if "environments" in expect:
        known["environments"] = {name: environment(schedule[name], own) for name, own in expect["environments"].items()}
        assert set(schedule.parts) == set(expect["environments"])
    else:
        known |= environment(schedule, expect)
    if "advantages" in expect:
        arguments = arguments_of(step["observe"])
        columns = {name: arguments[name] for name in ("rewards", "groups", "solved", "statuses", "rollouts") if name in arguments}
        known["advantages"] = schedule.advantages(**columns).tolist()
    return {name: known[name] for name in expect}


def environment(schedule: Schedule, expect: Step) -> Step:
    """The same of one environment."""
    known: Step = {name: getattr(schedule, name) for name in ("alpha", "delta", "scale", "phase") if name in expect}
    if "metrics" in expect:
        metrics = schedule.metrics()
        known["metrics"] = {name: metrics.get(f"fade/{name}") for name in expect["metrics"]}
    return known


def same(given: Any, expected: Any, place: str) -> None:
    """Numbers to 1e-12 of themselves, zeros exactly, everything else as it is."""
    if isinstance(expected, dict):
        assert isinstance(given, dict) and given.keys() == expected.keys(), f"{place}: {given} instead of {expected}"
        for name, value in expected.items():
            same(given[name], value, f"{place}: {name}")
    elif isinstance(expected, list):
        assert isinstance(given, list) and len(given) == len(expected), f"{place}: {given} instead of {expected}"
        for number, value in enumerate(expected):
            same(given[number], value, f"{place}: {number}")
    elif isinstance(expected, float) and isinstance(given, (int, float)):
        assert math.isclose(given, expected, rel_tol=1e-12, abs_tol=0), f"{place}: {given} instead of {expected}"
    else:
        assert given == expected, f"{place}: {given} instead of {expected}"


@pytest.mark.parametrize("name", SCENARIOS)
def test_vector(name: str, play: Callable[[Step], None]) -> None:
    play(SCENARIOS[name])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        (
            "case 12: an only success and an only failure keep their signal",
            lambda s: s["steps"][0]["expect"].update(alpha=1 + 1e-9),
        ),
        ("case 21: padding is no rollout", lambda s: s["steps"][0]["expect"]["advantages"].__setitem__(7, 1e-300)),
        ("a reward above the range", lambda s: s["steps"][0]["error"].update(row=2)),
        ("another writer is fenced", lambda s: s["steps"][-1]["history"].pop()),
    ],
)
def test_a_wrong_vector_fails(name: str, wrong: Callable[[Step], None], play: Callable[[Step], None]) -> None:
    scenario = copy.deepcopy(SCENARIOS[name])
    scenario["name"] = f"wrong {name}"
    wrong(scenario)
    with pytest.raises(AssertionError, match="step"):
        play(scenario)


def test_names_are_told_apart_by_their_runs() -> None:
    slugs = {re.sub(r"[^a-z0-9]+", "-", name.lower())[:60].strip("-") for name in SCENARIOS}
    assert len(slugs) == len(SCENARIOS)


def test_making_the_vectors_again_gives_the_same_files(tmp_path: Path) -> None:
    subprocess.run([sys.executable, VECTORS / "make.py", tmp_path], check=True, timeout=60)
    made = {file.name: file.read_text() for file in tmp_path.iterdir()}
    assert made == {file.name: file.read_text() for file in VECTORS.glob("*.json")}
