"""Stores that several processes share, each with its own connection: what one has committed, every other reads."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fade_service.errors import DuplicateObservationError
from fade_service.store import Store, StoredObservation

Make = Callable[..., StoredObservation]
Connect = Callable[[], Store]


def test_what_one_has_committed_the_other_reads_at_once(connect: Connect, observation: Make) -> None:
    one, two = connect(), connect()
    created = one.create_run("projects/p/runs/r", "uid-r", b"record", b"head")
    assert two.get_run(created.name) == created
    version: int | None = created.version
    for revision in range(1, 21):
        writer, reader = (one, two) if revision % 2 else (two, one)
        text = b"%d" % revision
        assert version is not None
        version = writer.commit(created.uid, version, head=text, observation=observation(revision))
        seen = reader.get_run(created.name)
        assert seen is not None and (seen.version, seen.head) == (version, text)
        assert reader.find_observation(created.uid, "main", f"batch-{revision}") == observation(revision)
    assert version is not None and one.delete_run(created.name, version)
    assert two.get_run(created.name) is None
    assert list(two.list_observations(created.uid, "main", 0, 99, 99)) == []


def test_compare_and_set_and_uniqueness_hold_between_them(connect: Connect, observation: Make) -> None:
    one, two = connect(), connect()
    created = one.create_run("projects/p/runs/r", "uid-one", b"", b"")
    assert two.create_run(created.name, "uid-two", b"x", b"x") == created
    version = one.commit(created.uid, 1, head=b"one", observation=observation(1))
    assert version is not None
    assert two.commit(created.uid, 1, head=b"two", observation=observation(2)) is None
    with pytest.raises(DuplicateObservationError):
        two.commit(created.uid, version, head=b"two", observation=observation(1))
    assert two.delete_run(created.name, 1) is False
    seen = two.get_run(created.name)
    assert seen is not None and (seen.version, seen.head) == (version, b"one")


def test_all_is_there_after_closing_and_opening_again(connect: Connect, observation: Make) -> None:
    first = connect()
    created = first.create_run("projects/p/runs/r", "uid-r", b"record", b"head")
    version: int | None = created.version
    for revision in range(1, 6):
        assert version is not None
        version = first.commit(created.uid, version, head=b"%d" % revision, observation=observation(revision))
    first.create_run("projects/p/runs/deleted", "uid-deleted", b"", b"")
    first.delete_run("projects/p/runs/deleted", 1)
    before = first.list_runs("", "", 9)
    first.close()
    again = connect()
    assert again.list_runs("", "", 9) == before
    assert again.list_observations(created.uid, "main", 0, 9, 9) == [observation(revision) for revision in range(1, 6)]
    assert version is not None and again.commit(created.uid, version, observation=observation(6)) is not None


def test_one_that_closes_disturbs_no_other(connect: Connect, observation: Make) -> None:
    one, two = connect(), connect()
    created = one.create_run("projects/p/runs/r", "uid-r", b"", b"")
    one.close()
    assert two.commit(created.uid, created.version, observation=observation(1)) is not None
    assert two.find_observation(created.uid, "main", "batch-1") == observation(1)
