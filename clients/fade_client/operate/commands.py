"""The command lines of `fade runs`, `watch`, `simulate`, `pin`, `unpin` and `mode`."""

from __future__ import annotations

import argparse
import math
import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from fade_client.operate import exits
from fade_client.operate.change import complete, delete, pin, set_mode, unpin
from fade_client.operate.export import export_run
from fade_client.operate.listing import list_runs
from fade_client.operate.remote import CALL_SECONDS, DEFAULT_ADDRESS, Remote
from fade_client.operate.show import show_run
from fade_client.operate.simulate import SIMULATED, setting, simulate_run, value_of
from fade_client.operate.watch import watch
from fade_core import RunConfig
from fade_core.config import SMALLEST_ALPHA, SMALLEST_DELTA

Subparsers = argparse._SubParsersAction  # argparse has no public name for it

Work = Callable[[Remote, argparse.Namespace], int]

_WATCH_CALL_SECONDS = 3.0
"""A server that hangs is told as away after this time."""

_SIMULATE_CALL_SECONDS = 60.0

_FEWEST_POINTS, _MOST_POINTS = 2, 10_000

_ID = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_ID_RULE = "1 to 63 lower-case letters, digits and inner hyphens"


def register(commands: Subparsers[argparse.ArgumentParser]) -> None:
    """Adds them to the `fade` command."""
    runs = commands.add_parser("runs", help="list runs, show one, take its history along, end or delete it").add_subparsers(
        title="commands", metavar="COMMAND", required=True
    )
    _register_list(runs)
    show = _add(runs, "show", "show a run's configuration, state, branches, last observations and warnings", show_run)
    show.add_argument("--all", action="store_true", help="the whole configuration, not only what differs from the default")
    show.add_argument("--json", action="store_true", help="one JSON object, with everything")
    _register_export(runs)
    _add_asking(runs, "complete", "end a run: it takes no more observations, and stays readable", complete)
    _add_asking(runs, "delete", "delete a run with all its history", delete)
    watching = _add(commands, "watch", "show a run as it goes, until Ctrl-C", watch, call_seconds=_WATCH_CALL_SECONDS)
    watching.add_argument("--interval", type=seconds, default=1.0, metavar="SECONDS", help="time between looks (default: 1)")
    watching.add_argument("--json", action="store_true", help="a line of JSON per observation")
    _register_simulate(commands)
    pinning = _add_change(commands, "pin", "fix a run's alpha and delta", pin)
    for name, what, least in (("alpha", "difficulty exponent", SMALLEST_ALPHA), ("delta", "failure divisor", SMALLEST_DELTA)):
        help_text = f"{what}, {least} or more; 1 is neutral"
        pinning.add_argument(f"--{name}", type=partial(weight, least), required=True, help=help_text)
    _add_change(commands, "unpin", "end a pin: the schedule moves again, mode active", unpin)
    mode = _add_change(commands, "mode", "have the schedule applied (active), or only computed and recorded (shadow)", set_mode)
    mode.add_argument("mode", choices=("active", "shadow"))


def _register_list(runs: Subparsers[argparse.ArgumentParser]) -> None:
    listing = _add(runs, "list", "list a project's active runs, the one that reported last first", list_runs, one_run=False)
    project = os.environ.get("FADE_PROJECT") or "default"
    listing.add_argument("--project", default=project, type=_project, help='"-" for all (default: FADE_PROJECT, else default)')
    listing.add_argument("--all", action="store_true", help="completed runs too")
    listing.add_argument("--json", action="store_true", help="one JSON array")


def _register_export(runs: Subparsers[argparse.ArgumentParser]) -> None:
    summary = "write a run's history as a table for analysis, one line per observation and environment"
    export = _add(runs, "export", summary, export_run)
    export.description = (
        f"{summary[0].upper()}{summary[1:]}. It asks the server, and is for reading only.\n\n`fade export` is another command:"
        " it works on a store, and moves whole runs to another."
    )
    export.add_argument("--format", choices=("jsonl", "csv"), default="jsonl", help="JSON lines, or CSV (default: jsonl)")
    export.add_argument("--output", type=Path, metavar="FILE", help="replaced once complete (default: standard output)")


