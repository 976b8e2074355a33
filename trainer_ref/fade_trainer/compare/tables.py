"""The tables that people read, as plain cells: for HTML and for Markdown alike."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from fade_trainer.compare.rows import RATIO_GOAL, REFERENCE, SHARES, Analysis, Row, Standings, goals
from fade_trainer.compare.statistics import FEW_SEEDS, Estimate, difference, estimate
from fade_trainer.compare.views import CHOSEN_BY

FEW_SEEDS_MARK = "†"
"""Behind the number of seeds where there are few."""

_SHOWN = {"pass@1": "pass@1", "pass@4": "pass@4", "pass@16": "pass@16", "pass@64": "pass@64", "entropy_nats": "entropy, nats"}
"""Measures in columns; JSON has every k."""

_ENDS = ("pass@1", "pass@64")

_UNKNOWN = "–"


@dataclass(frozen=True, slots=True)
class Table:
    """Column heads and rows of cells under a title; `note` says how to read them."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str


def goals_table(analyses: Iterable[Analysis]) -> Table:
    """How each schedule stands to the two goals, in every setting and view."""
    rows = []
    for analysis in analyses:
        for standings in analysis.standings:
            for goal in goals(standings):
                rates = "common" if standings.view.common else "own best"
                ratio = _with_interval(goal.race.ratio, goal.race.ratio_low, goal.race.ratio_high, ".2f")
                earlier = _verdict(goal.earlier, goal.earlier_within_noise)
                kept = _verdict(goal.kept, goal.kept_within_noise)
                seeds = _seeds(goal.pass_at_64.seeds)
                named = [analysis.comparison.setting.title, rates, goal.arm.title, seeds]
                rows.append([*named, ratio, earlier, _change(goal.pass_at_64), kept])
    return Table(
        "Goals",
        ["setting", "rates", "schedule", "seeds", "steps / its steps", f"≤ {RATIO_GOAL:g}?", "pass@64 − its", "≥ 0?"],
        rows,
        "'Its' is the best static method's: the steps that a schedule takes to that method's peak pass@1, as a share of its own"
        " steps to it, and the difference in pass@64 at the end. Within noise: the 95 % interval has both sides of the goal, or"
        " there is a single seed.",
    )


def headline(analyses: Iterable[Analysis]) -> str:
    """Per setting a line: FADE against the best static method, each at its own best learning rate, and that against GRPO."""
    lines = []
    for analysis in analyses:
        standings = analysis.standings[0]
        by_method = {row.arm.method: row for row in standings.rows}
        static = standings.best_static
        for mine, theirs in ((by_method.get(REFERENCE), static), (by_method.get(REFERENCE), by_method.get("grpo-mean"))):
            if mine is not None and theirs is not None and mine.arm.method != theirs.arm.method:
                one, many = (difference(*(row.arm.after("held_out", name) for row in (mine, theirs))) for name in _ENDS)
                if one is not None and many is not None:
                    named = f"{mine.arm.title} minus {_name(standings, theirs)}, {_seeds(one.seeds)} paired seeds"
                    lines.append(
                        f"- {analysis.comparison.setting.title}: {named}: pass@1 {_change(one)}, pass@64 {_change(many)}"
                    )
    return "\n".join(dict.fromkeys(lines)) + "\n"


def tables_of(analysis: Analysis, standings: Standings) -> list[Table]:
    """What there is to read of a view."""
    tables = [_outcomes(analysis, standings)]
    if standings.best_static is not None:
        tables += [_against(standings, standings.best_static), _steps(standings, standings.best_static)]
    reference = next((row for row in standings.rows if row.arm.method == REFERENCE), None)
    if reference is not None:
        tables.append(_against(standings, reference))
    return [*tables, _spectrum(standings)]


def learning_rates_table(analysis: Analysis) -> Table | None:
    """What each method came to at each learning rate; None where no method had a choice."""
    grid = analysis.comparison.grid
    if all(len(arms) == 1 for arms in grid.values()):
        return None
    rates = sorted({rate for arms in grid.values() for rate in arms})
    own = analysis.standings[0].view.arms
    rows = []
    for name, arms in grid.items():
        cells = [own[name].title]
        for rate in rates:
            if rate in arms:
                measured = estimate(arms[rate].after("validation", CHOSEN_BY))
                best = " ←" if rate == own[name].learning_rate else ""
                cells.append(f"{_spread(measured)} ({_seeds(measured.seeds)}){best}")
            else:
                cells.append(_UNKNOWN)
        rows.append(cells)
    note = (
        f"{CHOSEN_BY} at the end on validation prompts, mean ± standard deviation over seeds (how many); ← is the method's best."
    )
    return Table("Learning rates", ["method", *(f"{rate:g}" for rate in rates)], rows, note)


