"""The console command `fade`. Packages add subcommands through the entry point group `fade.commands`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial
from importlib.metadata import entry_points

from fade_client.errors import FadeClientError
from fade_client.operate import commands as operate
from fade_client.operate import exits
from fade_client.operate.remote import DEFAULT_ADDRESS, Remote
from fade_client.operate.text import table
from fade_client.version import VERSION
from fade_core import MATHS_VERSION, FadeError
from fade_proto.v1 import run_pb2

_VERSION = f"fade-scheduler {VERSION} (maths {MATHS_VERSION})"

Subparsers = argparse._SubParsersAction  # argparse has no public name for it


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `fade` with these arguments (default: the process's own) and returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="fade",
        description="Schedules advantage weights for RL trainers.",
        epilog=exits.EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=_VERSION)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _register(commands, parser)
    operate.register(commands)
    for point in sorted(entry_points(group="fade.commands"), key=lambda point: point.name):
        try:
            point.load()(commands)
        except ImportError as error:  # one package's fault must not take the others' commands away
            print(f"fade: the command {point.name} is not available: {error}", file=sys.stderr)
    options = parser.parse_args(arguments)
    try:
        code: int = options.handler(options)
        sys.stdout.flush()
    except (FadeClientError, FadeError) as error:
        code, line = exits.explain(error)
        print(f"fade: {line}", file=sys.stderr)
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # which says that who read the output has seen enough
            print(f"fade: {error}", file=sys.stderr)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
        code = exits.FAILED
    except KeyboardInterrupt:
        code = exits.INTERRUPTED
    return code


def _register(commands: Subparsers[argparse.ArgumentParser], parser: argparse.ArgumentParser) -> None:
    raw = argparse.RawDescriptionHelpFormatter
    version = commands.add_parser("version", help="print the versions of the package and of its maths")
    version.set_defaults(handler=_version)
    summary = "print the service's health and its runs"
    status = commands.add_parser("status", help=summary, epilog=f"{exits.EXIT_CODES}", formatter_class=raw)
    status.add_argument("--address", "--server", metavar="HOST:PORT", help=f"default: FADE_ADDRESS, else {DEFAULT_ADDRESS}")
    status.add_argument("--project", default="-", help='the project whose runs are listed; "-" for all (default)')
    status.add_argument(
        "--timeout-seconds", type=operate.seconds, default=2.0, help="longest time that a call may take (default: 2)"
    )
    status.set_defaults(handler=_status)
    completion = commands.add_parser("completion", help="print a script that completes commands and options in your shell")
    completion.add_argument("shell", choices=("bash", "zsh", "fish"))
    completion.set_defaults(handler=partial(_completion, parser))


def _version(options: argparse.Namespace) -> int:
    print(_VERSION)
    return exits.DONE


def _status(options: argparse.Namespace) -> int:
    with Remote(options.address, options.timeout_seconds) as remote:
        serving = remote.is_serving()
        print(f"{remote.address} is {'serving' if serving else 'not serving'}")
        if not serving:
            return exits.FAILED
        runs = remote.runs(options.project)
    header = ("RUN", "STATE", "BRANCH", "REVISION", "STEP", "LAST OBSERVATION")
    print(table(header, [_row(run) for run in runs]) if runs else "no runs")
    return exits.DONE


def _row(run: run_pb2.Run) -> tuple[str, ...]:
    return (
        run.name,
        run_pb2.Run.State.Name(run.state).removeprefix("STATE_").lower(),
        run.branch,
        str(run.revision),
        str(run.trainer_step) if run.HasField("trainer_step") else "-",
        run.observe_time.ToJsonString() if run.HasField("observe_time") else "-",
    )


def _completion(parser: argparse.ArgumentParser, options: argparse.Namespace) -> int:
    try:
        import shtab
    except ModuleNotFoundError:
        print("fade completion: needs shtab: pip install 'fade-scheduler[cli]'", file=sys.stderr)
        return exits.USAGE
    print(shtab.complete(parser, options.shell))
    return exits.DONE


if __name__ == "__main__":
    sys.exit(main())
