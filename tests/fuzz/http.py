"""HTTP requests at random, from what the server itself describes in its OpenAPI page."""

from __future__ import annotations

from random import Random
from typing import Any
from urllib.parse import quote, urlencode

import httpx
from tests.fuzz.requests import COUNTS, NUMBERS, WORDS

_NAMES = [
    "config",
    "reason",
    "etag",
    "settings",
    "label",
    "points",
    "branch",
    "group",
    "outcome",
    "advantage",
    "token",
    "alpha_max",
]
_MISSING = object()


class HttpFuzzer:
    """Asks a server for anything but its endless stream.

    Args:
        base_url: The server's.
    """

    def __init__(self, base_url: str) -> None:
        self._http = httpx.Client(base_url=base_url, timeout=30)
        paths = self._http.get("/openapi.json").json()["paths"]
        self._operations = [
            (method.upper(), path, [item["name"] for item in described.get("parameters", ()) if item["in"] == "query"])
            for path, methods in paths.items()
            for method, described in methods.items()
            if path not in ("/api/v1/events", "/metrics")
        ]

    def ask(self, random: Random, run: str) -> tuple[str, httpx.Response]:
        """One request, about that run where a path names one; and what it was, in words."""
        method, path, names = random.choice(self._operations)
        changed = random.randrange(3) == 0
        path = path.replace("{project}", "test").replace("{run}", str(_anything(random)) if changed else run)
        query = {name: value for name in names if (value := random.choice([_MISSING, _anything(random)])) is not _MISSING}
        headers = {"x-fade-request": "fuzz"} if random.randrange(10) else {}
        body = None if method == "GET" else _document(random, 3)
        target = f"{quote(path)}?{urlencode(query)}"
        url = httpx.URL(self._http.base_url, raw_path=target.encode())
        request = self._http.build_request(method, url, headers=headers, json=body)
        return f"{method} {request.url} {body!r}", self._http.send(request)

    def close(self) -> None:
        """Ends the connections."""
        self._http.close()


def _anything(random: Random) -> Any:
    word = random.choice([random.choice(WORDS[:-2]), random.choice(COUNTS), random.choice(NUMBERS), "fade:alpha=2,delta=x"])
    return "ä" * 50 if word == "ä" * 20_000 else word


def _document(random: Random, depth: int) -> Any:
    """JSON: dictionaries with names that are known and others, lists, and values."""
    kind = random.randrange(4 if depth else 1)
    if kind == 0:
        value = random.choice([None, True, *COUNTS, 0.5, 1e308, "", "pinned", "x" * 300, "\0"])
        return value
    if kind == 1:
        return [_document(random, depth - 1) for _ in range(random.randrange(3))]
    return {random.choice(_NAMES): _document(random, depth - 1) for _ in range(random.randrange(4))}
