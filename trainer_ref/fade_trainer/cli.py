"""`fade train`: the trainer's command line. Importing this module does not import torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from fade_client import FadeClientError
from fade_trainer.config import SCHEDULED, TrainConfig, TrainConfigError
from fade_trainer.rules import TASKS

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

_EXIT_CODES = "exit codes: 0 done, or stopped by a signal with a checkpoint; 1 the scheduler refused; 2 the command line is wrong"
_EXTRA_MODULES = ("torch", "matplotlib", "platformdirs", "tqdm")
_DEFAULTS = {field.name: field.default for field in fields(TrainConfig)}
_PAIRS = ("settings", "parameters")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `train` to the `fade` command."""
    summary = "train the reference policy on advantages from a scheduler"
    _add_options(subparsers.add_parser("train", help=summary, description=f"{summary.capitalize()}.", epilog=_EXIT_CODES))


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m fade_trainer` with these arguments (default: the process's own); returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fade_trainer", description="The reference trainer.", epilog=_EXIT_CODES)
    _add_options(parser)
    return run(parser.parse_args(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Trains as told, prints the result as a line of JSON, and returns the exit status."""
    try:
        config = _config(arguments)
    except TrainConfigError as error:
        return _complain(str(error), EXIT_USAGE)
    try:
        from fade_trainer.plot import plot_curves
        from fade_trainer.train import train
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_MODULES:
            raise
        return _complain(f"needs {error.name}: pip install 'fade-scheduler[trainer]'", EXIT_USAGE)
    try:
        result = train(config)
    except TrainConfigError as error:
        return _complain(str(error), EXIT_USAGE)
    except FadeClientError as error:
        return _complain(str(error), EXIT_FAILED)
    plot_curves(config.out / "metrics.jsonl", config.out / "curves.png", title=config.run)
    print(json.dumps(asdict(result)))
    if result.fallback_schedules:
        counts = f"{result.fallback_schedules} of {result.observations} batches"
        print(f"fade train: {counts} were trained without an answer of {config.server}", file=sys.stderr)
    if result.interrupted:
        print(f"fade train: stopped after step {result.steps}; --resume goes on from there", file=sys.stderr)
    return EXIT_OK


def _add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a training run, and `run` as what to do with them."""
    option = parser.add_argument
    option(
        "--advantage",
        default="fade",
        metavar="NAME",
        help=f"weighting of rollouts: {', '.join(SCHEDULED)}, or any registered advantage (default: fade)",
    )
    option(
        "--set",
        dest="settings",
        metavar="NAME=VALUE",
        type=_pair,
        action="append",
        help="a setting of the run on the server, for example alpha_max=4; may be given more than once",
    )
    option(
        "--parameter",
        dest="parameters",
        metavar="NAME=VALUE",
        type=_pair,
        action="append",
        help="a parameter of a registered advantage, for example k=4; may be given more than once",
    )
    option(
        "--apply-lr-scale", action="store_true", help="multiply the learning rate by the schedule's lr_scale (--set lr_rule=...)"
    )
    option("--task", choices=TASKS, default=_DEFAULTS["task"], help="the numbers and targets (default: %(default)s)")
    option(
        "--server",
        default="localhost:50051",
        help="HOST:PORT of the scheduler, 'local' for one in this process, 'none' for reward minus mean (grpo only)"
        " (default: localhost:50051)",
    )
    option("--seed", type=int, default=_DEFAULTS["seed"], help="fixes everything that is drawn (default: %(default)s)")
    option("--alpha", type=float, help=f"exponent, with --advantage power (default: {_DEFAULTS['alpha']})")
    option("--delta", type=float, help=f"failure divisor, with --advantage asym (default: {_DEFAULTS['delta']})")
    for name, kind, what in (
        ("steps", int, "generation batches to train on"),
        ("learning_rate", float, "step size of Adam"),
        ("prompts", int, "prompts per step"),
        ("rollouts", int, "answers per prompt"),
        ("eval_every", int, "steps between evaluations"),
        ("checkpoint_every", int, "steps between checkpoints"),
        ("warmup_steps", int, "supervised steps before"),
        ("evaluation_prompts", int, "prompts of an evaluation"),
        ("curve_samples", int, "answers to each validation prompt along the way"),
    ):
        flag = "--" + name.replace("_", "-")
        option(flag, type=kind, default=_DEFAULTS[name], help=f"{what} (default: %(default)s)")
    option("--out", type=Path, help="folder for metrics, curves and checkpoint (default: var/train/RUN)")
    option("--run", help="name of the run on the server (default: countdown-ADVANTAGE-SEED)")
    option("--resume", action="store_true", help="go on from the checkpoint in --out, if there is one")
    option("--cache-dir", type=Path, help="folder for warmed-up policies (default: the user's cache directory)")
    parser.set_defaults(handler=run)


def _config(arguments: argparse.Namespace) -> TrainConfig:
    """Options to configuration; TrainConfigError where they contradict each other."""
    given: dict[str, Any] = {name: value for name, value in vars(arguments).items() if name in _DEFAULTS}
    given |= {name: dict(given[name] or ()) for name in _PAIRS}
    for name, advantage in (("alpha", "power"), ("delta", "asym")):
        if given[name] is None:
            del given[name]
        elif arguments.advantage != advantage:
            raise TrainConfigError(f"--{name} goes with --advantage {advantage} only")
    given["run"] = arguments.run or f"{arguments.task}-{arguments.advantage.replace('_', '-')}-{arguments.seed}"
    given["out"] = arguments.out or Path("var/train") / given["run"]
    return TrainConfig(**given)


def _pair(text: str) -> tuple[str, Any]:
    """NAME=VALUE; the value is read as JSON where it is JSON (a number, true, null), else it is a word."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _complain(message: str, status: int) -> int:
    print(f"fade train: {message}", file=sys.stderr)
    return status
