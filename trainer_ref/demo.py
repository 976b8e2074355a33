"""`make demo`: starts the service on SQLite, trains the reference policy through it, shows what came of it, stops everything.

Leaves var/demo: summary.json, the service's database, and the trainer's metrics, curves and checkpoint.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

FOLDER = Path("var/demo")
RUN = "demo"
TRAINING = ("--advantage", "fade", "--seed", "0", "--eval-every", "50")

_KEYS = (
    "observations",
    "server_schedules",
    "fallback_schedules",
    "pass_at_1_before",
    "pass_at_1_after",
    "pass_at_16_before",
    "pass_at_16_after",
)


def main() -> int:
    """Returns the exit code: 0 when every schedule came from the service."""
    started = time.monotonic()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    with _service() as (grpc_address, http_address):
        print(f"The service: gRPC on {grpc_address}, HTTP on {http_address}, store {FOLDER}/fade.db", flush=True)
        print(f"Watch the run live while it trains: {http_address}/#/runs/default/{RUN}", flush=True)
        result = _train(grpc_address)
        held = _read(f"{http_address}/api/v1/runs/default/{RUN}")
        schedule = _read(f"{http_address}/api/v1/runs/default/{RUN}/schedule")["schedules"][0]
    summary = {key: result[key] for key in _KEYS} | {"seconds": time.monotonic() - started}
    (FOLDER / "summary.json").write_text(json.dumps(summary, indent=1))
    print(_story(summary, held, schedule))
    return 0 if summary["fallback_schedules"] == 0 else 1


@contextmanager
def _service() -> Iterator[tuple[str, str]]:
    """`fade serve` on free ports, as its gRPC and HTTP addresses; SIGTERM in the end, which drains it."""
    command = [sys.executable, "-m", "fade_service", "serve", "--store", f"sqlite:///{FOLDER}/fade.db"]
    service = subprocess.Popen(
        [*command, "--grpc-port", "0", "--http-port", "0"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )  # a session of its own: Ctrl-C reaches the trainer, and the service stops after it
    try:
        yield _addresses(service)
    finally:
        service.terminate()
        service.wait()


def _addresses(service: subprocess.Popen[str]) -> tuple[str, str]:
    assert service.stderr is not None
    for line in service.stderr:
        if "serving gRPC on " in line:
            threading.Thread(target=service.stderr.read, daemon=True).start()  # so that its log never blocks it
            grpc_address, _, rest = line.split("serving gRPC on ")[1].partition(" and HTTP on ")
            return grpc_address, rest.split(",")[0]
        print(line, end="", file=sys.stderr)
    raise SystemExit("the service did not start")


def _train(address: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "fade_trainer", *TRAINING, "--server", address, "--run", RUN, "--out", str(FOLDER / "train")]
    trained = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if trained.returncode:
        raise SystemExit(trained.returncode)
    result: dict[str, Any] = json.loads(trained.stdout.splitlines()[-1])
    return result


def _read(url: str) -> Any:
    with urlopen(url, timeout=10) as response:
        return json.load(response)


def _story(summary: dict[str, Any], held: dict[str, Any], schedule: dict[str, Any]) -> str:
    weights, averages = schedule["schedule"], schedule["state"]
    return f"""
            before   after
  pass@1    {summary["pass_at_1_before"]:.3f}    {summary["pass_at_1_after"]:.3f}
  pass@16   {summary["pass_at_16_before"]:.3f}    {summary["pass_at_16_after"]:.3f}

Schedules: {summary["server_schedules"]} from the service, {summary["fallback_schedules"]} from fallbacks.
The service holds {held["name"]}: revision {held["revision"]} on branch {held["branch"]}, \
alpha {weights["alpha"]:.2f}, delta {weights["delta"]:.2f}, \
solve rate {averages["solve_rate"]:.3f}, entropy {averages["entropy_nats"]:.3f} nats.
Curves: {FOLDER}/train/curves.png   Metrics: {FOLDER}/train/metrics.jsonl   Summary: {FOLDER}/summary.json
Stopped after {summary["seconds"]:.0f} s. Look at the data again: fade serve --store sqlite:///{FOLDER}/fade.db"""


if __name__ == "__main__":
    sys.exit(main())
