"""The list of runs: live, searched, filtered, paged."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.web.reports import Trainer

from fade_client import FadeClient
from fade_proto.v1 import observation_pb2
from fade_proto.v1.scheduler_pb2 import CompleteRunRequest
from fade_service import FadeServer

OpenPage = Callable[..., Page]


def test_runs_are_listed_newest_report_first_and_live(server: FadeServer, address: str, open_page: OpenPage) -> None:
    shadow = observation_pb2.MODE_SHADOW
    with Trainer(address, "older", mode=shadow) as older, Trainer(address, "newer", ("math", "code")) as newer:
        older.observe()
        answer = newer.observe()
        page = open_page(server.http_url)
        names = page.get_by_role("rowheader").get_by_role("link")
        expect(names).to_have_text(["lab / newer", "lab / older"])
        expect(page.get_by_role("rowheader", name="older")).to_contain_text("shadow")
        [code, math] = answer.schedules
        rows = page.get_by_role("row")
        expect(rows.filter(has=page.get_by_role("cell", name="code", exact=True))).to_contain_text(f"{code.schedule.alpha:.2f}")
        expect(rows.filter(has=page.get_by_role("cell", name="math", exact=True))).to_contain_text(
            f"{100 * math.state.solve_rate:.1f} %"
        )
        for _ in range(3):
            older.observe()
        expect(names).to_have_text(["lab / older", "lab / newer"])
        expect(page.get_by_role("img", name=re.compile("^Solve rate from"))).to_have_count(1)
        older.stub.CompleteRun(CompleteRunRequest(name=older.name), timeout=10)
        expect(page.get_by_role("rowheader", name="older")).to_contain_text("completed")


def test_a_search_and_a_page_stand_in_the_address(server: FadeServer, address: str, open_page: OpenPage) -> None:
    for number in range(60):
        with Trainer(address, f"run-{number:02}"):
            pass
    page = open_page(server.http_url)
    expect(page.get_by_text("60 runs")).to_be_visible()
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Page 2 of 2")).to_be_visible()
    expect(page.get_by_role("rowheader")).to_have_count(10)
    page.reload()
    expect(page.get_by_text("Page 2 of 2")).to_be_visible()
    page.get_by_label("Search").fill("run-1")
    expect(page.get_by_role("rowheader")).to_have_count(10)
    expect(page).to_have_url(re.compile(r"#/\?q=run-1$"))
    page.reload()
    expect(page.get_by_role("rowheader")).to_have_count(10)
    page.get_by_role("button", name="Completed").click()
    expect(page.get_by_text("No run matches.")).to_be_visible()
    page.go_back()
    expect(page.get_by_role("rowheader")).to_have_count(10)


def test_an_empty_server_says_how_a_run_begins(server: FadeServer, address: str, open_page: OpenPage) -> None:
    page = open_page(server.http_url)
    words = page.locator("pre").inner_text()
    assert "FadeClient(" in words
    with FadeClient(address, run="my-run") as fade:
        fade.observe("batch-0", rewards=[1, 0], groups=[0, 0])
    page.get_by_role("link", name="my-run").click()
    expect(page.get_by_role("heading", level=1, name="my-run")).to_be_focused()
    expect(page.locator(".revision")).to_have_text("1")
