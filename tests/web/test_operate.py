"""Changing a run from the page: with what changes, a confirmation and a reason."""

from __future__ import annotations

import re
from collections.abc import Callable

from playwright.sync_api import Page, expect
from tests.web.reports import Trainer

from fade_proto.v1 import observation_pb2, run_pb2
from fade_service import FadeServer

OpenPage = Callable[..., Page]


def test_pin_and_unpin(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "held") as trainer:
        trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/held/operate")
        dialog = page.get_by_role("dialog", name="Pin: confirm")
        page.get_by_role("spinbutton", name="alpha", exact=True).first.fill("150")
        page.get_by_role("button", name="Pin", exact=True).click()
        expect(dialog.get_by_role("alert")).to_contain_text("Far outside what is usual")
        dialog.get_by_role("button", name="Cancel").click()
        page.get_by_role("spinbutton", name="alpha", exact=True).first.fill("1.5")
        page.get_by_role("spinbutton", name="delta", exact=True).first.fill("0.8")
        page.get_by_role("button", name="Pin", exact=True).click()
        expect(dialog.get_by_role("alert")).to_have_count(0)
        expect(dialog.get_by_role("row", name="mode")).to_have_text("modeactivepinned")
        expect(dialog.get_by_role("row", name="pinned_alpha")).to_have_text("pinned_alpha11.5")
        dialog.get_by_role("button", name="Confirm").click()
        expect(dialog).to_be_visible()
        dialog.get_by_label("Reason, kept in the run's history").fill("  \n ")
        dialog.get_by_role("button", name="Confirm").click()
        expect(dialog).to_be_visible()
        assert trainer.get().config.mode == observation_pb2.MODE_ACTIVE, "nothing changes without a reason"
        dialog.get_by_label("Reason, kept in the run's history").fill("collapse on the code environment")
        dialog.get_by_role("button", name="Confirm").click()
        expect(page.get_by_text("Changed: pin.")).to_be_visible()
        run = trainer.get()
        assert (run.config.mode, run.config.pinned_alpha, run.config.pinned_delta) == (observation_pb2.MODE_PINNED, 1.5, 0.8)
        expect(page.get_by_role("heading", level=2, name="Mode: pinned")).to_be_visible()
        expect(page.get_by_role("row", name="collapse on the code environment")).to_contain_text("mode active → pinned")
        page.get_by_role("button", name="Unpin").click()
        confirm(page, "over")
        expect(page.get_by_role("heading", level=2, name="Mode: active")).to_be_visible()
        assert trainer.get().config.mode == observation_pb2.MODE_ACTIVE


def test_shadow_and_back_with_the_keyboard_alone(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "quiet") as trainer:
        trainer.observe()
        page = open_page(f"{server.http_url}/#/runs/lab/quiet/operate")
        page.get_by_role("button", name="To shadow").focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog", name="Shadow: confirm")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="To shadow")).to_be_focused()
        assert trainer.get().config.mode == observation_pb2.MODE_ACTIVE
        page.keyboard.press("Enter")
        reason = page.get_by_label("Reason, kept in the run's history")
        expect(reason).to_be_focused()
        page.keyboard.type("first we look")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=2, name="Mode: shadow")).to_be_visible()
        assert trainer.get().config.mode == observation_pb2.MODE_SHADOW
        page.get_by_role("button", name="Switch on").focus()
        page.keyboard.press("Enter")
        expect(reason).to_be_focused()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        expect(page.get_by_role("dialog")).to_have_count(0)
        expect(page.get_by_role("button", name="Switch on")).to_be_focused()
        page.keyboard.press("Enter")
        confirm(page, "it looks well")
        assert trainer.get().config.mode == observation_pb2.MODE_ACTIVE


def test_a_knob_changes_and_goes_back_to_its_default(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "turned") as trainer:
        page = open_page(f"{server.http_url}/#/runs/lab/turned/operate")
        page.get_by_label("target_entropy_nats").fill("0.7")
        page.get_by_label("delta_rule").select_option("ratio")
        page.get_by_label("strict_rewards").check()
        page.get_by_role("button", name="Review 3 changes").click()
        confirm(page, "scale-free")
        config = trainer.get().config
        assert (config.target_entropy_nats, config.delta_rule, config.strict_rewards) == (0.7, run_pb2.DELTA_RULE_RATIO, True)
        page.get_by_label("target_entropy_nats").fill("")
        page.get_by_role("button", name="Review 1 change").click()
        expect(page.get_by_role("dialog").get_by_role("row", name="target_entropy_nats")).to_have_text(
            "target_entropy_nats0.7unset"
        )
        confirm(page, "as the paper has it")
        assert not trainer.get().config.HasField("target_entropy_nats")


def test_what_is_refused_is_said_before_anybody_is_asked(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "bounded") as trainer:
        page = open_page(f"{server.http_url}/#/runs/lab/bounded/operate")
        page.get_by_label("alpha_max").fill("0.5")
        page.get_by_role("button", name="Review 1 change").click()
        expect(page.get_by_role("alert")).to_contain_text("alpha_max")
        expect(page.get_by_role("dialog")).to_have_count(0)
        assert trainer.get().config_revision == 1


def test_two_operators_do_not_overwrite_each_other(server: FadeServer, address: str, open_page: OpenPage) -> None:
    with Trainer(address, "contested") as trainer:
        page = open_page(f"{server.http_url}/#/runs/lab/contested/operate")
        page.get_by_label("delta_min").fill("0.4")
        page.get_by_role("button", name="Review 1 change").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label(re.compile("Reason")).fill("mine")
        expect(dialog.get_by_role("row", name="delta_min")).to_contain_text("0.3")
        trainer.update("theirs", delta_min=0.2)
        expect(page.get_by_role("row", name="theirs", include_hidden=True)).to_be_visible()
        dialog.get_by_role("button", name="Confirm").click()
        expect(page.get_by_role("alert")).to_contain_text("nothing of yours was applied")
        assert trainer.get().config.delta_min == 0.2
        page.get_by_role("button", name="Review 1 change").click()
        expect(dialog.get_by_role("row", name="delta_min")).to_have_text("delta_min0.20.4")
        confirm(page, "still mine")
        assert trainer.get().config.delta_min == 0.4


def confirm(page: Page, reason: str) -> None:
    """Gives the reason and waits until the change is made."""
    dialog = page.get_by_role("dialog")
    dialog.get_by_label(re.compile("Reason")).fill(reason)
    dialog.get_by_role("button", name="Confirm").click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_text("It takes effect with the next observation.", exact=False)).to_be_visible()
