"""Observations: kept byte for byte, found by id, listed by revision."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fade_service.store import Store, StoredObservation, StoredRun

Make = Callable[..., StoredObservation]
At = Callable[[StoredRun], int]

_ids = st.text(min_size=1, max_size=128)
_bytes = st.binary(max_size=300)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(name=_ids, uid=_ids, record=_bytes, head=_bytes, kept=st.builds(
    StoredObservation, branch=_ids, revision=st.integers(1, 2**63 - 1), observation_id=_ids, digest=_bytes, payload=_bytes
))  # fmt: skip
def test_any_text_and_any_bytes_come_back_as_they_went_in(
    store: Store, name: str, uid: str, record: bytes, head: bytes, kept: StoredObservation
) -> None:
    created = store.create_run(name, uid, b"", b"")
    version = store.commit(created.uid, created.version, record=record, head=head, observation=kept)
    assert version is not None
    assert store.get_run(name) == StoredRun(name=name, uid=uid, version=version, record=record, head=head)
    assert store.find_observation(uid, kept.branch, kept.observation_id) == kept
    assert store.list_observations(uid, kept.branch, kept.revision - 1, kept.revision, 1) == [kept]
    assert store.delete_run(name, version)


def test_ids_of_128_characters_that_differ_in_the_last_are_two(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    first, second = "\U0001f600" * 127 + "a", "\U0001f600" * 127 + "b"
    store.commit(run.uid, at(run), observation=observation(1, observation_id=first))
    store.commit(run.uid, at(run), observation=observation(2, observation_id=second))
    assert store.find_observation(run.uid, "main", first) == observation(1, observation_id=first)
    assert store.find_observation(run.uid, "main", second) == observation(2, observation_id=second)


def test_ids_are_not_folded(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    ids = ["a", "A", "a ", " a", "é", "e\u0301", "1", "01", "1.0"]
    for revision, name in enumerate(ids, 1):
        assert store.commit(run.uid, at(run), observation=observation(revision, observation_id=name)) is not None
    for revision, name in enumerate(ids, 1):
        assert store.find_observation(run.uid, "main", name) == observation(revision, observation_id=name)


def test_a_payload_of_a_megabyte_is_kept(store: Store, run: StoredRun, observation: Make) -> None:
    big = bytes(range(256)) * 4096
    version = store.commit(run.uid, run.version, record=big, head=big[::-1], observation=observation(1, payload=big))
    assert version is not None
    assert store.get_run(run.name) == StoredRun(name=run.name, uid=run.uid, version=version, record=big, head=big[::-1])
    assert store.find_observation(run.uid, "main", "batch-1") == observation(1, payload=big)


def test_an_observation_that_is_not_there_is_none(store: Store, run: StoredRun, observation: Make) -> None:
    store.commit(run.uid, run.version, observation=observation(1))
    assert store.find_observation(run.uid, "main", "batch-2") is None
    assert store.find_observation(run.uid, "other", "batch-1") is None
    assert store.find_observation("uid-other", "main", "batch-1") is None
    assert store.find_observation(run.name, "main", "batch-1") is None


@pytest.mark.parametrize(
    ("after", "until", "limit", "expected"),
    [
        (0, 10, 100, range(1, 11)),
        (0, 2**63 - 1, 100, range(1, 11)),
        (3, 7, 100, range(4, 8)),
        (3, 7, 2, range(4, 6)),
        (0, 1, 1, range(1, 2)),
        (9, 10, 5, range(10, 11)),
        (10, 99, 5, range(0)),
        (4, 4, 5, range(0)),
        (7, 3, 5, range(0)),
        (0, 10, 0, range(0)),
    ],
)
def test_observations_are_listed_after_and_until_a_revision_up_to_the_limit(
    store: Store, run: StoredRun, observation: Make, at: At, after: int, until: int, limit: int, expected: range
) -> None:
    for revision in (7, 2, 9, 4, 1, 10, 3, 6, 8, 5):
        store.commit(run.uid, at(run), observation=observation(revision))
    store.commit(run.uid, at(run), observation=observation(4, branch="other"))
    listed = store.list_observations(run.uid, "main", after, until, limit)
    assert list(listed) == [observation(revision) for revision in expected]


def test_branches_are_listed_apart(store: Store, run: StoredRun, observation: Make, at: At) -> None:
    for revision in range(1, 9):
        branch = "a" if revision % 2 else "aa"
        store.commit(run.uid, at(run), observation=observation(revision, branch=branch))
    assert [kept.revision for kept in store.list_observations(run.uid, "a", 0, 99, 99)] == [1, 3, 5, 7]
    assert [kept.revision for kept in store.list_observations(run.uid, "aa", 0, 99, 99)] == [2, 4, 6, 8]
    assert list(store.list_observations(run.uid, "", 0, 99, 99)) == []
