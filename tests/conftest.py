"""Real parts that several folders of tests use."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis


class RedisProcess:
    """A redis-server of the tests' own, with an append-only file that is synced at every write."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port: int = listener.getsockname()[1]
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.client = redis.Redis(port=self.port)
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it on its own files, and waits until it answers."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self._folder), "--save", ""]
        command += ["--appendonly", "yes", "--appendfsync", "always", "--logfile", str(self._folder / "log")]
        self._process = subprocess.Popen(command)
        deadline = time.monotonic() + 20
        while True:
            try:
                self.client.ping()
                return
            except redis.ConnectionError:
                assert self._process.poll() is None and time.monotonic() < deadline, "redis-server did not start"
                time.sleep(0.02)

    def signal(self, number: signal.Signals) -> None:
        """Sends it a signal: SIGSTOP and SIGCONT pause it."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """kill -9, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture(scope="session")
def shared_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisProcess]:
    """One redis-server for all tests that do not disturb it."""
    process = RedisProcess(tmp_path_factory.mktemp("redis"))
    process.start()
    yield process
    process.kill()


@pytest.fixture
def redis_url(shared_redis: RedisProcess) -> str:
    """URL of an empty Redis."""
    shared_redis.client.flushall()
    return shared_redis.url


@pytest.fixture
def own_redis(tmp_path: Path) -> Iterator[RedisProcess]:
    """A redis-server, running, that this test may stop, pause and kill."""
    process = RedisProcess(tmp_path)
    process.start()
    yield process
    process.kill()
