"""Stores: the contract in words (:mod:`~fade_service.store.base`), and who keeps it."""

from __future__ import annotations

from pathlib import Path

from platformdirs import user_state_path

from fade_service.store.base import Store, StoredObservation, StoredRun
from fade_service.store.memory import MemoryStore
from fade_service.store.sqlite import SqliteStore

__all__ = ["MemoryStore", "SqliteStore", "Store", "StoredObservation", "StoredRun", "default_store_url", "open_store"]


def default_store_url() -> str:
    """A SQLite file in the user's state directory."""
    return f"sqlite:///{user_state_path('fade-scheduler') / 'fade.db'}"


def open_store(url: str) -> Store:
    """The store that a URL names.

    Raises:
        ValueError: The URL is of no known form.
        StoreUnavailableError: It cannot be opened.
    """
    if url == "memory://":
        return MemoryStore()
    scheme, found, path = url.partition("sqlite:///")
    if found and not scheme and path:
        return SqliteStore(Path(path))
    raise ValueError(f"store {url!r} is of no known form; give sqlite:///relative.db, sqlite:////absolute.db, or memory://")
