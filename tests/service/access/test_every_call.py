"""Every method that gRPC serves and every route of the application, with callers that do not belong."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pytest
from google.protobuf import descriptor_pool, message_factory
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.service.access.parts import Office, Papers, Place, bearer, make_server, secret
from tests.service.conftest import Refusal

from fade_service.access import policy
from fade_service.access.policy import Access
from fade_service.health import Health
from fade_service.insight import Insight
from fade_service.metrics import Metrics
from fade_service.runs import Runs
from fade_service.store import open_store
from fade_service.web.app import make_app

OPEN_METHODS = {"/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}
OPEN_PATHS = {"/healthz", "/readyz", "/", "/static/index.html"}
OPEN_ROUTES = {("GET", path) for path in OPEN_PATHS} | {("POST", "/api/v1/session"), ("DELETE", "/api/v1/session")}
ADMIN_ROUTES = {("PATCH", "/api/v1/runs/{project}/{run}")}

SCHEDULER = "/fade.v1.SchedulerService/"
WRITING = {"CreateRun", "Observe", "RestoreRun", "CompleteRun"}
ADMINISTERING = {"UpdateRun", "DeleteRun"}
"""All others must read only."""

CREDENTIALS = {"no token": None, "an empty token": "", "a wrong token": "secret-nobody", "the hash": "0" * 64}


def served_methods() -> list[str]:
    """What a running server says that it serves, by reflection."""
    with make_server(Access()) as server, grpc.insecure_channel(f"127.0.0.1:{server.grpc_port}") as channel:
        ask = reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        (answer,) = ask(iter([request]), timeout=10, wait_for_ready=True)
        services = [item.name for item in answer.list_services_response.service]
    found = [descriptor_pool.Default().FindServiceByName(name) for name in services]
    return [f"/{service.full_name}/{method.name}" for service in found for method in service.methods]


def served_routes() -> list[tuple[str, str]]:
    """HTTP method and declared path of every route, those of included routers too."""
    app = make_app(Insight(Runs(open_store("memory://"))), Metrics(), Health("server"), Access())

    def walk(routes: list[Any]) -> Iterator[tuple[str, str]]:
        for route in routes:
            if getattr(route, "methods", None):
                yield from ((method, route.path) for method in sorted(route.methods))
            elif hasattr(route, "path"):  # files
                yield "GET", f"{route.path}/{'index.html' if route.path == '/static' else 'swagger-ui.css'}"
            else:
                yield from walk(route.routes)

    return list(walk(list(app.routes)))


METHODS = served_methods()
GUARDED = [method for method in METHODS if method not in OPEN_METHODS]
ROUTES = served_routes()
GUARDED_ROUTES = [route for route in ROUTES if route not in OPEN_ROUTES and route[1] not in OPEN_PATHS]


def request_of(method: str, project: str) -> bytes:
    """A request that names that project's run ``r``, or the project."""
    service, _, name = method[1:].partition("/")
    found = descriptor_pool.Default().FindServiceByName(service).FindMethodByName(name)
    request: Any = message_factory.GetMessageClass(found.input_type)()
    fields = {field.name for field in found.input_type.fields}
    run = f"projects/{project}/runs/r"
    if name in ("CreateRun", "ListRuns"):
        request.parent = f"projects/{project}"
    elif "parent" in fields:
        request.parent = run
    elif "name" in fields:
        request.name = run
    elif name == "UpdateRun":
        request.run.name, request.rebaseline_entropy = run, True
    elif service.startswith("fade."):
        raise AssertionError(f"say here where {method} names its project")
    return bytes(request.SerializeToString())


def call(place: Place, method: str, token: str | None, project: str = "lab", papers: Papers | None = None) -> grpc.RpcError:
    """The error of a call; fails where it is answered."""
    with place.channel(papers) as channel:
        answers = channel.stream_stream(method, bytes, bytes)(  # as streams all kinds of methods can be called
            iter([request_of(method, project)]), timeout=10, metadata=bearer(token)
        )
        with pytest.raises(grpc.RpcError) as caught:
            list(answers)
    return caught.value


def refusal_of(*arguments: Any, **more: Any) -> tuple[str, str]:
    """Code and reason."""
    refusal = Refusal(call(*arguments, **more))
    return refusal.code, refusal.reason


def bad_papers(office: Office, kind: str) -> Papers:
    """What a client shows that is not to be let in."""
    if kind == "none":
        return Papers(None, None, office.ca)
    return office.issue("trainer.lab.example", expired=kind == "expired", trusted=kind != "of a stranger")


