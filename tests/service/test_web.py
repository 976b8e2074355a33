"""HTTP: health, metrics, and the read API against what gRPC answers."""

from __future__ import annotations

import math
import re
from typing import Any

import grpc
import httpx
import pytest
from fastapi.openapi.models import OpenAPI
from google.protobuf.json_format import ParseDict
from prometheus_client.parser import text_string_to_metric_families

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import GetScheduleResponse, ListObservationsResponse, ListRunsResponse
from fade_service import FadeServer

ROWS = ([1.0, 0.0], [0, 0])


@pytest.fixture
def http(server: FadeServer) -> Any:
    """A client of the server's HTTP side."""
    with httpx.Client(base_url=f"http://127.0.0.1:{server.http_port}") as client:
        yield client


def test_health_and_readiness_answer(http: httpx.Client) -> None:
    assert http.get("/healthz").status_code == 200
    ready = http.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ok", "problems": {}})


def test_metrics_parse_and_count(http: httpx.Client, client: Any) -> None:
    def values() -> dict[tuple[str, ...], float]:
        text = http.get("/metrics").text
        return {
            (sample.name, *sorted(sample.labels.values())): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }

    method = ("Observe", "fade.v1.SchedulerService", "unary")
    before = values()
    client.observe("b1", *ROWS)
    client.observe("b1", *ROWS)
    with pytest.raises(grpc.RpcError, match="INVALID_ARGUMENT"):
        client.observe("b2", [7.0], [0])
    client.observe("e1", *ROWS, split=observation_pb2.SPLIT_EVAL)
    client.observe("b3", [1.0, math.nan, math.nan], [0, 0, 0])
    after = values()

    def grown(*key: str) -> float:
        return after[key] - before.get(key, 0.0)

    assert grown("grpc_server_started_total", *method) == 5
    assert grown("grpc_server_handled_total", *sorted(("OK", *method))) == 4
    assert grown("grpc_server_handled_total", *sorted(("InvalidArgument", *method))) == 1
    assert grown("grpc_server_handling_seconds_count", *method) == 5
    assert {outcome: grown("fade_observations_total", outcome) for outcome in ("applied", "replayed", "evaluated", "frozen")} == {
        "applied": 1, "replayed": 1, "evaluated": 1, "frozen": 1,
    }  # fmt: skip
    assert any(key[0] == "fade_build_info" and value == 1 for key, value in after.items())


def test_the_read_api_says_what_grpc_says(http: httpx.Client, client: Any) -> None:
    for number in range(3):
        client.observe(f"b{number}", *ROWS, 1.0, trainer_step=number)
    base = f"/api/v1/runs/test/{client.run}"
    assert ParseDict(http.get(base).json(), run_pb2.Run()) == client.get()
    schedule = ParseDict(http.get(f"{base}/schedule", params={"revision": 2}).json(), GetScheduleResponse())
    assert schedule == client.schedule(revision=2)
    page = ParseDict(http.get(f"{base}/observations", params={"page_size": 2}).json(), ListObservationsResponse())
    assert list(page.observations) == client.history()[:2]
    rest = http.get(f"{base}/observations", params={"page_size": 2, "page_token": page.next_page_token}).json()
    assert [item["observation_id"] for item in rest["observations"]] == ["b2"] and rest["next_page_token"] == ""
    runs = ParseDict(http.get("/api/v1/runs", params={"project": "test", "page_size": 1000}).json(), ListRunsResponse())
    assert client.name in [run.name for run in runs.runs]


@pytest.mark.parametrize(
    ("path", "status", "reason"),
    [
        ("/api/v1/runs/test/nowhere", 404, "RUN_NOT_FOUND"),
        ("/api/v1/runs/test/Not-A-Name", 400, "INVALID_FIELD"),
        ("/api/v1/runs?page_token=garbage", 400, "INVALID_FIELD"),
        ("/api/v1/runs?project=Not-A-Name", 400, "INVALID_FIELD"),
        ("/api/v1/runs/test/nowhere/schedule", 404, "RUN_NOT_FOUND"),
        ("/api/v1/runs/test/nowhere/observations", 404, "RUN_NOT_FOUND"),
    ],
)
def test_errors_are_json_with_the_reason(http: httpx.Client, path: str, status: int, reason: str) -> None:
    answer = http.get(path)
    assert (answer.status_code, answer.json()["error"]["reason"]) == (status, reason)


@pytest.mark.parametrize(
    "query",
    [
        "?page_size=-1",
        f"?page_size={2**31}",
        "?page_size=x",
        "/test/r/schedule?revision=-1",
        f"/test/r/schedule?revision={2**63}",
    ],
)
def test_numbers_that_the_contract_cannot_hold_are_refused_by_name(http: httpx.Client, query: str) -> None:
    answer = http.get(f"/api/v1/runs{query}")
    assert answer.status_code == 422
    assert answer.json()["error"]["metadata"]["field"] == f"query.{query.partition('?')[2].partition('=')[0]}"


@pytest.mark.parametrize("query", ["?branch=lost", "?branch=%00", "?branch=%ff", f"?branch={'x' * 5000}"])
def test_a_branch_that_is_not_there_is_not_found_whatever_its_name(http: httpx.Client, client: Any, query: str) -> None:
    answer = http.get(f"/api/v1/runs/test/{client.run}/observations{query}")
    assert (answer.status_code, answer.json()["error"]["reason"]) == (404, "BRANCH_NOT_FOUND")


def test_the_openapi_page_needs_nothing_from_elsewhere(http: httpx.Client) -> None:
    page = http.get("/docs").text
    loaded = re.findall(r'(?:src|href)="([^"]+)"', page)
    assert loaded and not [link for link in loaded if "//" in link]
    assert all(http.get(link).status_code == 200 for link in loaded)
    schema = http.get("/openapi.json").json()
    described = OpenAPI.model_validate(schema)
    assert described.openapi.startswith("3.") and set(described.paths or {}) == {
        "/healthz", "/readyz", "/metrics", "/api/v1/runs", "/api/v1/runs/{project}/{run}",
        "/api/v1/runs/{project}/{run}/schedule", "/api/v1/runs/{project}/{run}/observations",
        "/api/v1/runs/{project}/{run}/series", "/api/v1/runs/{project}/{run}/config_changes",
        "/api/v1/runs/{project}/{run}/simulate", "/api/v1/overview", "/api/v1/events", "/api/v1/config_fields",
        "/api/v1/advantages", "/api/v1/decompose", "/api/v1/session",
    }  # fmt: skip
    run = schema["paths"]["/api/v1/runs/{project}/{run}"]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert run["properties"]["revision"] == {"type": "string", "format": "int64"}
    assert set(run["properties"]) == {field.name for field in run_pb2.Run.DESCRIPTOR.fields}
