"""Commits: compare and set, all or nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fade_service.errors import DuplicateObservationError
from fade_service.store import Store, StoredObservation, StoredRun

Make = Callable[..., StoredObservation]
At = Callable[[StoredRun], int]


def test_a_commit_replaces_what_it_is_given_and_keeps_the_rest(store: Store, run: StoredRun, observation: Make) -> None:
    versions = [run.version]

    def commit(**changes: Any) -> tuple[bytes, bytes]:
        version = store.commit(run.uid, versions[-1], **changes)
        now = store.get_run(run.name)
        assert now is not None and (now.name, now.uid, now.version) == (run.name, run.uid, version)
        versions.append(now.version)
        return now.record, now.head

    assert commit(head=b"head 2") == (b"record", b"head 2")
    assert commit(record=b"record 3") == (b"record 3", b"head 2")
    assert commit(record=b"", head=b"") == (b"", b"")
    assert commit(observation=observation(1)) == (b"", b"")
    assert commit() == (b"", b"")
    assert versions == sorted(set(versions)), "each commit makes a higher version"


def test_a_commit_touches_no_other_run(store: Store, run: StoredRun, observation: Make) -> None:
    other = store.create_run("projects/p/runs/other", "uid-other", b"its record", b"its head")
    store.commit(run.uid, run.version, record=b"x", head=b"y", observation=observation(1))
    assert store.get_run(other.name) == other
    assert store.find_observation(other.uid, "main", "batch-1") is None


def test_a_commit_that_expects_another_version_writes_nothing(store: Store, run: StoredRun, observation: Make) -> None:
    version = store.commit(run.uid, run.version, head=b"moved")
    assert version is not None
    before = store.get_run(run.name)
    for other in (-1, 0, run.version, version - 1, version + 1, 2**62):
        assert store.commit(run.uid, other, record=b"x", head=b"y", observation=observation(1)) is None
    assert store.get_run(run.name) == before
    assert list(store.list_observations(run.uid, "main", 0, 9, 9)) == []


def test_a_commit_to_a_run_that_never_was_writes_nothing(store: Store, run: StoredRun, observation: Make) -> None:
    assert store.commit("uid-none", 1, head=b"x", observation=observation(1)) is None
    assert store.find_observation("uid-none", "main", "batch-1") is None
    assert store.list_runs("", "", 9) == [run]


@pytest.mark.parametrize(("revision", "observation_id"), [(2, "batch-1"), (1, "batch-2"), (1, "batch-1")])
def test_a_duplicate_id_or_revision_is_refused_whole(
    store: Store, run: StoredRun, observation: Make, at: At, revision: int, observation_id: str
) -> None:
    store.commit(run.uid, run.version, head=b"moved", observation=observation(1))
    before = store.get_run(run.name)
    duplicate = observation(revision, observation_id=observation_id, digest=b"other", payload=b"other")
    with pytest.raises(DuplicateObservationError):
        store.commit(run.uid, at(run), record=b"x", head=b"y", observation=duplicate)
    assert store.get_run(run.name) == before
    assert store.list_observations(run.uid, "main", 0, 9, 9) == [observation(1)]
    assert store.find_observation(run.uid, "main", "batch-2") is None
    assert store.commit(run.uid, at(run), head=b"z", observation=observation(2)) == at(run)


def test_a_lost_race_is_told_before_a_duplicate(store: Store, run: StoredRun, observation: Make) -> None:
    store.commit(run.uid, run.version, observation=observation(1))
    assert store.commit(run.uid, run.version, observation=observation(1)) is None


def test_ids_and_revisions_are_unique_in_their_branch_alone(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    other = store.create_run("projects/p/runs/other", "uid-other", b"", b"")
    first = observation(1)
    elsewhere = observation(1, branch="second", payload=b"elsewhere")
    store.commit(run.uid, at(run), observation=first)
    store.commit(run.uid, at(run), observation=elsewhere)
    store.commit(other.uid, at(other), observation=observation(1, payload=b"of the other run"))
    assert store.find_observation(run.uid, "main", "batch-1") == first
    assert store.find_observation(run.uid, "second", "batch-1") == elsewhere
    assert store.find_observation(other.uid, "main", "batch-1") == observation(1, payload=b"of the other run")


@pytest.mark.usefixtures("restless_threads")
def test_of_many_that_expect_one_version_exactly_one_commits(store: Store, run: StoredRun, observation: Make) -> None:
    barrier = threading.Barrier(8, timeout=10)

    def commit(thread: int) -> list[int | None]:
        answers = []
        for revision in range(1, 31):
            seen = store.get_run(run.name)
            assert seen is not None
            barrier.wait()
            mine = observation(revision, observation_id=f"{thread}-{revision}")
            answers.append(store.commit(run.uid, seen.version, head=b"%d" % thread, observation=mine))
            barrier.wait()
        return answers

    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(commit, range(8)))
    winners = []
    for revision in range(1, 31):
        won = [thread for thread in range(8) if answers[thread][revision - 1] is not None]
        assert len(won) == 1
        winners += won
    history = store.list_observations(run.uid, "main", 0, 99, 99)
    assert [kept.observation_id for kept in history] == [f"{thread}-{number}" for number, thread in enumerate(winners, 1)]
    last = store.get_run(run.name)
    assert last is not None and (last.version, last.head) == (answers[winners[-1]][-1], b"%d" % winners[-1])


@pytest.mark.usefixtures("restless_threads")
def test_writers_that_read_and_commit_freely_lose_no_update(store: Store, run: StoredRun, observation: Make) -> None:
    def count(thread: int) -> None:
        won = 0
        while won < 40:
            seen = store.get_run(run.name)
            assert seen is not None
            total = int(seen.record) + 1
            mine = observation(total, observation_id=f"{thread}-{total}")
            won += store.commit(run.uid, seen.version, record=b"%d" % total, observation=mine) is not None

    store.commit(run.uid, run.version, record=b"0")
    with ThreadPoolExecutor(6) as threads:
        list(threads.map(count, range(6)))
    last = store.get_run(run.name)
    assert last is not None and last.record == b"240"
    assert [kept.revision for kept in store.list_observations(run.uid, "main", 0, 999, 999)] == list(range(1, 241))


@pytest.mark.usefixtures("restless_threads")
def test_readers_see_all_of_a_commit_or_none(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    store.commit(run.uid, run.version, record=b"0", head=b"0")
    done = threading.Event()

    def read() -> int:
        reads = 0
        while not done.is_set() or reads == 0:
            seen = store.get_run(run.name)
            assert seen is not None
            revision = int(seen.head)
            assert seen.record == seen.head
            history = store.list_observations(run.uid, "main", 0, 999, 999)
            assert [kept.revision for kept in history] == list(range(1, len(history) + 1))
            assert len(history) >= revision
            after = store.get_run(run.name)
            assert after is not None and int(after.head) >= len(history)
            reads += 1
        return reads

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read) for _ in range(3)]
        try:
            for revision in range(1, 151):
                text = b"%d" % revision
                store.commit(run.uid, at(run), record=text, head=text, observation=observation(revision))
        finally:
            done.set()
        assert all(reader.result() for reader in readers)
