"""Writes rules.yaml, a PrometheusRule, from deploy/prometheus/rules: python deploy/kubernetes/rules.py"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parent
RULES = FOLDER.parent / "prometheus/rules"


def prometheus_rule() -> str:
    """The manifest's text: the groups of all files, in the order of their names."""
    groups: list[Any] = []
    for file in sorted(RULES.glob("*.y*ml")):
        groups += yaml.safe_load(file.read_text("utf-8"))["groups"]
    manifest = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "fade", "labels": {"app.kubernetes.io/name": "fade"}},
        "spec": {"groups": groups},
    }
    text: str = yaml.safe_dump(manifest, sort_keys=False, width=130, allow_unicode=True)
    return f"# Made by rules.py from deploy/prometheus/rules.\n{text}"


if __name__ == "__main__":
    (FOLDER / "rules.yaml").write_text(prometheus_rule(), "utf-8")
