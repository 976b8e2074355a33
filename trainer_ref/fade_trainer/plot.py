"""The curves of a run as one PNG."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from fade_trainer.metrics import read_metrics


def plot_curves(metrics_path: Path, png_path: Path, title: str) -> None:
    """Draws pass@k on the validation prompts, training solve rate, entropy, and alpha and delta, over steps."""
    lines = read_metrics(metrics_path)
    steps = [line for line in lines if line["kind"] == "step"]
    evaluations = [line for line in lines if line["kind"] == "evaluation" and line["split"] == "validation"]
    figure = Figure(figsize=(10, 7), layout="constrained")  # without pyplot: there may be no display
    axes = figure.subplots(2, 2, sharex=True)
    (passes, solves), (entropies, schedules) = axes
    for k in (1, 4, 16, 64):
        measured = [line[f"pass@{k}"] for line in evaluations if f"pass@{k}" in line]
        if not measured:
            continue
        passes.plot([line["step"] for line in evaluations], measured, label=f"pass@{k}")
    trained = [line["step"] for line in steps]
    solves.plot(trained, [line["solve_rate"] for line in steps], label="solve rate of the batch")
    entropies.plot(trained, [line["entropy_nats"] for line in steps], label="entropy of the batch")
    for panel, name, label in (
        (solves, "fade/p_hat", "p_hat"),
        (entropies, "fade/h_hat", "h_hat"),
        (entropies, "fade/h_target", "h_target"),
        (schedules, "fade/alpha", "alpha"),
        (schedules, "fade/delta", "delta"),
    ):
        known = [(line["step"], line[name]) for line in steps if isinstance(line.get(name), int | float)]
        if known:
            panel.plot(*zip(*known, strict=True), label=label)
    units = ("probability", "probability", "nats per token", "weight")
    for panel, unit in zip(axes.flat, units, strict=True):
        panel.set_ylabel(unit)
        if panel.lines:
            panel.legend()
    for panel in axes[1]:
        panel.set_xlabel("step")
    figure.suptitle(title)
    figure.savefig(png_path)
