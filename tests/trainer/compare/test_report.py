"""The report of made-up results whose figures are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fade_trainer.compare.methods import METHODS
from fade_trainer.compare.report import markdown_tables, write_report
from fade_trainer.compare.results import Result

PASS_AT = (1, 2, 4, 8, 16, 32, 64)


def made(method: str, seed: int, level: float, learning_rate: float = 1e-3, decay: bool = True) -> Result:
    """A training that rises in a straight line to `level` in 100 steps."""
    evaluation = {f"pass@{k}": min(1.0, level * (1 + 0.1 * index)) for index, k in enumerate(PASS_AT)} | {"entropy_nats": 0.3}
    steps: list[float] = [0, 25, 50, 75, 100]
    rising = [level * step / 100 + 0.001 * seed for step in steps]
    training: dict[str, list[float | None]] = {"step": list(steps[1:])}
    names = ("solve_rate", "entropy_nats", "alpha", "delta", "lr_scale", "success_mass", "failure_mass", "informative_groups")
    training |= {name: [0.5] * 4 for name in names}
    if METHODS[method].advantage == "maxrl":
        training["alpha"] = [None] * 4
    return Result(
        regime="standard", method=method, learning_rate=learning_rate, decay=decay, seed=seed, steps=100,
        family=METHODS[method].family, title=METHODS[method].title, seconds=10.0,
        before={"held_out": evaluation}, after={"held_out": evaluation, "validation": evaluation},
        curve={"step": steps, **{name: rising for name in ("pass@1", "pass@4", "pass@16", "entropy_nats")}},
        training=training, spectrum={"singular_values": [2.0, 1.0], "stable_rank": 1.25, "top_share": 0.8},
    )  # fmt: skip


RESULTS = [
    *(made("fade", seed, 0.5 + 0.01 * seed) for seed in range(6)),
    *(made("grpo-mean", seed, 0.4 + 0.01 * seed) for seed in range(6)),
    *(made("grpo-mean", seed, 0.3, learning_rate=2e-3) for seed in range(6)),
    *(made("asym-2", seed, 0.2) for seed in range(3)),
    made("fade", 0, 0.45, decay=False),
]


def test_the_report_says_what_the_results_say(tmp_path: Path) -> None:
    write_report(RESULTS, tmp_path)
    told: dict[str, Any] = json.loads((tmp_path / "tables.json").read_text())
    decayed = next(setting for setting in told["settings"] if setting["decay"])
    own = next(view for view in decayed["views"] if view["learning_rate"] == "own")
    rows = {row["arm"]["method"]: row for row in own["rows"]}
    assert own["best_static"] == "grpo-mean" and rows["grpo-mean"]["arm"]["learning_rate"] == 1e-3
    ahead = rows["fade"]["against"]["grpo-mean"]["pass@1"]
    assert ahead["mean"] == pytest.approx(0.1) and ahead["low"] == pytest.approx(0.1) and len(ahead["seeds"]) == 6
    assert rows["fade"]["held_out"]["pass@1"]["mean"] == pytest.approx(0.525)
    html = (tmp_path / "report.html").read_text()
    assert "FADE (paper)" in html and "3†" in html and "http" not in html.replace("http-equiv", "")
    pictures = sorted(path.name for path in tmp_path.glob("*.png"))
    views = sum(len(setting["views"]) for setting in told["settings"])
    assert len(pictures) > 5 * views and sum(name.endswith("-front.png") for name in pictures) == views
    assert html.count("data:image/png;base64,") == len(pictures)


def test_the_same_results_in_any_order_give_the_same_numbers(tmp_path: Path) -> None:
    for name, results in (("a", RESULTS), ("b", RESULTS[::-1])):
        write_report(results, tmp_path / name)
    assert (tmp_path / "a" / "tables.json").read_bytes() == (tmp_path / "b" / "tables.json").read_bytes()
    assert markdown_tables(RESULTS) == markdown_tables(RESULTS[::-1])


def test_markdown_has_every_method_once_per_table() -> None:
    text = markdown_tables(RESULTS)
    outcomes = text.split("**Outcomes**")[1].split("**")[0]
    assert outcomes.count("GRPO, mean only (best static)") <= 1 and "AsymGRPO, delta 2" in text
    assert "| FADE (paper) | 0.001" in text


def test_without_results_there_is_nothing_to_report(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no results"):
        write_report([], tmp_path)
