"""What is measured with: processes on the loopback, requests, and timed calls."""

from __future__ import annotations

import itertools
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import grpc
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from fade_proto.v1.scheduler_pb2 import CreateRunRequest, ObserveRequest, ObserveResponse
from fade_proto.v1.scheduler_pb2_grpc import SchedulerServiceStub

GROUP_SIZE = 8

_ids = itertools.count()


@contextmanager
def process(command: list[str], ready: Callable[[subprocess.Popen[str]], str]) -> Iterator[tuple[int, str]]:
    """A process, as its pid and the address that ``ready`` reads from it; ended in the end."""
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield running.pid, ready(running)
    finally:
        running.terminate()
        running.communicate(timeout=30)


@contextmanager
def floor_server(kind: str, answer: ObserveResponse, folder: Path) -> Iterator[str]:
    """The address of an echo of that kind, which answers with ``answer``."""
    path = folder / f"answer-{next(_ids)}"
    path.write_bytes(answer.SerializeToString())

    def ready(running: subprocess.Popen[str]) -> str:
        assert running.stdout is not None
        return f"127.0.0.1:{running.stdout.readline().strip()}"

    with process([sys.executable, "-m", "tests.bench.floor", kind, str(path)], ready) as (_, address):
        yield address


@contextmanager
def redis_server(folder: Path) -> Iterator[str]:
    """The URL of a redis-server with an append-only file that is synced every second."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def ready(running: subprocess.Popen[str]) -> str:
        client = redis.Redis(port=port, retry=Retry(ConstantBackoff(0.05), 200))
        client.ping()
        return f"redis://127.0.0.1:{port}/0"

    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with process([*command, "--appendonly", "yes", "--appendfsync", "everysec", "--logfile", "log"], ready) as (_, url):
        yield url


def raw_script_latencies(url: str, count: int) -> list[float]:
    """Seconds of ``count`` calls of a script that keeps 4 KB, about what an observation of 512 rows leaves."""
    client = redis.Redis.from_url(url)
    script = client.register_script("redis.call('HSET', KEYS[1], ARGV[1], ARGV[2]) return 1")
    content, seconds = Random(0).randbytes(4096), []
    for number in range(count):
        started = time.perf_counter()
        script(keys=["raw"], args=[number, content])
        seconds.append(time.perf_counter() - started)
    client.delete("raw")
    client.close()
    return seconds


@contextmanager
def fade_server(folder: Path, store: str | None = None) -> Iterator[tuple[int, str]]:
    """The pid and address of a scheduler as users run it, on a SQLite file of its own if no store is given."""
    with fade_server_with_pages(folder, store) as (pid, address, _):
        yield pid, address


@contextmanager
def fade_server_with_pages(folder: Path, store: str | None = None) -> Iterator[tuple[int, str, str]]:
    """The same with the URL of its pages."""
    store = store or f"sqlite:///{folder}/fade-{next(_ids)}.db"

    def ready(running: subprocess.Popen[str]) -> str:
        assert running.stderr is not None
        for line in running.stderr:
            if "serving gRPC on " in line:
                threading.Thread(target=running.stderr.read, daemon=True).start()
                return line
        raise RuntimeError("fade serve ended before it served")

    command = [sys.executable, "-m", "fade_service", "serve", "--store", store, "--grpc-port", "0", "--http-port", "0"]
    with process(command, ready) as (pid, line):
        address, _, rest = line.partition("serving gRPC on ")[2].partition(" and HTTP on ")
        yield pid, address, rest.partition(",")[0]


class Caller:
    """Calls Observe of one server with reports of one size; each report has an id of its own."""

    def __init__(self, address: str, rows: int, *, advantages: bool = False) -> None:
        self._channel = grpc.insecure_channel(address, options=(("grpc.max_receive_message_length", -1),))
        self.stub = SchedulerServiceStub(self._channel)
        self._template = _template(rows, advantages)

    def close(self) -> None:
        """Closes the channel."""
        self._channel.close()

    def create(self, run: str) -> None:
        """Creates a run."""
        self.stub.CreateRun(CreateRunRequest(parent="projects/bench", run_id=run), wait_for_ready=True, timeout=30)

    def request(self, run: str) -> ObserveRequest:
        """A new report."""
        request = ObserveRequest()
        request.CopyFrom(self._template)
        request.name = f"projects/bench/runs/{run}"
        request.observation_id = f"observation-{next(_ids)}"
        return request

    def observe(self, run: str) -> ObserveResponse:
        """One call, not timed."""
        answer: ObserveResponse = self.stub.Observe(self.request(run), wait_for_ready=True, timeout=30)
        return answer

    def latencies(self, runs: list[str], count: int) -> list[float]:
        """Seconds of ``count`` calls, one after the other, over the runs in turn."""
        seconds = []
        for _, run in zip(range(count), itertools.cycle(runs), strict=False):
            request = self.request(run)
            started = time.perf_counter()
            self.stub.Observe(request, timeout=30)
            seconds.append(time.perf_counter() - started)
        return seconds

    def throughput(self, runs: list[str], count: int, in_flight: int) -> float:
        """Calls per second with that many in flight."""
        requests = [self.request(run) for _, run in zip(range(count), itertools.cycle(runs), strict=False)]
        slots = threading.Semaphore(in_flight)
        calls = []
        started = time.perf_counter()
        for request in requests:
            slots.acquire()
            call = self.stub.Observe.future(request, timeout=60)
            call.add_done_callback(lambda _: slots.release())
            calls.append(call)
        for call in calls:
            call.result()
        return count / (time.perf_counter() - started)


def quantile(values: list[float], share: float) -> float:
    """The value that this share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: list[float]) -> dict[str, float]:
    """Median, smallest and largest of the rounds."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def resident_bytes(pid: int) -> int:
    """Resident memory of a process, in bytes."""
    fields = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return int(fields["VmRSS"].split()[0]) * 1024


def _template(rows: int, advantages: bool) -> ObserveRequest:
    random = Random(rows)
    request = ObserveRequest(writer="bench", return_advantages=advantages)
    request.rows.rewards.extend([float(random.random() < 0.4) for _ in range(rows)])
    request.rows.group_index.extend([row // GROUP_SIZE for row in range(rows)])
    request.groups.count = rows // GROUP_SIZE
    request.groups.labels.extend(f"prompt {number}" for number in range(rows // GROUP_SIZE))  # clients send labels
    request.entropy.sum_nats = 0.7 * rows
    request.entropy.token_count = rows
    return request