def view_title(analysis: Analysis, standings: Standings) -> str:
    """Which learning rates a view is at."""
    if standings.view.common:
        return f"All at learning rate {analysis.comparison.common_learning_rate:g}"
    return "Each at its own best learning rate"


def markdown(table: Table) -> str:
    """A table with its title before it and its note behind it."""
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    body = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
    return f"**{table.title}**\n\n{body}\n\n{table.note}\n"


def _outcomes(analysis: Analysis, standings: Standings) -> Table:
    rows = []
    for row in standings.rows:
        tried = len(analysis.comparison.grid[row.arm.method])
        rate = f"{row.arm.learning_rate:g}" + ("" if standings.view.common else f" (of {tried})")
        rows.append([_name(standings, row), rate, _seeds(row.arm.runs), *(_spread(row.held_out[name]) for name in _SHOWN)])
    before = analysis.warmed_up
    rows.append(["before RL", _UNKNOWN, _seeds(before["pass@1"].seeds), *(_spread(before[name]) for name in _SHOWN)])
    return Table(
        "Outcomes",
        ["method", "learning rate", "seeds", *_SHOWN.values()],
        rows,
        "At the end, on held-out prompts: mean ± standard deviation over seeds. Learning rates (of how many tried) and the best"
        f" static method are those with the highest mean {CHOSEN_BY} on validation prompts.",
    )


def _against(standings: Standings, other: Row) -> Table:
    method = other.arm.method
    rows = [
        [_name(standings, row), _seeds(found["pass@1"].seeds), *(_change(found[name]) for name in _SHOWN)]
        for row in standings.rows
        if (found := row.against.get(method))
    ]
    return Table(
        f"Minus {_name(standings, other)}",
        ["method", "seeds", *_SHOWN.values()],
        rows,
        "Held-out prompts, paired over the seeds that both have: mean difference ± standard error [95 % bootstrap interval].",
    )


def _steps(standings: Standings, static: Row) -> Table:
    columns = ["method", "seeds"]
    for share in SHARES:
        columns += [f"to {share:.0%}, pass@1 {static.races[share].level:.3f}", "share of its steps"]
    rows = []
    for row in standings.rows:
        if row.races:
            cells = [_name(standings, row), _seeds(row.races[SHARES[0]].seeds)]
            for share in SHARES:
                race = row.races[share]
                cells.append(_with_interval(race.steps, race.low, race.high, ".0f"))
                cells.append(_with_interval(race.ratio, race.ratio_low, race.ratio_high, ".2f"))
            rows.append(cells)
    return Table(
        "Steps to the best static method's peak",
        columns,
        rows,
        "Validation prompts: where the mean curve over seeds, smoothed over three evaluations, first reaches that share of the"
        " peak of the best static method's, between evaluations in a straight line, and that as a share of the best static"
        " method's own steps. [95 % interval from a bootstrap over the seeds that both have.]",
    )


def _spectrum(standings: Standings) -> Table:
    rows = []
    for row in standings.rows:
        shown = [_spread(row.spectrum[name]) if name in row.spectrum else _UNKNOWN for name in ("stable_rank", "top_share")]
        rows.append([_name(standings, row), _seeds(row.arm.runs), *shown, _spread(row.seconds, ".1f")])
    return Table(
        "Output head and cost",
        ["method", "seeds", "stable rank", "top share", "seconds"],
        rows,
        "Mean ± standard deviation over seeds, of the output head's change since warm-up: squared Frobenius norm over squared"
        " spectral norm, and its inverse. Seconds are of a whole training with its evaluations.",
    )


def _name(standings: Standings, row: Row) -> str:
    return row.arm.title + (" (best static)" if row.arm.method == standings.view.best_static else "")


def _seeds(seeds: Iterable[int]) -> str:
    count = len(tuple(seeds))
    return f"{count}{FEW_SEEDS_MARK if count < FEW_SEEDS else ''}"


def _spread(found: Estimate, style: str = ".3f") -> str:
    spread = "" if found.standard_deviation is None else f" ± {found.standard_deviation:{style}}"
    return f"{found.mean:{style}}{spread}"


def _change(found: Estimate) -> str:
    error = "" if found.standard_error is None else f" ± {found.standard_error:.3f}"
    return _with_interval(found.mean, found.low, found.high, "+.3f", error)


def _with_interval(value: float, low: float | None, high: float | None, style: str, error: str = "") -> str:
    interval = "" if low is None or high is None else f" [{_number(low, style)}, {_number(high, style)}]"
    return f"{_number(value, style)}{error}{interval}"


def _number(value: float, style: str) -> str:
    return f"{value:{style}}" if math.isfinite(value) else "never"


def _verdict(reached: bool, within_noise: bool) -> str:
    return ("yes" if reached else "no") + (", within noise" if within_noise else "")
