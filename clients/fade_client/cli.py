"""The console command `fade`. Packages add subcommands through the entry point group `fade.commands`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points

from fade_client.errors import FadeClientError
from fade_client.settings import read_tls
from fade_client.transport import Deadline, Transport
from fade_client.version import VERSION
from fade_core import MATHS_VERSION
from fade_proto.v1 import run_pb2, scheduler_pb2

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2

DEFAULT_ADDRESS = "localhost:50051"

_EXIT_CODES = "exit codes: 0 done; 1 failed, or the service is not healthy; 2 the command line is wrong"

Subparsers = argparse._SubParsersAction  # argparse has no public name for it


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `fade` with these arguments (default: the process's own) and returns the exit code."""
    parser = argparse.ArgumentParser(prog="fade", description="Schedules advantage weights for RL trainers.", epilog=_EXIT_CODES)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _register(commands)
    for point in sorted(entry_points(group="fade.commands"), key=lambda point: point.name):
        try:
            point.load()(commands)
        except ImportError as error:  # one package's fault must not take the others' commands away
            print(f"fade: the command {point.name} is not available: {error}", file=sys.stderr)
    options = parser.parse_args(arguments)
    try:
        code: int = options.handler(options)
    except FadeClientError as error:
        print(f"fade: {error}", file=sys.stderr)
        return EXIT_FAILED
    return code


def _register(commands: Subparsers[argparse.ArgumentParser]) -> None:
    version = commands.add_parser("version", help="print the versions of the package and of its maths", epilog=_EXIT_CODES)
    version.set_defaults(handler=_version)
    status = commands.add_parser("status", help="print the service's health and its runs", epilog=_EXIT_CODES)
    status.add_argument("--address", help=f"HOST:PORT (default: FADE_ADDRESS, else {DEFAULT_ADDRESS})")
    status.add_argument("--project", default="-", help='the project whose runs are listed; "-" for all (default)')
    status.add_argument("--timeout-seconds", type=float, default=2.0, help="longest time to wait (default: 2)")
    status.set_defaults(handler=_status)


def _version(options: argparse.Namespace) -> int:
    print(f"fade-scheduler {VERSION} (maths {MATHS_VERSION})")
    return EXIT_OK


def _status(options: argparse.Namespace) -> int:
    address = options.address or os.environ.get("FADE_ADDRESS") or DEFAULT_ADDRESS
    transport = Transport(address, os.environ.get("FADE_TOKEN") or None, read_tls(None, None, os.environ))
    deadline = Deadline(options.timeout_seconds)
    try:
        serving = transport.is_serving(deadline)
        print(f"{address} is {'serving' if serving else 'not serving'}")
        if not serving:
            return EXIT_FAILED
        runs = _all_runs(transport, options.project, deadline)
    finally:
        transport.close()
    if not runs:
        print("no runs")
        return EXIT_OK
    rows = [("RUN", "STATE", "BRANCH", "REVISION", "STEP", "LAST OBSERVATION"), *map(_row, runs)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return EXIT_OK


def _all_runs(transport: Transport, project: str, deadline: Deadline) -> list[run_pb2.Run]:
    runs: list[run_pb2.Run] = []
    request = scheduler_pb2.ListRunsRequest(parent=f"projects/{project}", page_size=1000)
    while True:
        page: scheduler_pb2.ListRunsResponse = transport.call("ListRuns", request, deadline)
        runs.extend(page.runs)
        if not page.next_page_token:
            return runs
        request.page_token = page.next_page_token


def _row(run: run_pb2.Run) -> tuple[str, ...]:
    return (
        run.name,
        run_pb2.Run.State.Name(run.state).removeprefix("STATE_").lower(),
        run.branch,
        str(run.revision),
        str(run.trainer_step) if run.HasField("trainer_step") else "-",
        run.observe_time.ToJsonString() if run.HasField("observe_time") else "-",
    )


if __name__ == "__main__":
    sys.exit(main())
