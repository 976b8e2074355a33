"""TLS: files that do not fit, certificates that are replaced, and who client certificates name."""

from __future__ import annotations

import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx
import pytest
from tests.service.access.parts import Office, Papers, Place, make_server

from fade_proto.v1.scheduler_pb2 import ListRunsRequest
from fade_service import FadeServer
from fade_service.access.policy import Access
from fade_service.access.tls import Tls


def pair_of(papers: Papers) -> tuple[Path, Path]:
    """Certificate and key."""
    assert papers.certificate is not None and papers.key is not None
    return papers.certificate, papers.key


def der(path: Path) -> bytes:
    """The first certificate of a file."""
    end = "-----END CERTIFICATE-----\n"
    return ssl.PEM_cert_to_DER_cert(path.read_text().partition(end)[0] + end)


def served(port: int) -> bytes:
    """The certificate that a new connection is shown."""
    return ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate(("127.0.0.1", port)))


@pytest.fixture
def replaceable(office: Office, tmp_path: Path) -> Iterator[tuple[FadeServer, Path, Path]]:
    """A server, its certificate file and its key file."""
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    for source, target in zip(pair_of(office.issue("127.0.0.1")), (certificate, key), strict=True):
        shutil.copy(source, target)
    with make_server(Access(tls=Tls(certificate=certificate, key=key))) as server:
        yield server, certificate, key


def test_replaced_certificates_are_used_by_both_ports_for_new_connections_while_old_ones_go_on(
    replaceable: tuple[FadeServer, Path, Path], office: Office
) -> None:
    server, certificate, key = replaceable
    first, second = der(certificate), office.issue("127.0.0.1")
    assert served(server.grpc_port) == served(server.http_port) == first
    papers = Papers(None, None, office.ca)
    with Place(server).stub(papers) as stub, Place(server).http(papers=papers) as http:
        stub.ListRuns(ListRunsRequest(parent="projects/-"), timeout=10, wait_for_ready=True)
        assert http.get("/healthz").status_code == 200
        for source, target in zip(pair_of(second), (certificate, key), strict=True):
            shutil.copy(source, target)
        deadline = time.monotonic() + 30
        while not served(server.grpc_port) == served(server.http_port) == der(pair_of(second)[0]):
            assert time.monotonic() < deadline, "the new certificate is not used"
            time.sleep(0.1)
        stub.ListRuns(ListRunsRequest(parent="projects/-"), timeout=10)
        assert http.get("/healthz").status_code == 200


def test_a_key_that_does_not_fit_leaves_the_old_certificate_in_force_and_is_an_error_in_the_log(
    replaceable: tuple[FadeServer, Path, Path], office: Office, caplog: pytest.LogCaptureFixture
) -> None:
    server, certificate, key = replaceable
    first = der(certificate)
    shutil.copy(pair_of(office.issue("127.0.0.1"))[1], key)
    deadline = time.monotonic() + 30
    while sum("stays in force" in record.getMessage() for record in caplog.records) < 2:  # once per port
        assert served(server.grpc_port) == served(server.http_port) == first
        assert time.monotonic() < deadline, "nothing was logged"
        time.sleep(0.1)
    assert served(server.grpc_port) == served(server.http_port) == first


@pytest.mark.parametrize("wrong", ["no such file", "another's key", "no certificate", "no authority"])
def test_files_that_cannot_be_used_are_refused_before_anything_listens(office: Office, tmp_path: Path, wrong: str) -> None:
    certificate, key = pair_of(office.issue("127.0.0.1"))
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    files: dict[str, Path] = {
        "no such file": {"certificate": tmp_path / "absent.pem"},
        "another's key": {"key": pair_of(office.issue("127.0.0.1"))[1]},
        "no certificate": {"certificate": garbage},
        "no authority": {"client_ca": garbage},
    }[wrong]
    with pytest.raises(ValueError, match="TLS cannot be served with"):
        make_server(Access(tls=Tls(**{"certificate": certificate, "key": key, **files})))


def test_subjects_without_an_authority_to_check_them_are_refused(server_papers: Papers) -> None:
    certificate, key = pair_of(server_papers)
    with pytest.raises(ValueError, match="--tls-client-ca"):
        Tls(certificate=certificate, key=key, allowed_subjects=frozenset({"a"}))


@pytest.fixture
def by_certificate_alone(office: Office, server_papers: Papers) -> Iterator[Place]:
    """A server that lets in by certificate, without tokens."""
    certificate, key = pair_of(server_papers)
    allowed = frozenset({"trainer.lab.example", "Trainer A"})
    tls = Tls(certificate=certificate, key=key, client_ca=office.ca, allowed_subjects=allowed)
    with make_server(Access(tls=tls)) as server:
        yield Place(server)


@pytest.mark.parametrize(
    ("names", "common_name"),
    [(["trainer.lab.example"], None), (["x.example", "trainer.lab.example"], None), (["x.example"], "Trainer A")],
)
def test_a_common_or_alternative_name_on_the_list_gets_in(
    by_certificate_alone: Place, office: Office, names: list[str], common_name: str | None
) -> None:
    papers = office.issue(*names, common_name=common_name)
    with by_certificate_alone.stub(papers) as stub, by_certificate_alone.http(papers=papers) as http:
        stub.ListRuns(ListRunsRequest(parent="projects/-"), timeout=10, wait_for_ready=True)
        assert http.get("/api/v1/runs").status_code == 200


@pytest.mark.parametrize(
    ("names", "common_name"), [(["lab.example"], None), (["a.trainer.lab.example"], "trainer a"), (["*.lab.example"], None)]
)
def test_no_other_name_gets_in_and_the_refusal_says_which_it_was(
    by_certificate_alone: Place, office: Office, names: list[str], common_name: str | None
) -> None:
    papers = office.issue(*names, common_name=common_name)
    with by_certificate_alone.stub(papers) as stub, pytest.raises(grpc.RpcError) as caught:
        stub.ListRuns(ListRunsRequest(parent="projects/-"), timeout=10, wait_for_ready=True)
    error: Any = caught.value
    assert error.code() == grpc.StatusCode.PERMISSION_DENIED and names[0] in error.details()
    with by_certificate_alone.http(papers=papers) as http:
        assert http.get("/api/v1/runs").json()["error"]["reason"] == "SUBJECT_DENIED"


def test_plain_text_gets_no_answer_from_a_port_with_tls(sealed: Place) -> None:
    with sealed.stub() as stub, pytest.raises(grpc.RpcError):
        stub.ListRuns(ListRunsRequest(parent="projects/-"), timeout=10)
    with httpx.Client() as http, pytest.raises(httpx.TransportError):
        http.get(f"http://127.0.0.1:{sealed.server.http_port}/healthz")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1])
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_of_tls_are_refused_by_both_ports(
    replaceable: tuple[FadeServer, Path, Path], version: ssl.TLSVersion
) -> None:
    server = replaceable[0]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = context.maximum_version = version
    for port in (server.grpc_port, server.http_port):
        with (
            socket.create_connection(("127.0.0.1", port), timeout=10) as connection,
            pytest.raises((ssl.SSLError, ConnectionError)),
        ):
            context.wrap_socket(connection)
