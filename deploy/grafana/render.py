"""Writes the dashboards: python deploy/grafana/render.py

A dashboard is rows of panels; a panel is a title, a unit of Grafana's, and expressions by legend. All else is alike.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "provisioning/dashboards/fade"

Panel = dict[str, Any]

_DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
_WIDTH, _HEIGHT = 24, 8
_IN_A_LINE = 4


def panel(
    title: str, unit: str, expressions: dict[str, str], *, kind: str = "timeseries", about: str = "", **options: Any
) -> Panel:
    """A panel; ``options`` are of its field: bounds of the axis, mappings of values."""
    targets = [
        {"refId": chr(ord("A") + place), "datasource": _DATASOURCE, "expr": expression, "legendFormat": legend}
        for place, (legend, expression) in enumerate(expressions.items())
    ]
    defaults = {"unit": unit, **options}
    return {
        "type": kind,
        "title": title,
        "description": about,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": defaults, "overrides": []},
        "targets": targets,
    }


def states(title: str, metric: str, label: str, by: str, selector: str, *names: str) -> Panel:
    """Which of some states something was in, over time; ``metric`` is 1 for the state that ``label`` names."""
    terms = [f'{number} * max by ({by}) ({metric}{{{selector},{label}="{name}"}})' for number, name in enumerate(names) if number]
    mappings = [{"type": "value", "options": {str(number): {"text": name} for number, name in enumerate(names)}}]
    legend = " ".join(f"{{{{{name}}}}}" for name in by.split(","))
    return panel(title, "none", {legend: " + ".join(terms)}, kind="state-timeline", mappings=mappings)


def variable(name: str, metric: str) -> dict[str, Any]:
    """A choice among the values of a label; all of them at first."""
    return {
        "name": name,
        "type": "query",
        "datasource": _DATASOURCE,
        "query": {"query": f"label_values({metric}, {name})", "refId": name},
        "refresh": 2,
        "sort": 1,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def dashboard(uid: str, title: str, variables: list[dict[str, Any]], rows: dict[str, list[Panel]]) -> dict[str, Any]:
    """The dashboard, its panels numbered and placed."""
    panels: list[Panel] = []
    y = 0
    for row, members in rows.items():
        panels.append({"type": "row", "title": row, "collapsed": False, "panels": [], "gridPos": _place(0, y, _WIDTH, 1)})
        lines = math.ceil(len(members) / _IN_A_LINE)
        columns = math.ceil(len(members) / lines)
        width = _WIDTH // columns
        for number, member in enumerate(members):
            line, column = divmod(number, columns)
            panels.append({**member, "gridPos": _place(width * column, y + 1 + _HEIGHT * line, width, _HEIGHT)})
        y += 1 + _HEIGHT * lines
    datasource = {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus"}
    return {
        "uid": uid,
        "title": title,
        "tags": ["fade"],
        "schemaVersion": 41,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [datasource, *variables]},
        "panels": [{"id": number, **item} for number, item in enumerate(panels, 1)],
    }


def _place(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def operations() -> dict[str, Any]:
    """Rate, errors and duration of the calls; reports; the store; the processes."""
    server = 'job="fade",instance=~"$instance"'

    def rate(metric: str, by: str, more: str = "") -> str:
        return f"sum by ({by}) (rate({metric}{{{server}{more}}}[$__rate_interval]))"

    def quantile(share: float, metric: str, by: str = "", more: str = "") -> str:
        return f"histogram_quantile({share}, {rate(f'{metric}_bucket', f'le,{by}'.rstrip(','), more)})"

    observe, store = ',grpc_method="Observe"', "fade_store_op_duration_seconds"
    seconds = {f"p{share * 100:.0f}": quantile(share, "grpc_server_handling_seconds", more=observe) for share in (0.5, 0.99)}
    objectives = {
        f"{what}, {window}": f"job:grpc_server_{record}:ratio_rate{window}"
        for what, record in (("failed", "faults"), ("slower than 250 ms", "slow_observes"))
        for window in ("1h", "3d")
    }
    refused = rate("grpc_server_handled_total", "grpc_method,grpc_code", ',grpc_code!="OK"')
    rows = {
        "Calls": [
            panel("Calls", "reqps", {"{{grpc_method}}": rate("grpc_server_started_total", "grpc_method")}),
            panel("Calls that did not end with OK", "reqps", {"{{grpc_method}} {{grpc_code}}": f"{refused} > 0"}),
            panel("Time of Observe", "s", seconds),
            panel("Objectives: at most 1 % over 30 days", "percentunit", objectives, min=0),
        ],
        "Reports": [
            panel("Reports", "reqps", {"{{outcome}}": rate("fade_observations_total", "outcome")}),
            panel("Refusals", "reqps", {"{{reason}}": f"{rate('fade_refusals_total', 'reason')} > 0"}),
            panel(
                "Batches trained on fallback schedules",
                "percentunit",
                {"of the last hour": "job:fade_fallback_batches:ratio_increase1h"},
                min=0,
            ),
            panel(
                "Late and lost reports",
                "reqps",
                {"{{source}}": rate("fade_late_reports_total", "source"), "lost": rate("fade_lost_reports_total", "job")},
            ),
            panel("Rollouts", "cps", {"{{status}}": rate("fade_rollouts_total", "status")}),
            panel("Warnings", "cps", {"{{reason}}": rate("fade_warnings_total", "reason")}),
        ],
        "Store": [
            panel("Can read and write", "bool", {"{{instance}}": f"fade_store_up{{{server}}}"}, kind="stat"),
            panel("Operations", "ops", {"{{op}}": rate(f"{store}_count", "op")}),
            panel("Time of operations, p99", "s", {"{{op}}": quantile(0.99, store, "op")}),
            panel("Errors", "ops", {"{{backend}} {{kind}}": rate("fade_store_errors_total", "backend,kind")}),
        ],
        "Processes": [
            panel("Servers", "bool", {"{{instance}}": f"up{{{server}}}"}, kind="stat"),
            panel("Version", "none", {"{{instance}} {{version}}": f"fade_build_info{{{server}}}"}, kind="stat"),
            panel(
                "CPU", "percentunit", {"{{instance}}": rate("process_cpu_seconds_total", "instance")}, about="Of one core.", min=0
            ),
            panel("Memory", "bytes", {"{{instance}}": f"process_resident_memory_bytes{{{server}}}"}, min=0),
            panel("Open files", "none", {"{{instance}}": f"process_open_fds{{{server}}}"}, min=0),
            panel(
                "Runs",
                "none",
                {
                    "active": f"max(fade_active_runs{{{server}}})",
                    "without gauges of their own": f"max(fade_runs_beyond_limit{{{server}}})",
                },
                min=0,
            ),
        ],
    }
    return dashboard("fade-operations", "FADE operations", [variable("instance", 'up{job="fade"}')], rows)


def training() -> dict[str, Any]:
    """What each run's schedule does, and what it follows. Every server tells the same of a run, hence "max by"."""
    run = 'job="fade",project=~"$project",run=~"$run"'
    environment = f'{run},environment=~"$environment"'

    def of_run(metric: str) -> str:
        return f"max by (project,run) ({metric}{{{run}}})"

    def of_environment(metric: str) -> str:
        return f"max by (project,run,environment) ({metric}{{{environment}}})"

    legend, one, warned = "{{project}}/{{run}} {{environment}}", "{{project}}/{{run}}", "fade_run_warning_active"
    rows = {
        "Schedule": [
            panel(
                "alpha", "none", {legend: of_environment("fade_run_alpha")}, about="Difficulty exponent; 1 is plain centred GRPO."
            ),
            panel(
                "delta", "none", {legend: of_environment("fade_run_delta")}, about="Failures weigh 1/delta more than successes."
            ),
            states(
                "Phase", "fade_run_phase", "phase", "project,run,environment", environment, "exploring", "exploiting", "floor"
            ),
            states("Mode", "fade_run_mode", "mode", "project,run", run, "active", "shadow", "pinned"),
        ],
        "Averages": [
            panel("Solve rate", "percentunit", {legend: of_environment("fade_run_solve_rate")}, min=0, max=1),
            panel(
                "Entropy against its target",
                "suffix: nats",
                {
                    legend: of_environment("fade_run_entropy_nats"),
                    f"{legend} target": of_environment("fade_run_entropy_target_nats"),
                },
                about="Per token. Under the target delta falls, and failures weigh more.",
                min=0,
            ),
            panel(
                "Averages held",
                "bool",
                {legend: of_environment("fade_run_averages_held")},
                about="By the newest observation: too few rollouts scored, or groups dropped uncounted.",
            ),
        ],
        "Newest observation": [
            panel(
                "Masses",
                "none",
                {
                    f"{legend} success": of_environment("fade_run_mass_success"),
                    f"{legend} failure": of_environment("fade_run_mass_failure"),
                },
                about="Mean over rollouts of the positive and of the absolute negative advantages, as scheduled.",
                min=0,
            ),
            panel("Mass against GRPO's", "none", {legend: of_environment("fade_run_mass_vs_grpo_ratio")}, min=0),
            panel("Groups with an advantage", "percentunit", {legend: of_environment("fade_run_signal_ratio")}, min=0, max=1),
            panel("Rollouts scored", "percentunit", {legend: of_environment("fade_run_coverage_ratio")}, min=0, max=1),
        ],
        "Reports": [
            panel("Observations", "none", {one: of_run("fade_run_revision")}, min=0),
            panel(
                "Time since the last report",
                "s",
                {one: f"time() - {of_run('fade_run_last_observation_timestamp_seconds')}"},
                min=0,
            ),
            panel("Warnings with the newest observation", "none", {one: of_run("fade_run_warnings")}, min=0),
            panel(
                "Warnings over many observations",
                "bool",
                {f"{legend} {{{{reason}}}}": f"max by (project,run,environment,reason) ({warned}{{{environment}}})"},
                about="docs/warnings.md says when each is given.",
            ),
        ],
    }
    variables = [
        variable("project", "fade_run_revision"),
        variable("run", 'fade_run_revision{project=~"$project"}'),
        variable("environment", 'fade_run_alpha{project=~"$project",run=~"$run"}'),
    ]
    return dashboard("fade-training", "FADE training", variables, rows)


def dashboards() -> dict[str, str]:
    """Each file's text by its name."""
    made = {"operations.json": operations(), "training.json": training()}
    return {name: json.dumps(content, indent=1) + "\n" for name, content in made.items()}


if __name__ == "__main__":
    for name, text in dashboards().items():
        (FOLDER / name).write_text(text, "utf-8")
