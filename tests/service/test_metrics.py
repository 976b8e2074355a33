"""/metrics of a real server: what is counted when, and the gauges of the runs."""

from __future__ import annotations

import math
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from fade_proto.v1.observation_pb2 import MODE_SHADOW, SPLIT_EVAL
from fade_proto.v1.run_pb2 import HistoryPoint, Run, RunConfig
from fade_proto.v1.scheduler_pb2 import (
    CompleteRunRequest,
    CreateRunRequest,
    DeleteRunRequest,
    ListRunsRequest,
    RestoreRunRequest,
    UpdateRunRequest,
)
from fade_service import FadeServer

ROWS = ([1.0, 0.0], [0, 0])
UNTIL_SECONDS = 20.0


class Scrape(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """What a server tells at one moment."""

    def __init__(self, server: FadeServer) -> None:
        text = httpx.get(f"{server.http_url}/metrics").raise_for_status().text
        super().__init__(
            ((sample.name, frozenset(sample.labels.items())), sample.value)
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        )

    def value(self, name: str, **labels: str) -> float:
        """The sample that has these labels and no others."""
        return self[name, frozenset(labels.items())]

    def of(self, name: str, **labels: str) -> dict[str, float]:
        """The samples of one name that have these labels, by the values of the others."""
        wanted = frozenset(labels.items())
        return {
            ",".join(value for _, value in sorted(found - wanted)): number
            for (of, found), number in self.items()
            if of == name and wanted <= found
        }

    def gauges(self) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
        """Everything about runs."""
        return {key: value for key, value in self.items() if key[0].startswith("fade_run_")}


@pytest.fixture
def own(tmp_path: Path) -> Iterator[FadeServer]:
    """A server of this test's own, on the file fade.db."""
    with FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0) as server:
        yield server


@pytest.fixture
def run(own: FadeServer, connect: Any) -> Any:
    """A client of the run "r" on it."""
    client = connect("r", at=f"127.0.0.1:{own.grpc_port}")
    client.create()
    return client


def until(server: FadeServer, holds: Callable[[Scrape], bool]) -> Scrape:
    """The first scrape of which it holds; gauges of runs are some seconds old."""
    deadline = time.monotonic() + UNTIL_SECONDS
    while True:
        scrape = Scrape(server)
        if holds(scrape):
            return scrape
        assert time.monotonic() < deadline, scrape.gauges()
        time.sleep(0.2)


def test_each_report_is_counted_once_by_what_became_of_it(own: FadeServer, run: Any) -> None:
    assert Scrape(own).of("fade_observations_total") == {"applied": 0, "frozen": 0, "replayed": 0, "evaluated": 0}
    run.observe("b1", *ROWS)
    run.observe("b1", *ROWS)
    run.observe("b1", *ROWS)
    run.observe("b2", [1.0, math.nan, math.nan], [0, 0, 0])
    run.observe("e1", *ROWS, split=SPLIT_EVAL)
    scrape = Scrape(own)
    assert scrape.of("fade_observations_total") == {"applied": 1, "frozen": 1, "replayed": 2, "evaluated": 1}
    assert scrape.of("fade_rollouts_total") == {"scored": 3, "missing": 2, "stale": 0}, "replays and evaluations move nothing"


def test_stale_rollouts_are_told_from_the_others(own: FadeServer, connect: Any) -> None:
    client = connect("stale", at=f"127.0.0.1:{own.grpc_port}")
    client.create(max_policy_lag=1)
    report = client.report("b1", [1.0, 0.0, 1.0], [0, 0, 0])
    report.rows.policy_versions.extend([5, 5, 2])
    report.rows.current_policy_version = 5
    client.send(report)
    assert Scrape(own).of("fade_rollouts_total") == {"scored": 2, "missing": 0, "stale": 1}


def test_warnings_are_counted_by_reason(own: FadeServer, connect: Any) -> None:
    client = connect("sized", at=f"127.0.0.1:{own.grpc_port}")
    client.create(group_size=4)
    reasons = {warning.reason for warning in client.observe("b1", *ROWS).warnings}
    assert reasons
    client.observe("b1", *ROWS)
    assert Scrape(own).of("fade_warnings_total") == dict.fromkeys(reasons, 1.0)


def test_late_and_lost_reports_are_counted_with_what_was_trained_on(own: FadeServer, run: Any) -> None:
    for number, (source, lost) in enumerate(
        [("LOCAL", 0), ("LOCAL", 2), ("NEUTRAL", 0), ("SERVER", 0), ("a client's own word", 1)]
    ):
        report = run.report(f"b{number}", *ROWS, lost_reports=lost)
        report.late.config_revision, report.late.source = 1, source
        run.send(report)
        run.send(report)
    run.observe("in time", *ROWS)
    scrape = Scrape(own)
    assert scrape.of("fade_late_reports_total") == {"LOCAL": 2, "NEUTRAL": 1, "SERVER": 1, "HELD": 0, "PINNED": 0, "other": 1}
    assert scrape.value("fade_lost_reports_total") == 3


