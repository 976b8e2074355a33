"""The pictures of the report. Without pyplot: there may be no display, and nothing is shared between figures."""

from __future__ import annotations

from collections.abc import Sequence

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fade_trainer.compare.methods import METHODS
from fade_trainer.compare.rows import PASS_AT, Row, Standings, mean_series, singular_values
from fade_trainer.compare.statistics import smooth

Colour = tuple[float, float, float, float]

_PANEL = (4.2, 3.0)
"""Inches of one panel."""

_PROCESS = (
    ("training.solve_rate", "solve rate of the batch"),
    ("training.entropy_nats", "entropy, nats per token"),
    ("training.alpha", "alpha"),
    ("training.delta", "delta"),
    ("training.success_mass", "mass on successes"),
    ("training.failure_mass", "mass on failures"),
    ("training.informative_groups", "share of groups with a gradient"),
    ("training.lr_scale", "lr_scale"),
)


def curves(standings: Standings) -> Figure:
    """pass@1 on validation prompts against the step: mean over seeds, smoothed as in the tables, with a band of one deviation."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    for row in standings.headline:
        _draw(axes, row, "curve.pass@1", smoothed=True)
    axes.set(xlabel="step", ylabel="pass@1, validation prompts")
    axes.legend(fontsize="small")
    return figure


def front(standings: Standings) -> Figure:
    """Left: pass@k against k. Right: what a method has at k = 64 against what it has at k = 1, with standard errors."""
    figure = Figure(figsize=(11, 5), layout="constrained")
    by_k, trade = figure.subplots(1, 2)
    ks = [int(name.removeprefix("pass@")) for name in PASS_AT]
    for row in standings.headline:
        by_k.plot(ks, [row.held_out[name].mean for name in PASS_AT], "o-", markersize=3, color=_colour(row), label=row.arm.title)
    by_k.set(xscale="log", xlabel="k", ylabel="pass@k, held-out prompts", xticks=ks, xticklabels=[str(k) for k in ks])
    by_k.minorticks_off()
    by_k.legend(fontsize="small")
    for row in standings.rows:
        one, many = row.held_out["pass@1"], row.held_out["pass@64"]
        errors = {"xerr": one.standard_error or 0, "yerr": many.standard_error or 0}
        trade.errorbar(one.mean, many.mean, **errors, fmt="o", markersize=4, linewidth=1, color=_colour(row))
        trade.annotate(row.arm.title, (one.mean, many.mean), xytext=(5, 4), textcoords="offset points", fontsize="x-small")
    trade.set(xlabel="pass@1, held-out prompts", ylabel="pass@64, held-out prompts")
    trade.margins(0.15)
    return figure


def process(standings: Standings) -> Figure:
    """What went on during training: means over seeds and over 25 steps at a time."""
    figure = Figure(figsize=(3 * _PANEL[0], 3 * _PANEL[1]), layout="constrained")
    panels = figure.subplots(3, 3).flat
    for axes, (name, label) in zip(panels, _PROCESS, strict=False):
        for row in standings.headline:
            _draw(axes, row, name, smoothed=False)
        axes.set(ylabel=label, xlabel="step")
    legend = panels[len(_PROCESS)]
    legend.axis("off")
    legend.legend(*panels[0].get_legend_handles_labels(), loc="center", fontsize="small")
    return figure


def spectrum(standings: Standings) -> Figure:
    """Singular values of the output head's change since warm-up, relative to the largest."""
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for row in standings.headline:
        values = singular_values(row.arm)
        axes.plot(range(1, len(values) + 1), values, "o-", markersize=3, color=_colour(row), label=row.arm.title)
    axes.set(yscale="log", xlabel="rank", ylabel="singular value / largest")
    axes.legend(fontsize="small")
    return figure


def everyone(standings: Standings) -> Figure:
    """A small panel per method: its pass@1 with a band, in front of all others'."""
    columns = 4
    rows: Sequence[Row] = standings.rows
    lines = -(-len(rows) // columns)
    figure = Figure(figsize=(columns * 2.9, lines * 2.2), layout="constrained")
    panels = figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False).flat
    for axes, row in zip(panels, rows, strict=False):
        for other in rows:
            steps, mean, _ = mean_series(other.arm, "curve.pass@1")
            axes.plot(steps, smooth(mean), color="0.85", linewidth=0.7)
        _draw(axes, row, "curve.pass@1", smoothed=True)
        axes.set_title(row.arm.title, fontsize="small")
    for axes in list(panels)[len(rows) :]:
        axes.axis("off")
    figure.supxlabel("step", fontsize="small")
    figure.supylabel("pass@1, validation prompts", fontsize="small")
    return figure


def _draw(axes: Axes, row: Row, name: str, *, smoothed: bool) -> None:
    steps, mean, deviation = mean_series(row.arm, name)
    if smoothed:
        mean, deviation = smooth(mean), smooth(deviation)
    axes.plot(steps, mean, color=_colour(row), linewidth=1.5, label=row.arm.title)
    axes.fill_between(steps, mean - deviation, mean + deviation, color=_colour(row), alpha=0.15, linewidth=0)


def _colour(row: Row) -> Colour:
    """The same for a method in every figure and every report."""
    places = {name: place for place, name in enumerate(METHODS)}
    colour: Colour = matplotlib.colormaps["tab20"](places.get(row.arm.method, len(places)) % 20)
    return colour