def test_nothing_served_is_missing_here() -> None:
    assert {f"{SCHEDULER}{name}" for name in WRITING | ADMINISTERING} | OPEN_METHODS <= set(METHODS)
    assert OPEN_ROUTES | ADMIN_ROUTES <= set(ROUTES)
    assert len(GUARDED) > 11 and len(GUARDED_ROUTES) > 9


@pytest.mark.parametrize("method", GUARDED)
@pytest.mark.parametrize("credential", CREDENTIALS)
def test_without_a_known_token_no_method_answers(guarded: Place, method: str, credential: str) -> None:
    token = CREDENTIALS[credential]
    reason = "TOKEN_INVALID" if token else "TOKEN_MISSING"
    assert refusal_of(guarded, method, token) == ("UNAUTHENTICATED", reason)


@pytest.mark.parametrize("method", [method for method in GUARDED if method.startswith(SCHEDULER)])
def test_a_token_of_another_project_sees_no_run_here_whether_it_exists_or_not(guarded: Place, method: str) -> None:
    assert refusal_of(guarded, method, secret("other-admin"), "lab") == ("PERMISSION_DENIED", "PROJECT_DENIED")
    assert refusal_of(guarded, method, secret("other-admin"), "never-was") == ("PERMISSION_DENIED", "PROJECT_DENIED")


@pytest.mark.parametrize("method", [f"{SCHEDULER}{name}" for name in sorted(WRITING | ADMINISTERING)])
def test_a_read_token_changes_nothing(guarded: Place, method: str) -> None:
    assert refusal_of(guarded, method, secret("lab-read")) == ("PERMISSION_DENIED", "ROLE_TOO_LOW")


@pytest.mark.parametrize("method", [f"{SCHEDULER}{name}" for name in sorted(ADMINISTERING)])
def test_a_write_token_neither_configures_nor_deletes(guarded: Place, method: str) -> None:
    assert refusal_of(guarded, method, secret("lab-write")) == ("PERMISSION_DENIED", "ROLE_TOO_LOW")


@pytest.mark.parametrize("method", [method for method in METHODS if method.startswith(SCHEDULER)])
def test_a_token_of_the_least_role_and_the_right_project_gets_as_far_as_the_use_case(guarded: Place, method: str) -> None:
    name = method.removeprefix(SCHEDULER)
    role = "admin" if name in ADMINISTERING else "write" if name in WRITING else "read"
    with guarded.channel() as channel:
        answer = channel.unary_unary(method, bytes, bytes)
        request = request_of(method, "lab").replace(b"runs/r", b"runs/x")  # which nobody created
        try:
            answer(request, timeout=10, metadata=bearer(secret(f"lab-{role}")))
        except grpc.RpcError as error:
            assert Refusal(error).code in ("NOT_FOUND", "INVALID_ARGUMENT")


def test_all_projects_are_listed_for_a_token_of_all_projects_only(guarded: Place) -> None:
    assert refusal_of(guarded, f"{SCHEDULER}ListRuns", secret("lab-admin"), "-") == ("PERMISSION_DENIED", "PROJECT_DENIED")
    with guarded.channel() as channel:
        listing = channel.unary_unary(f"{SCHEDULER}ListRuns", bytes, bytes)
        answer = listing(request_of(f"{SCHEDULER}ListRuns", "-"), timeout=10, metadata=bearer(secret("all-read")))
    assert b"projects/lab/runs/r" in answer and b"projects/other/runs/r" in answer


@pytest.mark.parametrize("method", sorted(OPEN_METHODS))
def test_health_is_open(guarded: Place, method: str) -> None:
    with guarded.channel() as channel:
        answers = channel.unary_stream(
            method, health_pb2.HealthCheckRequest.SerializeToString, health_pb2.HealthCheckResponse.FromString
        )
        answer = next(iter(answers(health_pb2.HealthCheckRequest(), timeout=10)))
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_a_method_that_does_not_exist_is_unimplemented_not_let_in(guarded: Place) -> None:
    with guarded.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        channel.unary_unary(f"{SCHEDULER}DropEverything", bytes, bytes)(b"", timeout=10)
    error: Any = caught.value
    assert error.code() == grpc.StatusCode.UNIMPLEMENTED


