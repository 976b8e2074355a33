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
    for version in range(1, 21):
        writer, reader = (one, two) if version % 2 else (two, one)
        text = b"%d" % version
        assert writer.commit(created.uid, version, head=text, observation=observation(version)) == version + 1
        seen = reader.get_run(created.name)
        assert seen is not None and (seen.version, seen.head) == (version + 1, text)
        assert reader.find_observation(created.uid, "main", f"batch-{version}") == observation(version)
    assert one.delete_run(created.name, 21)
    assert two.get_run(created.name) is None
    assert list(two.list_observations(created.uid, "main", 0, 99, 99)) == []


def test_compare_and_set_and_uniqueness_hold_between_them(connect: Connect, observation: Make) -> None:
    one, two = connect(), connect()
    created = one.create_run("projects/p/runs/r", "uid-one", b"", b"")
    assert two.create_run(created.name, "uid-two", b"x", b"x") == created
    assert one.commit(created.uid, 1, head=b"one", observation=observation(1)) == 2
    assert two.commit(created.uid, 1, head=b"two", observation=observation(2)) is None
    with pytest.raises(DuplicateObservationError):
        two.commit(created.uid, 2, head=b"two", observation=observation(1))
    assert two.delete_run(created.name, 1) is False
    seen = two.get_run(created.name)
    assert seen is not None and (seen.version, seen.head) == (2, b"one")


def test_all_is_there_after_closing_and_opening_again(connect: Connect, observation: Make) -> None:
    first = connect()
    created = first.create_run("projects/p/runs/r", "uid-r", b"record", b"head")
    for version in range(1, 6):
        first.commit(created.uid, version, head=b"%d" % version, observation=observation(version))
    first.create_run("projects/p/runs/deleted", "uid-deleted", b"", b"")
    first.delete_run("projects/p/runs/deleted", 1)
    before = first.list_runs("", "", 9)
    first.close()
    again = connect()
    assert again.list_runs("", "", 9) == before
    assert again.list_observations(created.uid, "main", 0, 9, 9) == [observation(revision) for revision in range(1, 6)]
    assert again.commit(created.uid, 6, observation=observation(6)) == 7


def test_one_that_closes_disturbs_no_other(connect: Connect, observation: Make) -> None:
    one, two = connect(), connect()
    created = one.create_run("projects/p/runs/r", "uid-r", b"", b"")
    one.close()
    assert two.commit(created.uid, 1, observation=observation(1)) == 2
    assert two.find_observation(created.uid, "main", "batch-1") == observation(1)
