"""How a method looks in every figure, and the strokes that figures are made of."""

from __future__ import annotations

import math
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fade_trainer.compare.methods import HEADLINE, METHODS
from fade_trainer.compare.rows import mean_series
from fade_trainer.compare.statistics import Floats
from fade_trainer.compare.views import Arm

_COLOURS = ("#1f77b4", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#d62728", "#17becf", "#e377c2", "#9a9a1a")
_BLACK = "#000000"
_LINES = ("-", "--", ":")
_MARKERS = ("o", "s", "^")

_ORDER = (*HEADLINE, *(name for name in METHODS if name not in HEADLINE))


@dataclass(frozen=True, slots=True)
class Style:
    """Colour, line and marker."""

    colour: str
    line: str
    marker: str


def style_of(arm: Arm) -> Style:
    """The same for a method in every figure and every report: a pair of its own for 27 methods, and black for ours."""
    place = _ORDER.index(arm.method) if arm.method in _ORDER else len(_ORDER)
    turn = place // len(_COLOURS) % len(_LINES)
    colour = _BLACK if arm.family == "ours" else _COLOURS[place % len(_COLOURS)]
    return Style(colour, _LINES[turn], _MARKERS[turn])


def draw_band(axes: Axes, arm: Arm, x: Floats, mean: Floats, error: Floats) -> None:
    """A line [T] with a band of its error [T] on either side."""
    style = style_of(arm)
    axes.plot(x, mean, style.line, color=style.colour, linewidth=1.5, label=arm.title)
    axes.fill_between(x, mean - error, mean + error, color=style.colour, alpha=0.15, linewidth=0)


def draw_curve(axes: Axes, arm: Arm, name: str, *, smoothed: bool = False) -> None:
    """A mean over seeds with a band of its standard error; `name` as in `mean_series`."""
    steps, mean, deviation = mean_series(arm, name, smoothed=smoothed)
    draw_band(axes, arm, steps, mean, deviation / len(arm.runs) ** 0.5)


def draw_interval(axes: Axes, place: int, arm: Arm, value: float, low: float | None, high: float | None) -> None:
    """A point in a line of its own with its interval; an end that is infinite becomes an arrow to the panel's edge."""
    style, edge = style_of(arm), axes.get_xlim()[1]
    if low is not None and high is not None:
        end = high if math.isfinite(high) else edge
        axes.plot([low, end], [place, place], color=style.colour, linewidth=1.5)
        if end != high:
            axes.plot(edge, place, ">", color=style.colour, markersize=5, clip_on=False)
    if math.isfinite(value):
        axes.plot(value, place, style.marker, color=style.colour, markersize=5)
    else:
        box = {"facecolor": "white", "edgecolor": "none", "pad": 1}
        axes.annotate(
            "never", (edge, place), (-8, 0), textcoords="offset points", ha="right", va="center", size="small", bbox=box
        )


def add_legend(figure: Figure, axes: Axes) -> None:
    """What a panel shows, to the right of all panels."""
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right center", fontsize="small")
