"""The plan, the file of results, and small trainings of the real trainer through it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fade_client.cli import main as fade
from fade_core import RunConfig, advantage_names
from fade_trainer.compare.cells import COMMON_LEARNING_RATE, LEARNING_RATES, REGIMES, Cell, cells, evidence_plan
from fade_trainer.compare.methods import HEADLINE, METHODS
from fade_trainer.compare.results import Result, append_result, read_results
from fade_trainer.config import SCHEDULED

RESULT = Result(
    regime="standard", method="fade", learning_rate=1e-3, decay=True, seed=0, steps=450, family="schedule", title="FADE (paper)",
    seconds=1.0, before={}, after={}, curve={}, training={}, spectrum={},
)  # fmt: skip


def test_every_method_is_a_configuration_of_a_run_or_a_registered_advantage() -> None:
    for method in METHODS.values():
        RunConfig.from_dict(dict(method.settings))
        assert method.advantage in SCHEDULED or method.advantage in advantage_names()


def test_the_plan_has_each_cell_once_and_the_whole_grid_for_the_headline() -> None:
    plan = evidence_plan(range(6))
    assert max(Counter(plan).values()) == 1
    for decay in (True, False):
        grid = {(cell.method, cell.learning_rate) for cell in plan if cell.regime == "standard" and cell.decay == decay}
        assert grid >= {(name, rate) for name in HEADLINE for rate in LEARNING_RATES}
        assert grid >= {(name, COMMON_LEARNING_RATE) for name in METHODS}
    assert {cell.regime for cell in plan} == set(REGIMES)
    assert all(count == 6 for count in Counter(replace(cell, seed=0) for cell in plan).values())


def test_an_unknown_name_is_refused() -> None:
    common: dict[str, Any] = {"learning_rates": [1e-3], "decays": [True], "seeds": [0]}
    with pytest.raises(ValueError, match="no method 'best'"):
        list(cells(methods=["best"], regimes=["standard"], **common))
    with pytest.raises(ValueError, match="no regime 'odd'"):
        list(cells(methods=["fade"], regimes=["odd"], **common))


def test_results_come_back_the_last_line_of_a_cell_counts_and_a_torn_one_does_not(tmp_path: Path) -> None:
    path = tmp_path / "sub" / "results.jsonl"
    assert read_results(path) == []
    other, again = replace(RESULT, seed=1), replace(RESULT, seconds=2.0)
    for result in (RESULT, other, again):
        append_result(path, result)
    assert read_results(path) == [again, other]
    with path.open("a") as file:
        file.write(json.dumps(asdict(replace(RESULT, seed=2)))[:-20])
    assert read_results(path) == [again, other]
    append_result(path, replace(RESULT, seed=3))
    assert read_results(path) == [again, other, replace(RESULT, seed=3)]


def test_a_line_in_the_middle_that_is_no_result_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    append_result(path, RESULT)
    path.write_text('{"regime": "standard"}\n' + path.read_text())
    with pytest.raises(ValueError, match=r"results.jsonl, line 1 is no result"):
        read_results(path)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--plan", "fade"], "--plan fixes methods, regimes, rates and steps: leave them out"),
        (["best"], "there is no method 'best'"),
        (["--workers", "0"], "--workers must be at least 1, not 0"),
        (["--report-only"], "holds no results"),
    ],
)
def test_a_contradiction_is_code_2(words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert fade(["compare", "--results", str(tmp_path / "results.jsonl"), *words]) == 2
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


SMALL = ["--steps", "2", "--evaluation-prompts", "4", "--workers", "2", "--rate", "1e-3"]


@pytest.mark.heavy
def test_a_small_comparison_through_the_service_is_resumed_and_reported(tmp_path: Path, cache_dir: Path) -> None:
    """Every method once, two at a constant rate too; a second call finds nothing to do and writes the same numbers."""
    results, report = tmp_path / "results.jsonl", tmp_path / "report"
    words = ["--results", str(results), "--report", str(report), "--cache-dir", str(cache_dir), *SMALL]
    assert fade(["compare", *METHODS, "--seeds", "0:1", *words]) == 0
    assert fade(["compare", "fade", "grpo-mean", "--seeds", "0:2", "--decay", "both", *words]) == 0
    found = {result.cell: result for result in read_results(results)}
    assert len(found) == len(METHODS) + 2 * 2 * 2 - 2
    assert not list((tmp_path / "cells").iterdir())
    for result in found.values():
        assert set(result.after) == {"held_out", "validation"} and result.curve["step"] == [0, 2]
        assert len(result.spectrum["singular_values"]) == 14
        assert result.training["lr_scale"] == [pytest.approx((0.525 + 0.05) / 2) if result.decay else 1.0]
    fading = found[Cell(regime="standard", method="fade", learning_rate=1e-3, decay=True, seed=0, steps=2)]
    first, second = fading.training["alpha"][0], METHODS["fade"]
    assert first is not None and 1.5 < first < 1.7 and second.family == fading.family
    before = results.read_bytes()
    shown = {path.name: path.read_bytes() for path in report.iterdir()}
    assert fade(["compare", "fade", "grpo-mean", "--seeds", "0:2", "--decay", "both", *words]) == 0
    assert results.read_bytes() == before
    assert {path.name: path.read_bytes() for path in report.iterdir() if path.suffix == ".json"}.items() <= shown.items()


@pytest.mark.heavy
def test_what_ctrl_c_stopped_goes_on_where_it_was_and_comes_to_the_same(tmp_path: Path, cache_dir: Path) -> None:
    def command(folder: str) -> list[str]:
        words = ["compare", "fade", "--seeds", "0:1", "--steps", "60", "--evaluation-prompts", "4", "--workers", "1"]
        return [*words, "--results", str(tmp_path / folder / "results.jsonl"), "--cache-dir", str(cache_dir)]

    process = subprocess.Popen([Path(sys.executable).with_name("fade"), *command("stopped")], start_new_session=True)
    metrics = tmp_path / "stopped" / "cells" / "standard-fade-0-001-decay-60-0" / "metrics.jsonl"
    deadline = time.monotonic() + 120
    while not metrics.exists() or metrics.read_text().count('"kind": "step"') < 10:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    assert process.wait(60) == 130
    assert fade(command("stopped")) == 0
    assert fade(command("whole")) == 0
    stopped, whole = (read_results(tmp_path / folder / "results.jsonl")[0] for folder in ("stopped", "whole"))
    assert replace(stopped, seconds=0) == replace(whole, seconds=0)
    assert np.isfinite(stopped.after["held_out"]["pass@1"])
