"""The pictures of the report. Without pyplot: there may be no display, and nothing is shared between figures."""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fade_trainer.compare.drawing import add_legend, draw_band, draw_curve, draw_interval, style_of
from fade_trainer.compare.methods import METHODS
from fade_trainer.compare.rows import PASS_AT, RATIO_GOAL, SHARES, Analysis, Standings, mean_series, singular_values
from fade_trainer.compare.statistics import Estimate, estimate, smooth
from fade_trainer.compare.views import Arm, aligned
from fade_trainer.config import SCHEDULED

_PROCESS = {
    "training.solve_rate": "solve rate",
    "training.entropy_nats": "entropy, nats per token",
    "training.informative_groups": "share of groups with a gradient",
    "training.lr_scale": "learning rate, of its start",
    "training.alpha": "alpha",
    "training.delta": "delta",
    "training.success_mass": "mass on successes",
    "training.failure_mass": "mass on failures",
}
_WEIGHTS = ("training.alpha", "training.delta")


def curves(standings: Standings) -> Figure:
    """pass@1 and pass@16 against the step, smoothed as in the tables, with the levels that methods race to."""
    figure = Figure(figsize=(13, 5), layout="constrained")
    panels = figure.subplots(1, 2)
    for axes, name in zip(panels, ("pass@1", "pass@16"), strict=True):
        for row in standings.headline:
            draw_curve(axes, row.arm, f"curve.{name}", smoothed=True)
        axes.set(xlabel="step", ylabel=f"{name}, validation prompts")
    static = standings.best_static
    levels = {} if static is None else {share: static.races[share].level for share in SHARES}
    for share, level in levels.items():
        panels[0].axhline(level, color="0.5", linewidth=0.8, linestyle=(0, (4, 4)))
        note = f"{share:.0%} of the best static method's peak"
        panels[0].annotate(note, (0, level), (0, 2), textcoords="offset points", fontsize="x-small", color="0.3")
    add_legend(figure, panels[0])
    return figure


def front(standings: Standings) -> Figure:
    """pass@k against k for the headline, and for all methods pass@64 against pass@1."""
    figure = Figure(figsize=(14, 5.5), layout="constrained")
    by_k, trade = figure.subplots(1, 2)
    ks = np.array([int(name.removeprefix("pass@")) for name in PASS_AT])
    for row in standings.headline:
        found = [row.held_out[name] for name in PASS_AT]
        draw_band(by_k, row.arm, ks, np.array([one.mean for one in found]), np.array([_error(one) for one in found]))
    by_k.set(xscale="log", xlabel="k", ylabel="pass@k, held-out prompts", xticks=ks, xticklabels=[str(k) for k in ks])
    by_k.minorticks_off()
    for row in standings.rows:
        one, many, style = row.held_out["pass@1"], row.held_out["pass@64"], style_of(row.arm)
        errors = {"xerr": _error(one), "yerr": _error(many), "elinewidth": 0.8, "capsize": 0}
        trade.errorbar(one.mean, many.mean, fmt=style.marker, color=style.colour, label=row.arm.title, **errors)
    trade.set(xlabel="pass@1, held-out prompts", ylabel="pass@64, held-out prompts")
    add_legend(figure, trade)
    return figure


