"""The report: one page that needs nothing beside it, its pictures, and every number as JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from fade_trainer.compare import figures
from fade_trainer.compare.export import as_json
from fade_trainer.compare.results import Result
from fade_trainer.compare.rows import Analysis, Standings, analyse
from fade_trainer.compare.statistics import FEW_SEEDS
from fade_trainer.compare.tables import (
    FEW_SEEDS_MARK,
    goals_table,
    headline,
    learning_rates_table,
    markdown,
    tables_of,
    view_title,
)

_ERROR = "mean over seeds with a band of one standard error"
_FIGURES: dict[str, tuple[str, Callable[[Standings], Figure]]] = {
    "curves": (f"pass@1 and pass@16 against the step, smoothed over three evaluations: {_ERROR}", figures.curves),
    "front": (f"pass@k against k: {_ERROR}; and pass@64 against pass@1 of every method", figures.front),
    "differences": ("Every method minus the best static one, paired: mean and 95 % interval", figures.differences),
    "process": (f"What went on during training: {_ERROR}", figures.process),
    "spectrum": ("Singular values of the output head's change since warm-up: mean over seeds", figures.spectrum),
    "methods": ("pass@1 of every method: its seeds, their mean, and dashed the best static method's mean", figures.methods),
}
_RATES = f"pass@1 and pass@64 at the end, validation prompts, against the learning rate: {_ERROR}; a ring at each method's best"
_DOTS_PER_INCH = 110


def write_report(results: Sequence[Result], out: Path) -> None:
    """Writes report.html, a PNG per figure and tables.json into the folder.

    Raises:
        ValueError: There are no results.
    """
    analyses = analyse(results)
    out.mkdir(parents=True, exist_ok=True)
    page = Environment(loader=PackageLoader("fade_trainer", "compare"), autoescape=True).get_template("report.html")
    settings = [_setting(analysis, out) for analysis in analyses]
    html = page.render(trainings=len(results), mark=FEW_SEEDS_MARK, few=FEW_SEEDS, goals=goals_table(analyses), settings=settings)
    (out / "report.html").write_text(html)
    (out / "tables.json").write_text(json.dumps(as_json(analyses), indent=1, allow_nan=False))


def markdown_tables(results: Iterable[Result]) -> str:
    """The headline, the goals, and each setting's tables, for a page of documentation.

    Raises:
        ValueError: There are no results.
    """
    analyses = analyse(results)
    parts = [headline(analyses), markdown(goals_table(analyses))]
    for analysis in analyses:
        parts.append(f"### {analysis.comparison.setting.title}\n")
        rates = learning_rates_table(analysis)
        if rates is not None:
            parts.append(markdown(rates))
        for standings in analysis.standings:
            parts.append(f"#### {view_title(analysis, standings)}\n")
            parts += [markdown(table) for table in tables_of(analysis, standings)]
    return "\n".join(parts)


def _setting(analysis: Analysis, out: Path) -> dict[str, Any]:
    setting = analysis.comparison.setting
    rates = learning_rates_table(analysis)
    views = [
        {
            "title": view_title(analysis, standings),
            "tables": tables_of(analysis, standings),
            "pictures": _pictures(analysis, standings, out),
        }
        for standings in analysis.standings
    ]
    picture = None
    if rates is not None:
        path = out / f"{setting.key}-learning-rates.png"
        picture = _picture(figures.learning_rates(analysis), _RATES, setting.title, path)
    return {"key": setting.key, "title": setting.title, "rates": rates, "rates_picture": picture, "views": views}


def _pictures(analysis: Analysis, standings: Standings, out: Path) -> list[dict[str, str]]:
    setting = analysis.comparison.setting
    prefix = f"{setting.key}-{'common' if standings.view.common else 'own'}"
    heading = f"{setting.title}. {view_title(analysis, standings)}"
    drawn = {name: draw for name, (_, draw) in _FIGURES.items() if name != "differences" or standings.best_static is not None}
    return [_picture(draw(standings), _FIGURES[name][0], heading, out / f"{prefix}-{name}.png") for name, draw in drawn.items()]


def _picture(figure: Figure, title: str, heading: str, path: Path) -> dict[str, str]:
    """Writes a PNG, which says on its own what it shows, and gives it for the page."""
    figure.suptitle(f"{heading}\n{title}", fontsize="medium")
    figure.savefig(path, dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return {"title": title, "data": base64.b64encode(path.read_bytes()).decode()}
