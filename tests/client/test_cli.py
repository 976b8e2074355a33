"""The console command."""

from __future__ import annotations

from typing import Any

import pytest

from fade_client.cli import main


def test_version_names_package_and_maths(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["version"]) == 0
    assert "maths 1" in capsys.readouterr().out


def test_status_lists_the_runs(server: str, connect: Any, batch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--address", server]) == 0
    assert capsys.readouterr().out == f"{server} is serving\nno runs\n"
    connect(server).observe(**batch(7))
    assert main(["status", "--address", server]) == 0
    line = capsys.readouterr().out.splitlines()[-1].split()
    assert line[:5] == ["projects/default/runs/r", "active", "main", "1", "7"]


def test_status_of_nobody_is_one_sentence_and_code_3(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "--address", "127.0.0.1:1", "--timeout-seconds", "0.3"]) == 3
    assert capsys.readouterr().err.startswith("fade: Check at 127.0.0.1:1 failed")


def test_a_wrong_command_line_is_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["no-such-command"])
    assert caught.value.code == 2
    with pytest.raises(SystemExit) as caught:
        main(["status", "--help"])
    assert caught.value.code == 0
    assert "exit codes" in capsys.readouterr().out
