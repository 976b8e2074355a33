"""A run's live page: what arrives is shown, whatever happens to the server meanwhile."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Locator, Page, expect
from tests.web.reports import GROUPS, Trainer

from fade_proto.v1 import observation_pb2, run_pb2
from fade_service import FadeServer

OpenPage = Callable[..., Page]


def test_an_observation_shows_without_a_reload(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "live") as trainer:
        for _ in range(3):
            trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/live")
        expect(page.locator(".revision")).to_have_text("3")
        expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
        chart = page.get_by_role("img", name=re.compile("^Solve rate at revision 3:"))
        expect(chart.locator("canvas")).to_be_visible()
        answer = trainer.observe("batch-of-the-test")
    [now] = answer.schedules
    expect(page.locator(".revision")).to_have_text("4")
    expect(page.get_by_text("batch-of-the-test")).to_be_visible()
    expect(figure(page, "Alpha")).to_contain_text(f"{now.schedule.alpha:.2f}")
    expect(figure(page, "Solve rate")).to_contain_text(f"{100 * now.state.solve_rate:.1f} %")
    expect(figure(page, "Entropy")).to_contain_text(f"{now.state.entropy_nats:.3f} nats/token")
    expect(page.locator(".short")).to_contain_text(f"{100 * now.state.solve_rate:.1f} % of rollouts are solved on average")
    expect(figure(page, "Groups with signal")).to_contain_text(f"{now.diagnostics.effective_group_count} of {GROUPS}")
    expect(page.get_by_role("img", name=re.compile("^Solve rate at revision 4:"))).to_be_visible()


def test_one_sentence_says_how_the_run_stands(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "told", alpha_rule=run_pb2.ALPHA_RULE_FIXED, alpha=2, target_entropy_nats=5) as trainer:
        trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/told")
        expect(page.locator(".short")).to_have_text(
            re.compile("entropy is under its target: hard prompts weigh more, failures weigh")
        )
        pinned = {"mode": observation_pb2.MODE_PINNED, "pinned_alpha": 1, "pinned_delta": 0.5, "target_entropy_nats": 0.1}
        trainer.update("said otherwise", **pinned)
        trainer.observe()
        sentence = "entropy is at or above its target: prompts of every difficulty weigh alike, failures weigh 2 times as much"
        expect(page.locator(".short")).to_contain_text(sentence)


def test_environments_and_branches_are_chosen_and_stand_in_the_address(
    server: FadeServer, address: str, open_page: OpenPage
) -> None:
    with Trainer(address, "many", ("math", "code")) as trainer:
        for _ in range(6):
            answer = trainer.observe()
        trainer.restore(4, "second", "job-2")
        trainer.observe()
    code, _ = answer.schedules
    assert code.environment == "code"
    page = open_page(f"{server.http_url}/#/runs/lab/many")
    expect(page.locator(".revision")).to_have_text("5")
    page.get_by_label("Branch").select_option("main")
    page.get_by_label("Environment").select_option("code")
    for _ in range(2):
        expect(page.locator(".revision")).to_have_text("6")
        expect(page.get_by_label("Environment")).to_have_value("code")
        expect(figure(page, "Alpha")).to_contain_text(f"{code.schedule.alpha:.2f}")
        page.reload()


def test_zooming_asks_for_finer_points_and_stands_in_the_address(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "long") as trainer:
        for _ in range(1300):
            trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/long")
        zoom = page.get_by_role("region", name="Revisions shown")
        expect(zoom).to_contain_text("each point is the average of 3, live")
        page.locator("#panel-entropy canvas").scroll_into_view_if_needed()
        box = page.locator("#panel-entropy canvas").bounding_box()
        assert box is not None
        height = box["y"] + box["height"] / 2
        page.mouse.move(box["x"] + box["width"] * 0.5, height)
        page.mouse.down()
        page.mouse.move(box["x"] + box["width"] * 0.6, height, steps=5)
        page.mouse.move(box["x"] + box["width"] * 0.7, height, steps=5)
        page.mouse.up()
        expect(zoom).to_contain_text("every observation is shown")
        found = re.search(r"from=(\d+)&to=(\d+)", page.url)
        assert found is not None
        first, last = int(found[1]), int(found[2])
        assert 450 < first < 750 < last < 1000
        page.reload()
        expect(page.get_by_label("Revisions", exact=True)).to_have_value(str(first))
        expect(page.get_by_label("to", exact=True)).to_have_value(str(last))
        page.get_by_role("button", name="Newest 100", exact=True).click()
        expect(page.get_by_label("Revisions", exact=True)).to_have_value("1201")
        trainer.observe()
        expect(page.get_by_label("Revisions", exact=True)).to_have_value("1202")
        page.get_by_role("button", name="Whole run").click()
        expect(page.get_by_label("to", exact=True)).to_have_value("1301")


def test_buttons_that_would_change_nothing_are_off(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "bounded") as trainer:
        for _ in range(120):
            trainer.observe()
    page = open_page(f"{server.http_url}/#/runs/lab/bounded")
    button = {name: page.get_by_role("button", name=name, exact=True) for name in ("Zoom in", "Zoom out", "Earlier", "Later")}
    expect(button["Zoom in"]).to_be_enabled()
    for name in ("Zoom out", "Earlier", "Later"):
        expect(button[name]).to_be_disabled()
    button["Zoom in"].click()
    expect(page).to_have_url(re.compile("from=31&to=90$"))
    button["Later"].click()
    expect(page).to_have_url(re.compile("from=61&to=120$"))
    expect(button["Later"]).to_be_disabled()
    expect(button["Earlier"]).to_be_enabled()
    button["Zoom out"].click()
    button["Zoom out"].click()
    expect(button["Zoom out"]).to_be_disabled()


def test_the_legend_has_the_values_at_the_right_end_of_the_chart(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "ends", length=60, ema_weight=0.2) as trainer:
        alphas = [trainer.observe().schedules[0].schedule.alpha for _ in range(60)]
    shown = {revision: f"alpha {alphas[revision - 1]:.2f}" for revision in (25, 60)}
    assert shown[25] != shown[60]
    for query, revision in (("", 60), ("?from=5&to=25", 25)):
        page = open_page(f"{server.http_url}/#/runs/lab/ends{query}")
        expect(page.locator("#panel-schedule .legend li").first).to_have_text(shown[revision])


def test_the_page_goes_on_after_a_restart_of_the_server(tmp_path: Path, open_page: OpenPage) -> None:
    store = f"sqlite:///{tmp_path / 'fade.db'}"
    with FadeServer(store, grpc_port=0, http_port=0, drain_seconds=1) as first:
        http_port = first.http_port
        with Trainer(f"127.0.0.1:{first.grpc_port}", "lasting") as trainer:
            trainer.observe("before")
        page = open_page(f"{first.http_url}/#/runs/lab/lasting")
        state = page.locator(".connection")
        expect(state).to_have_text("live")
    expect(state).to_have_text(re.compile(r"reconnecting since \d\d:\d\d:\d\d"))
    expect(page.locator(".revision")).to_have_text("1")
    with FadeServer(store, grpc_port=0, http_port=http_port) as second:
        with Trainer(f"127.0.0.1:{second.grpc_port}", "lasting") as trainer:
            trainer.observe("after")
        expect(state).to_have_text("live")
        expect(page.locator(".revision")).to_have_text("2")
        expect(page.get_by_text("observation after")).to_be_visible()


def test_a_warning_is_a_mark_and_a_notice(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "imbalanced", delta_rule=run_pb2.DELTA_RULE_FIXED, delta=0.1) as trainer:
        answer = trainer.observe()
        assert [warning.reason for warning in answer.warnings] == ["SIGN_IMBALANCE"]
        page = open_page(f"{server.http_url}/#/runs/lab/imbalanced")
        notice = page.get_by_role("region", name="Warnings of the newest observation")
        expect(notice).to_contain_text(answer.warnings[0].message)
        expect(page.get_by_role("table").get_by_role("row", name=re.compile("sign imbalance"))).to_contain_text("warning")
        signs = page.get_by_role("region", name="Revisions shown").locator(".signs > span")
        expect(signs).to_have_text(["! warning"])
        trainer.update("less of it", delta=0.9)
        trainer.observe()
    expect(notice).to_be_hidden()
    expect(page.get_by_role("row", name=re.compile("less of it"))).to_contain_text("delta 0.1 -> 0.9")
    expect(signs).to_have_text(["! warning", "C configuration change"])


def figure(page: Page, name: str) -> Locator:
    """A headline number with its meaning."""
    return page.locator(".headline .figure").filter(has=page.get_by_role("term").filter(has_text=re.compile(f"^{name}$")))
