"""A client set up from the environment, for trainers that leave no place to build one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fade_client import SettingsError
from fade_client.shim import client_from_environment


def variables(**more: str) -> dict[str, str]:
    return {"FADE_ADDRESS": "localhost:1", "FADE_RUN": "r", **more}


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Sets the variables of a client."""

    def put(**more: str) -> None:
        for name in ("FADE_ADDRESS", "FADE_RUN", "FADE_TOKEN", "FADE_PROJECT", "FADE_CONFIG", "FADE_TIMEOUT_SECONDS"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables(**more).items():
            monkeypatch.setenv(name, value)

    return put


def test_the_run_is_made_as_the_environment_says(server: str, environment: Callable[..., None]) -> None:
    config = json.dumps({"reward_min": -1, "reward_max": 1, "alpha_max": 2.5})
    environment(FADE_ADDRESS=server, FADE_PROJECT="lab", FADE_CONFIG=config)
    with client_from_environment() as client:
        schedule = client.observe("batch-0", rewards=[1.0, -1.0], groups=[0, 0])
        assert client.state_dict()["run"] == "projects/lab/runs/r"
        assert (client.state_dict()["config"]["reward_min"], client.state_dict()["config"]["alpha_max"]) == (-1.0, 2.5)
        own_scale = 2 * 0.5 * 0.5 ** (schedule.alpha - 1)
        assert schedule.advantages([1.0, -1.0], [0, 0]) == pytest.approx([own_scale, -own_scale])


def test_the_configuration_may_stand_in_a_file(tmp_path: Path, environment: Callable[..., None]) -> None:
    path = tmp_path / "fade.json"
    path.write_text('{"ema_weight": 0.25}')
    environment(FADE_CONFIG=str(path))
    client_from_environment().close()


@pytest.mark.parametrize("config", ["{", '{"alpha_maximum": 2}', '{"alpha_max": "high"}', "/no/such/file.json", "[1]"])
def test_a_configuration_that_is_none_is_refused_by_the_variables_name(config: str, environment: Callable[..., None]) -> None:
    environment(FADE_CONFIG=config)
    with pytest.raises(SettingsError, match="FADE_CONFIG"):
        client_from_environment()


@pytest.mark.parametrize("seconds", ["soon", "0", "-1"])
def test_a_time_that_is_none_is_refused(seconds: str, environment: Callable[..., None]) -> None:
    environment(FADE_TIMEOUT_SECONDS=seconds)
    with pytest.raises(SettingsError, match="(?i)timeout_seconds"):
        client_from_environment()


@pytest.mark.parametrize("name", ["FADE_ADDRESS", "FADE_RUN"])
def test_a_variable_that_is_missing_is_named(name: str, environment: Callable[..., None]) -> None:
    environment(**{name: ""})
    with pytest.raises(SettingsError, match=name):
        client_from_environment()


def test_a_process_has_one_client() -> None:
    code = "from fade_client.shim import shared_client; assert shared_client() is shared_client()"
    subprocess.run([sys.executable, "-c", code], check=True, env=variables(PATH="/usr/bin:/bin"), timeout=60)
