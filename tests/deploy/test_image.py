"""deploy/Dockerfile, as far as it can be looked at without an engine, and the load balancer's configuration."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.deploy.stack import DEPLOY, free_port, program

from fade_service import FadeServer

DOCKERFILE = (DEPLOY / "Dockerfile").read_text("utf-8")


def test_hadolint_finds_nothing() -> None:
    done = subprocess.run([program("hadolint"), DEPLOY / "Dockerfile"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_healthcheck_tells_a_server_that_is_ready_from_one_that_is_not(tmp_path: Path) -> None:
    (command,) = (line.strip().removeprefix("CMD ") for line in DOCKERFILE.splitlines() if "urlopen" in line)

    def check(port: int) -> int:
        return subprocess.run(json.loads(command.replace("8080", str(port))), stderr=subprocess.DEVNULL).returncode

    with FadeServer(f"sqlite:///{tmp_path}/fade.db", grpc_port=0, http_port=0) as server:
        assert check(server.http_port) == 0
    assert check(free_port()) == 1


def test_envoy_takes_its_configuration_and_finds_nothing_deprecated_in_it() -> None:
    command = [program("envoy"), "--mode", "validate", "--config-path", str(DEPLOY / "envoy.yaml"), "--log-level", "warning"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "warning" not in done.stderr
