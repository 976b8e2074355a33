"""The contract of a store, in words. What the bytes mean is the scheduler's business alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun:
    """A run as stored.

    Attributes:
        name: "projects/{project}/runs/{run}", unique among the living runs.
        uid: Unique for ever; history hangs on it, not on the name.
        version: 1 at first; every commit makes a higher one, which never stood for another content of this run, not even where
            the store has lost its newest commits since (see :class:`~fade_service.store.redis.RedisStore`).
        record: What changes seldom (configuration versions, branches), opaque.
        head: What every observation changes (state, revision), opaque.
    """

    name: str
    uid: str
    version: int
    record: bytes
    head: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredObservation:
    """An observation as stored; never changed, kept for its branch's life.

    Attributes:
        branch: The branch that it moved.
        revision: The revision that it made, unique within its branch.
        observation_id: The client's id, unique within its branch.
        digest: SHA-256 of the report's content.
        payload: The answer and the telemetry, opaque.
    """

    branch: str
    revision: int
    observation_id: str
    digest: bytes
    payload: bytes


class Store(ABC):
    """Keeps runs and their observations. Every method is safe to call from any thread.

    Promises that the conformance suite holds every store to:

    - **Compare and set.** :meth:`commit` succeeds only where the stored version is the expected one. It is one atomic step: all
      of it is visible, or none. Two commits that expect the same version never both succeed, whichever process makes them.
    - **Committed is kept.** When :meth:`commit`, :meth:`create_run` or :meth:`delete_run` has returned, what it wrote survives a
      kill -9 of the process (a memory store excepted), and every later read in any process sees it.
    - **Refused changes nothing.** A method that raises has written nothing.
    - **Flat cost.** :meth:`get_run`, :meth:`commit` and :meth:`find_observation` cost the same after any number of observations.

    Text is whatever UTF-8 encodes, compared exactly; numbers are below 2**63.

    Any method may raise :class:`~fade_service.errors.StoreUnavailableError` (cannot be used now; says whether trying again may
    help) or :class:`~fade_service.errors.StoreFullError` (no room; trying again does not help until an operator made some).
    """

    @abstractmethod
    def create_run(self, name: str, uid: str, record: bytes, head: bytes) -> StoredRun:
        """Writes a new run at version 1, or returns the living run of that name unchanged (compare its uid to tell)."""

    @abstractmethod
    def get_run(self, name: str) -> StoredRun | None:
        """The living run of that name."""

    @abstractmethod
    def list_runs(self, prefix: str, after: str, limit: int) -> Sequence[StoredRun]:
        """Up to ``limit`` living runs whose names start with ``prefix`` and sort after ``after``, by name (code points)."""

    @abstractmethod
    def commit(
        self,
        uid: str,
        expected_version: int,
        *,
        record: bytes | None = None,
        head: bytes | None = None,
        observation: StoredObservation | None = None,
    ) -> int | None:
        """Replaces what is given and appends the observation, if the run's version is still the expected one.

        Returns:
            The new version; None if the version differs or the run is gone, with nothing written.

        Raises:
            DuplicateObservationError: The branch has that observation id or that revision already (nothing written).
        """

    @abstractmethod
    def find_observation(self, uid: str, branch: str, observation_id: str) -> StoredObservation | None:
        """The observation with that id.

        Raises:
            ServiceError: HISTORY_EXPIRED: it was committed, but the store was told to keep fewer.
        """

    @abstractmethod
    def list_observations(self, uid: str, branch: str, after: int, until: int, limit: int) -> Sequence[StoredObservation]:
        """Up to ``limit`` observations with ``after`` < revision <= ``until``, by revision."""

    @abstractmethod
    def delete_run(self, name: str, expected_version: int) -> bool:
        """Deletes the run with its whole history if its version is still the expected one; False otherwise."""

    @abstractmethod
    def ping(self) -> None:
        """Returns if the store can read and write now."""

    @abstractmethod
    def close(self) -> None:
        """Flushes and frees what the store holds; closing twice is fine."""
