"""What an operator changes, shown before it is done: `fade pin`, `unpin`, `mode`, `runs complete` and `runs delete`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

from fade_client.errors import RejectedError, UnavailableError
from fade_client.operate import exits, text
from fade_client.operate.exits import UsageError
from fade_client.operate.remote import Remote
from fade_core import DEFAULT_ENVIRONMENT, EnvironmentState, RunConfig, schedule_of
from fade_proto.convert import config_from_proto, state_from_proto
from fade_proto.v1 import observation_pb2, run_pb2, scheduler_pb2

_ALPHA, _DELTA = 10.0, (0.05, 20.0)
"""Weights that a run may be pinned at without a word: up to this alpha, and between these deltas."""


def pin(remote: Remote, options: argparse.Namespace) -> int:
    """Fixes alpha and delta."""
    values = run_pb2.RunConfig(mode=observation_pb2.MODE_PINNED, pinned_alpha=options.alpha, pinned_delta=options.delta)
    return _change(remote, options, remote.run(options.run), values)


def unpin(remote: Remote, options: argparse.Namespace) -> int:
    """Lets the schedule move again."""
    run = remote.run(options.run)
    if run.config.mode != observation_pb2.MODE_PINNED:
        print(f"{run.name} is not pinned; nothing was changed")
        return exits.DONE
    return _change(remote, options, run, run_pb2.RunConfig(mode=observation_pb2.MODE_ACTIVE))


def set_mode(remote: Remote, options: argparse.Namespace) -> int:
    """Makes clients apply the schedule, or neutral weights."""
    mode = {"active": observation_pb2.MODE_ACTIVE, "shadow": observation_pb2.MODE_SHADOW}[options.mode]
    return _change(remote, options, remote.run(options.run), run_pb2.RunConfig(mode=mode))


def complete(remote: Remote, options: argparse.Namespace) -> int:
    """Ends a run; it stays readable."""
    run = remote.run(options.run)
    if run.state == run_pb2.Run.STATE_COMPLETED:
        print(f"{run.name} is completed already; nothing was changed")
        return exits.DONE
    print(f"{run.name}, {_history(run)}: takes no more observations, for good; stays readable")
    if not _agreed(options):
        return exits.FAILED
    remote.complete(run.name)
    print("completed")
    return exits.DONE


def delete(remote: Remote, options: argparse.Namespace) -> int:
    """Deletes a run with all its branches and history."""
    run = remote.run(options.run)
    print(f"{run.name}, {_history(run)}: is lost with all its history, for good; `fade runs export` keeps a table of it")
    if not _agreed(options):
        return exits.FAILED
    remote.delete(run.name, run.etag)
    print("deleted")
    return exits.DONE


def _history(run: run_pb2.Run) -> str:
    if not run.HasField("observe_time"):
        return "no observations"
    branches = "" if len(run.branches) == 1 else f" of {len(run.branches)} branches"
    return f"revision {run.revision}{branches}, last report {run.observe_time.ToJsonString()}"


def _change(remote: Remote, options: argparse.Namespace, run: run_pb2.Run, values: run_pb2.RunConfig) -> int:
    request = scheduler_pb2.UpdateRunRequest(reason=options.reason, validate_only=True)
    request.run.name = run.name
    request.run.config.CopyFrom(values)
    request.update_mask.paths.extend(f"config.{field.name}" for field, _ in values.ListFields())
    wanted = remote.update(request)
    if wanted.config == run.config:
        print(f"{run.name} has these settings already; nothing was changed")
        return exits.DONE
    print("\n".join(_difference(remote, run, wanted)))
    if not _agreed(options):
        return exits.FAILED
    request.validate_only, request.run.etag = False, run.etag
    changed = _update(remote, request, wanted)
    print(f"changed: configuration revision {changed.config_revision}, in force from the next observation on")
    return exits.DONE


def _update(remote: Remote, request: scheduler_pb2.UpdateRunRequest, wanted: run_pb2.Run) -> run_pb2.Run:
    try:
        return remote.update(request)
    except UnavailableError as error:
        problem = f"{error}; whether the change was made is not known, and `fade runs show` will tell"
        raise UnavailableError(problem, error.code, error.reason) from None
    except RejectedError as error:
        if error.reason != "ETAG_MISMATCH":
            raise
        now = remote.run(request.run.name)
        if now.config == wanted.config and now.config_revision == wanted.config_revision:
            return now  # made, but its answer was lost, and the call was repeated
        problem = "somebody else changed the configuration meanwhile; nothing was changed: run the command again to see from what"
        raise RejectedError(problem, error.reason, code=error.code, metadata=error.metadata) from None


def _difference(remote: Remote, run: run_pb2.Run, wanted: run_pb2.Run) -> Iterator[str]:
    yield run.name
    before, after = config_from_proto(run.config), config_from_proto(wanted.config)
    new = after.to_dict()
    for name, old in before.to_dict().items():
        if old != new[name]:
            yield f"  {name}: {old} -> {new[name]}"
    if after.mode == "pinned" and not (after.pinned_alpha <= _ALPHA and _DELTA[0] <= after.pinned_delta <= _DELTA[1]):
        yield f"  far outside what is usual: alpha up to {_ALPHA:g}, delta {_DELTA[0]:g} to {_DELTA[1]:g}"
    yield "what clients apply, as the averages stand now"
    environments = state_from_proto(remote.schedules(run.name).state).environments or {DEFAULT_ENVIRONMENT: EnvironmentState()}
    for name, state in environments.items():
        yield f"  {name}: {_applied(before, state)} -> {_applied(after, state)}"


def _applied(config: RunConfig, state: EnvironmentState) -> str:
    schedule = schedule_of(config, state).applied()
    return f"alpha {text.number(schedule.alpha)}, delta {text.number(schedule.delta)}"


def _agreed(options: argparse.Namespace) -> bool:
    if options.yes or _confirmed():
        return True
    print("nothing was changed", file=sys.stderr)
    return False


def _confirmed() -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("there is no terminal to ask at; give --yes to go on")
    try:
        return input("go on? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        print()
        return False
