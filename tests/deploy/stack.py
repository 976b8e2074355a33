"""The load balancer of deploy/ in front of two real servers on a real Redis: what compose puts together, without containers."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx

from fade_service.access.tokens import new_token

DEPLOY = Path(__file__).parents[2] / "deploy"
START_SECONDS = 30.0


def program(name: str) -> str:
    """A program that pip installed beside this Python."""
    return str(Path(sys.executable).with_name(name))


def free_port() -> int:
    """A port of the loopback that nobody has now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def wait_for(url: str) -> None:
    """Waits until it answers with 200."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < deadline, f"{url} does not answer with 200"
        time.sleep(0.05)


class Server:
    """A `fade serve` that is always at the same ports, however often it is started."""

    def __init__(self, *options: str) -> None:
        self.grpc_port, self.http_port = free_port(), free_port()
        ports = ["--grpc-port", str(self.grpc_port), "--http-port", str(self.http_port)]
        self._command = [sys.executable, "-m", "fade_service", "serve", *ports, *options]
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts it, and waits until it is ready."""
        self._process = subprocess.Popen(self._command)
        wait_for(f"http://127.0.0.1:{self.http_port}/readyz")

    def end(self, number: signal.Signals) -> int:
        """Sends a signal, and waits for the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        return self._process.wait(START_SECONDS)


class Balanced:
    """Two servers and one address. ``token`` opens everything."""

    def __init__(self, folder: Path, redis_url: str) -> None:
        self.token, entry = new_token("test", "-", "admin")
        tokens = folder / "tokens.json"
        tokens.write_text(json.dumps({"tokens": [json.loads(entry)]}))
        self.servers = [Server("--store", redis_url, "--tokens", str(tokens)) for _ in range(2)]
        self._grpc_port, self._http_port, self._admin_port = free_port(), free_port(), free_port()
        self.address = f"127.0.0.1:{self._grpc_port}"
        self.url = f"http://127.0.0.1:{self._http_port}"
        self._config = folder / "envoy.yaml"
        self._config.write_text(self._localised((DEPLOY / "envoy.yaml").read_text("utf-8")))
        self._envoy: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts all of it; returns once the load balancer knows its servers."""
        for server in self.servers:
            server.start()
        command = [program("envoy"), "--config-path", str(self._config), "--disable-hot-restart", "--concurrency", "1"]
        self._envoy = subprocess.Popen([*command, "--log-level", "warning"])
        wait_for(f"{self.url}/readyz")

    def stop(self) -> None:
        """Ends all of it."""
        if self._envoy is not None:
            self._envoy.kill()
            self._envoy.wait()
        for server in self.servers:
            server.end(signal.SIGKILL)

    def observations(self) -> list[float]:
        """How many each server has answered since it started."""
        headers = {"authorization": f"Bearer {self.token}"}
        counts = []
        for server in self.servers:
            text = httpx.get(f"http://127.0.0.1:{server.http_port}/metrics", headers=headers).text
            (line,) = (line for line in text.splitlines() if line.startswith('fade_observations_total{outcome="applied"}'))
            counts.append(float(line.split()[1]))
        return counts

    def _localised(self, text: str) -> str:
        """The configuration with addresses of this test, and all else as it is."""
        addresses = {
            "127.0.0.1, port_value: 9901": self._admin_port,
            "0.0.0.0, port_value: 50051": self._grpc_port,
            "0.0.0.0, port_value: 8080": self._http_port,
        }
        for name, server in zip(("fade-1", "fade-2"), self.servers, strict=True):
            addresses[f"{name}, port_value: 50051"] = server.grpc_port
            addresses[f"{name}, port_value: 8080"] = server.http_port
        for old, port in addresses.items():
            assert text.count(old) == 1, old
            text = text.replace(old, f"127.0.0.1, port_value: {port}")
        return text