def test_refusals_are_counted_by_the_reason_that_the_caller_was_told(own: FadeServer, run: Any, refused: Any) -> None:
    run.observe("b1", *ROWS)
    calls = [
        lambda: run.observe("b1", [0.0, 0.0], [0, 0]),
        lambda: run.observe("b2", [math.inf], [0]),
        lambda: run.observe("b2", *ROWS, branch="nowhere"),
        lambda: run.stub.DeleteRun(DeleteRunRequest(name="projects/test/runs/nowhere"), timeout=10),
        lambda: run.stub.ListRuns(ListRunsRequest(parent="projects/-", page_size=-1), timeout=10),
    ]
    told = [refused(call).reason for call in calls]
    scrape = Scrape(own)
    counted = {reason: number for reason, number in scrape.of("fade_refusals_total").items() if number}
    assert counted == {reason: told.count(reason) for reason in told}
    method = {"grpc_type": "unary", "grpc_service": "fade.v1.SchedulerService", "grpc_method": "Observe"}
    assert {code: number for code, number in scrape.of("grpc_server_handled_total", **method).items() if number} == {
        "OK": 1, "AlreadyExists": 1, "InvalidArgument": 1, "NotFound": 1,
    }  # fmt: skip
    assert scrape.value("grpc_server_started_total", **method) == 4
    assert scrape.value("grpc_server_handling_seconds_count", **method) == 4


def test_one_bucket_ends_at_the_objective(own: FadeServer) -> None:
    labels = {"grpc_type": "unary", "grpc_service": "fade.v1.SchedulerService", "grpc_method": "Observe"}
    assert Scrape(own).value("grpc_server_handling_seconds_bucket", **labels, le="0.25") == 0


def test_methods_that_do_not_exist_are_one_whatever_their_names(own: FadeServer, run: Any) -> None:
    for number in range(3):
        with pytest.raises(grpc.RpcError, match="UNIMPLEMENTED"):
            run.channel.unary_unary(f"/fade.v{number}.Nothing/Call{number}")(b"", timeout=10)
    scrape = Scrape(own)
    unknown = {"grpc_type": "unknown", "grpc_service": "unknown", "grpc_method": "unknown"}
    assert scrape.value("grpc_server_started_total", **unknown) == 3
    assert scrape.value("grpc_server_handled_total", **unknown, grpc_code="Unimplemented") == 3
    methods = {dict(labels)["grpc_method"] for name, labels in scrape if name == "grpc_server_started_total"}
    assert not [name for name in methods if name.startswith("Call")]


def test_names_of_runs_stand_on_training_gauges_alone(own: FadeServer, run: Any) -> None:
    run.observe("b1", *ROWS, 1.0)
    scrape = until(own, lambda scrape: bool(scrape.gauges()))
    named = {name for name, labels in scrape if {"project", "run", "environment"} & {label for label, _ in labels}}
    assert named and all(name.startswith("fade_run_") for name in named)


