"""The configuration page says what the code does."""

import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_configuration_table_is_what_the_code_gives() -> None:
    rendered = runpy.run_path(str(DOCS / "render.py"))["table"]()
    assert (DOCS / "configuration.md").read_text() == rendered, "run `make docs`"
