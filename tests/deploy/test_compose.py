"""deploy/compose.yaml as Compose reads it, and what it is started with."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.deploy.stack import DEPLOY, program

from fade_service.access.tokens import Role, Tokens

SERVICES = {"fade-1", "fade-2", "envoy", "redis", "prometheus", "alertmanager", "grafana", "trainer"}


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder, after secrets.sh."""
    folder = tmp_path_factory.mktemp("checkout") / "deploy"
    shutil.copytree(DEPLOY, folder, ignore=shutil.ignore_patterns(".env", "secrets"))
    assert make_secrets(folder).returncode == 0
    return folder


def make_secrets(folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs secrets.sh with this environment's `fade`."""
    path = f"{Path(program('fade')).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run([folder / "secrets.sh"], capture_output=True, text=True, env={**os.environ, "PATH": path})


def compose(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs Compose, which needs no engine for this."""
    command = [program("docker-compose"), "--file", "compose.yaml", "--profile", "demo", "config", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def services(deploy: Path) -> dict[str, Any]:
    """Its services as Compose sees them."""
    done = compose(deploy, "--format", "json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)["services"]
    return found


def test_compose_starts_the_whole_stack(services: dict[str, Any]) -> None:
    assert set(services) == SERVICES
    assert services["trainer"]["profiles"] == ["demo"]
    assert all("profiles" not in service for name, service in services.items() if name != "trainer")


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_confined(services: dict[str, Any], name: str) -> None:
    service = services[name]
    assert service["read_only"] and service["cap_drop"] == ["ALL"] and "no-new-privileges:true" in service["security_opt"]
    assert {"cpus", "memory", "pids"} <= set(service["deploy"]["resources"]["limits"])
    assert all(port["host_ip"] == "127.0.0.1" for port in service.get("ports", []))
    assert service.get("healthcheck") or name in ("fade-1", "fade-2"), "theirs is in the image"
    assert "build" in service or (":" in service["image"] and not service["image"].endswith(":latest"))


def test_only_the_servers_reach_redis(services: dict[str, Any]) -> None:
    assert {name for name, service in services.items() if "store" in service["networks"]} == {"redis", "fade-1", "fade-2"}
    assert list(services["redis"]["networks"]) == ["store"]


@pytest.mark.parametrize("name", ["FADE_REDIS_PASSWORD", "FADE_GRAFANA_PASSWORD"])
def test_compose_has_no_default_passwords(deploy: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(deploy, tmp_path / "deploy")
    kept = [line for line in (deploy / ".env").read_text().splitlines() if not line.startswith(name)]
    (tmp_path / "deploy/.env").write_text("\n".join(kept))
    done = compose(tmp_path / "deploy")
    assert done.returncode != 0
    assert f"required variable {name} is missing a value: make one with deploy/secrets.sh" in done.stderr


def test_secrets_are_made_once_and_open_what_they_are_for(deploy: Path) -> None:
    tokens = Tokens(deploy / "secrets/tokens.json")
    texts = {path.name: path.read_text() for path in (deploy / "secrets").iterdir()}
    for name, text, project, role in [
        ("operator", texts["operator_token"].strip(), "-", Role.ADMIN),
        ("prometheus", texts["prometheus_token"].strip(), "-", Role.READ),
        ("trainer", texts["trainer.env"].strip().removeprefix("FADE_TOKEN="), "default", Role.WRITE),
    ]:
        found = tokens.find(text)
        assert found is not None and (found.name, found.project, found.role) == (name, project, role)
        assert text not in texts["tokens.json"]
    assert (deploy / "secrets").stat().st_mode & 0o777 == 0o700
    assert (deploy / ".env").stat().st_mode & 0o777 == 0o600
    again = make_secrets(deploy)
    assert again.returncode == 1 and "there already" in again.stderr
    assert {path.name: path.read_text() for path in (deploy / "secrets").iterdir()} == texts
