"""axe-core, which finds what keeps people from using a page."""

from __future__ import annotations

import subprocess
import tarfile
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from playwright.sync_api import Page

_PACKAGE = "axe-core@4.14.1"


def violations(page: Page) -> list[str]:
    """What axe objects to, with the places."""
    page.evaluate(_script())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [f"{each['id']}: {node['html'][:200]}" for each in found["violations"] for node in each["nodes"]]


@cache
def _script() -> str:
    with TemporaryDirectory() as folder:
        subprocess.run(["npm", "pack", "--silent", _PACKAGE], cwd=folder, check=True, capture_output=True, timeout=100)
        [packed] = Path(folder).glob("*.tgz")
        with tarfile.open(packed) as archive:
            archive.extract("package/axe.min.js", folder, filter="data")
        return (Path(folder) / "package" / "axe.min.js").read_text()
