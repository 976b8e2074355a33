"""A store in Redis: for replicas of the server on several hosts."""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from fade_service.errors import DuplicateObservationError, ServiceError, StoreFullError, StoreUnavailableError
from fade_service.store.base import Store, StoredObservation, StoredRun
from fade_service.store.breaker import Breaker
from fade_service.store.redis_url import read_url

CALL_SECONDS = 1.0
"""How long a call waits for Redis; also to connect."""

RETRY_SECONDS = 0.5
"""While Redis is away, one call in that time tries it."""

_LARGEST_STRIDE = 2**32
"""Versions are counted in random strides. After a failover that lost commits the run goes on from an older version; a server that
remembers a lost one must not find its number in use again, for another content."""

_NAMES = "fade:names"
"""Hash: the uid of each living run, by name."""
_INDEX = "fade:index"
"""Sorted set of the living runs' names, all with score 0: in the order of their bytes, which is that of code points."""

# The first write of each script is one that Redis refuses when it is out of memory; after it Redis lets a script finish.
_CREATE = """
local uid = redis.call('HGET', KEYS[1], ARGV[1])
if uid then return uid end
redis.call('HSET', KEYS[3], 'name', ARGV[1], 'version', '1', 'record', ARGV[3], 'head', ARGV[4])
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[2], 0, ARGV[1])
return false
"""

_COMMIT = """
if redis.call('HGET', KEYS[1], 'version') ~= ARGV[1] then return 0 end
local fields = {'version', ARGV[2]}
if ARGV[3] == '1' then table.insert(fields, 'record') table.insert(fields, ARGV[4]) end
if ARGV[5] == '1' then table.insert(fields, 'head') table.insert(fields, ARGV[6]) end
if #ARGV == 6 then
  redis.call('HSET', KEYS[1], unpack(fields))
  return 1
end
local id, place, first, next, entry, oldest = ARGV[7], ARGV[8], ARGV[9], ARGV[10], ARGV[11], ARGV[12]
if redis.call('HEXISTS', KEYS[2], id) == 1 or redis.call('ZLEXCOUNT', KEYS[3], '[' .. first, '(' .. next) > 0 then return -1 end
redis.call('HSET', KEYS[1], unpack(fields))
redis.call('HSET', KEYS[2], id, place)
redis.call('ZADD', KEYS[3], 0, entry)
if oldest ~= '' then redis.call('ZREMRANGEBYLEX', KEYS[3], '[' .. ARGV[13], '(' .. oldest) end
return 1
"""

_DELETE = """
if redis.call('HGET', KEYS[1], ARGV[1]) ~= ARGV[2] or redis.call('HGET', KEYS[3], 'version') ~= ARGV[3] then return 0 end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('UNLINK', KEYS[3], KEYS[4], KEYS[5])
return 1
"""


