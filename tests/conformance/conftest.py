"""Every store that the contract of `fade_service.store.base` is held against: an entry in STORES runs the whole suite on it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from fade_service.store import Store, StoredObservation, StoredRun, open_store

STORES: dict[str, Callable[[pytest.FixtureRequest], str]] = {
    "memory": lambda request: "memory://",
    "sqlite": lambda request: f"sqlite:///{request.getfixturevalue('tmp_path') / 'fade.db'}",
    "sqlite full": lambda request: f"sqlite:///{request.getfixturevalue('tmp_path') / 'fade.db'}?durability=full",
    "redis": lambda request: str(request.getfixturevalue("redis_url")),
}
"""The URL of an empty store, by the store's name; it may ask for the fixtures that it needs."""

SHARED = [name for name in STORES if name != "memory"]
"""Stores that other processes see, and that outlive the process."""


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store."""
    store = open_store(STORES[request.param](request))
    yield store
    store.close()


@pytest.fixture(params=SHARED)
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[], Store]]:
    """Opens one and the same store again at each call."""
    url = STORES[request.param](request)
    opened: list[Store] = []

    def connect() -> Store:
        opened.append(open_store(url))
        return opened[-1]

    yield connect
    for store in opened:
        store.close()


@pytest.fixture
def run(store: Store) -> StoredRun:
    """A run of the store, just created."""
    return store.create_run("projects/p/runs/r", "uid-r", b"record", b"head")


@pytest.fixture
def at(store: Store) -> Callable[[StoredRun], int]:
    """The version at which a run stands."""

    def version(run: StoredRun) -> int:
        found = store.get_run(run.name)
        assert found is not None
        return found.version

    return version


@pytest.fixture
def restless_threads() -> Iterator[None]:
    """Threads give way to each other as often as they can, so that a missing lock shows."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def observation() -> Callable[..., StoredObservation]:
    """Makes the observation of a revision; other fields by keyword."""

    def make(revision: int, **fields: object) -> StoredObservation:
        values: dict[str, object] = {
            "branch": "main",
            "revision": revision,
            "observation_id": f"batch-{revision}",
            "digest": revision.to_bytes(32, "big"),
            "payload": b"payload %d" % revision,
        }
        return StoredObservation(**(values | fields))  # type: ignore[arg-type]

    return make
