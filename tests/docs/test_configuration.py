"""The pages that are made from the code say what the code does."""

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("page", ["configuration.md", "options.md", "evidence.md"])
def test_a_page_is_what_the_code_gives(page: str) -> None:
    rendered = runpy.run_path(str(DOCS / "render.py"))["PAGES"][page]()
    assert (DOCS / page).read_text() == rendered, "run `make docs`"


def test_the_readme_quotes_the_evidence() -> None:
    page = (DOCS / "evidence.md").read_text()
    told = [line for line in page.splitlines() if line.startswith("- countdown") and "minus GRPO, mean only" in line]
    readme = (DOCS.parent / "README.md").read_text()
    assert len(told) == 2 and all(line.partition("paired seeds: ")[2] in readme for line in told)
