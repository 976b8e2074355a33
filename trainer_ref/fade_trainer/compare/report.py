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

_FIGURES: dict[str, tuple[str, Callable[[Standings], Figure]]] = {
    "pass-at-1": ("pass@1 against the step, mean over seeds with a band of one standard deviation", figures.curves),
    "front": ("pass@k against k, and pass@64 against pass@1", figures.front),
    "process": ("What went on during training", figures.process),
    "spectrum": ("Singular values of the output head's change since warm-up", figures.spectrum),
    "methods": ("pass@1 of each method, in front of all others", figures.everyone),
}
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
    views = [
        {
            "title": view_title(analysis, standings),
            "tables": tables_of(analysis, standings),
            "pictures": _pictures(standings, out, f"{setting.key}-{'common' if standings.view.common else 'own'}"),
        }
        for standings in analysis.standings
    ]
    return {"key": setting.key, "title": setting.title, "rates": learning_rates_table(analysis), "views": views}


def _pictures(standings: Standings, out: Path, prefix: str) -> list[dict[str, str]]:
    pictures = []
    for name, (title, draw) in _FIGURES.items():
        path = out / f"{prefix}-{name}.png"
        draw(standings).savefig(path, dpi=_DOTS_PER_INCH, metadata={"Software": None})
        pictures.append({"title": title, "data": base64.b64encode(path.read_bytes()).decode()})
    return pictures
