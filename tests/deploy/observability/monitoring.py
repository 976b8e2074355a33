"""A real Prometheus and a real Alertmanager on deploy/prometheus, and somebody who is told."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import yaml
from tests.deploy.observability.localised import localised
from tests.deploy.stack import START_SECONDS, free_port, wait_for


class Told:
    """A web hook of Alertmanager's; keeps what it is told."""

    def __init__(self) -> None:
        self.alerts: list[dict[str, Any]] = []
        told = self.alerts

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                told.extend(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["alerts"])
                self.send_response(200)
                self.end_headers()

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/"
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()

    def close(self) -> None:
        """Stops listening."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class Monitoring:
    """Prometheus and Alertmanager as deploy/ has them, but that they look every second and wait for no alert to last.

    Args:
        folder: Where their files go.
        targets: The servers' HTTP addresses.
        token: What Prometheus shows them.
        told: Whom Alertmanager tells.
    """

    def __init__(self, folder: Path, targets: list[str], token: str, told: Told) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []
        port, manager = free_port(), free_port()
        self.url, self.manager_url = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{manager}"
        configured = localised(folder, targets=targets, token=token, alertmanager=f"127.0.0.1:{manager}")
        _hurry(configured, told.url)
        self._commands = [
            ["prometheus-alertmanager", f"--config.file={configured / 'alertmanager.yml'}", "--cluster.listen-address="]
            + [f"--storage.path={folder / 'manager'}", f"--web.listen-address=127.0.0.1:{manager}"],
            ["prometheus", f"--config.file={configured / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
            + [f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn"],
        ]

    def start(self) -> None:
        """Starts both, and waits until they are ready."""
        for command, url in zip(self._commands, (self.manager_url, self.url), strict=True):
            self._processes.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            wait_for(f"{url}/-/ready")

    def stop(self) -> None:
        """Ends both."""
        for process in self._processes:
            process.send_signal(signal.SIGTERM)
            process.wait(START_SECONDS)

    def ask(self, path: str, **parameters: str) -> Any:
        """What Prometheus' API answers."""
        answer = httpx.get(f"{self.url}/api/v1/{path}", params=parameters).json()
        assert answer["status"] == "success", answer
        return answer["data"]

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The expression now."""
        result: list[dict[str, Any]] = self.ask("query", query=expression)["result"]
        return result

    def alerts(self) -> set[str]:
        """The names of those that fire or are about to."""
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"]}


def _hurry(folder: Path, receiver: str) -> None:
    """Shorter times in a copy of deploy/prometheus, and somebody who is told."""
    config = yaml.safe_load((folder / "prometheus.yml").read_text("utf-8"))
    config["global"].update(scrape_interval="1s", evaluation_interval="1s")
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config), "utf-8")
    for file in (folder / "rules").glob("*.yml"):
        rules = yaml.safe_load(file.read_text("utf-8"))
        for group in rules["groups"]:
            for rule in group["rules"]:
                if "for" in rule:
                    rule["for"] = "1s"
        file.write_text(yaml.safe_dump(rules), "utf-8")
    manager = yaml.safe_load((folder / "alertmanager.yml").read_text("utf-8"))
    manager["route"].update(group_wait="0s", group_interval="1s")
    manager["receivers"][0]["webhook_configs"] = [{"url": receiver, "send_resolved": False}]
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(manager), "utf-8")
