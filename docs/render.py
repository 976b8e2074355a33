"""Writes the configuration table from the code: `make docs`."""

from __future__ import annotations

import sys
from dataclasses import fields
from pathlib import Path

from fade_core import RunConfig

PAGE = Path(__file__).parent / "configuration.md"

_HEAD = """# Run configuration

Made from the code by `make docs`; do not edit. A run's configuration is given when the run is created, by the client
(`FadeClient(..., config=RunConfig(...))`) or with CreateRun. A run that exists is joined and keeps its own. Fields that may
change live are changed with UpdateRun, and the change takes effect with the next observation; every version is kept in the
history. The defaults are the paper's (arXiv 2607.01490).

| field | unit | default | live | simulated | what it does |
|---|---|---|---|---|---|
"""


def table() -> str:
    """The page's text."""
    rows = []
    for item in fields(RunConfig):
        live, simulated = ("yes" if item.metadata[name] else "no" for name in ("live", "simulated"))
        default = "unset" if item.default is None else f"`{item.default}`"
        rows.append(f"| `{item.name}` | {item.metadata['unit']} | {default} | {live} | {simulated} | {item.metadata['doc']} |\n")
    return _HEAD + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(table())
    sys.stdout.write(f"{PAGE}\n")
