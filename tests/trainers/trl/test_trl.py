"""The TRL shim, inside TRL itself: see inside.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_trl_trains_on_the_schedule(trainer_environment: Callable[..., Any], tmp_path: Path) -> None:
    trainer_environment("trl", "trl==1.16.0").check(tmp_path)
