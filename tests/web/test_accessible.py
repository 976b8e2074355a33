"""Every page in light, dark and on a phone: axe finds nothing, nothing is wider than the screen, and the keyboard reaches it."""

from __future__ import annotations

import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.web.reports import Trainer

from fade_service import FadeServer

OpenPage = Callable[..., Page]

AXE = "axe-core@4.14.1"

PAGES = {
    "runs": ("/", "table.runs"),
    "run": ("/#/runs/lab/seen", "#panel-solve-rate canvas"),
    "what-if": ("/#/runs/lab/seen/what-if?set=alpha_max:2&set=delta_min:0.5", "tbody"),
    "operate": ("/#/runs/lab/seen/operate", "table.knobs"),
    "explorer": ("/#/explorer", ".panel canvas"),
    "nothing": ("/#/nothing", "h1"),
}


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The script of axe-core, from npm."""
    folder = tmp_path_factory.mktemp("axe")
    subprocess.run(["npm", "pack", "--silent", AXE], cwd=folder, check=True, capture_output=True, timeout=100)
    [packed] = folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        archive.extract("package/axe.min.js", folder, filter="data")
    return Path(folder / "package" / "axe.min.js").read_text()


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
def test_axe_finds_nothing(url: str, open_page: OpenPage, axe: str, name: str, scheme: str) -> None:
    place, there = PAGES[name]
    page = open_page(url + place, color_scheme=scheme)
    expect(page.locator(there).first).to_be_visible()
    assert violations(page, axe) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_the_dialog_and_the_refusal(url: str, open_page: OpenPage, axe: str, scheme: str) -> None:
    page = open_page(f"{url}/#/runs/lab/seen/operate", color_scheme=scheme)
    page.get_by_label("alpha_max").fill("0")
    page.get_by_role("button", name="Review 1 change").click()
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page, axe) == []
    page.get_by_role("button", name="Pin", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page, axe) == []


@pytest.mark.parametrize("name", PAGES)
def test_nothing_is_wider_than_a_phone(url: str, open_page: OpenPage, name: str) -> None:
    place, there = PAGES[name]
    page = open_page(url + place, viewport={"width": 360, "height": 780})
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
    press_until(page, "lab / seen")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1, name="seen")).to_be_focused()
    press_until(page, "What-if")
    page.keyboard.press("Enter")
    slider = page.get_by_role("slider", name="alpha_max")
    slider.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_role("group", name="Setting A")).to_contain_text("run: 2.5")


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


def press_until(page: Page, name: str) -> None:
    """Tab, until what has that text has the focus."""
    for _ in range(40):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent.trim()") == name:
            return
    raise AssertionError(f"Tab does not reach {name}")


def violations(page: Page, axe: str) -> list[str]:
    """What axe objects to, with the places."""
    page.evaluate(axe)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]
