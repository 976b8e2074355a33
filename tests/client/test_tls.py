"""The client over TLS: files from arguments and from the environment, and what it says where they are wrong."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.service.access.parts import Office, Papers, make_server, secret, tokens_json

from fade_client import FadeClient, RejectedError, SettingsError, UnavailableError
from fade_client.cli import main
from fade_service.access.policy import Access
from fade_service.access.tls import Tls
from fade_service.access.tokens import Tokens


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Office:
    """An authority."""
    return Office(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def own(office: Office) -> Papers:
    """The client's certificate."""
    return office.issue("trainer.example")


@pytest.fixture(scope="module")
def sealed(office: Office) -> Iterator[str]:
    """Address of a server that asks for a client certificate and a token."""
    papers: Any = office.issue("127.0.0.1")
    tls = Tls(certificate=papers.certificate, key=papers.key, client_ca=office.ca)
    with make_server(Access(tokens=Tokens(tokens_json()), tls=tls)) as server:
        yield f"127.0.0.1:{server.grpc_port}"


def observe(address: str, *, seconds: float = 5, **more: Any) -> str:
    """Where the schedule of a first observation comes from."""
    with FadeClient(address, run="r", project="lab", on_unavailable="raise", timeout_seconds=seconds, **more) as fade:
        return fade.observe(f"b-{id(more)}", rewards=[1, 0], groups=[0, 0]).source


def pair(papers: Papers) -> Any:
    """As the client takes it."""
    return papers.certificate, papers.key


def test_arguments_name_the_files(sealed: str, office: Office, own: Papers) -> None:
    assert observe(sealed, tls_ca=str(office.ca), tls_certificate=pair(own), token=secret("lab-write")) == "SERVER"


def test_the_environment_names_the_files(sealed: str, office: Office, own: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADE_TLS_CA", str(office.ca))
    monkeypatch.setenv("FADE_TLS_CERT", str(own.certificate))
    monkeypatch.setenv("FADE_TLS_KEY", str(own.key))
    monkeypatch.setenv("FADE_TOKEN", secret("lab-write"))
    with FadeClient(sealed, run="by-environment", project="lab") as fade:
        assert fade.observe("b1", rewards=[1, 0], groups=[0, 0]).source == "SERVER"


def test_the_service_must_hang_on_the_authority_that_was_named(sealed: str, tmp_path: Path, own: Papers) -> None:
    stranger = Office(tmp_path)
    with pytest.raises(UnavailableError):
        observe(sealed, seconds=1, tls_ca=stranger.ca, tls_certificate=pair(own), token=secret("lab-write"))


def test_a_service_of_another_name_or_with_an_expired_certificate_gets_no_report(office: Office) -> None:
    for papers in (office.issue("elsewhere.example"), office.issue("127.0.0.1", expired=True)):
        files: Any = {"certificate": papers.certificate, "key": papers.key}
        with make_server(Access(tls=Tls(**files))) as server, pytest.raises(UnavailableError):
            observe(f"127.0.0.1:{server.grpc_port}", seconds=1, tls_ca=office.ca)


def test_status_says_why_there_is_no_connection(
    office: Office, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FADE_TLS_CA", str(office.ca))
    for papers, reason in (
        (office.issue("elsewhere.example"), "Hostname Verification Check failed"),
        (office.issue("127.0.0.1", expired=True), "certificate has expired"),
    ):
        files: Any = {"certificate": papers.certificate, "key": papers.key}
        with make_server(Access(tls=Tls(**files))) as server:
            assert main(["status", "--server", f"127.0.0.1:{server.grpc_port}"]) == 3
        assert reason in capsys.readouterr().err


@pytest.mark.parametrize("missing", ["certificate", "everything"])
def test_without_its_certificate_or_in_plain_text_the_client_does_not_get_in(sealed: str, office: Office, missing: str) -> None:
    more = {"tls_ca": office.ca} if missing == "certificate" else {}
    with pytest.raises(UnavailableError):
        observe(sealed, seconds=1, token=secret("lab-write"), **more)


def test_a_wrong_token_is_told_at_the_first_observation_and_not_shown(sealed: str, office: Office, own: Papers) -> None:
    with pytest.raises(RejectedError) as caught:
        observe(sealed, tls_ca=office.ca, tls_certificate=pair(own), token="secret-mistyped")
    assert caught.value.reason == "TOKEN_INVALID" and "secret-mistyped" not in str(caught.value)


def test_files_that_cannot_be_used_are_told_when_the_client_is_made(office: Office, own: Papers, tmp_path: Path) -> None:
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    for more in (
        {"tls_ca": tmp_path / "absent.pem"},
        {"tls_ca": garbage},
        {"tls_ca": office.ca, "tls_certificate": (own.certificate, garbage)},
        {"tls_ca": office.ca, "tls_certificate": (own.certificate, office.issue("x.example").key)},
        {"tls_certificate": pair(own)},
    ):
        with pytest.raises(SettingsError, match="TLS"):
            FadeClient("localhost:1", run="r", **more)


def test_half_a_pair_in_the_environment_is_refused(office: Office, own: Papers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FADE_TLS_CA", str(office.ca))
    monkeypatch.setenv("FADE_TLS_CERT", str(own.certificate))
    with pytest.raises(SettingsError, match="needs its key too"):
        FadeClient("localhost:1", run="r")


@pytest.mark.parametrize(
    ("address", "warned"),
    [
        ("scheduler.example:50051", True),
        ("192.0.2.7:50051", True),
        ("dns:///scheduler.example:50051", True),
        ("localhost:50051", False),
        ("127.0.0.1:50051", False),
        ("[::1]:50051", False),
        ("unix:/run/fade.sock", False),
    ],
)
def test_a_token_in_plain_text_to_another_machine_is_a_warning_without_the_token(
    caplog: pytest.LogCaptureFixture, office: Office, address: str, warned: bool
) -> None:
    caplog.set_level(logging.WARNING, "fade_client")
    FadeClient(address, run="r").close()
    FadeClient(address, run="r", token="secret-x", tls_ca=office.ca).close()
    assert caplog.text == ""
    FadeClient(address, run="r", token="secret-x").close()
    assert ("in plain text" in caplog.text) == warned and "secret-x" not in caplog.text
