"""Stores: the contract in words (:mod:`~fade_service.store.base`), and those that keep it."""

from __future__ import annotations

import os
from pathlib import Path

from platformdirs import user_state_path

from fade_service.store.base import Store, StoredObservation, StoredRun
from fade_service.store.memory import MemoryStore
from fade_service.store.redis import RedisStore
from fade_service.store.redis_url import shown
from fade_service.store.sqlite import SqliteStore, durability_of

__all__ = [
    "MemoryStore",
    "RedisStore",
    "SqliteStore",
    "Store",
    "StoredObservation",
    "StoredRun",
    "default_store_url",
    "open_store",
    "shown",
]


def default_store_url() -> str:
    """What ``FADE_STORE`` says, else the SQLite file ``fade.db`` in the user's state directory."""
    return os.environ.get("FADE_STORE") or f"sqlite:///{user_state_path('fade-scheduler') / 'fade.db'}"


def open_store(url: str) -> Store:
    """Opens the store that a URL names; a SQLite file is made where there is none.

    Args:
        url: ``sqlite:///relative.db``, ``sqlite:////absolute/path.db``, ``redis://host:port/database`` (``rediss://`` with TLS;
            see :class:`RedisStore`), or ``memory://`` which keeps nothing.

    Raises:
        ValueError: The URL is of no known form, or its file is something else or of a newer version.
        StoreUnavailableError: The file cannot be opened now. Redis need not be there yet.
    """
    if url == "memory://":
        return MemoryStore()
    path, _, options = url.removeprefix("sqlite:///").partition("?")
    if url.startswith("sqlite:///") and path not in ("", ":memory:"):
        return SqliteStore(Path(path), durability=durability_of(options))
    if url.startswith(("redis://", "rediss://")):
        return RedisStore(url)
    raise ValueError(
        f"store {shown(url)!r} is of no known form; give sqlite:///relative.db, sqlite:////absolute/path.db, redis://host:port/database,"
        " or memory://"
    )
