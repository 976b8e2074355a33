"""Every PromQL expression of the dashboards and the rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from tests.deploy.stack import DEPLOY

RULES = sorted((DEPLOY / "prometheus/rules").glob("*.yml"))
DASHBOARDS = sorted((DEPLOY / "grafana/provisioning/dashboards/fade").glob("*.json"))

Samples = Iterable[tuple[str, dict[str, str]]]


def rules() -> list[dict[str, Any]]:
    """All rules, of all files."""
    return [rule for file in RULES for group in yaml.safe_load(file.read_text("utf-8"))["groups"] for rule in group["rules"]]


def panels() -> Iterator[tuple[str, dict[str, Any]]]:
    """Each panel of each dashboard, with a name for messages."""
    for file in DASHBOARDS:
        for panel in json.loads(file.read_text("utf-8"))["panels"]:
            if panel["type"] != "row":
                yield f"{file.stem}: {panel['title']}", panel


def panel_expressions() -> list[tuple[str, str]]:
    """The panels' expressions with every variable at "all", each with its panel's name."""
    return [(name, _filled(target["expr"])) for name, panel in panels() for target in panel["targets"]]


def variables() -> Iterator[tuple[str, str, str]]:
    """Each variable of each dashboard with a name for messages: the metric, and the label whose values are its choices."""
    for file in DASHBOARDS:
        for variable in json.loads(file.read_text("utf-8"))["templating"]["list"]:
            if variable["type"] == "query":
                found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
                assert found, variable
                yield f"{file.stem}: {variable['name']}", _filled(found[1]), found[2]


def _filled(expression: str) -> str:
    return re.sub(r"\$\w+", ".*", expression.replace("$__rate_interval", "1m"))


def selectors(expression: str) -> list[promql_parser.VectorSelector]:
    """What the expression reads."""
    found: list[promql_parser.VectorSelector] = []

    def visit(node: promql_parser.Expr) -> None:
        if isinstance(node, promql_parser.VectorSelector):
            found.append(node)

    promql_parser.walk(promql_parser.parse(expression), visit)
    assert found, expression
    return found


def finds(selector: promql_parser.VectorSelector, samples: Samples) -> bool:
    """Whether any sample is what the selector asks for; job and instance are Prometheus's own labels."""
    return any(
        name == selector.name and all(_matches(matcher, labels) for matcher in selector.matchers.matchers)
        for name, labels in samples
    )


def _matches(matcher: promql_parser.Matcher, labels: dict[str, str]) -> bool:
    if matcher.name in ("job", "instance"):
        return True
    value, op = labels.get(matcher.name, ""), matcher.op
    if op in (promql_parser.MatchOp.Re, promql_parser.MatchOp.NotRe):
        return (re.fullmatch(matcher.value, value) is not None) == (op == promql_parser.MatchOp.Re)
    return (value == matcher.value) == (op == promql_parser.MatchOp.Equal)


def missing(expression: str, samples: Samples) -> list[str]:
    """What the expression reads and nobody has."""
    return [str(selector) for selector in selectors(expression) if not finds(selector, samples)]


def file_names(folder: Path) -> set[str]:
    """The names of the pages in a folder."""
    return {file.stem for file in folder.glob("*.md")}
