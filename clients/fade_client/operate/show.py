"""`fade runs show`."""

from __future__ import annotations

import argparse
import json
from collections import deque
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from typing import Any

from fade_client.operate import exits, rows, text
from fade_client.operate.remote import Remote
from fade_core import RunConfig
from fade_proto.convert import config_from_proto
from fade_proto.v1 import observation_pb2, run_pb2

LAST = 10
"""Observations that are shown."""

_DEFAULTS = RunConfig().to_dict()


def show_run(remote: Remote, options: argparse.Namespace) -> int:
    """Prints one run: configuration, state, branches, last observations, warnings."""
    run = remote.run(options.run)
    schedules = remote.schedules(run.name).schedules
    last: deque[observation_pb2.Observation] = deque(maxlen=LAST)
    changes: dict[int, run_pb2.ConfigChange] = {}
    for page in remote.observations(run.name):
        last.extend(page.observations)
        changes |= {change.config_revision: change for change in page.config_changes}
    document = _document(run, schedules, last, changes)
    print(json.dumps(document) if options.json else "\n\n".join(_sections(document, everything=options.all)))
    return exits.DONE


def _document(
    run: run_pb2.Run,
    schedules: Sequence[observation_pb2.EnvironmentSchedule],
    last: Sequence[observation_pb2.Observation],
    changes: dict[int, run_pb2.ConfigChange],
) -> dict[str, Any]:
    config = config_from_proto(run.config).to_dict()
    return rows.of_run(run) | {
        "environments": [rows.of_environment(item) for item in schedules],
        "config": config,
        "config_not_default": [name for name, value in config.items() if value != _DEFAULTS[name]],
        "config_changes": [
            {
                "config_revision": number,
                "create_time": rows.time_of(change.create_time),
                "branch": change.branch,
                "revision": change.revision,
                "reason": change.reason,
            }
            for number, change in sorted(changes.items())
        ],
        "branches": [
            {
                "branch": branch.id,
                "parent": branch.parent,
                "parent_revision": branch.parent_revision,
                "create_time": rows.time_of(branch.create_time),
                "writer": branch.writer,
            }
            for branch in run.branches
        ],
        "observations": [rows.nested(run.name, item) for item in last],
        "warnings": _warnings(last),
    }


