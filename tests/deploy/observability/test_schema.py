"""The dashboards by the types that Grafana publishes of them."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.observability.expressions import DASHBOARDS

pytestmark = [pytest.mark.heavy, pytest.mark.timeout(300)]

PACKAGES = ("@grafana/schema@13.2.3", "typescript@5.9.3")
TSC = (
    "npx",
    "--no-install",
    "tsc",
    "--noEmit",
    "--strict",
    "--skipLibCheck",
    "--module",
    "nodenext",
    "--moduleResolution",
    "nodenext",
)

HEAD = """
import type { Dashboard } from "@grafana/schema";
// JSON has the values of enums, not their names.
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which the packages are installed."""
    made = tmp_path_factory.mktemp("schema")
    command = ["npm", "install", "--no-audit", "--no-fund", "--save-exact", *PACKAGES]
    done = subprocess.run(
        command, cwd=made, env=os.environ | {"npm_config_update_notifier": "false"}, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return made


def compiled(folder: Path, dashboard: Any) -> subprocess.CompletedProcess[str]:
    """The compiler's verdict."""
    (folder / "check.ts").write_text(f"{HEAD}export default ({json.dumps(dashboard)}) satisfies Plain<Dashboard>;", "utf-8")
    return subprocess.run([*TSC, "check.ts"], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize("file", DASHBOARDS, ids=lambda file: file.stem)
def test_a_dashboard_is_what_grafana_takes(folder: Path, file: Path) -> None:
    done = compiled(folder, json.loads(file.read_text("utf-8")))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda dashboard: dashboard.update(titel="x"), "titel"),
        (lambda dashboard: dashboard["panels"][1]["gridPos"].update(width=1), "width"),
        (lambda dashboard: dashboard["panels"][1]["fieldConfig"]["defaults"].update(unit=1), "'number' is not assignable"),
        (lambda dashboard: dashboard["templating"]["list"][1].update(refresh=7), "'7' is not assignable"),
    ],
)
def test_a_mistake_in_a_dashboard_is_found(folder: Path, spoil: Callable[[Any], None], said: str) -> None:
    dashboard = json.loads(DASHBOARDS[0].read_text("utf-8"))
    spoil(dashboard)
    done = compiled(folder, dashboard)
    assert done.returncode != 0 and said in done.stdout
