"""Logging in with a token, what a token may see and do, logging out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.web.axe import violations

from fade_client import FadeClient
from fade_service import FadeServer
from fade_service.access.policy import Access
from fade_service.access.tokens import Tokens, new_token

OpenPage = Callable[..., Page]

TOKENS = {name: new_token(name, project, role) for name, project, role in (
    ("operator", "-", "admin"), ("looker", "lab", "read"), ("other", "elsewhere", "read"),
)}  # fmt: skip


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    """A server that asks for tokens, with a run in project lab that has one observation."""
    tokens = Tokens(f'{{"tokens": [{", ".join(entry for _, entry in TOKENS.values())}]}}')
    with FadeServer(f"sqlite:///{tmp_path / 'fade.db'}", grpc_port=0, http_port=0, access=Access(tokens=tokens)) as server:
        with FadeClient(f"127.0.0.1:{server.grpc_port}", run="guarded", project="lab", token=TOKENS["operator"][0]) as fade:
            fade.observe("batch-0", rewards=[1, 0], groups=[0, 0])
        yield server.http_url


def log_in(page: Page, token: str) -> None:
    """Types a token."""
    expect(page.get_by_role("heading", level=1, name="Log in")).to_be_visible()
    page.get_by_label("Token").fill(token)
    page.get_by_role("button", name="Log in").click()


def test_login_opens_the_view_that_was_asked_for_and_logout_closes_it(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/#/runs/lab/guarded")
    log_in(page, "fade_wrong")
    expect(page.get_by_role("alert")).to_contain_text("the token is not known here")
    log_in(page, TOKENS["operator"][0])
    expect(page.locator(".revision")).to_have_text("1")
    expect(page.locator(".who")).to_have_text("operator admin")
    assert page.evaluate("document.cookie") == "", "scripts cannot read the token"
    page.reload()
    expect(page.locator(".revision")).to_have_text("1")
    page.get_by_role("button", name="Log out").click()
    expect(page.get_by_role("heading", level=1, name="Log in")).to_be_visible()
    page.reload()
    expect(page.get_by_role("heading", level=1, name="Log in")).to_be_visible()
    assert "guarded" not in page.locator("main").inner_text()


def test_who_may_only_look_sees_why(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    log_in(page, TOKENS["looker"][0])
    page.get_by_role("link", name="guarded").click()
    page.get_by_role("link", name="Operate").click()
    expect(page.get_by_text("has the role read, and changing a run's configuration needs admin")).to_be_visible()
    expect(page.get_by_role("button", name="Pin", exact=True)).to_be_disabled()
    expect(page.get_by_label("alpha_max")).to_be_disabled()


def test_a_token_of_one_project_sees_its_runs_only(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    log_in(page, TOKENS["other"][0])
    expect(page.get_by_text("0 runs")).to_be_visible()
    page.goto(f"{url}/#/runs/lab/guarded")
    expect(page.get_by_role("alert")).to_contain_text("token other is for project elsewhere")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_form_and_its_refusal(url: str, open_page: OpenPage, scheme: str) -> None:
    page = open_page(url, color_scheme=scheme, viewport={"width": 360, "height": 780})
    expect(page.get_by_label("Token")).to_be_visible()
    assert violations(page) == []
    log_in(page, "fade_wrong")
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
