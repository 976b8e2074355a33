"""What the dashboard asks for, over real HTTP."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from tests.service.conftest import Client
from tests.service.test_simulate import reported

from fade_core import RunConfig, decompose
from fade_proto.v1 import run_pb2
from fade_proto.v1.scheduler_pb2 import RestoreRunRequest
from fade_service import FadeServer

PAGE = {"x-fade-request": "dashboard"}


@pytest.fixture
def http(server: FadeServer) -> Iterator[httpx.Client]:
    """The dashboard's side."""
    with httpx.Client(base_url=server.http_url, timeout=30, headers=PAGE) as client:
        yield client


@pytest.fixture
def run(connect: Callable[..., Client]) -> Client:
    """A run with 20 observations."""
    client = connect()
    client.create()
    reported(client, 20)
    return client


def path(client: Client, what: str) -> str:
    """Of a run's resource."""
    return f"/api/v1/runs/test/{client.run}/{what}"


@contextmanager
def listening(http: httpx.Client, **query: Any) -> Iterator[Callable[[str], Any]]:
    """Reads the events; calling it waits for the next of that name and gives its data."""
    with http.stream("GET", "/api/v1/events", params=query) as stream:
        lines = stream.iter_lines()

        def event(name: str) -> Any:
            seen = ""
            for line in lines:
                if line.startswith("event: "):
                    seen = line.removeprefix("event: ")
                elif line.startswith("data: ") and seen == name:
                    return json.loads(line.removeprefix("data: "))
            raise AssertionError(f"the stream ended without an event {name}")

        yield event


def test_a_series_has_what_was_observed(http: httpx.Client, run: Client) -> None:
    told = http.get(path(run, "series")).json()
    history = run.history()
    columns = told["environments"]["default"]
    assert (told["branch"], told["first_revision"], told["last_revision"], told["stretch"]) == ("main", 1, 20, 1)
    assert columns["revision"] == list(range(1, 21))
    for name, value in {
        "alpha": lambda item: item.schedule.alpha,
        "step_solve_rate": lambda item: item.diagnostics.solve_rate,
        "entropy_nats": lambda item: item.state.entropy_nats,
        "difficulty_centre": lambda item: item.diagnostics.difficulty_centre,
        "mixed_groups": lambda item: item.diagnostics.mixed_group_count,
    }.items():
        assert columns[name] == [value(entry.schedules[0]) for entry in history]
    newest = told["newest"]
    assert (newest["revision"], newest["observation_id"]) == (20, "b19")
    assert newest["environments"]["default"]["alpha"] == history[-1].schedules[0].schedule.alpha


def test_a_long_series_is_averaged_over_stretches_that_stay_where_they_are(http: httpx.Client, run: Client) -> None:
    whole = http.get(path(run, "series")).json()["environments"]["default"]
    told = http.get(path(run, "series"), params={"points": 5}).json()
    short = told["environments"]["default"]
    assert told["stretch"] == 4 and short["revision"] == [3, 7, 11, 15, 19, 20]
    assert short["step_solve_rate"][1] == pytest.approx(math.fsum(whole["step_solve_rate"][3:7]) / 4)
    zoomed = http.get(path(run, "series"), params={"points": 5, "first": 8, "last": 12}).json()
    assert zoomed["environments"]["default"]["revision"] == [8, 9, 10, 11, 12]


def test_warnings_stand_where_they_began_and_changes_where_they_came(http: httpx.Client, run: Client) -> None:
    http.patch(f"/api/v1/runs/test/{run.run}", json={"config": {"delta_rule": "fixed", "delta": 0.1}, "reason": "try"})
    reported(run, 3, first=20)
    marks = http.get(path(run, "series")).json()["marks"]
    assert [(mark["revision"], mark["kind"], mark["reason"]) for mark in marks] == [
        (20, "config", "try"),
        (21, "warning", "SIGN_IMBALANCE"),
    ]
    assert marks[0]["text"] == "delta_rule additive -> fixed, delta 1.0 -> 0.1"


