"""Health: the AND of named components."""

from __future__ import annotations

import threading
from collections.abc import Callable

Listener = Callable[[bool], None]


class Health:
    """Serving only while every component is; starts with none of them."""

    def __init__(self, *components: str) -> None:
        self._lock = threading.Lock()
        self._problems = dict.fromkeys(components, "has not reported yet")
        self._listeners: list[Listener] = []

    def report(self, component: str, problem: str = "") -> bool:
        """What a component says of itself; no problem means that it serves. Whether it did not say so before."""
        with self._lock:
            before = self._serving()
            is_news = bool(problem) != bool(self._problems[component])
            self._problems[component] = problem
            if self._serving() != before:
                for listener in self._listeners:
                    listener(not before)
        return is_news

    def subscribe(self, listener: Listener) -> None:
        """Calls ``listener`` with whether the whole serves: now, and at each change."""
        with self._lock:
            self._listeners.append(listener)
            listener(self._serving())

    def problems(self) -> dict[str, str]:
        """The components that do not serve, with what they say."""
        with self._lock:
            return {component: problem for component, problem in self._problems.items() if problem}

    def _serving(self) -> bool:
        return not any(self._problems.values())
