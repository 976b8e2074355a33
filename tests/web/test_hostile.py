"""What users write is shown as they wrote it, and never runs."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.web.reports import Trainer

from fade_service import FadeServer

OpenPage = Callable[..., Page]

IMAGE = '<img src=x onerror="window.hacked=1">'
SCRIPT = "<script>window.hacked=1</script>"
BREAKING = "\"'><svg onload=window.hacked=1>"
LINK = "javascript:window.hacked=1"


def test_nothing_that_users_wrote_runs(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "hostile", (IMAGE, f"z{SCRIPT}"), writer=f"{BREAKING}{LINK}", delta_rule=3, delta=0.1) as trainer:
        for _ in range(3):
            trainer.observe()
        trainer.update(f"{SCRIPT}{BREAKING}", alpha_max=2.5)
        answer = trainer.observe(f"{BREAKING}{SCRIPT}")
    assert IMAGE in {warning.subject for warning in answer.warnings}

    page = open_page(server.http_url)
    expect(page.get_by_role("cell", name=IMAGE, exact=True)).to_be_visible()
    page.get_by_role("link", name="hostile").click()
    expect(page.get_by_text(f"observation {BREAKING}{SCRIPT}")).to_be_visible()
    expect(page.get_by_role("region", name="Warnings of the newest observation")).to_contain_text(IMAGE)
    expect(page.get_by_label("Environment")).to_have_value(IMAGE)
    change = page.get_by_role("row", name=re.compile("configuration"))
    expect(change).to_contain_text(f"{SCRIPT}{BREAKING}")
    page.locator("#panel-entropy canvas").scroll_into_view_if_needed()
    box = page.locator("#panel-entropy canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.72, box["y"] + box["height"] / 2)
    expect(page.locator("#panel-entropy .tip")).to_contain_text(re.compile(r"revision \d"))

    page.get_by_label("Environment").select_option(f"z{SCRIPT}")
    expect(page.locator(".revision")).to_have_text("4")
    page.get_by_role("link", name="What-if").click()
    expect(page.get_by_role("row", name="Setting A")).to_be_visible()
    page.get_by_role("link", name="Operate").click()
    expect(page.get_by_role("cell", name=f"{SCRIPT}{BREAKING}", exact=True)).to_be_visible()
    expect(page.get_by_role("cell", name=f"{BREAKING}{LINK}", exact=True)).to_be_visible()


def test_nothing_in_the_address_runs(server: FadeServer, open_page: OpenPage) -> None:
    for place in ("/runs/lab/", "/runs/", "/", "/explorer?a=", "/?q="):
        page = open_page(f"{server.http_url}/#{place}{IMAGE.replace('#', '')}")
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator("main img[src]")).to_have_count(0)
