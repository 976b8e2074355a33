"""Stores: the contract in words (:mod:`~fade_service.store.base`), and those that keep it."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_state_path

from fade_service.store.base import Store, StoredObservation, StoredRun
from fade_service.store.memory import MemoryStore
from fade_service.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store", "StoredObservation", "StoredRun", "default_store_url", "open_store"]


def default_store_url() -> str:
    """The SQLite file ``fade.db`` in the user's state directory."""
    return f"sqlite:///{user_state_path('fade-scheduler') / 'fade.db'}"


def open_store(url: str) -> Store:
    """Opens the store that a URL names; a SQLite file is made where there is none.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute/path.db``, or ``memory://`` which keeps nothing.

    Raises:
        ValueError: The URL is of no known form, or its file is something else or of a newer version.
        StoreUnavailableError: The store cannot be opened now.
    """
    if url == "memory://":
        return MemoryStore()
    path = url.removeprefix("sqlite:///")
    if path not in (url, "", ":memory:"):
        return SqliteStore(Path(path))
    raise ValueError(f"store {url!r} is of no known form; give sqlite:///relative.db, sqlite:////absolute/path.db, or memory://")
