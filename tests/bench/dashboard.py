"""The dashboard under way: how soon a run is drawn, how soon an observation shows, and what that costs Observe.

Pages are opened in Chromium on the machine of the server, where browsers take cores that they would not take elsewhere. So that
Observe's latency tells of the server, nine of ten dashboards are event streams that are read like a page's, and one is a page.
"""

from __future__ import annotations

import json
import multiprocessing
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright
from tests.bench.parts import Caller, fade_server_with_pages, quantile, spread
from tests.web.conftest import start_chromium
from tests.web.reports import Trainer

OBSERVATIONS = 10_000
DASHBOARDS = 10
ROUNDS = 25
CALLS = 400

_WINDOW: ViewportSize = {"width": 1440, "height": 900}
_CHARTS = 6

_WATCH_PAINT = f"""
window.painted = new Promise((tell) => {{
  const look = () => {{
    const isDrawn = document.querySelectorAll(".panel canvas").length === {_CHARTS};
    if (isDrawn) requestAnimationFrame(() => requestAnimationFrame(() => tell(performance.now())));
    else requestAnimationFrame(look);
  }};
  look();
}});
"""
"""A promise of the milliseconds from the navigation to the frame after the last chart was given its lines."""

_WATCH_REVISIONS = """
(() => {
  const chart = document.querySelector(".chart");
  const [times, waiting] = [{}, {}];
  new MutationObserver(() => {
    const revision = chart.ariaLabel.match(/at revision ([\\d,]+)/)[1].replaceAll(",", "");
    requestAnimationFrame(() => {
      times[revision] ??= Date.now();
      waiting[revision]?.(times[revision]);
    });
  }).observe(chart, { attributes: true, attributeFilter: ["aria-label"] });
  window.shown = (revision) => times[revision] ?? new Promise((tell) => (waiting[revision] = tell));
})()
"""
"""``shown(revision)``: a promise of the Unix milliseconds at which a chart first stood there."""


def dashboard_first_paint(folder: Path) -> dict[str, Any]:
    """From the navigation to six drawn charts, nothing in the browser's cache, for a run of 10,000 observations."""
    with _filled(folder) as (trainer, url), _chromium() as browser:
        milliseconds = [_first_paint(browser, f"{url}/#/runs/{_run(trainer)}") for _ in range(6)]
    return {
        f"ms, {OBSERVATIONS:,} observations (<= 1,000)": spread(milliseconds[1:]),
        "ms, the first that anybody opens": milliseconds[0],
    }


def dashboard_shows_an_observation(folder: Path) -> dict[str, Any]:
    """From Observe's answer to the charts that show it, at moments that know nothing of the server's ticks."""
    random, milliseconds = Random(0), []
    with _filled(folder) as (trainer, url), _chromium() as browser:
        page = _opened(browser, f"{url}/#/runs/{_run(trainer)}")
        page.evaluate(_WATCH_REVISIONS)
        for _ in range(30):
            revision = trainer.observe().revision
            answered = 1000 * time.time()
            milliseconds.append(page.evaluate(f"window.shown({revision})") - answered)
            page.wait_for_timeout(random.uniform(300, 800))
    return {"ms (<= 500)": spread(milliseconds), "ms, slowest tenth": quantile(milliseconds, 0.9)}


def dashboard_and_observe(folder: Path) -> dict[str, Any]:
    """Observe's p50 with ten dashboards open on the run and a what-if computed over and over, against the same without."""
    bare: list[float] = []
    watched: list[float] = []
    with fade_server_with_pages(folder) as (_, address, url), _chromium() as browser:
        caller = Caller(address, 512)
        caller.create("r")
        caller.latencies(["r"], OBSERVATIONS)
        for _ in range(ROUNDS):
            bare.append(_p50(caller))
            with _dashboards(browser, url), _beside(_ask_what_if, url):
                watched.append(_p50(caller))
        caller.close()
    return {
        "p50 ms without": spread([1e3 * seconds for seconds in bare]),
        f"p50 ms, {DASHBOARDS} dashboards and a what-if": spread([1e3 * seconds for seconds in watched]),
        "p50 with / without (<= 1.1)": spread([theirs / own for theirs, own in zip(watched, bare, strict=True)]),
    }


def _p50(caller: Caller) -> float:
    """Seconds, once what was just begun or ended has settled."""
    caller.latencies(["r"], 100)
    return quantile(caller.latencies(["r"], CALLS), 0.5)


@contextmanager
def _dashboards(browser: Browser, url: str) -> Iterator[None]:
    page = _opened(browser, f"{url}/#/runs/bench/r")
    with _beside(_read_streams, url, DASHBOARDS - 1):
        yield
    page.context.close()


@contextmanager
def _filled(folder: Path) -> Iterator[tuple[Trainer, str]]:
    """A trainer with 10,000 observations behind it, and the URL of its server."""
    with fade_server_with_pages(folder) as (_, address, url), Trainer(address, "long", length=OBSERVATIONS) as trainer:
        for _ in range(OBSERVATIONS):
            trainer.observe()
        yield trainer, url


def _run(trainer: Trainer) -> str:
    """As the page's addresses have it."""
    return "/".join(trainer.name.split("/")[1::2])


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = start_chromium(playwright)
        yield browser
        browser.close()


def _first_paint(browser: Browser, url: str) -> float:
    page = _opened(browser, url)
    milliseconds: float = page.evaluate("window.painted")
    page.context.close()
    return milliseconds


def _opened(browser: Browser, url: str) -> Page:
    """A page in a context of its own, with all charts drawn."""
    page = browser.new_context(viewport=_WINDOW).new_page()
    page.add_init_script(_WATCH_PAINT)
    page.goto(url)
    page.evaluate("window.painted")
    return page


@contextmanager
def _beside(work: Any, *arguments: Any) -> Iterator[None]:
    """Work that goes on in a process of its own, once it has begun."""
    context = multiprocessing.get_context("spawn")
    begun = context.Event()
    running = context.Process(target=work, args=(begun, *arguments), daemon=True)
    running.start()
    if not begun.wait(60):
        raise RuntimeError(f"{work.__name__} did not begin")
    try:
        yield
    finally:
        running.terminate()
        running.join()


def _read_streams(begun: Any, url: str, count: int) -> None:
    """Reads a run's events as so many pages would."""

    def read() -> None:
        with urllib.request.urlopen(f"{url}/api/v1/events?project=bench&run=r&after={2**62}") as stream:
            for _ in stream:
                begun.set()

    readers = [Thread(target=read, daemon=True) for _ in range(count)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()


def _ask_what_if(begun: Any, url: str) -> None:
    """Computes two settings, as sliders that never rest."""
    headers = {"content-type": "application/json", "x-fade-request": "bench"}
    turn = 0
    while True:
        turn += 1
        settings = [{"config": {"alpha_max": 2 + turn % 10 / 10}}, {"config": {"delta_min": 0.5}}]
        body = json.dumps({"settings": settings}).encode()
        request = urllib.request.Request(f"{url}/api/v1/runs/bench/r/simulate", body, headers)
        with urllib.request.urlopen(request) as answer:
            answer.read()
        begun.set()
