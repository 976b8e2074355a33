"""`make bench`: the service against its floor, side by side in one run. Prints a table and leaves JSON.

Every figure is taken in rounds that alternate between the servers compared; a ratio is taken within a round, and the table
shows the median of the rounds with the smallest and the largest. The floor is the faster of a sync and an aio echo.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np
from tests.bench.dashboard import dashboard_and_observe, dashboard_first_paint, dashboard_shows_an_observation
from tests.bench.parts import (
    Caller,
    fade_server,
    floor_server,
    quantile,
    raw_script_latencies,
    redis_server,
    resident_bytes,
    spread,
)

from fade_client import FadeClient

ROUNDS = 7


def main() -> None:
    """Measures everything, or the parts named."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], help="default: all")
    parser.add_argument("--out", type=Path, default=Path("var/bench/results.json"))
    options = parser.parse_args()
    results: dict[str, Any] = {
        "machine": {
            "cpus": os.cpu_count(),
            "load": os.getloadavg(),
            "python": platform.python_version(),
            "grpcio": grpc.__version__,
        }
    }
    for name in options.parts or PARTS:
        started = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            results[name] = PARTS[name](Path(folder))
        print(f"\n{name} ({time.perf_counter() - started:.0f} s)")
        for key, value in results[name].items():
            print(f"  {key:<44} {_shown(value)}")
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=1))
    print(f"\n{options.out}")


def observe_512(folder: Path) -> dict[str, Any]:
    """512 rows, one call at a time."""
    return _against_floor(folder, rows=512, calls=400)


def observe_512_with_advantages(folder: Path) -> dict[str, Any]:
    """512 rows, one call at a time, advantages in the answer."""
    return _against_floor(folder, rows=512, calls=400, advantages=True)


def observe_65536(folder: Path) -> dict[str, Any]:
    """65,536 rows, one call at a time."""
    return _against_floor(folder, rows=65_536, calls=15)


def in_flight_64(folder: Path) -> dict[str, Any]:
    """512 rows, 64 calls in flight, on one run."""
    with ExitStack() as stack:
        fade, floors = _servers(stack, folder, 512, False)
        rates: dict[str, list[float]] = {name: [] for name in ("fade", *floors)}
        for _ in range(ROUNDS):
            for name, caller in (("fade", fade), *floors.items()):
                rates[name].append(caller.throughput(["r"], 1500, 64))
    floor = max(floors, key=lambda name: float(np.median(rates[name])))
    shares = [ours / theirs for ours, theirs in zip(rates["fade"], rates[floor], strict=True)]
    return {
        "floor": floor,
        **{f"{name} calls/s": spread(values) for name, values in rates.items()},
        "share of the floor's throughput (>= 0.45)": spread(shares),
    }


def redis_512(folder: Path) -> dict[str, Any]:
    """512 rows, one call at a time, on Redis: beside what one raw script call to the same Redis takes; and 10,000 of them."""
    with ExitStack() as stack:
        url = stack.enter_context(redis_server(folder))
        fade, floors = _servers(stack, folder, 512, False, url)
        rounds: list[tuple[float, float, float]] = []
        for _ in range(ROUNDS):
            ours, *theirs = (quantile(caller.latencies(["r"], 400), 0.5) for caller in (fade, *floors.values()))
            rounds.append((ours, min(theirs), quantile(raw_script_latencies(url, 400), 0.5)))
        tenths = [quantile(fade.latencies(["r"], 1000), 0.5) for _ in range(10)]
    return {
        "fade p50 ms": spread([ours * 1e3 for ours, _, _ in rounds]),
        "floor p50 ms": spread([floor * 1e3 for _, floor, _ in rounds]),
        "raw script p50 ms": spread([raw * 1e3 for _, _, raw in rounds]),
        "(p50 - raw script) / floor's p50 (<= 1.8)": spread([(ours - raw) / floor for ours, floor, raw in rounds]),
        "last / first tenth of 10,000 (<= 1.1)": tenths[-1] / tenths[0],
    }


def history_10000(folder: Path) -> dict[str, Any]:
    """The last tenth against the first tenth of 10,000 observations of one run."""
    with fade_server(folder) as (_, address):
        caller = Caller(address, 512)
        caller.create("r")
        caller.observe("r")
        tenths = [quantile(caller.latencies(["r"], 1000), 0.5) for _ in range(10)]
        caller.close()
    return {"p50 ms per tenth": [round(value * 1e3, 3) for value in tenths], "last / first (<= 1.1)": tenths[-1] / tenths[0]}


