"""Decompositions as one picture. Importing this module imports matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

from fade_core import Decomposition, MeasuredDecomposition

_STYLES = ("-", "--", ":")
_COLOURS = 10


def plot_decompositions(path: Path, shown: Sequence[tuple[str, Decomposition]], measured: MeasuredDecomposition | None) -> None:
    """Draws mS, mF and w_G of labelled advantages against p, and measured masses as points at the middles of their bins."""
    lines = len(shown) + (measured is not None)
    figure = Figure(figsize=(13, max(4.5, 0.24 * lines)), layout="constrained")  # without pyplot: there may be no display
    panels = figure.subplots(1, 3)
    titles = ("mass of successes, mS(p)", "mass of failures, mF(p)", "weight of the prompt, w(p)")
    for panel, title in zip(panels, titles, strict=True):
        panel.set_title(title)
        panel.set_xlabel("solve rate p")
        panel.set_xlim(0, 1)
        panel.grid(alpha=0.3)
    for number, (label, item) in enumerate(shown):
        colour, style = colormaps["tab10"](number % _COLOURS), _STYLES[number % len(_STYLES)]  # a pair of its own for 30
        for panel, curve in zip(panels, (item.mass_success, item.mass_failure, item.population_weight), strict=True):
            panel.plot(item.solve_rate, curve, style, color=colour, label=label)
    if measured:
        seen = np.flatnonzero(measured.bin_groups)
        middles = (measured.bin_edges[seen] + measured.bin_edges[seen + 1]) / 2
        for panel, masses in zip(panels, (measured.mass_success, measured.mass_failure), strict=False):
            panel.plot(middles, masses[seen], "ko", label="data")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside right center", fontsize="small")
    figure.savefig(path)
