"""A server that other machines reach asks who they are, unless it is told not to; and the command line says how."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.service.access.parts import Office, secret, tokens_json

from fade_service import FadeServer
from fade_service.access.policy import Access
from fade_service.access.tls import Tls
from fade_service.access.tokens import Tokens
from fade_service.cli import main

PUBLIC = ["0.0.0.0", "::", "", "192.0.2.7", "scheduler.example"]


def made(host: str, access: Access) -> None:
    """A server with that address, which is not started."""
    FadeServer("memory://", host=host, grpc_port=0, http_port=0, access=access).stop()


@pytest.mark.parametrize("host", PUBLIC)
def test_other_machines_are_not_served_unasked(host: str) -> None:
    with pytest.raises(ValueError, match="--tokens, or --tls-client-ca .* or say --insecure-public"):
        made(host, Access())


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_the_loopback_is_served_unasked(host: str) -> None:
    made(host, Access())


@pytest.mark.parametrize("host", PUBLIC)
def test_tokens_or_client_certificates_or_the_flag_open_an_address(host: str, office: Office) -> None:
    papers = office.issue("localhost")
    files: Any = {"certificate": papers.certificate, "key": papers.key}
    made(host, Access(tokens=Tokens(tokens_json())))
    made(host, Access(tls=Tls(**files, client_ca=office.ca)))
    made(host, Access(insecure_public=True))
    with pytest.raises(ValueError, match="nothing asks who they are"):
        made(host, Access(tls=Tls(**files)))  # encrypted, and still open to everybody


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--host", "0.0.0.0"], "--insecure-public"),
        (["--tokens", "/nowhere/tokens.json"], "the tokens cannot be read"),
        (["--tls-cert", "cert.pem"], "--tls-key"),
        (["--tls-client-ca", "ca.pem"], "--tls-cert"),
        (["--tls-cert", "/nowhere/c", "--tls-key", "/nowhere/k"], "TLS cannot be served with /nowhere/c, /nowhere/k"),
        (["--max-observations-per-second", "0"], "give more than 0"),
    ],
)
def test_a_wrong_option_is_one_sentence_and_code_2(options: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--store", "memory://", *options]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("fade serve: ") and told in line


def test_a_broken_environment_is_one_sentence_and_code_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FADE_TOKENS", '{"tokens": 1}')
    assert main(["serve", "--store", "memory://"]) == 2
    assert capsys.readouterr().err.startswith("fade serve: the tokens are to be")


@pytest.mark.heavy
def test_the_commands_speak_tls_with_tokens_end_to_end(office: Office) -> None:
    server, client = office.issue("127.0.0.1"), office.issue("operator.example")
    command = [sys.executable, "-m", "fade_service", "serve", "--store", "memory://", "--grpc-port", "0", "--http-port", "0"]
    command += ["--tls-cert", str(server.certificate), "--tls-key", str(server.key), "--tls-client-ca", str(office.ca)]
    command += ["--tls-allow-subject", "operator.example", "second.example", "--host", "0.0.0.0"]
    environment = {**os.environ, "FADE_TOKENS": tokens_json()}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as running:
        try:
            assert running.stderr is not None
            told = ""
            while (found := re.search(r"serving gRPC on 0\.0\.0\.0:(\d+) and HTTP on https://", told)) is None:
                line = running.stderr.readline()
                assert line, told
                told += line
            papers = {"FADE_TLS_CA": office.ca, "FADE_TLS_CERT": client.certificate, "FADE_TLS_KEY": client.key}
            done = status(found[1], FADE_TOKEN=secret("all-read"), **papers)
            assert (done.returncode, done.stdout.splitlines()[1]) == (0, "no runs")
            done = status(found[1], "--project", "lab", FADE_TOKEN=secret("lab-read"), **papers)
            assert (done.returncode, done.stdout.splitlines()[1]) == (0, "no runs")
            done = status(found[1], FADE_TOKEN=secret("lab-read"), **papers)
            assert done.returncode == 1 and "token lab-read is for project lab, not for all projects" in done.stderr
        finally:
            running.terminate()


def status(port: str, *options: str, **environment: Path | str | None) -> subprocess.CompletedProcess[str]:
    """`fade status` of a server on this machine."""
    command = [sys.executable, "-m", "fade_client.cli", "status", "--address", f"127.0.0.1:{port}", *options]
    more = {name: str(value) for name, value in environment.items()}
    return subprocess.run(command, env={**os.environ, **more}, capture_output=True, text=True, timeout=60)
