"""Which package may import which, what importing one brings along, and the names each shows."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = {
    "fade_core": "service",
    "fade_proto": "proto",
    "fade_service": "service",
    "fade_client": "clients",
    "fade_trainer": "trainer_ref",
}
ALLOWED = {
    "fade_core": set(),
    "fade_proto": {"fade_core"},
    "fade_client": {"fade_core", "fade_proto"},
    "fade_service": {"fade_core", "fade_proto"},
    "fade_trainer": {"fade_core", "fade_proto", "fade_service", "fade_client"},
}
PURE = {"__future__", "collections", "dataclasses", "decimal", "enum", "hashlib", "json", "math", "numpy", "typing"}


def imported(package: str) -> set[str]:
    """The top-level packages that a package's files import, at any depth of code."""
    found = set()
    for path in (ROOT / FOLDERS[package] / package).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add((node.module or "").partition(".")[0])
    return found


@pytest.mark.parametrize("package", FOLDERS)
def test_arrows_between_packages_run_one_way(package: str) -> None:
    assert imported(package) & set(FOLDERS) - {package} <= ALLOWED[package]


def test_the_maths_imports_no_input_output_clock_thread_or_log() -> None:
    assert imported("fade_core") - {"fade_core"} <= PURE


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("fade_client", ("torch", "fastapi", "redis", "uvicorn", "matplotlib", "rich", "shtab")),
        ("fade_service.server", ("torch", "fade_client", "matplotlib")),
        (
            "fade_client.cli, fade_service.cli, fade_trainer.cli",
            ("torch", "fastapi", "uvicorn", "matplotlib", "tqdm", "rich", "shtab"),
        ),
    ],
)
def test_importing_brings_nothing_heavy_along(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*sorted({set(absent)!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


PUBLIC = {
    "fade_core": [
        "DEFAULT_ENVIRONMENT", "EMPTY_STATE", "MATHS_VERSION", "WATCHED", "Answer", "Batch", "ControllerState",
        "Decomposition",
        "Diagnostics", "Entropy", "EntropyKindError", "EnvironmentAnswer", "EnvironmentReport", "EnvironmentState",
        "FadeError", "Groups", "InvalidBatchError", "InvalidConfigError", "Likeness", "MeasuredDecomposition", "Parameter",
        "RowStatus", "RunConfig", "Schedule", "Telemetry", "Trajectory", "TwoLevel", "Warning", "Watch",
        "advantage_names", "apply_schedules", "decompose",
        "decompose_rows", "fade_advantages", "group_rows", "named_advantages", "observe", "schedule_of",
        "simulate", "two_level_advantages", "watch",
    ],
    "fade_service": ["FadeServer"],
    "fade_service.store": [
        "MemoryStore", "RedisStore", "SqliteStore", "Store", "StoredObservation", "StoredRun", "default_store_url", "open_store",
        "shown",
    ],
}  # fmt: skip


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_are_these_and_all_are_there(package: str) -> None:
    module = __import__(package, fromlist=["*"])
    assert sorted(module.__all__) == sorted(PUBLIC[package])
    assert all(hasattr(module, name) for name in module.__all__)