def differences(standings: Standings) -> Figure:
    """All methods against the best static one: pass@1, pass@64, and the share of its steps that they take to its peak."""
    rows, best = standings.rows[::-1], standings.view.best_static
    figure = Figure(figsize=(13, 1.4 + 0.27 * len(rows)), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    for axes, name in zip(panels, ("pass@1", "pass@64"), strict=False):
        axes.axvline(0, color="0.5", linewidth=0.8)
        axes.set(xlabel=f"{name} minus the best static method's")
        for place, row in enumerate(rows):
            if best in row.against:
                found = row.against[best][name]
                draw_interval(axes, place, row.arm, found.mean, found.low, found.high)
    races = {place: row.races[1.0] for place, row in enumerate(rows) if row.races}
    finite = [end for one in races.values() for end in (one.ratio, one.ratio_low, one.ratio_high) if end and math.isfinite(end)]
    panels[2].axvspan(0, RATIO_GOAL, color="#2ca02c", alpha=0.12, linewidth=0)
    panels[2].axvline(1, color="0.5", linewidth=0.8)
    panels[2].set(
        xlabel=f"share of its steps to its peak; the goal is {RATIO_GOAL:g}",
        xlim=(min([RATIO_GOAL, *finite]) - 0.1, max([1, *finite]) + 0.15),
    )
    for place, one in races.items():
        draw_interval(panels[2], place, rows[place].arm, one.ratio, one.ratio_low, one.ratio_high)
    names = [row.arm.title + (" (best static)" if row.arm.method == best else "") for row in rows]
    panels[0].set_yticks(range(len(rows)), names, fontsize="small")
    for axes in panels:
        axes.locator_params(axis="x", nbins=5)
        axes.grid(axis="y", alpha=0.3)
    return figure


def process(standings: Standings) -> Figure:
    """What went on during training, over 25 steps at a time."""
    shown = {name: arms for name in _PROCESS if (arms := [row.arm for row in standings.headline if _has(row.arm, name)])}
    figure = Figure(figsize=(15, 3.2 * _lines(len(shown), 4)), layout="constrained")
    for axes, (name, arms) in zip(_panels(figure, len(shown), 4), shown.items(), strict=True):
        for arm in arms:
            draw_curve(axes, arm, name)
        axes.set(ylabel=_PROCESS[name])
    figure.supxlabel("step", fontsize="medium")
    add_legend(figure, figure.axes[0])
    return figure


def spectrum(standings: Standings) -> Figure:
    """Singular values of the output head's change since warm-up, relative to the largest."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    axes = figure.subplots()
    for row in standings.headline:
        values, style = singular_values(row.arm), style_of(row.arm)
        places = range(1, len(values) + 1)
        axes.plot(places, values, style.line, marker=style.marker, markersize=4, color=style.colour, label=row.arm.title)
    axes.set(xlabel="singular value, from the largest", ylabel="size, of the largest", ylim=(0, 1.05))
    add_legend(figure, axes)
    return figure


def methods(standings: Standings) -> Figure:
    """A panel per method: pass@1 of each of its seeds and their mean, smoothed, and behind them the best static method's mean."""
    static = standings.best_static
    figure = Figure(figsize=(14, 0.5 + 2.2 * _lines(len(standings.rows), 5)), layout="constrained")
    for axes, row in zip(_panels(figure, len(standings.rows), 5, sharey=True), standings.rows, strict=True):
        if static is not None:
            steps, mean, _ = mean_series(static.arm, "curve.pass@1", smoothed=True)
            axes.plot(steps, mean, "--", color="0.6", linewidth=1)
        colour = style_of(row.arm).colour
        steps, seeds = aligned([run.curve for run in row.arm.runs.values()], "pass@1")
        axes.plot(steps, smooth(seeds).T, color=colour, linewidth=0.6, alpha=0.5)
        axes.plot(steps, smooth(seeds.mean(axis=0)), color=colour, linewidth=2)
        axes.set_title(row.arm.title, fontsize="small")
    figure.supxlabel("step", fontsize="small")
    figure.supylabel("pass@1, validation prompts", fontsize="small")
    return figure


def learning_rates(analysis: Analysis) -> Figure:
    """pass@1 and pass@64 at the end, on validation prompts, against the learning rate; a ring at each method's best."""
    figure = Figure(figsize=(13, 4.5), layout="constrained")
    panels = figure.subplots(1, 2)
    own = analysis.standings[0].view.arms
    grid = {name: arms for name, arms in analysis.comparison.grid.items() if len(arms) > 1}
    for axes, measure in zip(panels, ("pass@1", "pass@64"), strict=True):
        for name, arms in grid.items():
            found = {rate: estimate(arm.after("validation", measure)) for rate, arm in arms.items()}
            best, style = own[name].learning_rate, style_of(own[name])
            draw_band(
                axes,
                own[name],
                np.array(list(found)),
                np.array([one.mean for one in found.values()]),
                np.array([_error(one) for one in found.values()]),
            )
            axes.plot(best, found[best].mean, "o", color=style.colour, markerfacecolor="white", markersize=7)
        rates = sorted({rate for arms in grid.values() for rate in arms})
        axes.set(xscale="log", xlabel="learning rate", ylabel=f"{measure}, validation prompts")
        axes.set_xticks(rates, [f"{rate:g}" for rate in rates])
        axes.minorticks_off()
    add_legend(figure, panels[0])
    return figure


def _has(arm: Arm, name: str) -> bool:
    """Whether a record holds something to draw. Where a registered advantage weighs, the schedule's alpha and delta do not."""
    registered = arm.method in METHODS and METHODS[arm.method].advantage not in SCHEDULED
    return len(mean_series(arm, name)[0]) > 0 and not (registered and name in _WEIGHTS)


def _error(found: Estimate) -> float:
    return found.standard_error or 0.0


def _lines(panels: int, columns: int) -> int:
    return -(-panels // columns)


def _panels(figure: Figure, count: int, columns: int, *, sharey: bool = False) -> list[Axes]:
    """`count` panels with a common step axis, filled line by line."""
    panels = list(figure.subplots(_lines(count, columns), columns, sharex=True, sharey=sharey, squeeze=False).flat)
    for spare in panels[count:]:
        spare.remove()
    return panels[:count]
