"""Writes the pages that are made from the code: `make docs`."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from fade_core import RunConfig
from fade_service.cli import register
from fade_trainer.compare.report import markdown_tables
from fade_trainer.compare.results import read_results

FOLDER = Path(__file__).parent

_TABLES_BEGIN, _TABLES_END = "<!-- tables: made by `make docs` -->", "<!-- end of tables -->"

_OPTIONS_HEAD = """# Options of `fade serve`

Made from the code by `make docs`; do not edit. What they are for is in [operations.md](operations.md).

| option | what |
|---|---|
"""

_CONFIGURATION_HEAD = """# Run configuration

Made from the code by `make docs`; do not edit. A run's configuration is given when the run is created, by the client
(`FadeClient(..., config=RunConfig(...))`) or with CreateRun. A run that exists is joined and keeps its own. Fields that may
change live are changed with UpdateRun, and the change takes effect with the next observation; every version is kept in the
history. The defaults are the paper's (arXiv 2607.01490).

| field | unit | default | live | simulated | what it does |
|---|---|---|---|---|---|
"""


def configuration() -> str:
    """What may be configured of a run."""
    rows = []
    for item in fields(RunConfig):
        live, simulated = ("yes" if item.metadata[name] else "no" for name in ("live", "simulated"))
        default = "unset" if item.default is None else f"`{item.default}`"
        rows.append(f"| `{item.name}` | {item.metadata['unit']} | {default} | {live} | {simulated} | {item.metadata['doc']} |\n")
    return _CONFIGURATION_HEAD + "".join(rows)


def options() -> str:
    """What may be said to a server."""
    commands = argparse.ArgumentParser().add_subparsers()
    register(commands)
    rows = []
    for action in commands.choices["serve"]._actions:
        if action.dest != "help":
            value = action.metavar or (action.dest.upper() if action.nargs != 0 else "")
            value = "\\|".join(action.choices) if action.choices else value
            what = (action.help or "") % vars(action)
            rows.append(f"| `{action.option_strings[0]} {value}".rstrip() + f"` | {what} |\n")
    return _OPTIONS_HEAD + "".join(rows)


def evidence() -> str:
    """The experiment's page with the tables of the stored results."""
    head, mark, rest = (FOLDER / "evidence.md").read_text().partition(_TABLES_BEGIN)
    tables = markdown_tables(read_results(FOLDER.parent / "trainer_ref/evidence/results.jsonl"))
    return f"{head}{mark}\n{tables}{_TABLES_END}{rest.partition(_TABLES_END)[2]}"


PAGES = {"configuration.md": configuration, "options.md": options, "evidence.md": evidence}


if __name__ == "__main__":
    for name, made in PAGES.items():
        (FOLDER / name).write_text(made())
        sys.stdout.write(f"{FOLDER / name}\n")