class RedisStore(Store):
    """See :class:`~fade_service.store.base.Store`. Any number of servers may use the same Redis.

    A run lives under three keys that share the hash tag of its uid: a hash (version, record, head), a hash of all observation
    ids, and a sorted set of the observations, ordered by branch and revision. A commit is one script over these, which compares
    the version and moves bytes; nobody holds a lock. ``fade:names`` and ``fade:index`` find the runs by name.

    What "committed" means is Redis's own ``appendfsync``: with ``always`` it survives a loss of power, with ``everysec`` a kill
    of Redis (and all but the last second a loss of power); without an append-only file only until Redis restarts. Replication
    is asynchronous, so a failover may lose the newest commits.

    Args:
        url: ``redis://[user:password@]host[:port][/database]``, or ``rediss://`` for TLS, with redis-py's options
            ``ssl_ca_certs``, ``ssl_certfile``, ``ssl_keyfile``, ``ssl_cert_reqs`` and ``ssl_check_hostname``. Both take
            ``username``, ``password``, and ``history=N``: keep the newest N observations of each branch (default: all). The ids
            of older ones are kept, so that none is ever applied twice.

    Raises:
        ValueError: The URL or a file that it names is wrong. Redis itself need not be there yet.
    """

    def __init__(self, url: str) -> None:
        connection, self._kept = read_url(url)
        self._redis = redis.Redis(
            **connection,
            socket_timeout=CALL_SECONDS,
            socket_connect_timeout=CALL_SECONDS,
            retry=Retry(NoBackoff(), 0),  # a commit that was sent twice would meet itself
        )
        self._breaker = Breaker((redis.ConnectionError, redis.TimeoutError), RETRY_SECONDS, _described)
        self._create, self._commit, self._delete = map(self._redis.register_script, (_CREATE, _COMMIT, _DELETE))

    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        while True:
            with self._called():
                living: bytes | None = self._create(keys=[_NAMES, _INDEX, _run_key(uid)], args=[name, uid, record, head])
            if living is None:
                return StoredRun(name=name, uid=uid, version=1, record=record, head=head)
            existing = self.get_run(name)
            if existing is not None:  # else it was deleted in between, and the name is free
                return existing

    def get_run(self, name: str) -> StoredRun | None:
        with self._called():
            uid: Any = self._redis.hget(_NAMES, name)
            return None if uid is None else self._runs([uid.decode()])[0]

    def list_runs(self, prefix: str, after: str, limit: int) -> Sequence[StoredRun]:
        start = b"[" + prefix.encode() if prefix > after else b"(" + after.encode()
        with self._called():
            found: Any = self._redis.zrangebylex(_INDEX, start, "+", 0, limit)
            names = [name for name in found if name.startswith(prefix.encode())]
            uids: Any = self._redis.hmget(_NAMES, names) if names else []
            return [run for run in self._runs([uid.decode() for uid in uids if uid is not None]) if run is not None]

    def commit(
        self,
        uid: str,
        expected_version: int,
        *,
        record: bytes | None = None,
        head: bytes | None = None,
        observation: StoredObservation | None = None,
    ) -> int | None:
        version = expected_version + 1 + secrets.randbelow(_LARGEST_STRIDE)
        args: list[bytes | int] = [expected_version, version]
        for value in (record, head):
            args += [0, b""] if value is None else [1, value]
        if observation is not None:
            args += self._appended(observation)
        with self._called():
            outcome: int = self._commit(keys=[_run_key(uid), _ids_key(uid), _history_key(uid)], args=args)
        if outcome < 0:
            assert observation is not None  # only one that is there already is refused so
            problem = f"has observation {observation.observation_id!r} or revision {observation.revision}"
            raise DuplicateObservationError(f"branch {observation.branch} {problem}")
        return version if outcome else None

    def find_observation(self, uid: str, branch: str, observation_id: str) -> StoredObservation | None:
        with self._called():
            place: Any = self._redis.hget(_ids_key(uid), _line(branch) + observation_id.encode())
            if place is None:
                return None
            (revision,) = _REVISION.unpack_from(place)
            found = self._range(uid, branch, revision - 1, revision, 1)
        if not found:
            raise ServiceError(
                "HISTORY_EXPIRED",
                "branch {branch} has an observation {observation_id!r}, at revision {revision}, but its answer is no longer kept;"
                " give each generation batch an id of its own",
                branch=branch,
                observation_id=observation_id,
                revision=revision,
            )
        return found[0]

    def list_observations(self, uid: str, branch: str, after: int, until: int, limit: int) -> Sequence[StoredObservation]:
        with self._called():
            return self._range(uid, branch, after, until, limit)

    def delete_run(self, name: str, expected_version: int) -> bool:
        with self._called():
            found: Any = self._redis.hget(_NAMES, name)
            if found is None:
                return False
            uid = found.decode()
            keys = [_NAMES, _INDEX, _run_key(uid), _ids_key(uid), _history_key(uid)]
            return bool(self._delete(keys=keys, args=[name, uid, expected_version]))

    def ping(self) -> None:
        with self._called():
            role: Any = self._redis.role()
            memory: Any = self._redis.info("memory")
        if role[0] not in (b"master", "master"):
            raise StoreUnavailableError("this Redis is a replica, which takes no writes", "point --store at its primary")
        policy = memory.get("maxmemory_policy", "")
        if policy.startswith("allkeys-"):  # the volatile ones are harmless: no key of ours expires
            raise StoreUnavailableError(
                f"this Redis forgets runs and observations when its memory is full (maxmemory-policy {policy})",
                "set its maxmemory-policy to noeviction",
            )

    def close(self) -> None:
        self._redis.close()

    @contextmanager
    def _called(self) -> Iterator[None]:
        try:
            with self._breaker.closed():
                yield
        except redis.OutOfMemoryError as error:
            raise StoreFullError(f"Redis: {error}") from error
        except redis.RedisError as error:
            raise StoreUnavailableError(*_described(error)) from error

    def _runs(self, uids: Sequence[str]) -> list[StoredRun | None]:
        """The runs; None for one that was deleted just now."""
        pipeline = self._redis.pipeline(transaction=False)
        for uid in uids:
            pipeline.hmget(_run_key(uid), ["name", "version", "record", "head"])
        return [
            None if version is None else StoredRun(name=name.decode(), uid=uid, version=int(version), record=record, head=head)
            for uid, (name, version, record, head) in zip(uids, pipeline.execute(), strict=True)
        ]

    def _range(self, uid: str, branch: str, after: int, until: int, limit: int) -> list[StoredObservation]:
        first, last = b"[" + _place(branch, after + 1), b"(" + _place(branch, until + 1)
        entries: Any = self._redis.zrangebylex(_history_key(uid), first, last, 0, limit)
        return [_observation(branch, entry) for entry in entries]

    def _appended(self, observation: StoredObservation) -> list[bytes | int]:
        """The script's arguments for an observation; see :func:`_observation` for the entry."""
        branch, revision = observation.branch, observation.revision
        oldest = b"" if self._kept is None else _place(branch, max(0, revision - self._kept + 1))
        return [
            _line(branch) + observation.observation_id.encode(),
            _REVISION.pack(revision) + observation.digest,
            _place(branch, revision),
            _place(branch, revision + 1),
            _place(branch, revision) + _entry(observation),
            oldest,
            _line(branch),
        ]