def test_a_store_that_goes_away_and_comes_back_shows(own: FadeServer, run: Any, refused: Any, tmp_path: Path) -> None:
    run.observe("b1", *ROWS, 1.0)
    scrape = until(own, lambda scrape: bool(scrape.gauges()))
    assert scrape.value("fade_store_up") == 1
    assert scrape.value("fade_store_op_duration_seconds_count", backend="sqlite", op="commit") == 1
    assert scrape.of("fade_store_errors_total", backend="sqlite") == {"unavailable": 0, "full": 0, "internal": 0}
    other = sqlite3.connect(tmp_path / "fade.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert refused(lambda: run.observe("b2", *ROWS)).reason == "STORE_UNAVAILABLE"
    scrape = until(own, lambda scrape: scrape.value("fade_store_up") == 0)
    assert scrape.value("fade_store_errors_total", backend="sqlite", kind="unavailable") >= 2, "the commit, and the look at it"
    assert scrape.value("fade_refusals_total", reason="STORE_UNAVAILABLE") == 1
    other.execute("ROLLBACK")
    other.close()
    until(own, lambda scrape: scrape.value("fade_store_up") == 1)


def test_while_the_store_cannot_be_read_there_are_no_gauges_of_runs(own_redis: Any, connect: Any) -> None:
    with FadeServer(own_redis.url, grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        client.observe("b1", *ROWS, 1.0)
        until(server, lambda scrape: bool(scrape.gauges()))
        own_redis.kill()
        scrape = until(server, lambda scrape: not scrape.gauges())
        assert ("fade_active_runs", frozenset()) not in scrape, "nobody knows how many"
        until(server, lambda scrape: scrape.value("fade_store_up") == 0)
        own_redis.start()
        scrape = until(server, lambda scrape: bool(scrape.gauges()))
        assert scrape.value("fade_run_revision", project="test", run="r") == 1
        until(server, lambda scrape: scrape.value("fade_store_up") == 1)


def test_a_store_without_room_is_told_from_one_that_is_away(own_redis: Any, connect: Any, refused: Any) -> None:
    with FadeServer(own_redis.url, grpc_port=0, http_port=0) as server:
        client = connect("r", at=f"127.0.0.1:{server.grpc_port}")
        client.create()
        own_redis.client.config_set("maxmemory", "1mb")
        assert refused(lambda: client.observe("b1", *ROWS)).reason == "STORE_FULL"
        scrape = Scrape(server)
    assert scrape.of("fade_store_errors_total", backend="redis") == {"unavailable": 0, "full": 1, "internal": 0}


def test_gauges_say_what_the_answer_to_the_newest_report_said(own: FadeServer, connect: Any) -> None:
    client = connect("r", at=f"127.0.0.1:{own.grpc_port}")
    client.create(ema_weight=0.5, target_entropy_nats=1.0, group_size=3)
    client.observe("b1", [1.0, 0.0, 1.0], [0, 0, 0], 1.2)
    answer = client.observe("b2", [1.0, 0.0, 0.0, math.nan, 1.0, 1.0], [0, 0, 0, 0, 1, 1], 0.6)
    scrape = until(own, lambda scrape: scrape.of("fade_run_revision", project="test") == {"r": 2})
    of_run = {"project": "test", "run": "r"}
    of_environment = {**of_run, "environment": "default"}
    # p_hat: 0.5 -> (0.5 + 2/3) / 2 = 7/12 -> (7/12 + (1/3 + 1) / 2) / 2 = 5/8; h_hat: 1.2 -> 0.9
    assert scrape.value("fade_run_solve_rate", **of_environment) == pytest.approx(5 / 8, rel=1e-12)
    assert scrape.value("fade_run_entropy_nats", **of_environment) == pytest.approx(0.9, rel=1e-12)
    assert scrape.value("fade_run_entropy_target_nats", **of_environment) == 1.0
    assert scrape.value("fade_run_alpha", **of_environment) == 1.0
    assert scrape.value("fade_run_delta", **of_environment) == pytest.approx(0.9, rel=1e-12)
    assert scrape.of("fade_run_phase", **of_environment) == {"exploring": 0, "exploiting": 1, "floor": 0}
    assert scrape.of("fade_run_mode", **of_run) == {"active": 1, "shadow": 0, "pinned": 0}
    # over the five scored rollouts: 2/3 on the success, 1/3 over delta on each of two failures, and 0 on the solved group
    assert scrape.value("fade_run_mass_success", **of_environment) == pytest.approx(2 / 3 / 5, rel=1e-12)
    assert scrape.value("fade_run_mass_failure", **of_environment) == pytest.approx(2 / 3 / 0.9 / 5, rel=1e-12)
    assert scrape.value("fade_run_mass_vs_grpo_ratio", **of_environment) == pytest.approx((1 + 1 / 0.9) / 2, rel=1e-12)
    assert scrape.value("fade_run_signal_ratio", **of_environment) == 0.5
    assert scrape.value("fade_run_coverage_ratio", **of_environment) == pytest.approx(5 / 6, rel=1e-12)
    assert scrape.value("fade_run_averages_held", **of_environment) == 0
    assert set(scrape.of("fade_run_warning_active", **of_environment).values()) == {0}
    assert scrape.value("fade_run_warnings", **of_run) == len(answer.warnings) > 0
    told = client.get()
    assert scrape.value("fade_run_last_observation_timestamp_seconds", **of_run) == pytest.approx(
        told.update_time.ToNanoseconds() / 1e9, abs=60
    )


def test_a_frozen_report_and_one_without_entropy_show(own: FadeServer, run: Any) -> None:
    run.observe("b1", [1.0, math.nan, math.nan], [0, 0, 0])
    scrape = until(own, lambda scrape: bool(scrape.of("fade_run_revision")))
    of_environment = {"project": "test", "run": "r", "environment": "default"}
    assert scrape.value("fade_run_averages_held", **of_environment) == 1
    assert scrape.value("fade_run_signal_ratio", **of_environment) == 0
    for name in ("fade_run_entropy_nats", "fade_run_entropy_target_nats", "fade_run_mass_vs_grpo_ratio"):
        assert not scrape.of(name), "not known, and not 0"


def test_a_run_that_was_restored_has_no_newest_report_until_it_reports(own: FadeServer, run: Any) -> None:
    for number in range(3):
        run.observe(f"b{number}", *ROWS, 1.0)
    run.stub.RestoreRun(
        RestoreRunRequest(name=run.name, writer="second", branch_id="second", point=HistoryPoint(revision=2)), timeout=10
    )
    scrape = until(own, lambda scrape: scrape.of("fade_run_revision", run="r") == {"test": 2})
    assert scrape.of("fade_run_alpha", run="r") and not scrape.of("fade_run_mass_success")
    run.writer = "second"
    run.observe("after", *ROWS, 1.0)
    until(own, lambda scrape: len(scrape.of("fade_run_mass_success", run="r")) == 1)


def test_a_changed_mode_shows_without_a_report(own: FadeServer, run: Any) -> None:
    run.observe("b1", *ROWS)
    until(own, lambda scrape: scrape.of("fade_run_mode", run="r", project="test").get("active") == 1)
    request = UpdateRunRequest(run=Run(name=run.name, config=RunConfig(mode=MODE_SHADOW)), reason="a look first")
    request.update_mask.paths.append("config.mode")
    run.stub.UpdateRun(request, timeout=10)
    scrape = until(own, lambda scrape: scrape.of("fade_run_mode", run="r", project="test").get("shadow") == 1)
    assert scrape.of("fade_run_mode", run="r", project="test") == {"active": 0, "shadow": 1, "pinned": 0}


def test_two_replicas_tell_the_same_of_every_run(tmp_path: Path, connect: Any) -> None:
    store = f"sqlite:///{tmp_path}/fade.db"
    with FadeServer(store, grpc_port=0, http_port=0) as one, FadeServer(store, grpc_port=0, http_port=0) as two:
        for number, server in enumerate((one, two, one, two)):
            client = connect(f"r{number}", at=f"127.0.0.1:{server.grpc_port}")
            client.create()
            report = client.report("b1", [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1], 1.0 + number)
            report.groups.environments.extend(["code", "maths"])
            client.send(report)
        told = [until(server, lambda scrape: len(scrape.of("fade_run_revision")) == 4) for server in (one, two)]
        assert told[0].gauges() == told[1].gauges()
        assert len(told[0].of("fade_run_alpha")) == 8, "each run has two environments"
        assert told[0].value("fade_active_runs") == told[1].value("fade_active_runs") == 4


def test_completed_and_deleted_runs_have_no_gauges_and_runs_that_never_reported_neither(own: FadeServer, connect: Any) -> None:
    clients = {name: connect(name, at=f"127.0.0.1:{own.grpc_port}") for name in ("goes-on", "completed", "deleted", "silent")}
    for name, client in clients.items():
        client.create()
        if name != "silent":
            client.observe("b1", *ROWS)
    scrape = until(own, lambda scrape: len(scrape.of("fade_run_revision", project="test")) == 3)
    assert scrape.value("fade_active_runs") == 3 and "silent" not in scrape.of("fade_run_revision", project="test")
    clients["completed"].stub.CompleteRun(CompleteRunRequest(name=clients["completed"].name), timeout=10)
    clients["deleted"].stub.DeleteRun(DeleteRunRequest(name=clients["deleted"].name), timeout=10)
    scrape = until(own, lambda scrape: len(scrape.of("fade_run_revision", project="test")) == 1)
    assert {dict(labels)["run"] for _, labels in scrape.gauges()} == {"goes-on"}
    assert scrape.value("fade_active_runs") == 1


def test_runs_beyond_the_limit_are_counted_and_have_no_gauges(own: FadeServer, run: Any) -> None:
    for number in range(203):
        run.run, run.name = f"r{number:03}", f"projects/test/runs/r{number:03}"
        run.stub.CreateRun(CreateRunRequest(parent="projects/test", run_id=run.run, run=Run()), timeout=10)
        run.observe("b1", *ROWS)
    scrape = until(own, lambda scrape: scrape.value("fade_active_runs") == 203)
    assert set(scrape.of("fade_run_revision", project="test")) == {f"r{number:03}" for number in range(200)}
    assert scrape.value("fade_runs_beyond_limit") == 3
    run.stub.DeleteRun(DeleteRunRequest(name="projects/test/runs/r000"), timeout=10)
    scrape = until(own, lambda scrape: scrape.value("fade_active_runs") == 202)
    assert set(scrape.of("fade_run_revision", project="test")) == {f"r{number:03}" for number in range(1, 201)}
    assert scrape.value("fade_runs_beyond_limit") == 2
