"""The page's files over HTTP: whole, packed for who takes that, and not sent again to who has them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import fade_service
from fade_service import FadeServer

STATIC = Path(fade_service.__file__).parent / "web" / "static"
SCRIPT = "/static/app/main.js"


@pytest.fixture
def http(server: FadeServer) -> Iterator[httpx.Client]:
    """A client of the server's HTTP side that takes what it is sent as it is."""
    with httpx.Client(base_url=server.http_url, headers={"accept-encoding": "identity"}) as client:
        yield client


@pytest.mark.parametrize(
    ("path", "file", "kind"),
    [
        ("/", "index.html", "text/html; charset=utf-8"),
        (SCRIPT, "app/main.js", "text/javascript; charset=utf-8"),
        ("/static/style.css", "style.css", "text/css; charset=utf-8"),
        ("/static/icon.svg", "icon.svg", "image/svg+xml"),
    ],
)
def test_files_are_served_as_they_are_and_packed(http: httpx.Client, path: str, file: str, kind: str) -> None:
    whole = (STATIC / file).read_bytes()
    plain = http.get(path)
    assert (plain.status_code, plain.headers["content-type"], plain.content) == (200, kind, whole)
    assert "content-encoding" not in plain.headers
    with http.stream("GET", path, headers={"accept-encoding": "br, gzip"}) as packed:
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(b"".join(packed.iter_raw())) == whole


def test_a_file_that_the_browser_has_is_not_sent_again(http: httpx.Client) -> None:
    first = http.get(SCRIPT)
    assert first.headers["cache-control"] == "no-cache"
    again = http.get(SCRIPT, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    other = http.get("/static/style.css", headers={"if-none-match": first.headers["etag"]})
    assert other.status_code == 200


@pytest.mark.parametrize(
    "path", ["/static/nothing.js", "/static/", "/static/../page.py", "/static/%2e%2e/page.py", "/static/app"]
)
def test_nothing_else_is_served(http: httpx.Client, path: str) -> None:
    assert http.get(path).status_code == 404


@pytest.mark.parametrize("path", ["/", SCRIPT])
def test_each_file_says_that_nothing_may_be_loaded_from_elsewhere(http: httpx.Client, path: str) -> None:
    headers = http.get(path).headers
    assert headers["content-security-policy"].startswith("default-src 'self';")
    assert headers["x-content-type-options"] == "nosniff"