def _register_simulate(commands: Subparsers[argparse.ArgumentParser]) -> None:
    summary = "show what alpha and delta would have been under other settings, along what the run reported"
    command = _add(commands, "simulate", summary, simulate_run, call_seconds=_SIMULATE_CALL_SECONDS)
    for name in SIMULATED:
        option = [f"--{name.replace('_', '-')}", *(["--target-entropy"] if name == "target_entropy_nats" else [])]
        about = RunConfig.__dataclass_fields__[name].metadata
        help_text = f"{about['doc']}{f' In {unit}.' if (unit := about['unit']) else ''}".replace("%", "%%")
        command.add_argument(*option, dest=name, metavar="VALUE", type=partial(value_of, name), help=help_text)
    command.add_argument(
        "--set",
        dest="settings",
        action="append",
        default=[],
        type=setting,
        metavar="NAME=VALUE[,...]",
        help="a setting of its own beside that of the options above; again for more, up to 16",
    )
    command.add_argument("--branch", default="", help="default: the one that is written now")
    help_text = f"lines at most, {_FEWEST_POINTS} to {_MOST_POINTS} (default: 12; with --json 500)"
    command.add_argument("--points", type=points, default=0, metavar="N", help=help_text)
    command.add_argument("--json", action="store_true", help="one JSON object")


def _add_change(commands: Subparsers[argparse.ArgumentParser], name: str, summary: str, work: Work) -> argparse.ArgumentParser:
    command = _add_asking(commands, name, summary, work)
    command.add_argument("--reason", default="", help="why, up to 1000 characters; kept in the run's history")
    return command


def _add_asking(commands: Subparsers[argparse.ArgumentParser], name: str, summary: str, work: Work) -> argparse.ArgumentParser:
    command = _add(commands, name, summary, work)
    command.add_argument("--yes", action="store_true", help="do not ask")
    return command


def _add(
    commands: Subparsers[argparse.ArgumentParser],
    name: str,
    summary: str,
    work: Work,
    *,
    one_run: bool = True,
    call_seconds: float = CALL_SECONDS,
) -> argparse.ArgumentParser:
    description = f"{summary[0].upper()}{summary[1:]}."
    raw = argparse.RawDescriptionHelpFormatter
    command = commands.add_parser(name, help=summary, description=description, epilog=exits.EXIT_CODES, formatter_class=raw)
    if one_run:
        help_text = "its id in the project that FADE_PROJECT names (else default), or projects/PROJECT/runs/RUN"
        command.add_argument("run", type=_run_name, metavar="RUN", help=help_text)
    command.add_argument("--server", metavar="HOST:PORT", help=f"default: FADE_ADDRESS, else {DEFAULT_ADDRESS}")

    def handle(options: argparse.Namespace) -> int:
        with Remote(options.server, call_seconds) as remote:
            return work(remote, options)

    command.set_defaults(handler=handle)
    return command


def _run_name(text: str) -> str:
    if "/" not in text:
        text = f"projects/{os.environ.get('FADE_PROJECT') or 'default'}/runs/{text}"
    match text.split("/"):
        case ["projects", project, "runs", run] if _ID.fullmatch(project) and _ID.fullmatch(run):
            return text
    problem = "give its id (in the project of FADE_PROJECT), or projects/PROJECT/runs/RUN"
    raise argparse.ArgumentTypeError(f"{text!r} is no run; {problem}; ids are {_ID_RULE}")


def _project(text: str) -> str:
    if text == "-" or _ID.fullmatch(text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is no project; give {_ID_RULE} (--project, FADE_PROJECT)")


def points(text: str) -> int:
    """How many lines; argparse tells people this name."""
    value = int(text)
    if not _FEWEST_POINTS <= value <= _MOST_POINTS:
        raise argparse.ArgumentTypeError(f"give {_FEWEST_POINTS} to {_MOST_POINTS}")
    return value


def weight(least: float, text: str) -> float:
    """A weight to pin."""
    value = float(text)
    if not least <= value < math.inf:
        raise argparse.ArgumentTypeError(f"give a finite number, {least} or more")
    return value


def seconds(text: str) -> float:
    """A time between looks; argparse tells people this name."""
    value = float(text)
    if not 0 < value < 86_400:
        raise argparse.ArgumentTypeError("give more than 0, and less than a day")
    return value
