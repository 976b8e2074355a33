"""How much of a request's body is read, and text in it that is none."""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
import pytest
from tests.service.access.parts import Place, secret

from fade_service import FadeServer

PAGE = {"x-fade-request": "1"}
LOGIN_BYTES = 16 * 2**10


def refusal(answer: httpx.Response) -> tuple[int, str]:
    error = answer.json()["error"]
    assert set(error) == {"code", "reason", "message", "metadata"}
    return answer.status_code, error["reason"]


def sent_until_cut_off(url: str, path: str, announced: str, most: int) -> tuple[int, bytes]:
    """Bytes of a body that a server took before it closed the connection, and the first line of its answer."""
    host = urlsplit(url)
    lines = (f"POST {path} HTTP/1.1", f"Host: {host.netloc}", "x-fade-request: 1", "Content-Type: application/json", announced)
    head = "\r\n".join([*lines, "", ""])
    sent, piece = 0, b" " * 65_536
    with socket.create_connection((host.hostname, host.port), timeout=20) as connection:
        connection.sendall(head.encode())
        try:
            while sent < most:
                chunk = piece if "Length" in announced else f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
                connection.sendall(chunk)
                sent += len(piece)
        except OSError:
            pass
        try:
            line = connection.recv(1000).partition(b"\r\n")[0]
        except OSError:
            line = b""
    return sent, line


@pytest.mark.parametrize("announced", [f"Content-Length: {200 * 2**20}", "Transfer-Encoding: chunked"])
def test_somebody_unknown_is_not_listened_to_for_long(guarded: Place, announced: str) -> None:
    sent, line = sent_until_cut_off(guarded.server.http_url, "/api/v1/session", announced, 200 * 2**20)
    assert sent < 8 * 2**20  # what buffers hold on the way; the server itself stops after 16 KiB
    assert line in (b"", b"HTTP/1.1 413 Request Entity Too Large", b"HTTP/1.1 413 Content Too Large")


def test_a_login_may_be_as_long_as_a_token_needs(guarded: Place) -> None:
    with guarded.http() as http:
        http.headers.update(PAGE)
        assert http.post("/api/v1/session", json={"token": secret("lab-read")}).status_code == 200
        assert refusal(http.post("/api/v1/session", json={"token": "x" * LOGIN_BYTES})) == (413, "MESSAGE_TOO_LARGE")
        unsendable = http.post("/api/v1/session", json={"token": "naïve token"})
        assert refusal(unsendable) == (422, "INVALID_FIELD") and "naïve" not in unsendable.text


def test_a_caller_with_a_token_may_send_as_much_as_over_grpc(guarded: Place) -> None:
    rows = {"group": [0] * 100_000, "outcome": [1.0] * 100_000, "advantage": [0.5] * 100_000}
    with guarded.http(secret("lab-read")) as http:
        assert http.post("/api/v1/decompose", json=rows, timeout=60).status_code == 200
        assert refusal(http.post("/api/v1/decompose", content=b" " * (16 * 2**20 + 1))) == (413, "MESSAGE_TOO_LARGE")


def test_what_no_route_has_is_refused_in_the_form_of_every_refusal(server: FadeServer) -> None:
    with httpx.Client(base_url=server.http_url, headers=PAGE) as http:
        assert refusal(http.get("/api/v1/nope")) == (404, "ROUTE_NOT_FOUND")
        answer = http.put("/api/v1/session")
        assert refusal(answer) == (405, "METHOD_NOT_ALLOWED") and "GET" in answer.headers["allow"]


@pytest.mark.parametrize(
    "body",
    [
        r'{"config": {"alpha_max": 4}, "reason": "\ud800"}',
        r'{"config": {"\ud800": 4}}',
        r'{"config": {"alpha_rule": "\ud800"}}',
        r'{"config": {"alpha_max": 4}, "etag": "\udfff"}',
    ],
)
def test_text_that_is_no_unicode_is_a_wrong_value(guarded: Place, body: str) -> None:
    with guarded.http(secret("lab-admin")) as http:
        answer = http.patch("/api/v1/runs/lab/r", content=body, headers={"content-type": "application/json"})
    assert answer.status_code in (400, 422) and refusal(answer)[1] in ("INVALID_FIELD", "INVALID_CONFIG")
