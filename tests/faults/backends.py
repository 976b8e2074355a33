"""What the servers keep their runs in, and what can happen to it."""

from __future__ import annotations

import resource
import shutil
import signal
import sqlite3
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path

import redis
from tests.faults.processes import START_SECONDS, Server
from tests.faults.proxy import Link


class Backend(ABC):
    """One store for all servers."""

    @abstractmethod
    def url(self, link: Link) -> str:
        """For a server; through ``link`` where it is on the network."""

    @abstractmethod
    def faults(self) -> dict[str, Callable[[float, Server], None]]:
        """What can happen to it, by name; each takes seconds and the server that it may be about, and undoes itself."""

    @abstractmethod
    def end(self) -> list[str]:
        """Ends it; what it finds wrong with itself."""


class SqliteBackend(Backend):
    """One file that both servers have open."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "fade.db"

    def url(self, link: Link) -> str:
        return f"sqlite:///{self._path}"

    def faults(self) -> dict[str, Callable[[float, Server], None]]:
        return {"store locked": self._lock, "store full": self._fill}

    def end(self) -> list[str]:
        connection = sqlite3.connect(self._path)
        try:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check")]
        finally:
            connection.close()
        return [] if found == ["ok"] else [f"the file is damaged: {found}"]

    def _lock(self, seconds: float, server: Server) -> None:
        """Another process's writes hold the file; now and then for longer than the servers wait."""
        connection = sqlite3.connect(self._path, timeout=5.0, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
            time.sleep(4 * seconds)
            connection.execute("ROLLBACK")
        except sqlite3.OperationalError:
            pass  # the servers held it all the time
        finally:
            connection.close()

    def _fill(self, seconds: float, server: Server) -> None:
        """The server's files may not grow: its writes fail in the middle."""
        pid = server.pid
        if pid is None:
            return
        try:
            _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (self._path.stat().st_size, most))
            time.sleep(seconds)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        except ProcessLookupError:
            pass  # it died meanwhile


class RedisBackend(Backend):
    """A redis-server on a Unix socket, which survives its own deaths by its append-only file, written through at each commit."""

    def __init__(self, folder: Path) -> None:
        program = shutil.which("redis-server")
        if program is None:
            raise FileNotFoundError(
                "redis-server is not installed (Debian: apt-get install --no-install-recommends redis-server)"
            )
        self._folder = folder
        self._socket = folder / "redis.sock"
        self._command = [
            program, "--port", "0", "--unixsocket", str(self._socket), "--dir", str(folder), "--save", "",
            "--appendonly", "yes", "--appendfsync", "always", "--maxmemory-policy", "noeviction", "--loglevel", "warning",
        ]  # fmt: skip
        self._client = redis.Redis(unix_socket_path=str(self._socket), socket_timeout=5.0)
        self._process = self._started()

    def url(self, link: Link) -> str:
        link.lead_to(self._socket)
        return f"redis://127.0.0.1:{link.port}/0"

    def faults(self) -> dict[str, Callable[[float, Server], None]]:
        return {"store killed": self._kill, "store paused": self._pause, "store full": self._fill}

    def end(self) -> list[str]:
        self._client.close()
        self._process.kill()
        self._process.wait(START_SECONDS)
        return []

    def _started(self) -> subprocess.Popen[bytes]:
        with (self._folder / "redis.log").open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log)
        until = time.monotonic() + START_SECONDS
        while True:
            try:
                self._client.ping()
                return process
            except redis.RedisError as error:  # not there yet, or reading its file
                if time.monotonic() > until or process.poll() is not None:
                    process.kill()
                    process.wait()
                    raise RuntimeError(f"redis-server does not start: {error}") from error
                time.sleep(0.01)

    def _kill(self, seconds: float, server: Server) -> None:
        self._process.kill()
        self._process.wait(START_SECONDS)
        time.sleep(seconds)
        self._process = self._started()

    def _pause(self, seconds: float, server: Server) -> None:
        self._process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            self._process.send_signal(signal.SIGCONT)

    def _fill(self, seconds: float, server: Server) -> None:
        self._client.config_set("maxmemory", 1)
        time.sleep(seconds)
        self._client.config_set("maxmemory", 0)


BACKENDS: dict[str, Callable[[Path], Backend]] = {"sqlite": SqliteBackend, "redis": RedisBackend}
