"""A run's new observations, poll by poll, through restores, deletions and a server that comes and goes."""

from __future__ import annotations

from collections import deque

from fade_client.errors import RejectedError
from fade_client.operate.remote import Remote
from fade_proto.v1 import observation_pb2, run_pb2

KEPT = 200
"""Observations of the past that the first poll returns at most."""

_PAGE = 100
"""A poll reads the last page again, up to what is new on it."""


class Follower:
    """Reads the line of history that a run writes now.

    Args:
        remote: The service.
        name: The run.
    """

    def __init__(self, remote: Remote, name: str) -> None:
        self._remote = remote
        self._name = name
        self._uid = self._branch = self._page_token = ""
        self._revision = 0
        self._new: deque[observation_pb2.Observation] = deque(maxlen=KEPT)

    def poll(self) -> tuple[run_pb2.Run, list[observation_pb2.Observation]]:
        """The run, and what was observed since the last poll that came back; a failed poll loses nothing.

        Raises:
            UnavailableError: No answer.
            NoSuchRunError: The run is not there, or not any more.
        """
        run = self._remote.run(self._name)
        if (run.uid, run.branch) != (self._uid, self._branch) or run.revision < self._revision:
            self._revision = min(self._shared_with(run), run.revision)
            self._uid, self._branch, self._page_token = run.uid, run.branch, ""
        if run.revision > self._revision:
            self._read()
        new, self._new = list(self._new), deque()
        return run, new

    def _read(self) -> None:
        try:
            for page in self._remote.observations(self._name, self._branch, self._page_token, _PAGE):
                for item in page.observations:
                    if item.revision > self._revision:
                        self._new.append(item)
                        self._revision = item.revision
                self._page_token = page.next_page_token or self._page_token
        except RejectedError as error:
            if error.reason != "HISTORY_EXPIRED":
                raise
            self._page_token = ""  # so much came since the last poll that the store dropped some of it: show what is left
            self._read()

    def _shared_with(self, run: run_pb2.Run) -> int:
        """The last revision read that is on the run's present line too."""
        if run.uid != self._uid:
            return 0
        branches = {item.id: item for item in run.branches}
        branch, revision = run.branch, self._revision
        while branch and branch != self._branch:
            revision = min(revision, branches[branch].parent_revision)
            branch = branches[branch].parent
        return revision