def test_what_is_observed_is_told_to_who_watches(http: httpx.Client, run: Client) -> None:
    with listening(http, project="test", run=run.run, after=18) as event:
        assert event("observations")["environments"]["default"]["revision"] == [19, 20]
        run.observe("new", [1, 0], [0, 0], 0.5)
        told = event("observations")
        assert told["environments"]["default"]["revision"] == [21] and told["newest"]["observation_id"] == "new"
        http.patch(f"/api/v1/runs/test/{run.run}", json={"config": {"mode": "shadow"}})
        assert event("run")["config"]["mode"] == "MODE_SHADOW"
        run.stub.RestoreRun(
            RestoreRunRequest(name=run.name, writer="second", branch_id="b", point=run_pb2.HistoryPoint(revision=6)), timeout=10
        )
        assert event("run")["branch"] == "b"
        event("resync")


def test_who_watches_all_runs_is_told_which_change(http: httpx.Client, run: Client) -> None:
    with listening(http, project="test") as event:
        threading.Timer(1.5, run.observe, ("new", [1, 0], [0, 0])).start()
        told = event("overview")
        assert told["changed"] == [f"test/{run.run}"] and told["total"] >= 1


def test_the_overview_lists_the_newest_report_first(http: httpx.Client, connect: Callable[..., Client]) -> None:
    older, newer = connect(), connect()
    for client in (older, newer):
        client.create()
        reported(client, 3)
    for _ in range(40):  # runs are listed at most once a second
        told = http.get("/api/v1/overview", params={"project": "test", "page_size": 2}).json()
        if [item["run"] for item in told["runs"]] == [newer.run, older.run]:
            break
        threading.Event().wait(0.1)
    first = told["runs"][0]
    history = newer.history()
    assert (first["run"], first["revision"], first["state"], first["mode"]) == (newer.run, 3, "active", "active")
    assert first["sparkline"] == [entry.schedules[0].state.solve_rate for entry in history]
    assert first["environments"][0]["alpha"] == history[-1].schedules[0].schedule.alpha
    found = http.get("/api/v1/overview", params={"project": "test", "query": older.run}).json()
    assert older.run in {item["run"] for item in found["runs"]}
    assert http.get("/api/v1/overview", params={"project": "nobody"}).json()["total"] == 0


def test_knobs_are_changed_by_name_with_a_reason(http: httpx.Client, run: Client) -> None:
    address = f"/api/v1/runs/test/{run.run}"
    etag = run.get().etag
    dry = http.patch(address, json={"config": {"alpha_max": 4}, "validate_only": True})
    assert dry.json()["config"]["alpha_max"] == 4 and run.get().config.alpha_max == 3
    wanted = {"config": {"mode": "pinned", "pinned_alpha": 2, "target_entropy_nats": None}, "reason": "look", "etag": etag}
    assert http.patch(address, json=wanted).json()["config_revision"] == "2"
    assert (run.get().config.mode, run.get().config.pinned_alpha) == (run_pb2.RunConfig(mode="MODE_PINNED").mode, 2)
    again = http.patch(address, json=wanted)
    assert (again.status_code, again.json()["error"]["reason"]) == (409, "ETAG_MISMATCH")
    changes = http.get(path(run, "config_changes")).json()["changes"]
    assert [change["reason"] for change in changes] == ["", "look"] and changes[1]["config"]["mode"] == "pinned"


