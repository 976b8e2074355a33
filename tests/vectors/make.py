"""Makes the JSON files of this folder: ``python tests/vectors/make.py [FOLDER]``."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import scenarios_away
import scenarios_cases
import scenarios_refusals
import scenarios_repeats
import scenarios_schedule
from play import Play, text_of

FILES: dict[str, Callable[[], list[Play]]] = {
    "cases.json": scenarios_cases.plays,
    "schedule.json": scenarios_schedule.plays,
    "refusals.json": scenarios_refusals.plays,
    "repeats.json": scenarios_repeats.plays,
    "away.json": scenarios_away.plays,
}

if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent
    for name, plays in FILES.items():
        (folder / name).write_text(text_of(plays()))
