"""What dashboards, rules, and the list in docs name, and what a real server tells, are the same."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path

import pytest
from prometheus_client import Metric
from tests.deploy.observability import expressions
from tests.deploy.stack import DEPLOY

OF_PROMETHEUS = ("up", {})
RECORDED = [(rule["record"], {}) for rule in expressions.rules() if "record" in rule]


@pytest.fixture(scope="module")
def samples(families: list[Metric]) -> list[tuple[str, dict[str, str]]]:
    """What can be asked for."""
    return [OF_PROMETHEUS, *RECORDED, *((sample.name, sample.labels) for family in families for sample in family.samples)]


def test_the_list_of_metrics_is_what_a_server_tells(families: list[Metric], root: Path) -> None:
    told = {}
    for family in families:
        name = f"{family.name}_total" if family.type == "counter" else family.name
        labels = {label for sample in family.samples for label in sample.labels} - {"le"}
        told[name] = (family.type, tuple(sorted(labels)))
    page = (root / "docs/metrics.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|([^|]*)\|", page, re.MULTILINE)
    assert {name: (kind, tuple(sorted(re.findall(r"\w+", labels)))) for name, kind, labels in rows} == told
    assert max(Counter(name for name, _, _ in rows).values()) == 1


@pytest.mark.parametrize(("panel", "expression"), expressions.panel_expressions())
def test_a_panel_reads_what_a_server_tells(panel: str, expression: str, samples: expressions.Samples) -> None:
    assert expressions.missing(expression, samples) == []


@pytest.mark.parametrize("rule", expressions.rules(), ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_reads_what_a_server_tells(rule: dict[str, str], samples: expressions.Samples) -> None:
    assert expressions.missing(rule["expr"], samples) == []


def test_every_own_metric_is_on_a_dashboard(families: list[Metric]) -> None:
    read = {selector.name for _, expression in expressions.panel_expressions() for selector in expressions.selectors(expression)}
    read |= {selector.name for rule in expressions.rules() for selector in expressions.selectors(rule["expr"])}
    own = [family for family in families if family.name.startswith(("fade_", "grpc_"))]
    assert [family.name for family in own if not read & {sample.name for sample in family.samples}] == []


def test_a_name_or_label_that_no_server_tells_is_found(samples: expressions.Samples) -> None:
    wrong = 'rate(fade_refusals_total{reason="NO_SUCH"}[5m]) / fade_run_alpha + fade_run_beta'
    assert len(expressions.missing(wrong, samples)) == 2


def test_the_dashboards_are_those_that_the_code_makes() -> None:
    made = runpy.run_path(str(DEPLOY / "grafana/render.py"))["dashboards"]()
    assert {file.name: file.read_text("utf-8") for file in expressions.DASHBOARDS} == made, "run python deploy/grafana/render.py"


def test_dashboards_keep_their_addresses_and_take_any_data_source() -> None:
    made = runpy.run_path(str(DEPLOY / "grafana/render.py"))
    boards = {board["uid"]: board for board in (made["operations"](), made["training"]())}
    assert set(boards) == {"fade-operations", "fade-training"}
    names = {uid: [item["name"] for item in board["templating"]["list"]] for uid, board in boards.items()}
    assert names == {
        "fade-operations": ["datasource", "instance"],
        "fade-training": ["datasource", "project", "run", "environment"],
    }
    for board in boards.values():
        assert {item["type"] for item in board["templating"]["list"][:1]} == {"datasource"}
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize(("name", "panel"), list(expressions.panels()))
def test_a_panel_has_a_unit_and_the_chosen_data_source(name: str, panel: dict[str, object]) -> None:
    assert panel["fieldConfig"]["defaults"]["unit"]  # type: ignore[index]
    targets = panel["targets"]
    assert isinstance(targets, list) and targets
    for item in (panel, *targets):
        assert item["datasource"] == {"type": "prometheus", "uid": "${datasource}"}


def test_every_alert_has_a_page_and_every_page_an_alert(root: Path) -> None:
    pages = expressions.file_names(root / "docs/runbooks")
    alerts = [rule for rule in expressions.rules() if "alert" in rule]
    assert {rule["alert"] for rule in alerts} == pages - {"README"}
    for rule in alerts:
        assert rule["annotations"]["runbook_url"] == f"docs/runbooks/{rule['alert']}.md"
        assert {"summary", "description"} < set(rule["annotations"])
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
