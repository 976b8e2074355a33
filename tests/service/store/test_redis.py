"""The Redis store alone: Redis away, paused, full, a replica, back with fewer commits; and how much history it keeps."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from fade_service.errors import ServiceError, StoreFullError, StoreUnavailableError
from fade_service.store import RedisStore, StoredObservation, open_store


def observation(revision: int, payload: bytes = b"payload") -> StoredObservation:
    return StoredObservation(
        branch="main", revision=revision, observation_id=f"batch-{revision}", digest=bytes(32), payload=payload
    )


@pytest.fixture
def store(own_redis: Any) -> Iterator[RedisStore]:
    """A store of this test's own Redis."""
    store = RedisStore(own_redis.url)
    yield store
    store.close()


def append(store: RedisStore, revisions: range) -> int:
    """Commits these revisions of the run "r", made where it is missing; the version after them."""
    version: int | None = store.create_run("r", "u", b"record", b"head").version
    for revision in revisions:
        assert version is not None
        version = store.commit("u", version, head=b"head %d" % revision, observation=observation(revision))
    assert version is not None
    return version


def kept(store: RedisStore) -> tuple[object, ...]:
    """All that the store has."""
    return list(store.list_runs("", "", 99)), list(store.list_observations("u", "main", 0, 99, 99))


def until_it_answers(store: RedisStore) -> None:
    deadline = time.monotonic() + 10
    while True:
        try:
            return store.ping()
        except StoreUnavailableError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_store_can_be_opened_before_its_redis_is_there(own_redis: Any) -> None:
    own_redis.kill()
    store = RedisStore(own_redis.url)
    with pytest.raises(StoreUnavailableError):
        store.ping()
    own_redis.start()
    until_it_answers(store)
    append(store, range(1, 3))


def test_all_is_there_after_redis_was_killed_and_started_again(own_redis: Any, store: RedisStore) -> None:
    version = append(store, range(1, 6))
    before = kept(store)
    own_redis.kill()
    with pytest.raises(StoreUnavailableError):
        store.get_run("r")
    own_redis.start()
    until_it_answers(store)
    assert kept(store) == before
    assert store.commit("u", version, observation=observation(6)) is not None


@pytest.mark.timeout(30)  # one by one they would take 100 seconds
def test_many_calls_to_a_paused_redis_do_not_each_wait_out_their_time(own_redis: Any, store: RedisStore) -> None:
    append(store, range(1, 2))
    own_redis.signal(signal.SIGSTOP)

    def call(number: int) -> bool:
        with pytest.raises(StoreUnavailableError):
            store.get_run("r")
        return True

    try:
        with ThreadPoolExecutor(4) as threads:
            assert all(threads.map(call, range(400)))
    finally:
        own_redis.signal(signal.SIGCONT)
    until_it_answers(store)
    assert store.get_run("r") is not None


def test_a_full_redis_refuses_whole_commits_and_goes_on_when_there_is_room(own_redis: Any, store: RedisStore) -> None:
    version = append(store, range(1, 4))
    before = kept(store)
    own_redis.client.config_set("maxmemory", 1)
    with pytest.raises(StoreFullError, match="maxmemory"):
        store.commit("u", version, record=b"x", head=b"y", observation=observation(4))
    with pytest.raises(StoreFullError):
        store.create_run("another", "uid-another", b"", b"")
    assert kept(store) == before
    store.ping()  # it is there, and answers what was committed
    own_redis.client.config_set("maxmemory", 0)
    assert store.commit("u", version, observation=observation(4)) is not None


def test_a_replica_does_not_pass_for_a_store(own_redis: Any, store: RedisStore) -> None:
    version = append(store, range(1, 2))
    own_redis.client.replicaof("127.0.0.1", 1)
    with pytest.raises(StoreUnavailableError, match="primary"):
        store.ping()
    with pytest.raises(StoreUnavailableError):
        store.commit("u", version, head=b"x")


@pytest.mark.parametrize("policy", ["allkeys-lru", "allkeys-lfu", "allkeys-random"])
def test_a_redis_that_forgets_does_not_pass_for_a_store(own_redis: Any, store: RedisStore, policy: str) -> None:
    own_redis.client.config_set("maxmemory-policy", policy)
    with pytest.raises(StoreUnavailableError, match=rf"\(maxmemory-policy {policy}\); set its maxmemory-policy to noeviction$"):
        store.ping()
    own_redis.client.config_set("maxmemory-policy", "noeviction")
    store.ping()


def test_a_redis_that_forgets_only_what_expires_keeps_everything_of_ours(own_redis: Any, store: RedisStore) -> None:
    own_redis.client.config_set("maxmemory-policy", "volatile-random")
    version = append(store, range(1, 4))
    before = kept(store)
    own_redis.client.config_set("maxmemory", 1)
    store.ping()
    for _ in range(20):
        with pytest.raises(StoreFullError):
            store.commit("u", version, head=b"y", observation=observation(4))
    assert kept(store) == before


def test_what_an_operator_must_set_right_is_said_also_while_the_breaker_is_open(own_redis: Any) -> None:
    own_redis.client.config_set("requirepass", "other")
    for url in (own_redis.url, own_redis.url.replace("//", "//:wrong@")):
        store = RedisStore(url)
        for _ in range(3):
            with pytest.raises(StoreUnavailableError, match="; correct the user and password in --store") as caught:
                store.ping()
            assert "try again" not in str(caught.value)
        store.close()
    store = RedisStore(own_redis.url.replace("//", "//:other@").replace("/0", "/999"))
    with pytest.raises(StoreUnavailableError, match="DB index is out of range; set that right at Redis or in --store"):
        store.ping()
    store.close()


def test_a_version_that_was_lost_is_not_made_again_for_other_content(own_redis: Any, store: RedisStore) -> None:
    version = append(store, range(1, 3))
    saved = (
        own_redis.client.dump("fade:{u}:run"),
        own_redis.client.dump("fade:{u}:ids"),
        own_redis.client.dump("fade:{u}:history"),
    )
    lost = store.commit("u", version, head=b"lost", observation=observation(3))
    assert lost is not None
    for key, content in zip(("run", "ids", "history"), saved, strict=True):
        own_redis.client.restore(f"fade:{{u}}:{key}", 0, content, replace=True)
    again = store.commit("u", version, head=b"other", observation=observation(3, b"other"))
    assert again is not None and again != lost
    assert store.commit("u", lost, head=b"goes on from what was lost") is None


def test_history_that_is_no_longer_kept_still_refuses_its_ids(redis_url: str) -> None:
    store = open_store(f"{redis_url}?history=5")
    assert isinstance(store, RedisStore)
    version = append(store, range(1, 13))
    assert [item.revision for item in store.list_observations("u", "main", 0, 99, 99)] == [8, 9, 10, 11, 12]
    assert store.find_observation("u", "main", "batch-8") == observation(8)
    with pytest.raises(ServiceError, match="'batch-7'.*no longer kept") as caught:
        store.find_observation("u", "main", "batch-7")
    assert caught.value.reason == "HISTORY_EXPIRED"
    other = StoredObservation(branch="other", revision=99, observation_id="a", digest=b"", payload=b"")
    assert store.commit("u", version, observation=other) is not None
    assert [item.revision for item in store.list_observations("u", "main", 0, 99, 99)] == [8, 9, 10, 11, 12]
    store.close()


def test_a_deleted_run_leaves_nothing(own_redis: Any, store: RedisStore) -> None:
    version = append(store, range(1, 4))
    assert store.delete_run("r", version)
    assert own_redis.client.dbsize() == 0
