"""The pages that are made from the code say what the code does."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["configuration.md", "options.md"])
def test_a_page_is_what_the_code_gives(page: str) -> None:
    rendered = runpy.run_path(str(DOCS / "render.py"))["PAGES"][page]()
    assert (DOCS / page).read_text() == rendered, "run `make docs`"
