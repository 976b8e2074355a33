"""Run as a process: THREADS threads commit to runs of their own in the store URL for ever, and print each revision."""

from __future__ import annotations

import os
import sys
import threading

from fade_service.store import Store, StoredObservation, open_store


def commit(store: Store, thread: int) -> None:
    version: int | None = store.create_run(f"run-{thread}", f"uid-{thread}", b"", b"0").version
    while version is not None:
        observation = StoredObservation(
            branch="main", revision=version, observation_id=f"b{version}", digest=b"", payload=bytes(500)
        )
        revision, version = version, store.commit(f"uid-{thread}", version, head=b"%d" % version, observation=observation)
        os.write(1, b"%d %d\n" % (thread, revision))


def main(url: str, threads: str) -> None:
    store = open_store(url)
    os.write(1, b"ready\n")
    sys.stdin.readline()
    for thread in range(int(threads)):
        threading.Thread(target=commit, args=(store, thread)).start()


main(*sys.argv[1:])
