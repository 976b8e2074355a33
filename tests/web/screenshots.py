"""`make screenshots`: the pictures in docs/images, taken from a server with believable runs."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.web.conftest import start_chromium
from tests.web.reports import Trainer

from fade_proto.v1 import observation_pb2, run_pb2
from fade_proto.v1.scheduler_pb2 import CompleteRunRequest
from fade_service import FadeServer
from fade_service.access.policy import Access
from fade_service.access.tokens import Tokens, new_token

FOLDER = Path("docs/images")
DESK = (1280, 1094)
PHONE = (390, 1334)
LENGTH = 1200


def main() -> None:
    """Takes them all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = start_chromium(playwright)
        with FadeServer(f"sqlite:///{folder}/fade.db", grpc_port=0, http_port=0) as server:
            _fill(f"127.0.0.1:{server.grpc_port}")
            run = f"{server.http_url}/#/runs/lab/qwen-math"
            _take(browser, "runs", server.http_url, _runs, size=(1280, 440))
            _take(browser, "run", run, _charts)
            _take(browser, "run-dark", run, _charts, scheme="dark")
            _take(browser, "phone", run, _charts, size=PHONE)
            _take(browser, "what-if", f"{run}/what-if?set=alpha_max:4&set=delta_min:0.6,target_entropy_nats:0.4", _simulated)
            _take(browser, "pin", f"{run}/operate", _pinning, size=(1280, 800))
            _take(browser, "explorer", f"{server.http_url}/#/explorer", _charts)
        tokens = Tokens(f'{{"tokens": [{new_token("operator", "-", "admin")[1]}]}}')
        with FadeServer(f"sqlite:///{folder}/locked.db", grpc_port=0, http_port=0, access=Access(tokens=tokens)) as server:
            _take(browser, "login", server.http_url, _form, size=(720, 320))
        browser.close()


def _fill(address: str) -> None:
    """Runs in every state that the list tells apart; the one that is looked at has a warning and a change behind it."""
    with Trainer(address, "llama-code-sft", ("code", "tests"), length=300, seed=1) as trainer:
        _report(trainer, 240)
        trainer.stub.CompleteRun(CompleteRunRequest(name=trainer.name), timeout=10)
    with Trainer(address, "gemma-logic", length=900, seed=2, mode=observation_pb2.MODE_SHADOW) as trainer:
        _report(trainer, 150)
    with Trainer(address, "olmo-asym", length=500, seed=3, delta_rule=run_pb2.DELTA_RULE_FIXED, delta=0.12) as trainer:
        _report(trainer, 320)
    with Trainer(address, "qwen-tools", ("search", "shell"), length=600, seed=4) as trainer:
        _report(trainer, 410)
        trainer.update("the shell environment is down", mode=observation_pb2.MODE_PINNED, pinned_alpha=1.4, pinned_delta=0.8)
        _report(trainer, 20)
    with Trainer(address, "qwen-math", ("default",), length=LENGTH, seed=5) as trainer:
        _report(trainer, LENGTH // 2)
        trainer.update("entropy falls too fast", delta_min=0.2)
        _report(trainer, LENGTH // 3)


def _report(trainer: Trainer, count: int) -> None:
    for _ in range(count):
        trainer.observe()


def _take(
    browser: Browser, name: str, url: str, there: Callable[[Page], None], size: tuple[int, int] = DESK, scheme: str = "light"
) -> None:
    """A picture of the page once it is there, in 256 colours that keep the rare ones: a dot of green on much white."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)  # type: ignore[arg-type]
    page = context.new_page()
    page.goto(url)
    there(page)
    seen = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture = seen.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=2, dither=Image.Dither.NONE)
    path = FOLDER / f"{name}.png"
    picture.save(path, optimize=True)
    print(f"{path}: {path.stat().st_size / 1000:.0f} kB")
    context.close()


def _runs(page: Page) -> None:
    expect(page.get_by_role("rowheader")).to_have_count(5)
    expect(page.locator(".connection")).to_have_text("live")


def _charts(page: Page) -> None:
    """What is on the screen is drawn: a chart below it is not, before it is scrolled to."""
    expect(page.locator(".panel canvas").first).to_be_visible()
    page.wait_for_timeout(1500)


def _simulated(page: Page) -> None:
    expect(page.get_by_role("row", name="Setting B")).to_be_visible()
    _charts(page)


def _pinning(page: Page) -> None:
    page.get_by_role("button", name="Pin", exact=True).click()
    page.get_by_label(re.compile("^Reason")).fill("hold it while the verifier is repaired")


def _form(page: Page) -> None:
    expect(page.get_by_label("Token")).to_be_visible()


if __name__ == "__main__":
    main()
