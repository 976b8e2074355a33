"""Runs: create or join, read, list, delete."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fade_service.errors import DuplicateObservationError
from fade_service.store import Store, StoredObservation, StoredRun

Make = Callable[..., StoredObservation]
At = Callable[[StoredRun], int]

# Both sides of the surrogates: UTF-16 units would put the last before the one in front of it, code points do not.
_letters = st.sampled_from(["\0", "/", "a", "b", "%", "_", "é", "\uffff", "\U0001d11e"])
_names = st.text(_letters, max_size=4)


def test_a_new_run_is_at_version_1_with_what_was_given(store: Store) -> None:
    created = store.create_run("projects/p/runs/r", "uid-r", b"record", b"head")
    assert created == StoredRun(name="projects/p/runs/r", uid="uid-r", version=1, record=b"record", head=b"head")
    assert store.get_run("projects/p/runs/r") == created


def test_creating_a_run_that_exists_joins_it_unchanged(store: Store, run: StoredRun) -> None:
    version = store.commit(run.uid, run.version, head=b"moved")
    assert version is not None
    there = StoredRun(name=run.name, uid=run.uid, version=version, record=b"record", head=b"moved")
    assert store.create_run(run.name, "uid-other", b"other", b"other") == there
    assert store.get_run(run.name) == there
    assert store.commit("uid-other", 1, head=b"x") is None


@pytest.mark.usefixtures("restless_threads")
def test_of_many_that_create_one_name_at_once_all_get_the_same_run(store: Store) -> None:
    barrier = threading.Barrier(12, timeout=10)

    def create(number: int) -> StoredRun:
        barrier.wait()
        return store.create_run("projects/p/runs/r", f"uid-{number}", b"record %d" % number, b"head %d" % number)

    with ThreadPoolExecutor(12) as threads:
        created = list(threads.map(create, range(12)))
    winner = store.get_run("projects/p/runs/r")
    assert winner is not None and created == [winner] * 12
    number = int(winner.uid.removeprefix("uid-"))
    assert (winner.record, winner.head) == (b"record %d" % number, b"head %d" % number)


def test_a_run_that_does_not_exist_is_none(store: Store, run: StoredRun) -> None:
    assert store.get_run("projects/p/runs/R") is None
    assert store.get_run(run.uid) is None
    assert store.get_run("") is None


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(names=st.sets(_names), prefix=_names, after=_names, limit=st.integers(0, 6))
def test_runs_are_listed_by_prefix_in_the_order_of_code_points(
    store: Store, names: set[str], prefix: str, after: str, limit: int
) -> None:
    created = {name: store.create_run(name, f"uid of {name}", name.encode(), b"head") for name in names}
    expected = [created[name] for name in sorted(names) if name.startswith(prefix) and name > after]
    assert list(store.list_runs(prefix, after, limit)) == expected[:limit]
    for name in names:
        assert store.delete_run(name, 1)


def test_pages_of_runs_join_without_gap_or_repetition(store: Store) -> None:
    names = [f"projects/p/runs/{number:03d}" for number in range(25)]
    for name in reversed(names):
        store.create_run(name, f"uid of {name}", b"", b"")
    store.create_run("projects/other/runs/a", "uid-a", b"", b"")
    store.create_run("projects/p2/runs/z", "uid-z", b"", b"")
    seen: list[str] = []
    while page := store.list_runs("projects/p/runs/", seen[-1] if seen else "", 7):
        assert len(page) <= 7
        seen += [run.name for run in page]
    assert seen == names


def test_deleting_takes_the_history_along_and_no_other(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    other = store.create_run("projects/p/runs/other", "uid-other", b"", b"")
    for each in (run, other):
        for revision in range(1, 6):
            store.commit(each.uid, at(each), observation=observation(revision, branch=f"branch {revision % 2}"))
    assert store.delete_run(run.name, at(run)) is True
    assert store.get_run(run.name) is None
    assert store.list_runs("", "", 10) == [store.get_run(other.name)]
    for branch, revision in (("branch 0", 4), ("branch 1", 5)):
        assert store.find_observation(run.uid, branch, f"batch-{revision}") is None
        assert list(store.list_observations(run.uid, branch, 0, 10, 10)) == []
        assert store.find_observation(other.uid, branch, f"batch-{revision}") == observation(revision, branch=branch)


def test_deleting_at_another_version_deletes_nothing(store: Store, run: StoredRun, observation: Make) -> None:
    version = store.commit(run.uid, run.version, head=b"moved", observation=observation(1))
    assert version is not None
    before = store.get_run(run.name)
    for other in (0, run.version, version - 1, version + 1):
        assert store.delete_run(run.name, other) is False
    assert store.delete_run("projects/p/runs/none", version) is False
    assert store.get_run(run.name) == before
    assert store.find_observation(run.uid, "main", "batch-1") == observation(1)


def test_a_deleted_run_takes_no_commit(store: Store, run: StoredRun, observation: Make) -> None:
    store.delete_run(run.name, 1)
    for version in (0, 1, 2):
        assert store.commit(run.uid, version, head=b"moved", observation=observation(1)) is None
    assert store.get_run(run.name) is None
    assert store.find_observation(run.uid, "main", "batch-1") is None


def test_a_name_used_again_starts_without_the_old_history(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    store.commit(run.uid, run.version, observation=observation(1, payload=b"old"))
    store.delete_run(run.name, at(run))
    again = store.create_run(run.name, "uid-again", b"record", b"head")
    assert (again.uid, again.version) == ("uid-again", 1)
    assert store.find_observation(again.uid, "main", "batch-1") is None
    assert store.commit(run.uid, 1, head=b"late writer of the old run") is None
    assert store.commit(again.uid, again.version, observation=observation(1, payload=b"new")) == at(again)
    assert store.list_observations(again.uid, "main", 0, 9, 9) == [observation(1, payload=b"new")]
    with pytest.raises(DuplicateObservationError):
        store.commit(again.uid, at(again), observation=observation(1))


def test_a_ping_changes_nothing(store: Store, run: StoredRun) -> None:
    store.ping()
    assert store.list_runs("", "", 10) == [run]


def test_closing_twice_is_fine(store: Store, run: StoredRun) -> None:
    store.close()
    store.close()
