"""What the trainer shims share: a client per process, set up from the environment, as trainers name their hooks by a string."""

from __future__ import annotations

import atexit
import json
import logging
import os
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

from fade_client.client import FadeClient
from fade_client.errors import SettingsError
from fade_client.schedule import Schedule, Source
from fade_core import FadeError, RunConfig
from fade_core.schedule import Phase

_log = logging.getLogger("fade_client")
_WORDS: dict[str, tuple[str, ...]] = {"source": get_args(Source), "phase": get_args(Phase)}

_lock = threading.Lock()
_shared: FadeClient | None = None


def client_from_environment(**settings: Any) -> FadeClient:
    """A client for a trainer that leaves no place to build one, nor to close one: it is closed when the process ends.

    ``FADE_ADDRESS``, ``FADE_RUN``, ``FADE_PROJECT`` and ``FADE_TOKEN`` as for :class:`FadeClient`; ``FADE_CONFIG`` is the run's
    configuration where it does not exist yet: a JSON object, or the path of a file with one; ``FADE_TIMEOUT_SECONDS`` the longest
    that one call may take. The advantages are in the rewards' own units, as the trainer's were.

    Args:
        settings: Arguments of :class:`FadeClient` that win over the environment.

    Raises:
        SettingsError: A variable is missing or wrong.
    """
    given = {"advantage_units": "declared", **settings}
    if given.get("config") is None and (text := os.environ.get("FADE_CONFIG")):
        given["config"] = _config(text)
    if seconds := os.environ.get("FADE_TIMEOUT_SECONDS"):
        given.setdefault("timeout_seconds", _seconds(seconds))
    client = FadeClient(**given)
    atexit.register(client.close)
    return client


def shared_client(**settings: Any) -> FadeClient:
    """This process's client, made at the first call.

    Args:
        settings: As for :func:`client_from_environment`; the first call's count.

    Raises:
        SettingsError: A variable or a setting is missing or wrong.
    """
    global _shared
    with _lock:
        if _shared is None:
            _shared = client_from_environment(**settings)
        return _shared


def send_the_rest(client: FadeClient) -> None:
    """At the end of a training: gives reports that wait up to ``timeout_seconds``, and says in the log what was not sent."""
    if not client.flush():
        _log.warning(
            "%d reports are not sent yet: client.close() tries once more, and client.state_dict() has them",
            len(client.state_dict()["unsent"]),
        )


def step_on_line(client: FadeClient, step: int) -> int | None:
    """The trainer's step for a report; None where the run's line stands at a later one: a training after another begins at 0."""
    known = client.trainer_step
    return None if known is not None and step < known else step


def numbers(schedule: Schedule, reasons: set[str]) -> dict[str, float]:
    """:meth:`Schedule.metrics` for loggers that average numbers and drop words.

    A word becomes a 1 among 0s: ``fade/source/server``, ``fade/phase/exploring``, ``fade/rejection/invalid_field``.

    Args:
        schedule: The batch's.
        reasons: For which reports were refused so far; the schedule's own is added. Each stays in the metrics, mostly as 0.
    """
    values: dict[str, float] = {}
    for name, value in schedule.metrics().items():
        if not isinstance(value, str):
            values[name] = float(value)
        for word in _WORDS.get(name.rpartition("/")[2], ()):
            values[f"{name}/{word.lower()}"] = float(value == word)
    if schedule.rejection is not None:
        reasons.add(schedule.rejection)
    return values | {f"fade/rejection/{reason.lower()}": float(schedule.rejection == reason) for reason in sorted(reasons)}


def append_numbers(lists: Mapping[str, list[float]], schedule: Schedule, reasons: set[str]) -> None:
    """Appends :func:`numbers` to lists that a trainer logs the means of: words become shares of the batches since its last line.

    Args:
        lists: By name; makes those that are missing.
        schedule: The batch's.
        reasons: As for :func:`numbers`.
    """
    for name, value in numbers(schedule, reasons).items():
        lists[name].append(value)
    batches = len(lists["fade/source/server"])
    for reason in reasons:  # a new one was 0 so far
        shares = lists[f"fade/rejection/{reason.lower()}"]
        shares[:0] = [0.0] * (batches - len(shares))


@cache
def say_undivided(setting: str) -> None:
    """Says once that a trainer's division by the standard deviation has no effect."""
    _log.warning(
        "%s has no effect: the schedule's advantages are not divided by a standard deviation. Expect another size of steps than"
        " before (docs/trainers/README.md)",
        setting,
    )


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise SettingsError(f"FADE_TIMEOUT_SECONDS is {text!r}; give a number of seconds") from None


def _config(text: str) -> RunConfig:
    try:
        if not text.lstrip().startswith("{"):
            text = Path(text).read_text(encoding="utf-8")
        return RunConfig.from_dict(json.loads(text))
    except (OSError, ValueError, TypeError, FadeError) as error:
        raise SettingsError(f"FADE_CONFIG is neither a JSON object of a configuration nor a file with one: {error}") from error
