"""Server-sent events: what is new, as it comes. Watchers read the store once per tick together, whatever their number."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import FastAPI, Header, Query
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse

from fade_service.errors import ServiceError
from fade_service.insight import Insight
from fade_service.insight.feed import Seen
from fade_service.names import run_name
from fade_service.scheduler.lifecycle import run_message
from fade_service.web.answers import encoded, in_json
from fade_service.web.runs import Branch

ALIVE_SECONDS = 10.0

_HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


def add_events(app: FastAPI, insight: Insight) -> None:
    """The one stream."""

    @app.get("/api/v1/events", tags=["dashboard"], response_class=StreamingResponse)
    async def events(
        project: str = "-",
        run: Annotated[str, Query(description="Empty tells which runs change.")] = "",
        branch: Branch = "",
        after: Annotated[int, Query(description="The last revision that is known.", ge=0, lt=2**63)] = 0,
        last_event_id: Annotated[int | None, Header(ge=0, lt=2**63)] = None,
    ) -> StreamingResponse:
        """Events "observations", "run" and "resync" of a run, or "overview" of all; "alive" when there is nothing to tell."""
        if not run:
            return _stream(_of_all(insight, project))
        name = run_name(project, run)
        await run_in_threadpool(insight.runs.load, name)
        return _stream(_of_run(insight, name, branch, after if last_event_id is None else last_event_id))


async def _of_run(insight: Insight, name: str, branch: str, after: int) -> AsyncIterator[bytes]:
    seen = Seen(revision=after)
    told = time.monotonic()
    while not insight.feed.closed:
        try:
            news = await run_in_threadpool(insight.feed.news, name, branch, seen)
        except ServiceError as error:
            if error.code != "UNAVAILABLE":
                return  # the run or the branch is gone: who connects again is told
        else:
            seen = news.seen
            if news.run is not None:
                yield _event("run", in_json(run_message(news.run)))
            if news.resync:
                yield _event("resync", {}, seen.revision)
            if news.course is not None:
                yield _event("observations", news.course, seen.revision)
            if news.run is not None or news.resync or news.course is not None:
                told = time.monotonic()
        if time.monotonic() - told >= ALIVE_SECONDS:
            told = time.monotonic()
            yield _event("alive", {})
        await asyncio.sleep(insight.feed.seconds_to_tick())


async def _of_all(insight: Insight, project: str) -> AsyncIterator[bytes]:
    known: dict[str, tuple[str, int]] | None = None
    told = time.monotonic()
    while not insight.feed.closed:
        try:
            changed, now = await run_in_threadpool(insight.feed.changed_runs, project, known or {})
        except ServiceError:  # the store is away; the page says so by itself
            changed, now = [], known or {}
        if changed and known is not None:
            told = time.monotonic()
            yield _event("overview", {"changed": changed, "total": len(now)})
        known = now
        if time.monotonic() - told >= ALIVE_SECONDS:
            told = time.monotonic()
            yield _event("alive", {})
        await asyncio.sleep(insight.feed.seconds_to_tick())


def _stream(events: AsyncIterator[bytes]) -> StreamingResponse:
    return StreamingResponse(events, media_type="text/event-stream", headers=_HEADERS)


def _event(name: str, data: Any, revision: int | None = None) -> bytes:
    number = b"" if revision is None else b"id: %d\n" % revision
    return b"event: %s\n%sdata: %s\n\n" % (name.encode(), number, encoded(data))
