"""A real Chromium on pages of a real server, which watches that they keep to themselves."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, sync_playwright

from fade_service import FadeServer

SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

OFFLINE = "Failed to load resource"
"""What the console says of each request that was refused or not answered."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All that needs the browser is heavy."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.heavy)


def start_chromium(playwright: Playwright) -> Browser:
    """The system's Chromium."""
    program = shutil.which("chromium")
    assert program, "the tests of the dashboard need chromium (Debian: apt-get install chromium)"
    return playwright.chromium.launch(executable_path=program, args=list(SWITCHES))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all tests."""
    with sync_playwright() as playwright:
        chromium = start_chromium(playwright)
        yield chromium
        chromium.close()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[FadeServer]:
    """A server on free ports with a SQLite file of its own."""
    with FadeServer(f"sqlite:///{tmp_path / 'fade.db'}", grpc_port=0, http_port=0) as running:
        yield running


@pytest.fixture
def address(server: FadeServer) -> str:
    """Its gRPC address."""
    return f"127.0.0.1:{server.grpc_port}"


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Callable[..., Page]]:
    """Opens a page in a context of its own; keywords are the context's (viewport, color_scheme).

    However the test ends, it fails where a page threw an error, broke its content security policy, ran what a user had written
    (``window.hacked``) or asked another host for anything.
    """
    contexts: list[BrowserContext] = []
    pages: list[Page] = []
    seen: list[str] = []
    hosts: set[str] = set()

    def open_one(url: str, **options: object) -> Page:
        context = browser.new_context(**options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: seen.append(f"page error: {error}"))
        page.on("console", lambda said: seen.append(f"console: {said.text}") if said.type in ("error", "warning") else None)
        page.on("request", lambda request: hosts.add(urlsplit(request.url).netloc))
        page.goto(url)
        pages.append(page)
        hosts.discard(urlsplit(url).netloc)
        return page

    yield open_one
    hacked = [page.evaluate("window.hacked") for page in pages]
    for context in contexts:
        context.close()
    own = {urlsplit(page.url).netloc for page in pages}
    assert hacked == [None] * len(pages)
    assert hosts <= own, "everything comes from the server itself"
    assert [text for text in seen if OFFLINE not in text] == []
