"""The HTTP API against its own OpenAPI page: schemathesis asks everything that the page describes, and much that it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fade_client import FadeClient
from fade_service import FadeServer

MEANING = "positive_data_acceptance"
"""Is left out: what a value means (a run's name, a page's token) can be wrong where its type is right."""

ENDLESS = "/api/v1/events"


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_answers_are_as_described_whatever_is_asked(tmp_path: Path) -> None:
    with FadeServer("memory://", grpc_port=0, http_port=0) as server:
        with FadeClient(f"127.0.0.1:{server.grpc_port}", run="0", project="0") as fade:  # the names that it tries first
            for number in range(3):
                fade.observe(f"b-{number}", rewards=[1, 0], groups=[0, 0])
        command = [Path(sys.executable).with_name("schemathesis"), "run", f"{server.http_url}/openapi.json"]
        options = ["--max-examples=100", "--seed=1", "--request-timeout=30", "--no-color", "--generation-database=none"]
        scope = [f"--exclude-checks={MEANING}", f"--exclude-path={ENDLESS}", "--header=x-fade-request: dashboard"]
        done = subprocess.run([*command, *options, *scope], cwd=tmp_path, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