def test_values_are_taken_as_a_run_shows_them(http: httpx.Client, run: Client) -> None:
    address = f"/api/v1/runs/test/{run.run}"
    shown = http.patch(address, json={"config": {"entropy_warmup": 3, "mode": "shadow"}}).json()["config"]
    assert (shown["entropy_warmup"], shown["mode"]) == ("3", "MODE_SHADOW")
    http.patch(address, json={"config": {"entropy_warmup": 1, "mode": "active"}})
    wanted = {name: shown[name] for name in ("entropy_warmup", "mode", "alpha_max", "delta_rule")}
    assert http.patch(address, json={"config": wanted}).json()["config"] == shown


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({"alpha_maximum": 4}, "config.alpha_maximum"),
        ({"alpha_max": "many"}, "config.alpha_max"),
        ({"alpha_max": True}, "config.alpha_max"),
        ({"mode": "MODE_UNSPECIFIED"}, "config.mode"),
        ({"mode": 2}, "config.mode"),
        ({"mode": ["pinned"]}, "config.mode"),
        ({"entropy_warmup": "1.5"}, "config.entropy_warmup"),
        ({"entropy_warmup": 1.5}, "config.entropy_warmup"),
        ({"alpha_max": 0.2}, "run.config.alpha_max"),
    ],
)
def test_a_wrong_value_is_refused_by_name_and_changes_nothing(
    http: httpx.Client, run: Client, config: dict[str, Any], field: str
) -> None:
    before = run.everything()
    answer = http.patch(f"/api/v1/runs/test/{run.run}", json={"config": config})
    assert (answer.status_code, answer.json()["error"]["metadata"]["field"]) == (400, field)
    assert run.everything() == before


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 403), (PAGE, 200), (PAGE | {"host": "evil.example"}, 403), (PAGE | {"host": "localhost:1"}, 200)],
)
def test_only_the_servers_own_page_on_its_own_machine_changes_a_run(
    server: FadeServer, run: Client, headers: dict[str, str], status: int
) -> None:
    with httpx.Client(base_url=server.http_url) as http:
        answer = http.patch(f"/api/v1/runs/test/{run.run}", json={"config": {"alpha_max": 4}}, headers=headers)
    assert answer.status_code == status and (status == 200 or answer.json()["error"]["reason"] == "CROSS_SITE")


def test_a_simulation_over_http_is_that_over_grpc(http: httpx.Client, run: Client) -> None:
    wanted = {"settings": [{"label": "own", "config": {}}, {"label": "x", "config": {"target_entropy_nats": 1.1}}]}
    told = http.post(path(run, "simulate"), json=wanted).json()
    own, other = told["simulations"]
    assert own["environments"] == told["recorded"] and own["label"] == "own" and "recorded" in told["note"]
    assert other["environments"]["default"]["delta"] != own["environments"]["default"]["delta"]
    refused = http.post(path(run, "simulate"), json={"settings": [{"config": {"reward_min": 0}}]})
    assert refused.status_code == 400


def test_the_table_of_fields_is_that_of_the_configuration(http: httpx.Client) -> None:
    told = {item["name"]: item for item in http.get("/api/v1/config_fields").json()}
    assert {name: item["default"] for name, item in told.items()} == RunConfig().to_dict()
    assert told["mode"]["choices"] == ["active", "shadow", "pinned"] and told["target_entropy_nats"]["nullable"]


def test_decomposition_over_http_is_that_of_the_maths(http: httpx.Client) -> None:
    told = http.get("/api/v1/decompose", params={"advantage": ["fade:alpha=2,delta=0.5", "grpo_mean"], "group_size": 4}).json()
    ours = decompose("fade", 4, {"alpha": 2, "delta": 0.5})
    assert told["advantages"][0]["mass_success"] == ours.mass_success.tolist()
    assert (told["advantages"][0]["sign_ratio"], told["advantages"][1]["name"]) == (ours.sign_ratio, "grpo_mean")
    measured = http.post(
        "/api/v1/decompose", json={"group": [1, 1, 2, 2], "outcome": [1, 0, 1, None], "advantage": [0.5, -0.5, 0, 0]}
    )
    assert measured.json()["nearest"][0]["distance"] == 0 and measured.json()["missing_count"] == 1
    for wrong in ("nothing", "fade:alpha=x", "fade:beta=1", "power:alpha=0"):
        assert http.get("/api/v1/decompose", params={"advantage": wrong}).status_code == 400


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/api/v1/runs?page_size=-1", "query.page_size"),
        ("/api/v1/overview?state=half", "query.state"),
        ("/api/v1/decompose?group_size=8", "query.advantage"),
    ],
)
def test_a_parameter_of_the_wrong_kind_is_refused_like_everything_else(http: httpx.Client, path: str, field: str) -> None:
    answer = http.get(path)
    told = answer.json()["error"]
    assert (answer.status_code, told["reason"], told["metadata"]["field"]) == (422, "INVALID_FIELD", field)
    assert told["message"].startswith(field)
