"""What is new, for whoever watches: looked up once per tick, however many watch."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from cachetools import LRUCache

from fade_service.errors import ServiceError
from fade_service.insight.course import Course, course_of
from fade_service.insight.lines import Lines
from fade_service.insight.overview import Overview
from fade_service.runs import LoadedRun, Runs

TICK_SECONDS = 0.25

MOST_NEW_OBSERVATIONS = 2000
"""A watcher who is further behind is told to load the series again."""

_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class Seen:
    """What one watcher of a run knows of it; by default nothing.

    Attributes:
        branch: The branch that is watched.
        revision: The last observation that was sent.
        loaded: Of the line that it belongs to (:attr:`~fade_service.insight.lines.Line.loaded`).
        standing: The run's own standing, as far as it is shown.
    """

    branch: str = ""
    revision: int = 0
    loaded: int = 0
    standing: object = None


@dataclass(frozen=True, slots=True)
class News:
    """What one watcher is told.

    Attributes:
        run: The run, where its configuration, state or branches changed.
        course: The new observations.
        resync: The history that was sent no longer holds, or too much is new.
        seen: What the watcher knows now.
    """

    run: LoadedRun | None
    course: Course | None
    resync: bool
    seen: Seen


class Feed:
    """Answers watchers, who ask once per tick, at the same moments."""

    def __init__(self, runs: Runs, lines: Lines, overview: Overview) -> None:
        self._runs = runs
        self._lines = lines
        self._overview = overview
        self._lock = threading.Lock()
        self._answers: LRUCache[Any, Any] = LRUCache(64)
        self.closed = False

    def close(self) -> None:
        """Watchers are to go."""
        self.closed = True

    def seconds_to_tick(self) -> float:
        """Until all watchers ask again."""
        return TICK_SECONDS - time.monotonic() % TICK_SECONDS

    def news(self, name: str, branch: str, seen: Seen) -> News:
        """What is new of a run.

        Args:
            name: The run.
            branch: Empty follows the branch that is written now.
            seen: What the watcher knows.

        Raises:
            ServiceError: RUN_NOT_FOUND, BRANCH_NOT_FOUND, STORE_UNAVAILABLE.
        """
        return self._once(("news", name, branch, seen), lambda: self._news(name, branch, seen))

    def changed_runs(self, project: str, known: dict[str, tuple[str, int]]) -> tuple[list[str], dict[str, tuple[str, int]]]:
        """The names ("project/run") of those that changed or went, and all versions as they are now."""
        now = self._once(("versions", project), lambda: self._overview.versions(project))
        return sorted(name for name in now.keys() | known.keys() if now.get(name) != known.get(name)), now

    def _news(self, name: str, branch: str, seen: Seen) -> News:
        run = self._runs.load(name)
        line = self._lines.read(run, branch)
        standing = (run.uid, run.config_revision, run.record.completed, len(run.record.branches), line.branch)
        known = (line.branch, line.loaded) == (seen.branch, seen.loaded) or seen.loaded == 0
        resync = not known or line.revision < seen.revision or line.revision - seen.revision > MOST_NEW_OBSERVATIONS
        is_new = line.revision > seen.revision and not resync
        course = course_of(self._runs, run, line, seen.revision + 1, line.revision, MOST_NEW_OBSERVATIONS) if is_new else None
        return News(
            run=run if standing != seen.standing else None,
            course=course,
            resync=resync,
            seen=Seen(line.branch, line.revision, line.loaded, standing),
        )

    def _once(self, question: Any, find: Callable[[], _Found]) -> _Found:
        """The answer, or refusal, that the first who asks in this tick gets."""
        key = (question, int(time.monotonic() / TICK_SECONDS))
        with self._lock:
            found = self._answers.get(key)
            if found is None:
                try:
                    found = find()
                except ServiceError as refusal:
                    found = refusal
                self._answers[key] = found
        if isinstance(found, ServiceError):
            raise found
        return found
