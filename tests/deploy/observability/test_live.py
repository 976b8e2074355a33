"""Two real servers under real traffic, a real Prometheus that scrapes them with a token, and a real Alertmanager."""

from __future__ import annotations

import json
import math
import signal
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.observability import expressions
from tests.deploy.observability.monitoring import Monitoring, Told
from tests.deploy.observability.traffic import Traffic
from tests.deploy.stack import DEPLOY, Server

from fade_service.access.tokens import new_token

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

UNTIL_SECONDS = 60.0


class Stack:
    """All of it."""

    def __init__(self, folder: Path) -> None:
        admin, admin_entry = new_token("trainer", "-", "admin")
        reader, reader_entry = new_token("prometheus", "-", "read")
        tokens = folder / "tokens.json"
        tokens.write_text(json.dumps({"tokens": [json.loads(admin_entry), json.loads(reader_entry)]}))
        self.database = folder / "fade.db"
        self.servers = [Server("--store", f"sqlite:///{self.database}", "--tokens", str(tokens)) for _ in range(2)]
        self.told = Told()
        self.monitoring = Monitoring(folder, [f"127.0.0.1:{server.http_port}" for server in self.servers], reader, self.told)
        self._token = admin
        self.traffic: list[Traffic] = []

    def start(self) -> None:
        """Starts it, with a trainer on each server."""
        for server in self.servers:
            server.start()
        self.monitoring.start()
        self.traffic = [
            Traffic(f"127.0.0.1:{server.grpc_port}", self._token, run=f"run-{number}")
            for number, server in enumerate(self.servers)
        ]

    def stop(self) -> None:
        """Ends it."""
        for traffic in self.traffic:
            traffic.close()
        self.monitoring.stop()
        self.told.close()
        for server in self.servers:
            server.end(signal.SIGKILL)


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """It, running."""
    made = Stack(tmp_path_factory.mktemp("stack"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


def until(holds: Callable[[], Any], problem: Callable[[], Any]) -> Any:
    """Waits until it holds."""
    deadline = time.monotonic() + UNTIL_SECONDS
    while not (found := holds()):
        assert time.monotonic() < deadline, problem()
        time.sleep(0.5)
    return found


def told_of(stack: Stack, name: str) -> dict[str, Any]:
    """The alert as the receiver was told of it."""
    found: dict[str, Any] = until(
        lambda: next((alert for alert in stack.told.alerts if alert["labels"]["alertname"] == name), None),
        lambda: f"nobody was told of {name}, only of {[alert['labels']['alertname'] for alert in stack.told.alerts]}",
    )
    return found


def test_reports_alone_raise_no_alert(stack: Stack) -> None:
    def seen() -> bool:
        for traffic in stack.traffic:
            traffic.reports()
        return len(stack.monitoring.query("fade_run_alpha")) == 4

    until(seen, lambda: stack.monitoring.query("up"))
    assert [sample["value"][1] for sample in stack.monitoring.query('up{job="fade"}')] == ["1", "1"]
    assert stack.monitoring.alerts() == set()


def test_every_panel_shows_something(stack: Stack) -> None:
    asked = expressions.panel_expressions()

    def empty() -> list[tuple[str, str]]:
        for traffic in stack.traffic:
            traffic.step()
        return [
            (panel, expression)
            for panel, expression in asked
            if all(math.isnan(float(sample["value"][1])) for sample in stack.monitoring.query(expression))
        ]

    until(lambda: not empty(), empty)


def test_every_variable_of_a_dashboard_has_choices(stack: Stack) -> None:
    for name, metric, label in expressions.variables():
        values = stack.monitoring.ask(f"label/{label}/values", **{"match[]": metric})
        assert values, name


def test_prometheus_evaluates_every_rule_and_finds_what_it_reads(stack: Stack) -> None:
    rules = [rule for group in stack.monitoring.ask("rules")["groups"] for rule in group["rules"]]
    assert len(rules) == len(expressions.rules())
    assert {rule["health"] for rule in rules} == {"ok"}
    for rule in rules:
        for selector in expressions.selectors(rule["query"]):
            assert stack.monitoring.query(str(selector)), (rule["name"], str(selector))
        if rule["type"] == "recording":
            assert stack.monitoring.query(rule["name"]), rule["name"]


def test_both_servers_tell_the_same_of_every_run(stack: Stack) -> None:
    by_run = "by (project, run) (fade_run_revision)"
    until(
        lambda: len(stack.monitoring.query(f"max {by_run} == min {by_run} and count {by_run} == 2")) == 2,
        lambda: stack.monitoring.query("fade_run_revision"),
    )


def test_two_jobs_on_one_run_are_told_to_whoever_is_told(stack: Stack) -> None:
    alert = told_of(stack, "FadeWriterFenced")
    assert alert["status"] == "firing" and alert["labels"]["severity"] == "warning"
    assert alert["annotations"]["summary"] == "Two jobs report to one run"
    assert (DEPLOY.parent / alert["annotations"]["runbook_url"]).is_file()


def test_a_store_that_is_away_is_told(stack: Stack) -> None:
    other = sqlite3.connect(stack.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        alert = told_of(stack, "FadeStoreDown")
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert alert["labels"]["severity"] == "critical"
    assert alert["annotations"]["summary"] == f"FADE server {alert['labels']['instance']} cannot use its store"


def test_servers_that_are_gone_are_told(stack: Stack) -> None:
    stack.servers[0].end(signal.SIGKILL)
    alert = told_of(stack, "FadeServerDown")
    assert alert["labels"]["instance"] == f"127.0.0.1:{stack.servers[0].http_port}"
    stack.servers[1].end(signal.SIGKILL)
    assert told_of(stack, "FadeDown")["annotations"]["summary"] == "No FADE server answers Prometheus"