def test_what_has_no_rule_is_refused_to_everybody(guarded: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(policy.METHODS, f"{SCHEDULER}GetRun")
    monkeypatch.delitem(policy.ROUTES, "/metrics")
    assert refusal_of(guarded, f"{SCHEDULER}GetRun", secret("all-admin")) == ("PERMISSION_DENIED", "NO_ACCESS_RULE")
    assert refusal_of(guarded, f"{SCHEDULER}GetRun", None) == ("UNAUTHENTICATED", "TOKEN_MISSING")
    with guarded.http(secret("all-admin")) as http:
        assert refused_there(http.get("/metrics")) == (403, "NO_ACCESS_RULE")


def test_a_refused_call_is_ended_before_its_message_is_read(guarded: Place) -> None:
    with guarded.channel() as channel, pytest.raises(grpc.RpcError) as caught:
        observe = channel.unary_unary(f"{SCHEDULER}Observe", bytes, bytes)
        observe(bytes(80 * 2**20), timeout=20)  # gRPC itself would refuse it for its size, once it was here
    assert Refusal(caught.value).reason == "TOKEN_MISSING"


def test_refused_calls_are_counted_by_code(guarded: Place) -> None:
    def count() -> float:
        with guarded.http(secret("all-read")) as http:
            text = http.get("/metrics").text
        line = r'grpc_server_handled_total\{grpc_code="Unauthenticated",grpc_method="DeleteRun",.*\} (\S+)'
        return sum(map(float, re.findall(line, text)))

    before = count()
    call(guarded, f"{SCHEDULER}DeleteRun", None)
    assert count() == before + 1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("papers", ["none", "expired", "of a stranger"])
def test_without_a_valid_client_certificate_there_is_no_connection(
    sealed: Place, office: Office, method: str, papers: str
) -> None:
    error: Any = call(sealed, method, secret("all-admin"), papers=bad_papers(office, papers))
    assert error.code() == grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("method", GUARDED)
def test_a_certificate_that_is_not_on_the_list_is_refused_whatever_the_token(sealed: Place, office: Office, method: str) -> None:
    papers = office.issue("intruder.example", common_name="Intruder")
    assert refusal_of(sealed, method, secret("all-admin"), papers=papers) == ("PERMISSION_DENIED", "SUBJECT_DENIED")


@pytest.mark.parametrize("method", GUARDED)
def test_a_good_certificate_does_not_stand_for_a_token(sealed: Place, trainer_papers: Papers, method: str) -> None:
    assert refusal_of(sealed, method, None, papers=trainer_papers) == ("UNAUTHENTICATED", "TOKEN_MISSING")


def path_of(declared: str, project: str = "lab") -> str:
    """A path of the route."""
    return declared.replace("{project}", project).replace("{run}", "r")


BODIES: dict[str, Any] = {
    "PATCH": {"config": {"alpha_max": 4}},
    "/api/v1/session": {"token": "x"},
    "/api/v1/runs/{project}/{run}/simulate": {"settings": []},
    "/api/v1/decompose": {"group": [1], "outcome": [1], "advantage": [0]},
}
PARAMETERS = {
    "/api/v1/decompose": {"advantage": "grpo_mean"},
    "/api/v1/events": {"project": "{project}", "run": "r"},
    "/api/v1/overview": {"project": "{project}"},
}


def ask(http: httpx.Client, method: str, declared: str, project: str = "lab", listed: str = "") -> httpx.Response:
    """The answer to a request that the route understands; of a stream only its head."""
    query = {key: value.replace("{project}", project) for key, value in PARAMETERS.get(declared, {}).items()}
    query |= {"project": listed} if listed else {}
    body = None if method in ("GET", "HEAD") else BODIES.get(method, BODIES.get(declared))
    request = http.build_request(method, path_of(declared, project), params=query, json=body, headers={"x-fade-request": "test"})
    answer = http.send(request, stream=True)
    if not answer.headers.get("content-type", "").startswith("text/event-stream"):
        answer.read()
    answer.close()
    return answer


def refused_there(answer: httpx.Response) -> tuple[int, str]:
    """Status and reason."""
    return answer.status_code, answer.json()["error"]["reason"]


@pytest.mark.parametrize(("method", "declared"), GUARDED_ROUTES)
@pytest.mark.parametrize("credential", CREDENTIALS)
def test_without_a_known_token_no_route_answers(guarded: Place, method: str, declared: str, credential: str) -> None:
    token = CREDENTIALS[credential]
    with guarded.http(token) as http:
        answer = ask(http, method, declared)
    assert answer.status_code == 401 and answer.headers["www-authenticate"] == "Bearer"
    if method != "HEAD":
        assert answer.json()["error"]["reason"] == ("TOKEN_INVALID" if token else "TOKEN_MISSING")


@pytest.mark.parametrize(
    ("method", "declared"),
    [
        route
        for route in GUARDED_ROUTES
        if "{project}" in route[1] or route[1] in ("/api/v1/overview", "/api/v1/events", "/metrics")
    ],
)
def test_a_token_of_another_project_gets_no_data_from_any_route(guarded: Place, method: str, declared: str) -> None:
    with guarded.http(secret("other-admin")) as http:
        assert refused_there(ask(http, method, declared)) == (403, "PROJECT_DENIED")
        assert refused_there(ask(http, method, declared, "never-was")) == (403, "PROJECT_DENIED")


@pytest.mark.parametrize("query", ["", "?project=-", "?project=lab", "?project=lab&project=other", "?project=other&project=lab"])
def test_no_way_of_asking_lists_another_projects_runs(guarded: Place, query: str) -> None:
    with guarded.http(secret("other-admin")) as http:
        answer = http.get(f"/api/v1/runs{query}")
    assert answer.status_code == 403 or {run["name"] for run in answer.json()["runs"]} == {"projects/other/runs/r"}


@pytest.mark.parametrize(("method", "declared"), GUARDED_ROUTES)
def test_a_read_token_of_the_right_projects_reads_every_route(guarded: Place, method: str, declared: str) -> None:
    with guarded.http(secret("all-read")) as http:
        answer = ask(http, method, declared)
    assert refused_there(answer) == (403, "ROLE_TOO_LOW") if (method, declared) in ADMIN_ROUTES else answer.status_code == 200
    if declared.startswith("/api/"):
        with guarded.http(secret("lab-read")) as http:
            answer = ask(http, method, declared, listed="lab" if declared == "/api/v1/runs" else "")
        assert answer.status_code == (403 if (method, declared) in ADMIN_ROUTES else 200)


@pytest.mark.parametrize(("method", "declared"), sorted(ADMIN_ROUTES))
def test_only_an_admin_token_changes_a_run_over_http(guarded: Place, method: str, declared: str) -> None:
    with guarded.http(secret("lab-write")) as http:
        assert refused_there(ask(http, method, declared)) == (403, "ROLE_TOO_LOW")
    with guarded.http(secret("lab-admin")) as http:
        assert ask(http, method, declared).json()["config"]["alpha_max"] == 4


@pytest.mark.parametrize(("method", "declared"), [route for route in ROUTES if route[0] not in ("GET", "HEAD")])
def test_another_sites_page_changes_nothing_with_the_browsers_cookie(guarded: Place, method: str, declared: str) -> None:
    with guarded.http() as http:
        http.cookies.set("fade_token", secret("all-admin"))
        answer = http.request(method, path_of(declared), json=BODIES.get(method, BODIES.get(declared)))
    assert refused_there(answer) == (403, "CROSS_SITE")


@pytest.mark.parametrize("path", sorted(OPEN_PATHS))
def test_health_and_the_empty_page_are_open_over_http(guarded: Place, path: str) -> None:
    with guarded.http() as http:
        assert http.get(path).status_code == 200


@pytest.mark.parametrize("path", ["//api/v1/runs", "/api/v1/runs/", "/API/v1/runs", "/%61pi/v1/runs", "/healthz/../api/v1/runs"])
def test_no_other_spelling_of_a_path_gets_around_the_gate(guarded: Place, path: str) -> None:
    with guarded.http() as http:
        answer = http.send(http.build_request("GET", httpx.URL(http.base_url, raw_path=path.encode())))
    assert answer.status_code in (307, 401, 404)


@pytest.mark.parametrize(("method", "declared"), ROUTES)
@pytest.mark.parametrize("papers", ["none", "expired", "of a stranger"])
def test_without_a_valid_client_certificate_there_is_no_connection_over_http(
    sealed: Place, office: Office, method: str, declared: str, papers: str
) -> None:
    with sealed.http(secret("all-admin"), bad_papers(office, papers)) as http, pytest.raises(httpx.TransportError):
        http.request(method, path_of(declared))


@pytest.mark.parametrize(("method", "declared"), GUARDED_ROUTES)
def test_a_certificate_that_is_not_on_the_list_is_refused_by_every_route(
    sealed: Place, office: Office, method: str, declared: str
) -> None:
    with sealed.http(secret("all-admin"), office.issue("intruder.example", common_name="Intruder")) as http:
        assert ask(http, method, declared).status_code == 403


def test_a_certificate_on_the_list_and_a_token_read(sealed: Place, trainer_papers: Papers) -> None:
    with sealed.http(secret("lab-read"), trainer_papers) as http:
        assert http.get("/api/v1/runs/lab/r").json()["name"] == "projects/lab/runs/r"
