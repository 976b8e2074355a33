"""The page's files: complete, from nowhere else, and the libraries as they were published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import fade_service

STATIC = Path(fade_service.__file__).parent / "web" / "static"
SCRIPTS = sorted((STATIC / "app").glob("*.js"))
IMPORT = re.compile(r'^(?:import|export)\b[^;]*? from "(\.[^"]+)";', re.MULTILINE)


def imported(path: Path) -> set[Path]:
    """A module and all that it imports, but what it fetches later."""
    found, waiting = set(), [path]
    while waiting:
        now = waiting.pop()
        if now not in found:
            found.add(now)
            waiting += [(now.parent / name).resolve() for name in IMPORT.findall(now.read_text())]
    return found


def test_the_page_names_all_modules_of_its_first_view_and_no_others() -> None:
    named = re.findall(r'(?:src|href)="static/([^"]+\.js)"', (STATIC / "index.html").read_text())
    wanted = {path for start in ("main", "start", "echarts") for path in imported(STATIC / "app" / f"{start}.js")}
    assert sorted(named) == sorted(str(path.relative_to(STATIC)) for path in wanted)


def test_every_module_is_used() -> None:
    used = {path for name in ("main", "start") for path in imported(STATIC / "app" / f"{name}.js")}
    later = set(re.findall(r'import\("(\./[^"]+)"\)', "".join(path.read_text() for path in SCRIPTS)))
    used |= {path for name in later for path in imported(STATIC / "app" / name.removeprefix("./"))}
    assert [path.name for path in SCRIPTS if path not in used] == []


def test_no_file_of_the_page_names_another_host() -> None:
    own = [STATIC / "index.html", STATIC / "style.css", *SCRIPTS]
    assert [path.name for path in own if re.search(r"https?://|//[a-z0-9-]+\.[a-z]", path.read_text())] == []


def test_the_libraries_are_the_files_that_were_published() -> None:
    table = (STATIC / "vendor" / "README.md").read_text()
    scripts = list((STATIC / "vendor").glob("*/*.js"))
    assert len(scripts) == table.count("\n| `")
    for path in scripts:
        name, version = path.parent.name.rsplit("-", 1)
        [row] = [line for line in table.splitlines() if f"| `{name}` | {version} |" in line]
        assert path.name in row and hashlib.sha256(path.read_bytes()).hexdigest() in row
        assert list(path.parent.glob("LICENSE*"))
