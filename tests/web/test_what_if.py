"""What-if: sliders, settings side by side, and the words that it is only what-if."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Locator, Page, expect
from tests.web.reports import Trainer

from fade_service import FadeServer

OpenPage = Callable[..., Page]


@pytest.fixture
def trainer(address: str) -> Iterator[Trainer]:
    """A run."""
    with Trainer(address, "tried", length=400, ema_weight=0.1) as running:
        yield running


@pytest.fixture
def page(server: FadeServer, trainer: Trainer, open_page: OpenPage) -> Page:
    """The what-if page of the run, whose alpha ends between its bounds."""
    for _ in range(120):
        answer = trainer.observe()
    [now] = answer.schedules
    assert 1.1 < now.schedule.alpha < 2.4
    opened = open_page(f"{server.http_url}/#/runs/lab/tried/what-if")
    expect(outcome(opened, "Recorded")).to_contain_text(f"{now.schedule.alpha:.2f}")
    expect(outcome(opened, "Setting A")).to_contain_text(f"{now.schedule.alpha:.2f}")
    return opened


def test_a_slider_redraws_and_stands_in_the_address(page: Page) -> None:
    before = page.get_by_role("img", name=re.compile("^Alpha, newest")).get_attribute("aria-label")
    slide(page, "alpha_max", "1.1")
    expect(outcome(page, "Setting A").get_by_role("cell").nth(0)).to_have_text("1.10")
    expect(page.get_by_role("img", name=re.compile("^Alpha, newest.*Setting A 1.10"))).to_be_visible()
    assert before and "Setting A 1.10" not in before
    expect(page).to_have_url(re.compile("set=alpha_max%3A1.1"))
    page.reload()
    expect(outcome(page, "Setting A").get_by_role("cell").nth(0)).to_have_text("1.10")


def test_the_last_of_many_moves_wins(page: Page) -> None:
    for place in range(30):
        slide(page, "alpha_max", f"{2.5 - 0.05 * place:.2f}")
    expect(outcome(page, "Setting A").get_by_role("cell").nth(0)).to_have_text("1.05")


def test_settings_stand_side_by_side(page: Page) -> None:
    page.get_by_role("button", name="Add setting B").click()
    second = page.get_by_role("group", name="Setting B")
    second.get_by_label("delta_rule").select_option("fixed")
    slide(page, "delta", "0.5", "Setting B")
    expect(outcome(page, "Setting B").get_by_role("cell").nth(2)).to_have_text("0.50")
    expect(outcome(page, "Setting A").get_by_role("cell").nth(2)).not_to_have_text("0.50")
    second.get_by_role("button", name="Remove setting B").click()
    expect(outcome(page, "Setting B")).to_have_count(0)


def test_it_goes_on_to_what_was_recorded_since(trainer: Trainer, page: Page) -> None:
    [now] = trainer.observe().schedules
    page.get_by_role("button", name="Go on to revision 121").click()
    expect(page.get_by_text("Recorded up to revision 121.")).to_be_visible()
    expect(outcome(page, "Recorded").get_by_role("cell").nth(0)).to_have_text(f"{now.schedule.alpha:.2f}")
    expect(page.get_by_role("button", name="Go on")).to_have_count(0)


def test_each_slider_is_explained(page: Page) -> None:
    page.get_by_text("What these do").click()
    words = page.locator("details.meanings")
    for slider in page.get_by_role("group", name="Setting A").get_by_role("slider").all():
        name = slider.get_attribute("name")
        expect(words.locator("dt", has_text=re.compile(f"^{name}$")).locator("+ dd")).to_have_text(re.compile(r"\w+ \w+"))


def test_it_says_that_the_telemetry_would_have_changed(page: Page) -> None:
    expect(page.get_by_text(re.compile("a policy trained on another schedule would have reported others"))).to_be_visible()


def slide(page: Page, field: str, value: str, setting: str = "Setting A") -> None:
    """Moves a slider, as a hand or the arrow keys do."""
    page.get_by_role("group", name=setting).locator(f"input[name={field}]").fill(value)


def outcome(page: Page, name: str) -> Locator:
    """A setting's row in the table of outcomes."""
    return page.get_by_role("row").filter(has=page.get_by_role("rowheader", name=name, exact=True))
