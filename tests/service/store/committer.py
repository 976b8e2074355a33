"""Run as a process: commits to the run NAME of the store URL until it has won COUNT versions; prints each as it is won."""

from __future__ import annotations

import sys

from fade_service.store import StoredObservation, open_store


def main(url: str, name: str, label: str, count: str) -> None:
    store = open_store(url)
    print("ready", flush=True)
    sys.stdin.readline()
    left = int(count)
    while left:
        run = store.get_run(name)
        assert run is not None
        observation = StoredObservation(
            branch="main",
            revision=run.version,
            observation_id=f"{label}-{run.version}",
            digest=bytes(32),
            payload=run.version.to_bytes(8, "big") * 256,
        )
        if store.commit(run.uid, run.version, head=b"%d" % run.version, observation=observation) is not None:
            left -= 1
            print(run.version, flush=True)


main(*sys.argv[1:])