# An entry of a run's history: length of the branch, branch, revision, lengths of digest and id, digest, id, payload. Big-endian,
# so that the order of the bytes is that of the revisions along a branch.
_LENGTH = struct.Struct(">H")
_REVISION = struct.Struct(">Q")
_LENGTHS = struct.Struct(">HH")


def _line(branch: str) -> bytes:
    encoded = branch.encode()
    return _LENGTH.pack(len(encoded)) + encoded


def _place(branch: str, revision: int) -> bytes:
    return _line(branch) + _REVISION.pack(revision)


def _entry(observation: StoredObservation) -> bytes:
    observation_id = observation.observation_id.encode()
    lengths = _LENGTHS.pack(len(observation.digest), len(observation_id))
    return lengths + observation.digest + observation_id + observation.payload


def _observation(branch: str, entry: bytes) -> StoredObservation:
    start = len(_line(branch))
    (revision,) = _REVISION.unpack_from(entry, start)
    start += _REVISION.size
    digest_length, id_length = _LENGTHS.unpack_from(entry, start)
    start += _LENGTHS.size
    digest, rest = entry[start : start + digest_length], entry[start + digest_length :]
    return StoredObservation(
        branch=branch,
        revision=revision,
        observation_id=rest[:id_length].decode(),
        digest=digest,
        payload=rest[id_length:],
    )


def _described(error: Exception) -> tuple[str, str]:
    """The problem and the remedy."""
    if isinstance(error, (redis.AuthenticationError, redis.exceptions.NoPermissionError)):
        remedy = "correct the user and password in --store, or what Redis allows them"
    elif isinstance(error, redis.ReadOnlyError):
        remedy = "point --store at its primary"
    elif isinstance(error, redis.ResponseError):
        remedy = "set that right at Redis or in --store"
    else:
        remedy = "try again"
    return f"Redis: {type(error).__name__}: {error}", remedy


def _run_key(uid: str) -> str:
    return f"fade:{{{uid}}}:run"


def _ids_key(uid: str) -> str:
    return f"fade:{{{uid}}}:ids"


def _history_key(uid: str) -> str:
    return f"fade:{{{uid}}}:history"
