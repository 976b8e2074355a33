"""`fade train`: the trainer's command line. Importing this module does not import torch."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from dataclasses import fields
from pathlib import Path
from typing import Any

from fade_trainer.config import ADVANTAGES
from fade_trainer.config import TrainConfig
from fade_trainer.config import default_cache_dir

EXIT_USAGE = 2

_EXTRA_MODULES = ("torch", "matplotlib", "tqdm")
_DEFAULTS = {field.name: field.default for field in fields(TrainConfig)}


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `train` to the `fade` command."""
    summary = "train the reference policy on advantages from a scheduler"
    _add_options(subparsers.add_parser("train", help=summary, description=f"{summary.capitalize()}."))


def main(arguments: Sequence[str] | None = None) -> int:
    """`python -m fade_trainer` with these arguments (default: the process's own); returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m fade_trainer", description="The reference trainer.")
    _add_options(parser)
    return run(parser.parse_args(arguments))


def run(arguments: argparse.Namespace) -> int:
    """Trains as told and prints the result as a line of JSON; status 0 when done or stopped by a signal, 2 when misused."""
    try:
        config = _config(arguments)
    except ValueError as error:
        return _complain(str(error), EXIT_USAGE)
    try:
        from fade_trainer.train import train
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_MODULES:
            raise
        return _complain(f"needs {error.name}: pip install 'fade-scheduler[trainer]'", EXIT_USAGE)
    try:
        result = train(config)
    except ValueError as error:
        return _complain(str(error), EXIT_USAGE)
    print(json.dumps(asdict(result)))
    if result.interrupted:
        print(f"fade train: stopped after step {result.steps}; --resume goes on from there", file=sys.stderr)
    return 0


def _add_options(parser: argparse.ArgumentParser) -> None:
    """The options of a training run, and `run` as what to do with them."""
    option = parser.add_argument
    option("--advantage", choices=ADVANTAGES, default="fade", help="weighting of rollouts (default: fade)")
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
    ):
        flag = "--" + name.replace("_", "-")
        option(flag, type=kind, default=_DEFAULTS[name], help=f"{what} (default: %(default)s)")
    option("--out", type=Path, help="folder for metrics, curves and checkpoint (default: var/train/RUN)")
    option("--run", help="name of the run on the server (default: countdown-ADVANTAGE-SEED)")
    option("--resume", action="store_true", help="go on from the checkpoint in --out, if there is one")
    option("--cache-dir", type=Path, help=f"folder for warmed-up policies (default: {default_cache_dir()})")
    parser.set_defaults(handler=run)


def _config(arguments: argparse.Namespace) -> TrainConfig:
    """Options to configuration; ValueError where they contradict each other."""
    given: dict[str, Any] = {name: value for name, value in vars(arguments).items() if name in _DEFAULTS}
    for name, advantage in (("alpha", "power"), ("delta", "asym")):
        if given[name] is None:
            del given[name]
        elif arguments.advantage != advantage:
            raise ValueError(f"--{name} goes with --advantage {advantage} only")
    given["run"] = arguments.run or f"countdown-{arguments.advantage}-{arguments.seed}"
    given["out"] = arguments.out or Path("var/train") / given["run"]
    return TrainConfig(**given)


def _complain(message: str, status: int) -> int:
    print(f"fade train: {message}", file=sys.stderr)
    return status
