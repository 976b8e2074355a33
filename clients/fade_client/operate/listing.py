"""`fade runs list`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import Any

from fade_client.errors import RejectedError
from fade_client.operate import exits, rows, text
from fade_client.operate.remote import Remote
from fade_proto.v1 import run_pb2

_CALLS_AT_ONCE = 8

_HEADER = (
    "RUN", "STATE", "MODE", "ENVIRONMENT", "PHASE", "ALPHA", "DELTA", "SOLVED", "ENTROPY/TARGET", "REVISION", "LAST REPORT",
)  # fmt: skip


def list_runs(remote: Remote, options: argparse.Namespace) -> int:
    """Prints a project's runs, those that reported last first."""
    found = remote.runs(options.project)
    runs = [run for run in found if options.all or run.state != run_pb2.Run.STATE_COMPLETED]
    runs.sort(key=lambda run: (run.observe_time.ToNanoseconds(), run.create_time.ToNanoseconds()), reverse=True)
    with ThreadPoolExecutor(_CALLS_AT_ONCE) as pool:
        documents = [document for document in pool.map(lambda run: _document(remote, run), runs) if document is not None]
    if options.json:
        print(json.dumps(documents))
    elif documents:
        print(_table(documents, [] if options.project == "-" else ["projects", options.project, "runs"]))
    else:
        print(_nothing(options.project, len(found)))
    return exits.DONE


def _document(remote: Remote, run: run_pb2.Run) -> dict[str, Any] | None:
    """A run with its environments; None where it was deleted meanwhile."""
    try:
        schedules = remote.schedules(run.name).schedules
    except RejectedError as error:
        if error.reason != "RUN_NOT_FOUND":
            raise
        return None
    return rows.of_run(run) | {"environments": [rows.of_environment(item) for item in schedules]}


def _table(documents: Sequence[dict[str, Any]], shared: Sequence[str]) -> str:
    now = datetime.now(timezone.utc)
    cells = []
    for document in documents:
        name = document["name"].removeprefix("/".join([*shared, ""]) if shared else "")
        seen = document["observe_time"]
        last = text.ago(datetime.fromisoformat(seen), now) if seen else "never"
        before, after = (name, document["state"], document["mode"]), (str(document["revision"]), last)
        for item in document["environments"]:
            cells.append((*before, *_environment(item), *after))
            before, after = ("", "", ""), ("", "")
    return text.table(_HEADER, cells, right="ALPHA DELTA SOLVED ENTROPY/TARGET REVISION".split())


def _environment(item: dict[str, Any]) -> tuple[str, ...]:
    return (
        item["environment"],
        item["phase"],
        text.number(item["alpha"]),
        text.number(item["delta"]),
        text.number(item["average_solve_rate"]),
        text.against(item["average_entropy_nats"], item["target_entropy_nats"]),
    )


def _nothing(project: str, completed: int) -> str:
    if completed:
        return f"no run is active; --all lists the {completed} that are completed too"
    return "no runs" if project == "-" else f"no runs in project {project}; --project - lists all projects' runs"
