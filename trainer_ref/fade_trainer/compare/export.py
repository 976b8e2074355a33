"""The numbers of the report as JSON."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from typing import Any

import numpy as np

from fade_trainer.compare.rows import (
    CURVES,
    MEASURED,
    RATIO_GOAL,
    SHARES,
    TRAINING,
    Analysis,
    Standings,
    goals,
    mean_series,
    singular_values,
)
from fade_trainer.compare.statistics import FEW_SEEDS, estimate
from fade_trainer.compare.views import Arm


def as_json(analyses: Iterable[Analysis]) -> dict[str, Any]:
    """Every number that the report shows, curves included; null for what is unknown or never reached."""
    settings = [_setting_json(one) for one in analyses]
    return {"few_seeds": FEW_SEEDS, "shares": SHARES, "ratio_goal": RATIO_GOAL, "settings": settings}


def _setting_json(analysis: Analysis) -> dict[str, Any]:
    comparison = analysis.comparison
    tried = [arm for rates in comparison.grid.values() for arm in rates.values()]
    return {
        **asdict(comparison.setting),
        "title": comparison.setting.title,
        "warmed_up": _plain(analysis.warmed_up),
        "common_learning_rate": comparison.common_learning_rate,
        "learning_rates": [
            {"arm": _plain(arm), "validation": {name: _plain(estimate(arm.after("validation", name))) for name in MEASURED}}
            for arm in tried
        ],
        "views": [_standings_json(one) for one in analysis.standings],
    }


def _standings_json(standings: Standings) -> dict[str, Any]:
    return {
        "learning_rate": "common" if standings.view.common else "own",
        "best_static": standings.view.best_static,
        "goals": _plain(goals(standings)),
        "rows": [{**_plain(row), **_drawn(row.arm)} for row in standings.rows],
    }


def _drawn(arm: Arm) -> dict[str, Any]:
    """What figures draw of an arm."""
    parts = ("step", "mean", "standard_deviation")
    curves = {name: dict(zip(parts, _plain(mean_series(arm, name)), strict=True)) for name in (*CURVES, *TRAINING)}
    return {"curves": curves, "singular_values": _plain(singular_values(arm))}


def _plain(value: Any) -> Any:
    """For JSON: an arm by its name, and null for what is not finite."""
    if isinstance(value, Arm):
        fields_shown = (value.method, value.title, value.family, value.learning_rate, list(value.runs))
        return dict(zip(("method", "title", "family", "learning_rate", "seeds"), fields_shown, strict=True))
    if is_dataclass(value):
        return {item.name: _plain(getattr(value, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    return value
