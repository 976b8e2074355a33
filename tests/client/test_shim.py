"""A client set up from the environment, for trainers that leave no place to build one."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fade_client import FadeClient, RejectedError, RunConfig, SettingsError
from fade_client.shim import (
    append_numbers,
    client_from_environment,
    numbers,
    send_the_rest,
    shared_client,
    step_on_line,
)


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


def test_without_a_configuration_in_the_environment_there_is_none_to_check_against(
    front: Any, environment: Callable[..., None]
) -> None:
    front.mode = "down"
    environment(FADE_ADDRESS=front.address, FADE_TIMEOUT_SECONDS="0.2")
    with client_from_environment() as client:
        assert client.observe("batch-0", rewards=[7.0, 0.0], groups=[0, 0]).rejection is None
    environment(FADE_ADDRESS=front.address, FADE_TIMEOUT_SECONDS="0.2", FADE_CONFIG="{}")
    with client_from_environment() as client, pytest.raises(RejectedError, match="reward_max"):
        client.observe("batch-0", rewards=[7.0, 0.0], groups=[0, 0])


def test_settings_win_over_the_environment(
    server: str, environment: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fade_client.shim._shared", None)
    environment(FADE_ADDRESS="localhost:1", FADE_CONFIG='{"alpha_max": 2}')
    client = shared_client(address=server, config=RunConfig(alpha_max=1.25))
    assert shared_client() is client
    assert client.observe("batch-0", rewards=[1.0, 0.0], groups=[0, 0]).source == "SERVER"
    assert client.state_dict()["config"]["alpha_max"] == 1.25
    client.close()


LEAVES = """
import sys
from fade_client.shim import shared_client

client = shared_client()
print(client.observe("batch-0", rewards=[1.0, 0.0], groups=[0, 0]).source, flush=True)
sys.stdin.readline()
print(client.observe("batch-1", rewards=[1.0, 0.0], groups=[0, 0]).source, flush=True)
"""


@pytest.mark.parametrize("back", [True, False])
def test_a_process_that_ends_sends_what_waits_or_says_that_it_did_not(front: Any, history: Any, back: bool) -> None:
    more = variables(FADE_ADDRESS=front.address, FADE_TIMEOUT_SECONDS="3", PATH="/usr/bin:/bin")
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen([sys.executable, "-c", LEAVES], env=more, text=True, **pipes) as process:
        assert process.stdout.readline() == "SERVER\n"
        front.mode = "down"
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "LOCAL\n"
        front.mode = "pass" if back else "down"
        _, said = process.communicate(timeout=60)
    assert history("r").ids() == ["batch-0", "batch-1"][: 1 + back]
    assert ("1 reports to" in said and "were not sent" in said) != back


def test_at_the_end_of_a_training_what_was_not_sent_is_said(
    front: Any, connect: Any, batch: Any, caplog: pytest.LogCaptureFixture
) -> None:
    client = connect(front.address, timeout_seconds=0.3)
    client.observe(**batch(0))
    send_the_rest(client)
    assert not caplog.records
    front.mode = "down"
    client.observe(**batch(1))
    client.observe(**batch(2))
    send_the_rest(client)
    assert "2 reports are not sent yet" in caplog.text


def test_a_step_before_the_lines_is_left_out(front: Any, connect: Any, batch: Any) -> None:
    client = connect(front.address)
    assert (client.trainer_step, step_on_line(client, 0)) == (None, 0)
    client.observe(**batch(3))
    front.mode = "down"
    client.observe(**batch(5))
    assert client.trainer_step == 5, "of reports that wait too"
    assert [step_on_line(client, step) for step in (4, 5, 6)] == [None, 5, 6]
    front.mode = "pass"


def test_numbers_tell_words_as_shares() -> None:
    reasons: set[str] = set()
    client = FadeClient.local()
    lists: defaultdict[str, list[float]] = defaultdict(list)
    report: dict[str, Any] = {"rewards": [1.0, 0.0], "groups": [0, 0]}
    solved: list[Any] = [None, None, [0.5, 0.5], None]
    for number, flags in enumerate(solved):
        schedule = client.observe(f"batch-{number}", **report, solved=flags)
        values = numbers(schedule, set())
        assert all(isinstance(value, float) for value in values.values())
        append_numbers(lists, schedule, reasons)
    assert lists["fade/source/local"] == [1, 1, 0, 1]
    assert lists["fade/source/neutral"] == lists["fade/rejection/invalid_field"] == [0, 0, 1, 0]
    assert lists["fade/phase/exploring"] == [1, 1, 1, 1]
    assert reasons == {"INVALID_FIELD"}


def test_numbers_keep_environments_apart() -> None:
    rows: dict[str, Any] = {"rewards": [1.0, 0.0] * 2, "groups": [0, 0, 1, 1], "environments": {0: "math", 1: "code"}}
    values = numbers(FadeClient.local().observe("a", **rows), set())
    assert (values["fade/math/phase/exploring"], values["fade/code/alpha"], values["fade/source/local"]) == (1, 1.5, 1)