def runs_1000(folder: Path) -> dict[str, Any]:
    """Observations over 1,000 live runs in turn against one run, and memory per idle run."""
    names = [f"r{number}" for number in range(1000)]
    with fade_server(folder) as (pid, address):
        caller = Caller(address, 512)
        caller.create("one")
        caller.latencies(["one"], 500)
        before = resident_bytes(pid)
        for name in names:
            caller.create(name)
            caller.observe(name)
        grown = resident_bytes(pid) - before
        ratios = []
        for _ in range(ROUNDS):
            one = quantile(caller.latencies(["one"], 1000), 0.5)
            many = quantile(caller.latencies(names, 1000), 0.5)
            ratios.append(many / one)
        caller.close()
    return {"p50 of 1,000 runs / of one (<= 1.2)": spread(ratios), "bytes per idle run (<= 20,000)": grown / len(names)}


def storage_512(folder: Path) -> dict[str, Any]:
    """Room that observations of 512 rows in 64 groups take in a SQLite file, once the server has written everything back."""
    path, count = folder / "storage.db", 5000
    with fade_server(folder, f"sqlite:///{path}") as (_, address):
        caller = Caller(address, 512)
        caller.create("r")
        caller.latencies(["r"], count)
        caller.close()
    return {"bytes per observation": path.stat().st_size / count, "MB per 100,000": path.stat().st_size / count / 10}


def client_advantages(folder: Path) -> dict[str, Any]:
    """`schedule.advantages` on 65,536 rows, in milliseconds (<= 5)."""
    rewards = (np.random.default_rng(0).random(65_536) < 0.4).astype(np.float64)
    groups = np.repeat(np.arange(65_536 // 8), 8)
    schedule = FadeClient.local().observe("batch", rewards=rewards, groups=groups)
    seconds = []
    for _ in range(50):
        started = time.perf_counter()
        schedule.advantages(rewards, groups)
        seconds.append((time.perf_counter() - started) * 1e3)
    return {"ms": spread(seconds)}


PARTS = {
    part.__name__: part
    for part in (
        observe_512, observe_512_with_advantages, in_flight_64, observe_65536, redis_512, history_10000, runs_1000,
        storage_512, client_advantages, dashboard_first_paint, dashboard_shows_an_observation, dashboard_and_observe,
    )
}  # fmt: skip


def _servers(
    stack: ExitStack, folder: Path, rows: int, advantages: bool, store: str | None = None
) -> tuple[Caller, dict[str, Caller]]:
    """Warm callers of a scheduler and of both echoes with the scheduler's own answer."""
    _, address = stack.enter_context(fade_server(folder, store))
    fade = _caller(stack, address, rows, advantages)
    fade.create("r")
    answer = fade.observe("r")
    floors = {
        kind: _caller(stack, stack.enter_context(floor_server(kind, answer, folder)), rows, advantages)
        for kind in ("sync", "aio")
    }
    for caller in (fade, *floors.values()):
        for _ in range(50):
            caller.observe("r")
    return fade, floors


def _caller(stack: ExitStack, address: str, rows: int, advantages: bool) -> Caller:
    caller = Caller(address, rows, advantages=advantages)
    stack.callback(caller.close)
    return caller


def _against_floor(folder: Path, *, rows: int, calls: int, advantages: bool = False) -> dict[str, Any]:
    with ExitStack() as stack:
        fade, floors = _servers(stack, folder, rows, advantages)
        seconds: dict[str, list[list[float]]] = {name: [] for name in ("fade", *floors)}
        for _ in range(ROUNDS):
            for name, caller in (("fade", fade), *floors.items()):
                seconds[name].append(caller.latencies(["r"], calls))
    floor = min(floors, key=lambda name: float(np.median(np.concatenate(seconds[name]))))

    def ratio(share: float) -> list[float]:
        pairs = zip(seconds["fade"], seconds[floor], strict=True)
        return [quantile(ours, share) / quantile(theirs, share) for ours, theirs in pairs]

    p50 = {name: spread([quantile(values, 0.5) * 1e3 for values in rounds]) for name, rounds in seconds.items()}
    return {
        "floor": floor,
        **{f"{name} p50 ms": value for name, value in p50.items()},
        "p50 / floor's p50": spread(ratio(0.5)),
        "p99 / floor's p99": spread(ratio(0.99)),
    }


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['median']:.3g}  ({value['min']:.3g} to {value['max']:.3g})"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
