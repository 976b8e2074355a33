"""The decomposition explorer."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from fade_service import FadeServer

OpenPage = Callable[..., Page]


@pytest.fixture
def page(server: FadeServer, open_page: OpenPage) -> Page:
    """The explorer as it opens, of an own server without a run."""
    return open_page(f"{server.http_url}/#/explorer")


def test_an_advantage_is_added_drawn_and_described(page: Page) -> None:
    add(page, "asym_grpo")
    row = page.get_by_role("row", name="asym_grpo")
    # sign: mS/mF = delta; scale and centre: those of r - rbar, whose mass is symmetric about 1/2, with mF doubled
    cells = row.get_by_role("cell")
    expect(cells).to_have_text(
        ["0.500", "50.0 %", re.compile(r"^\d+\.\d\s%$"), "50.0 %", "1.500", "q", "p/delta", re.compile("2607.01490")]
    )
    expect(page.get_by_role("img", name=re.compile("^Failure mass.*asym_grpo"))).to_be_visible()
    page.get_by_role("group", name="asym_grpo").get_by_label("delta").fill("0.25")
    changed = page.get_by_role("row", name="asym_grpo:delta=0.25")
    expect(changed.get_by_role("cell").nth(0)).to_have_text("0.250")
    expect(page).to_have_url(re.compile("asym_grpo%3Adelta%3D0.25"))
    page.reload()
    expect(changed).to_be_visible()


def test_the_group_size_changes_the_curves(page: Page) -> None:
    image = page.get_by_role("img", name=re.compile("^Population weight"))
    # w of r - rbar is (G - 1) / G at every p
    expect(image).to_have_attribute("aria-label", re.compile(r"grpo_mean 0\.875,"))
    page.get_by_label("Rollouts per group, G").fill("16")
    expect(image).to_have_attribute("aria-label", re.compile(r"grpo_mean 0\.938,"))


def test_an_advantage_without_failures_has_an_infinite_sign_ratio(page: Page) -> None:
    add(page, "psr")
    expect(page.get_by_role("row", name="psr").get_by_role("cell").nth(0)).to_have_text("∞")


def test_what_cannot_be_is_said(server: FadeServer, open_page: OpenPage) -> None:
    page = open_page(f"{server.http_url}/#/explorer?g=4&a=pkpo:k=8")
    expect(page.get_by_role("alert")).to_contain_text("draw no more than it has")


def add(page: Page, name: str) -> None:
    """Adds an advantage."""
    page.get_by_label("Another advantage").select_option(name)
    page.get_by_role("button", name="Add", exact=True).click()
