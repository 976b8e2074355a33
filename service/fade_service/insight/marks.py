"""What happened along a line beside its numbers, for marks in a chart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from typing import Any

from fade_core import RunConfig
from fade_proto.convert import config_from_proto
from fade_proto.v1.run_pb2 import ConfigChange
from fade_service.insight.lines import Line
from fade_service.runs import LoadedRun
from fade_service.scheduler.history import segments

Mark = dict[str, Any]


def marks_of(run: LoadedRun, line: Line, first: int, last: int) -> list[Mark]:
    """Remarks and configuration changes with ``first`` <= revision <= ``last``, by revision.

    Keys: revision, kind ("warning", "late" or "config"), reason, text, environment, and config_revision of a change.
    """
    marks = [*map(asdict, line.remarks), *_changes(run, line.branch)]
    return sorted((mark for mark in marks if first <= mark["revision"] <= last), key=lambda mark: mark["revision"])


def config_changes(run: LoadedRun) -> list[dict[str, Any]]:
    """All versions of a run's configuration, oldest first."""
    return [
        {
            "config_revision": change.config_revision,
            "create_time": change.create_time.ToJsonString(),
            "reason": change.reason,
            "branch": change.branch,
            "revision": change.revision,
            "config": config_from_proto(change.config).to_dict(),
        }
        for change in run.record.config_changes
    ]


def _changes(run: LoadedRun, branch: str) -> list[Mark]:
    """The changes that lie on the branch's line."""
    stretches = {segment.branch: segment for segment in segments(run, branch)}
    marks = []
    for before, after in zip(run.record.config_changes, run.record.config_changes[1:], strict=False):
        stretch = stretches.get(after.branch)
        if stretch is not None and stretch.after <= after.revision <= stretch.until:
            marks.append(
                {
                    "revision": after.revision,
                    "kind": "config",
                    "reason": after.reason,
                    "text": _difference(before, after),
                    "environment": "",
                    "config_revision": after.config_revision,
                }
            )
    return marks


def _difference(before: ConfigChange, after: ConfigChange) -> str:
    old, new = config_from_proto(before.config), config_from_proto(after.config)
    parts: Sequence[str] = [
        f"{item.name} {getattr(old, item.name)} -> {getattr(new, item.name)}"
        for item in fields(RunConfig)
        if getattr(old, item.name) != getattr(new, item.name)
    ]
    return ", ".join(parts)
