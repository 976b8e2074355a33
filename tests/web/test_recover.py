"""A page that stays open goes on, whatever becomes of its run or of the server."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect
from tests.web.reports import Trainer

from fade_proto.v1.scheduler_pb2 import CompleteRunRequest, DeleteRunRequest
from fade_service import FadeServer

OpenPage = Callable[..., Page]

GONE = re.compile("There is no run w in project lab")


def test_a_restored_run_is_followed_onto_its_new_branch(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "w") as trainer:
        for _ in range(12):
            trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/w")
        expect(page.locator(".revision")).to_have_text("12")
        expect(page.get_by_label("Branch")).to_be_disabled()
        trainer.restore(5, "again", "job-2")
        expect(page.locator(".revision")).to_have_text("5")
        expect(page.get_by_label("Branch").locator("option")).to_have_text(["again (current)", "main"])
        answer = trainer.observe("after the restore")
        expect(page.get_by_text("observation after the restore")).to_be_visible()
        expect(chart(page)).to_have_attribute("aria-label", re.compile("^Solve rate at revision 6:"))
        [now] = answer.schedules
        expect(chart(page)).to_have_attribute("aria-label", re.compile(f"average {100 * now.state.solve_rate:.1f}\\s%"))


def test_a_branch_that_was_chosen_stays_while_another_is_written(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "w") as trainer:
        for _ in range(8):
            trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/w?branch=main")
        expect(page.locator(".revision")).to_have_text("8")
        trainer.restore(3, "again", "job-2")
        trainer.observe()
        expect(page.get_by_label("Branch").locator("option")).to_have_text(["again (current)", "main"])
        expect(page.get_by_label("Branch")).to_have_value("main")
        expect(page.locator(".revision")).to_have_text("8")


def test_a_run_is_watched_from_before_it_is_made_until_after_it_is_deleted(
    server: FadeServer, address: str, open_page: OpenPage
) -> None:
    page = open_page(f"{server.http_url}/#/runs/lab/w")
    expect(page.get_by_role("alert")).to_have_text(GONE)
    for number in (3, 7):
        with Trainer(address, "w") as trainer:
            for _ in range(number):
                trainer.observe()
            expect(page.locator(".revision")).to_have_text(str(number))
            expect(page.get_by_role("alert")).to_have_count(0)
            expect(page.locator(".connection")).to_have_text("live")
            trainer.observe()
            expect(chart(page)).to_have_attribute("aria-label", re.compile(f"^Solve rate at revision {number + 1}:"))
            trainer.stub.DeleteRun(DeleteRunRequest(name=trainer.name), timeout=10)
            expect(page.get_by_role("alert")).to_have_text(GONE)
            expect(page.locator(".heading .badge, .connection")).to_have_count(0)


def test_a_run_that_is_deleted_can_no_longer_be_operated(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "w") as trainer:
        trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/w/operate")
        expect(page.get_by_role("button", name="Pin", exact=True)).to_be_enabled()
        trainer.stub.DeleteRun(DeleteRunRequest(name=trainer.name), timeout=10)
        expect(page.get_by_role("alert")).to_have_text(GONE)
        expect(page.get_by_role("button", name="Pin", exact=True)).to_have_count(0)


def test_a_completed_run_says_so_and_can_no_longer_be_changed(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "w") as trainer:
        trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/w/operate")
        expect(page.get_by_role("button", name="Pin", exact=True)).to_be_enabled()
        trainer.stub.CompleteRun(CompleteRunRequest(name=trainer.name), timeout=10)
    expect(page.get_by_text("it takes no more reports")).to_be_visible()
    expect(page.get_by_role("button", name="Pin", exact=True)).to_be_disabled()
    expect(page.get_by_label("alpha_max")).to_be_disabled()
    page.get_by_role("link", name="Live").click()
    expect(chart(page).locator("canvas")).to_be_visible()


def test_views_that_were_opened_while_the_server_was_away_come_when_it_is_back(tmp_path: Path, open_page: OpenPage) -> None:
    store = f"sqlite:///{tmp_path / 'fade.db'}"
    with FadeServer(store, grpc_port=0, http_port=0, drain_seconds=1) as first:
        http_port = first.http_port
        with Trainer(f"127.0.0.1:{first.grpc_port}", "w") as trainer:
            for _ in range(5):
                trainer.observe()
        runs, explorer = (open_page(first.http_url) for _ in range(2))
        run = open_page(f"{first.http_url}/#/runs/lab/w")
        expect(run.locator(".connection")).to_have_text("live")
        runs.get_by_role("link", name="w", exact=False).first.wait_for()
        explorer.get_by_role("link", name="w", exact=False).first.wait_for()
    runs.get_by_role("rowheader").get_by_role("link").click()
    expect(runs.get_by_role("alert")).to_have_text("the server does not answer")
    explorer.get_by_role("link", name="Explorer").click()
    run.get_by_role("link", name="What-if").click()
    for page in (explorer, run):
        expect(page.get_by_text("The server does not answer; trying again.")).to_be_visible()
    with FadeServer(store, grpc_port=0, http_port=http_port):
        expect(runs.locator(".revision")).to_have_text("5")
        expect(runs.get_by_role("alert")).to_have_count(0)
        expect(explorer.get_by_role("row", name="grpo_mean")).to_be_visible()
        expect(run.get_by_role("row", name="Setting A")).to_be_visible()


def chart(page: Page) -> Locator:
    """The chart of solve rates."""
    return page.locator("#panel-solve-rate").get_by_role("img")
