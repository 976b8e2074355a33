"""The rules by Prometheus' own tool: their form, when they fire, and when they do not."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.deploy.observability import expressions
from tests.deploy.observability.localised import localised
from tests.deploy.observability.traffic import Traffic
from tests.deploy.stack import DEPLOY

from fade_service import FadeServer

TESTS = sorted((DEPLOY / "prometheus/tests").glob("*.yml"))
ALERTS = {rule["alert"] for rule in expressions.rules() if "alert" in rule}


def promtool(*arguments: str | Path, told: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs it, with ``told`` as its standard input."""
    return subprocess.run(["promtool", *arguments], input=told, capture_output=True, text=True)


@pytest.fixture
def changed_rules(tmp_path: Path) -> Callable[[Callable[[dict[str, Any]], None]], list[Path]]:
    """Makes a copy of the rules in which every alert is changed, and gives the tests beside it."""

    def make(change: Callable[[dict[str, Any]], None]) -> list[Path]:
        shutil.copytree(DEPLOY / "prometheus", tmp_path, dirs_exist_ok=True)
        for file in (tmp_path / "rules").glob("*.yml"):
            content = yaml.safe_load(file.read_text("utf-8"))
            for group in content["groups"]:
                for rule in group["rules"]:
                    if "alert" in rule:
                        change(rule)
            file.write_text(yaml.safe_dump(content), "utf-8")
        return sorted((tmp_path / "tests").glob("*.yml"))

    return make


def test_the_configuration_and_the_rules_are_well_formed(tmp_path: Path) -> None:
    folder = localised(tmp_path, targets=["127.0.0.1:1"], token="fade_x", alertmanager="127.0.0.1:2")
    done = promtool("check", "config", folder / "prometheus.yml")
    assert done.returncode == 0, done.stderr
    assert f"{len(expressions.RULES)} rule files found" in done.stdout
    done = promtool("check", "rules", "--lint-fatal", *expressions.RULES)
    assert done.returncode == 0, done.stderr


def test_every_alert_fires_when_it_should_and_only_then() -> None:
    done = promtool("test", "rules", *TESTS)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("expression", ["vector(1) < 0", "vector(1)"], ids=["never", "always"])
def test_an_alert_that_fires_never_or_always_fails_its_test(changed_rules: Any, expression: str) -> None:
    done = promtool("test", "rules", *changed_rules(lambda rule: rule.update(expr=expression)))
    assert done.returncode == 1
    complained_of = {line.split()[1].rstrip(",") for line in (done.stdout + done.stderr).splitlines() if "alertname:" in line}
    assert complained_of == ALERTS


def test_an_alert_without_its_time_of_grace_fails_its_test(changed_rules: Any) -> None:
    waiting = {rule["alert"] for rule in expressions.rules() if "for" in rule}
    done = promtool("test", "rules", *changed_rules(lambda rule: rule.pop("for", None)))
    assert done.returncode == 1
    complained_of = {line.split()[1].rstrip(",") for line in (done.stdout + done.stderr).splitlines() if "alertname:" in line}
    assert complained_of == waiting


def test_what_a_server_tells_is_named_by_prometheus_rules(server: FadeServer, traffic: Traffic) -> None:
    traffic.step()
    text = httpx.get(f"{server.http_url}/metrics").raise_for_status().text
    shown = "".join(line for line in text.splitlines(keepends=True) if "_created" not in line)
    done = promtool("check", "metrics", told=shown)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
