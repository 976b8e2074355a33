"""`fade compare`: the reference experiment's command line. Importing this module imports neither torch nor numpy."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from fade_client import FadeClientError
from fade_trainer.compare.cells import COMMON_LEARNING_RATE, REGIMES, Cell, cells, evidence_plan
from fade_trainer.compare.methods import HEADLINE, METHODS
from fade_trainer.config import TrainConfigError

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_EXIT_CODES = "exit codes: 0 all cells are done; 1 a cell failed; 2 the command line is wrong; 130 stopped, call again to go on"
_EXTRA_MODULES = ("torch", "jinja2", "matplotlib", "platformdirs", "tqdm")


def register(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds `compare` to the `fade` command."""
    summary = "train many methods, learning rates and seeds through the service, and report what came of it"
    parser = subparsers.add_parser("compare", help=summary, description=f"{summary.capitalize()}.", epilog=_EXIT_CODES)
    option = parser.add_argument
    option("methods", nargs="*", metavar="METHOD", help=f"{', '.join(METHODS)} (default: {' '.join(HEADLINE)})")
    option("--plan", action="store_true", help="all that docs/evidence.md rests on; leaves METHOD, --regime, --rate, --steps out")
    option("--regime", action="append", choices=REGIMES, help="where trainings start, and their length (default: standard)")
    option("--rate", action="append", type=float, help=f"learning rate (default: {COMMON_LEARNING_RATE})")
    option("--decay", choices=("no", "yes", "both"), default="yes", help="learning rate falls to a twentieth (default: yes)")
    option("--seeds", type=_seeds, default=range(6), metavar="FIRST:END", help="seeds FIRST .. END - 1 (default: 0:6)")
    option("--steps", type=int, help="steps of each training (default: the regime's)")
    option("--evaluation-prompts", type=int, help="prompts of each evaluation (default: 300)")
    option("--results", type=Path, default=Path("var/compare/results.jsonl"), help="file of results (default: %(default)s)")
    option("--report", type=Path, help="folder for report.html, its pictures and tables.json (default: beside the results)")
    option("--report-only", action="store_true", help="train nothing")
    option("--workers", type=int, default=os.cpu_count(), help="trainings at a time (default: one per core)")
    option("--cache-dir", type=Path, help="folder for warmed-up policies (default: the user's cache directory)")
    parser.set_defaults(handler=run)


def run(arguments: argparse.Namespace) -> int:
    """Trains what is missing, writes the report, and returns the exit status."""
    try:
        wanted = _wanted(arguments)
    except ValueError as error:
        return _complain(str(error), EXIT_USAGE)
    try:
        from fade_trainer.compare.report import write_report
        from fade_trainer.compare.results import read_results
        from fade_trainer.compare.runner import run_cells
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA_MODULES:
            raise
        return _complain(f"needs {error.name}: pip install 'fade-scheduler[trainer]'", EXIT_USAGE)
    results: Path = arguments.results
    sizes = {} if arguments.evaluation_prompts is None else {"evaluation_prompts": arguments.evaluation_prompts}
    left = 0
    if not arguments.report_only:
        try:
            left = run_cells(wanted, results, results.parent / "cells", arguments.cache_dir, arguments.workers, sizes)
        except KeyboardInterrupt:
            return _complain("stopped; the same command goes on from there", EXIT_INTERRUPTED)
        except (TrainConfigError, FadeClientError, RuntimeError) as error:
            return _complain(str(error), EXIT_FAILED)
    finished = read_results(results)
    if not finished:
        return _complain(f"{results} holds no results", EXIT_USAGE)
    report = arguments.report or results.parent / "report"
    write_report(finished, report)
    print(f"{len(finished)} results, {left} missing; the report: {report / 'report.html'}")
    return EXIT_INTERRUPTED if left else EXIT_OK


def _wanted(arguments: argparse.Namespace) -> list[Cell]:
    if arguments.workers < 1:
        raise ValueError(f"--workers must be at least 1, not {arguments.workers}")
    if arguments.plan:
        if arguments.methods or arguments.regime or arguments.rate or arguments.steps is not None:
            raise ValueError("--plan fixes methods, regimes, rates and steps: leave them out")
        return evidence_plan(arguments.seeds)
    return list(
        cells(
            methods=arguments.methods or HEADLINE,
            regimes=arguments.regime or ["standard"],
            learning_rates=arguments.rate or [COMMON_LEARNING_RATE],
            decays={"no": [False], "yes": [True], "both": [True, False]}[arguments.decay],
            seeds=arguments.seeds,
            steps=arguments.steps,
        )
    )


def _seeds(text: str) -> range:
    first, _, end = text.partition(":")
    try:
        seeds = range(int(first), int(end))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not FIRST:END, for example 0:6") from None
    if not seeds or seeds[0] < 0:
        raise argparse.ArgumentTypeError(f"{text!r} holds no seeds: FIRST must be 0 or more and END above it")
    return seeds


def _complain(message: str, status: int) -> int:
    print(f"fade compare: {message}", file=sys.stderr)
    return status