def _warnings(observations: Sequence[observation_pb2.Observation]) -> list[dict[str, Any]]:
    """Each kind of warning once, with how often it came and its newest words."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for item in observations:
        for warning in item.warnings:
            key = (warning.reason, warning.subject)
            count = found[key]["count"] + 1 if key in found else 1
            found[key] = {
                "reason": warning.reason,
                "subject": warning.subject,
                "count": count,
                "last_revision": item.revision,
                "message": warning.message,
            }
    return list(found.values())


def _sections(document: dict[str, Any], *, everything: bool) -> Iterator[str]:
    now = datetime.now(timezone.utc)
    yield _head(document, now)
    yield _config(document, everything)
    yield "environments\n" + _indented(_environments(document["environments"]))
    yield "branches\n" + _indented(_branches(document, now))
    if document["observations"]:
        yield f"last observations\n{_indented(_observations(document['observations'], now))}"
    if any(change["reason"] for change in document["config_changes"]):
        yield "configuration changes\n" + _indented(_changes(document["config_changes"], now))
    if document["warnings"]:
        yield f"warnings of the last {LAST} observations\n" + _indented("\n".join(map(_warning, document["warnings"])))


def _head(document: dict[str, Any], now: datetime) -> str:
    step, seen = document["trainer_step"], document["observe_time"]
    last = f"{_ago(seen, now)} ({text.clock(datetime.fromisoformat(seen))})" if seen else "never"
    at = f"branch {document['branch']} at revision {document['revision']}"
    return "\n".join(
        (
            f"{document['name']}: {document['state']}, mode {document['mode']}",
            at if step is None else f"{at}, trainer step {step}",
            f"created {_ago(document['create_time'], now)}, last report {last}",
        )
    )


def _config(document: dict[str, Any], everything: bool) -> str:
    differing = document["config_not_default"]
    shown = document["config"] if everything else differing
    lines = [
        [f"* {name}" if name in differing else f"  {name}", _value(document["config"][name]), _value(_DEFAULTS[name])]
        for name in shown
    ]
    title = f"configuration, revision {document['config_revision']}"
    if not lines:
        return f"{title}: the defaults"
    return f"{title} (* differs from the default)\n" + _indented(text.table(("  FIELD", "VALUE", "DEFAULT"), lines))


def _value(value: object) -> str:
    return "unset" if value is None else str(value)


def _environments(items: Sequence[dict[str, Any]]) -> str:
    header = ("ENVIRONMENT", "PHASE", "ALPHA", "DELTA", "APPLIED", "SOLVED", "ENTROPY/TARGET", "OBSERVATIONS")
    lines = [
        (
            item["environment"],
            item["phase"],
            text.number(item["alpha"]),
            text.number(item["delta"]),
            f"{text.number(item['applied_alpha'])}, {text.number(item['applied_delta'])}",
            text.number(item["average_solve_rate"]),
            text.against(item["average_entropy_nats"], item["target_entropy_nats"]),
            str(item["observation_count"]),
        )
        for item in items
    ]
    return text.table(header, lines, right="ALPHA DELTA SOLVED ENTROPY/TARGET OBSERVATIONS".split())


def _branches(document: dict[str, Any], now: datetime) -> str:
    lines = [
        (
            f"{'*' if item['branch'] == document['branch'] else ' '} {item['branch']}",
            f"{item['parent']} at {item['parent_revision']}" if item["parent"] else "-",
            _ago(item["create_time"], now),
            item["writer"] or "-",
        )
        for item in document["branches"]
    ]
    return text.table(("  BRANCH", "FROM", "OPENED", "WRITER"), lines)


def _observations(items: Sequence[dict[str, Any]], now: datetime) -> str:
    header = (
        "REVISION", "STEP", "REPORTED", "SOURCE", "ENVIRONMENT", "ALPHA", "DELTA", "SOLVED", "ENTROPY", "COVERAGE", "OUTCOME",
    )  # fmt: skip
    lines = []
    for item in items:
        step = "-" if item["trainer_step"] is None else str(item["trainer_step"])
        before = (str(item["revision"]), step, _ago(item["create_time"], now), item["source"])
        for seen in item["environments"]:
            lines.append(
                (
                    *before,
                    seen["environment"],
                    text.number(seen["alpha"]),
                    text.number(seen["delta"]),
                    text.number(seen["batch_solve_rate"]),
                    text.number(seen["batch_entropy_nats"]),
                    text.number(seen["coverage"]),
                    " ".join([seen["outcome"], *seen["hold_reasons"]]),
                )
            )
            before = ("", "", "", "")
    return text.table(header, lines, right="REVISION STEP ALPHA DELTA SOLVED ENTROPY COVERAGE".split())


def _changes(items: Sequence[dict[str, Any]], now: datetime) -> str:
    lines = [
        (str(item["config_revision"]), _ago(item["create_time"], now), f"{item['branch']} at {item['revision']}", item["reason"])
        for item in items
    ]
    return text.table(("REVISION", "CHANGED", "AFTER", "REASON"), lines)


def _warning(item: dict[str, Any]) -> str:
    subject = f" ({item['subject']})" if item["subject"] else ""
    return f"{item['reason']}{subject}, {item['count']}x, last at revision {item['last_revision']}: {item['message']}"


def _ago(stamp: str, now: datetime) -> str:
    return text.ago(datetime.fromisoformat(stamp), now)


def _indented(block: str) -> str:
    return "\n".join(f"  {line}" for line in block.splitlines())
