"""What the trainer shims share: a client per process, set up from the environment, as trainers name their hooks by a string."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from fade_client.client import FadeClient
from fade_client.errors import SettingsError
from fade_core import FadeError, RunConfig

_lock = threading.Lock()
_shared: FadeClient | None = None


def client_from_environment(**settings: Any) -> FadeClient:
    """A client for a trainer that leaves no place to build one.

    ``FADE_ADDRESS``, ``FADE_RUN`` and ``FADE_TOKEN`` as for :class:`FadeClient`; ``FADE_PROJECT`` names the project;
    ``FADE_CONFIG`` is the run's configuration where it does not exist yet: a JSON object, or the path of a file with one;
    ``FADE_TIMEOUT_SECONDS`` the longest that one call may take. The advantages are in the rewards' own units, as the trainer's
    were.

    Args:
        settings: Arguments of :class:`FadeClient` that win over the environment.

    Raises:
        SettingsError: A variable is missing or wrong.
    """
    given = {"project": os.environ.get("FADE_PROJECT") or "default", "advantage_units": "declared", **settings}
    if given.get("config") is None:
        given["config"] = _config(os.environ.get("FADE_CONFIG") or "{}")
    if seconds := os.environ.get("FADE_TIMEOUT_SECONDS"):
        given.setdefault("timeout_seconds", _seconds(seconds))
    return FadeClient(**given)


def shared_client() -> FadeClient:
    """This process's client from the environment, made at the first call.

    Raises:
        SettingsError: A variable is missing or wrong.
    """
    global _shared
    with _lock:
        if _shared is None:
            _shared = client_from_environment()
        return _shared


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
