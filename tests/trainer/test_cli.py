"""The command line, and what importing the package brings."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fade_trainer
from fade_client.cli import main as fade
from fade_trainer.cli import main


def test_the_public_names_are_these_and_all_are_there() -> None:
    assert fade_trainer.__all__ == ["TrainConfig", "TrainConfigError", "TrainResult"]
    assert all(hasattr(fade_trainer, name) for name in fade_trainer.__all__)


def test_the_command_fade_knows_train_without_importing_torch() -> None:
    code = """
import sys
import fade_trainer, fade_client.cli
try:
    fade_client.cli.main(["train", "--help"])
except SystemExit as stop:
    assert stop.code == 0
assert "torch" not in sys.modules and "matplotlib" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert (
        "fade, grpo, asym, power, or any registered advantage" in " ".join(done.stdout.split()) and "exit codes: 0" in done.stdout
    )


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["--server", "none"], "server 'none' goes with advantage grpo only, not fade"),
        (["--server", "nowhere"], "server must be HOST:PORT, 'local' or 'none', not 'nowhere'"),
        (["--alpha", "2"], "--alpha goes with --advantage power only"),
        (["--advantage", "power", "--delta", "2"], "--delta goes with --advantage asym only"),
        (["--steps", "-1"], "steps must be at least 0, not -1"),
        (["--rollouts", "1"], "rollouts must be at least 2, not 1"),
        (["--prompts", "1"], "prompts must be at least 2, not 1"),
        (["--learning-rate", "nan"], "learning_rate must be a finite number above 0, not nan"),
        (["--run", "Not A Name"], "run must be 1 to 63 lower-case letters, digits and inner hyphens, not 'Not A Name'"),
        (["--advantage", "maxrl"], "server 'local' goes with fade, grpo, asym, power only, not maxrl"),
        (["--parameter", "k=4"], "parameters go with a registered advantage, not with fade"),
        (["--set", "alpha_max=0.5"], "settings: alpha_max: is 0.5; it must be at least alpha_min, which is 1.0"),
        (["--set", "alpha_mx=4"], "settings: alpha_mx: is not a configuration field"),
        (["--evaluation-prompts", "1001"], "evaluation_prompts must be at most 1000, not 1001"),
    ],
)
def test_a_contradiction_is_code_2_and_one_sentence(
    words: list[str], complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--server", "local", "--out", str(tmp_path / "run"), *words]) == 2
    assert capsys.readouterr().err == f"fade train: {complaint}\n"
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("words", [["--set", "alpha"], ["--task", "chess"], ["--steps", "many"], ["--no-such-option"]])
def test_a_wrong_word_is_code_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(words)
    assert caught.value.code == 2
    assert words[0].lstrip("-") in capsys.readouterr().err


def test_a_run_draws_its_curves_and_prints_its_result_as_json(
    options: Callable[..., list[str]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert fade(["train", *options(steps=1)]) == 0
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["checkpoint.pt", "curves.png", "metrics.jsonl"]
    assert (tmp_path / "run" / "curves.png").read_bytes().startswith(b"\x89PNG\r\n")
    out, complaints = capsys.readouterr()
    result: dict[str, Any] = json.loads(out)
    assert (result["run"], result["steps"], result["schedules"]) == ("small", 1, {"LOCAL": 1})
    assert "without an answer" not in complaints
    assert main(options(steps=1)) == 2
    assert capsys.readouterr().err == f"fade train: {tmp_path / 'run'} holds a run already: resume it, or choose another folder\n"
