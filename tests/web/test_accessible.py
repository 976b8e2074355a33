"""Every page in light, dark and on a phone: axe finds nothing, nothing is wider than the screen, and the keyboard reaches it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.web.axe import violations
from tests.web.reports import Trainer

from fade_service import FadeServer

OpenPage = Callable[..., Page]

PAGES = {
    "runs": ("/", "table.runs"),
    "run": ("/#/runs/lab/seen", "#panel-solve-rate canvas"),
    "what-if": ("/#/runs/lab/seen/what-if?set=alpha_max:2&set=delta_min:0.5", "tbody"),
    "operate": ("/#/runs/lab/seen/operate", "table.knobs"),
    "explorer": ("/#/explorer", ".panel canvas"),
    "nothing": ("/#/nothing", "h1"),
}


@pytest.fixture
def url(server: FadeServer, address: str) -> str:
    """A server with a run that has warnings, a change, two branches and two environments."""
    with Trainer(address, "seen", ("math", "code"), length=30, delta_min=0.1) as trainer:
        for _ in range(40):
            trainer.observe()
        trainer.update("a reason", alpha_max=2.5)
        trainer.restore(38, "again", "job-2")
        trainer.observe()
    with Trainer(address, "unseen", mode=3):
        pass
    return server.http_url


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_axe_finds_nothing(url: str, open_page: OpenPage, name: str, scheme: str) -> None:
    place, there = PAGES[name]
    page = open_page(url + place, color_scheme=scheme)
    expect(page.locator(there).first).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_dialog_and_the_refusal(url: str, open_page: OpenPage, scheme: str) -> None:
    page = open_page(f"{url}/#/runs/lab/seen/operate", color_scheme=scheme)
    page.get_by_label("alpha_max").fill("0")
    page.get_by_role("button", name="Review 1 change").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_before_there_is_a_run_and_after_the_server_has_gone(
    tmp_path: Path, open_page: OpenPage, scheme: str
) -> None:
    with FadeServer(f"sqlite:///{tmp_path / 'fade.db'}", grpc_port=0, http_port=0, drain_seconds=1) as server:
        page = open_page(server.http_url, color_scheme=scheme)
        expect(page.get_by_text("No run yet")).to_be_visible()
        expect(page.locator(".connection")).to_have_text("live")
        assert violations(page) == []
    expect(page.locator(".connection")).to_contain_text("reconnecting since")
    assert violations(page) == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone(url: str, open_page: OpenPage, name: str) -> None:
    place, there = PAGES[name]
    page = open_page(url + place, viewport={"width": 360, "height": 780})
    page.locator(there.split()[0]).first.scroll_into_view_if_needed()  # a chart is drawn once one comes near it
    expect(page.locator(there).first).to_be_visible()
    width, scrolled = page.evaluate("[document.documentElement.clientWidth, document.documentElement.scrollWidth]")
    assert scrolled <= width


def test_every_knob_is_on_the_screen_of_a_phone(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/#/runs/lab/seen/operate", viewport={"width": 360, "height": 780})
    expect(page.locator("table.knobs")).to_be_visible()
    knobs = page.locator("table.knobs").locator("input, select")
    rights = [box["x"] + box["width"] for knob in knobs.all() if (box := knob.bounding_box())]
    assert len(rights) > 15
    assert max(rights) <= 360


def test_the_keyboard_reaches_the_run_and_its_tabs(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    expect(page.get_by_role("link", name="seen", exact=False).first).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    tab_to(page, page.get_by_role("link", name="lab / seen"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="seen")).to_be_focused()
    tab_to(page, page.get_by_role("link", name="What-if"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_role("slider", name="alpha_max"))
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("group", name="Setting A")).to_contain_text("run: 2.5")


def test_a_run_is_pinned_with_the_keyboard_alone(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/#/runs/lab/seen")
    tab_to(page, page.get_by_role("link", name="Operate"))
    page.keyboard.press("Enter")
    tab_to(page, page.locator("input[name=pinned_alpha]"))
    page.keyboard.type("1.25")  # over what is there: Tab selects it
    tab_to(page, page.get_by_role("button", name="Pin", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").get_by_role("row", name="pinned_alpha")).to_contain_text("1.25")
    page.keyboard.type("by hand")
    tab_to(page, page.get_by_role("button", name="Confirm"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=2, name="Mode: pinned")).to_be_visible()
    expect(page.get_by_role("row", name="by hand")).to_contain_text("pinned_alpha 1 → 1.25")


def test_an_advantage_is_added_with_the_keyboard_alone(url: str, open_page: OpenPage) -> None:
    page = open_page(url)
    tab_to(page, page.get_by_role("link", name="Explorer"))
    page.keyboard.press("Enter")
    tab_to(page, page.get_by_label("Another advantage"))
    page.keyboard.type("asym")
    tab_to(page, page.get_by_role("button", name="Add", exact=True))
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="asym_grpo")).to_be_visible()
    expect(page.get_by_role("group")).to_have_count(5)


def test_what_has_the_focus_shows_it(url: str, open_page: OpenPage) -> None:
    page = open_page(f"{url}/#/runs/lab/seen/operate")
    expect(page.locator("table.knobs")).to_be_visible()
    unseen = "getComputedStyle(document.activeElement).outlineStyle === 'none' ? document.activeElement.outerHTML : ''"
    for _ in range(25):
        page.keyboard.press("Tab")
        assert page.evaluate(unseen) == ""


def test_the_theme_is_switched_and_kept(url: str, open_page: OpenPage) -> None:
    page = open_page(url, color_scheme="light")
    ground = "getComputedStyle(document.documentElement).backgroundColor"
    light = page.evaluate(ground)
    switch = page.get_by_role("button", name="Theme")
    switch.click()
    expect(switch).to_have_text("Theme: light")
    assert page.evaluate(ground) == light
    switch.click()
    expect(switch).to_have_text("Theme: dark")
    assert page.evaluate(ground) != light
    page.reload()
    expect(switch).to_have_text("Theme: dark")
    assert page.evaluate(ground) != light


def tab_to(page: Page, wanted: Locator) -> None:
    """Tab, until it has the focus."""
    expect(wanted).to_be_visible()
    for _ in range(60):
        page.keyboard.press("Tab")
        if wanted.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"Tab does not reach {wanted}")
